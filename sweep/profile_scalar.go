package sweep

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// name is a word that can be part of a file name, a CSV cell and a terminal line without escaping.
func (r *profileReader) name(n *yaml.Node, key string) string {
	const allowed = "a name is 1 to 64 letters, digits, and . _ + - after the first"
	text, ok := r.scalar(n, key, allowed)
	if ok && !goodName.MatchString(text) {
		r.wrong(at(n), key, text, "%s", allowed)
	}
	return text
}

// prose is text for people; line breaks become blanks.
func (r *profileReader) prose(n *yaml.Node, key string) string {
	text, ok := r.scalar(n, key, "one piece of text")
	text = strings.Join(strings.Fields(text), " ")
	if ok && len(text) > 1000 {
		r.wrong(at(n), key, text, "at most 1000 bytes of text")
	}
	if ok && !printable(text) {
		r.wrong(at(n), key, text, "text without control characters")
	}
	return text
}

func printable(text string) bool {
	return !slices.ContainsFunc([]rune(text), func(c rune) bool { return !strconv.IsPrint(c) })
}

func (r *profileReader) seed(n *yaml.Node) {
	const allowed = "the seed of the order is a plain decimal, 0 to 18446744073709551615"
	text, ok := r.scalar(n, "seed", allowed)
	if !ok {
		return
	}
	seed, ok := decimal(text)
	if !ok {
		r.wrong(at(n), "seed", text, "%s", allowed)
		return
	}
	r.p.Seed, r.p.SeedGiven = seed, true
}

// decimal reads a plain decimal: no sign, no leading zero, no other base, no blanks.
func decimal(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}

func (r *profileReader) oneOf(n *yaml.Node, key string, words ...string) string {
	allowed := "one of " + strings.Join(words, ", ")
	text, ok := r.scalar(n, key, allowed)
	switch {
	case !ok || slices.Contains(words, text):
	case closest(text, words) != "":
		r.wrong(at(n), key, text, "%s; did you mean %s?", allowed, closest(text, words))
	default:
		r.wrong(at(n), key, text, "%s", allowed)
	}
	return text
}

func (r *profileReader) duration(n *yaml.Node, key string, low, high time.Duration) time.Duration {
	allowed := fmt.Sprintf("a time with its unit, %s to %s, such as 500ms, 30s, 10m, 2h", span(low), span(high))
	text, ok := r.scalar(n, key, allowed)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil && decimalOnly(text):
		r.wrong(at(n), key, text, "%s; write %ss if seconds are meant", allowed, text)
	case err != nil, strings.ContainsAny(text, "+-"), d < low, d > high:
		r.wrong(at(n), key, text, "%s", allowed)
	}
	return d
}

func decimalOnly(text string) bool {
	_, ok := decimal(text)
	return ok
}
