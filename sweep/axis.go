package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
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

// The axes that pick the target of a cell: neither a knob of a device nor a parameter of a workload.
const (
	raidLevel  = "raid_level"
	deviceAxis = "device"
)

// picksTarget says that an axis picks the target.
func picksTarget(axis string) bool { return axis == raidLevel || axis == deviceAxis }

// isParameter says that an axis is a parameter of workloads.
func isParameter(axis string) bool {
	_, knob := sysfs.LookupKnob(axis)
	return !knob && !picksTarget(axis)
}

// leadingAxes come first in a cell, in this order; the others follow by name (design, section 5). The order is part of
// the cell's text, by which sweeps are compared: it never changes.
func leadingAxes() []string {
	return []string{raidLevel, deviceAxis, "queue_depth", "write_cache", "max_sectors_kb"}
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

// deviceLevel is a device's identity, or the name of one, as a level. A cell's text is taken apart at ';' and '=', a run's at
// '#', so these, '%' itself and control characters are percent-encoded.
func deviceLevel(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == 0x7f || strings.IndexByte("%;=#", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// deviceOf is what deviceLevel was made of.
func deviceOf(level string) string { return results.ParseLevel(level) }
