package md

import (
	"slices"
	"strconv"
	"strings"
)

// LevelNone is no array: the first member alone.
const LevelNone = "none"

// level is what md and mdadm can make of a level.
type level struct {
	name    string
	members int  // the fewest that mdadm takes
	chunk   bool // data is laid out in chunks
	bitmap  bool // md can keep a write-intent bitmap of it
	sync    bool // there is redundancy to be made at first
}

func levels() []level {
	return []level{
		{name: LevelNone, members: 1},
		{name: "0", members: 2, chunk: true},
		{name: "1", members: 2, bitmap: true, sync: true},
		{name: "4", members: 2, chunk: true, bitmap: true, sync: true},
		{name: "5", members: 2, chunk: true, bitmap: true, sync: true},
		{name: "6", members: 4, chunk: true, bitmap: true, sync: true},
		{name: "10", members: 2, chunk: true, bitmap: true, sync: true},
	}
}

func lookupLevel(name string) (level, bool) {
	all := levels()
	i := slices.IndexFunc(all, func(l level) bool { return l.name == name })
	if i < 0 {
		return level{}, false
	}
	return all[i], true
}

// Levels are the levels that can be built: none, 0, 1, 4, 5, 6, 10.
func Levels() []string { return levelsThat(func(level) bool { return true }) }

// MinMembers is the fewest members a level is made of, 0 for a level that there is not.
func MinMembers(name string) int {
	l, _ := lookupLevel(name)
	return l.members
}

// HasChunk tells whether a level has chunks.
func HasChunk(name string) bool {
	l, _ := lookupLevel(name)
	return l.chunk
}

// HasBitmap tells whether an array of a level can have a bitmap.
func HasBitmap(name string) bool {
	l, _ := lookupLevel(name)
	return l.bitmap
}

func levelsThat(f func(level) bool) []string {
	var names []string
	for _, l := range levels() {
		if f(l) {
			names = append(names, l.name)
		}
	}
	return names
}

// LayoutLevels are the levels that know a layout by that text, in order; none for a text that no level knows.
func LayoutLevels(layout string) []string {
	return levelsThat(func(l level) bool { _, ok := layoutNumber(l.name, layout); return ok })
}

// layout is where parity lies; number is the kernel's in md/layout (drivers/md/raid5.h), by which is checked what was made.
type layout struct {
	name   string
	number int
	raid6  bool // of level 6 alone
}

func parityLayouts() []layout {
	return []layout{
		{name: "left-symmetric", number: 2}, // mdadm's own choice first
		{name: "left-asymmetric", number: 0},
		{name: "right-symmetric", number: 3},
		{name: "right-asymmetric", number: 1},
		{name: "parity-first", number: 4},
		{name: "parity-last", number: 5},
		{name: "ddf-zero-restart", number: 8, raid6: true},
		{name: "ddf-N-restart", number: 9, raid6: true},
		{name: "ddf-N-continue", number: 10, raid6: true},
		{name: "left-asymmetric-6", number: 16, raid6: true},
		{name: "right-asymmetric-6", number: 17, raid6: true},
		{name: "left-symmetric-6", number: 18, raid6: true},
		{name: "right-symmetric-6", number: 19, raid6: true},
		{name: "parity-first-6", number: 20, raid6: true},
	}
}

// layoutsOf are the parity layouts of a level.
func layoutsOf(level string) []layout {
	return slices.DeleteFunc(parityLayouts(), func(l layout) bool { return level != "6" && (level != "5" || l.raid6) })
}

// layoutNumber is a level's layout as the kernel numbers it.
func layoutNumber(level, name string) (int, bool) {
	if level == "10" {
		return raid10Layout(name)
	}
	for _, l := range layoutsOf(level) {
		if l.name == name {
			return l.number, true
		}
	}
	return 0, false
}

// layoutsAllowed says which layouts a level has.
func layoutsAllowed(level string) string {
	if level == "10" {
		return "n2, f2, o2 and the same with more copies are possible"
	}
	var names []string
	for _, l := range layoutsOf(level) {
		names = append(names, l.name)
	}
	if names == nil {
		return "layouts are for levels 5, 6 and 10"
	}
	return strings.Join(names, ", ") + " are possible"
}

// raid10Layout reads near, far and offset copies: n2, f3, o2.
func raid10Layout(layout string) (int, bool) {
	copies := raid10Copies(layout)
	if copies == 0 {
		return 0, false
	}
	switch layout[0] {
	case 'n':
		return 1<<8 | copies, true
	case 'f':
		return copies<<8 | 1, true
	default:
		return 1<<16 | copies<<8 | 1, true
	}
}

// raid10Copies is how many copies such a layout keeps, 0 where it is none.
func raid10Copies(layout string) int {
	if layout == "" || !strings.Contains("nfo", layout[:1]) {
		return 0
	}
	n, err := strconv.Atoi(layout[1:])
	if err != nil || n < 2 || n > 200 || strconv.Itoa(n) != layout[1:] { // 200 is mdadm's limit
		return 0
	}
	return n
}
