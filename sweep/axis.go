package sweep

import (
	"cmp"
	"slices"
)

// Axis is one swept setting with its levels, canonical text in the order of the profile: queue_depth: ["1" "4" "31"].
type Axis struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// Level is one level of one axis.
type Level struct {
	Axis  string `json:"axis"`
	Value string `json:"value"`
}

// leadingAxes come first in a cell, in this order; the others follow by name (design, section 5). The order is part of
// the cell's text, by which sweeps are compared: it never changes.
func leadingAxes() []string {
	return []string{"raid_level", "device", "queue_depth", "write_cache", "max_sectors_kb"}
}

// compareAxes orders axis names canonically.
func compareAxes(a, b string) int {
	leading := leadingAxes()
	rank := func(name string) int {
		if i := slices.Index(leading, name); i >= 0 {
			return i
		}
		return len(leading)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}
