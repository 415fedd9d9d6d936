package sweep

import (
	"cmp"
	"slices"
	"strings"

	"qdsweep/sweep/results"
)

// left is how the sweep left one device: as it was, with these settings, or not.
type left struct {
	name string
	back bool   // as it was before
	now  string // "queue_depth 31, write_cache on"; "" where nothing was read
}

// leftSentences says it of all of them, those that are alike in one sentence, the bad ones first: nobody shall have to compare 24 lines.
func leftSentences(devices []left) []string {
	var kinds []left
	names := map[left][]string{}
	for _, d := range devices {
		kind := left{"", d.back, d.now}
		if !d.back {
			kind.now = ""
		}
		if names[kind] == nil {
			kinds = append(kinds, kind)
		}
		names[kind] = append(names[kind], d.name)
	}
	slices.SortStableFunc(kinds, func(a, b left) int {
		switch {
		case a.back == b.back:
			return 0
		case b.back:
			return -1
		}
		return 1
	})
	var sentences []string
	for _, kind := range kinds {
		verb, it := " is ", "it was"
		if len(names[kind]) > 1 {
			verb, it = " are ", "they were"
		}
		slices.SortFunc(names[kind], func(a, b string) int { // sdb before sdaa
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		})
		sentence := results.ShortNames(names[kind]) + verb
		if !kind.back {
			sentence += "NOT "
		}
		if sentence += "as " + it; kind.now != "" {
			sentence += ": " + kind.now
		}
		sentences = append(sentences, sentence)
	}
	return sentences
}
