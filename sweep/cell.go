package sweep

import (
	"fmt"
	"strings"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// Cell is one combination of levels, one a swept axis, in canonical axis order. The empty cell is that of a profile
// without a matrix.
type Cell []Level

// String is the cell column: "queue_depth=1;write_cache=off". It holds neither host, seed nor replicate, so that the
// cells of two machines compare.
func (c Cell) String() string {
	n := len(c)
	for _, l := range c {
		n += len(l.Axis) + len(l.Value) + 1
	}
	var b strings.Builder
	b.Grow(n)
	for i, l := range c {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(l.Axis)
		b.WriteByte('=')
		b.WriteString(l.Value)
	}
	return b.String()
}

// Get is the level the cell has on an axis.
func (c Cell) Get(axis string) (string, bool) {
	for _, l := range c {
		if l.Axis == axis {
			return l.Value, true
		}
	}
	return "", false
}

// picks is the level by which the cell picks its target; zero where the profile has one target.
func (c Cell) picks() Level {
	for _, l := range c {
		if picksTarget(l.Axis) {
			return l
		}
	}
	return Level{}
}

// Settings are the levels that are knobs of a device, in the order of applying.
func (c Cell) Settings() []sysfs.Setting {
	var all []sysfs.Setting
	for _, k := range sysfs.Knobs() {
		if level, ok := c.Get(k.Name); ok {
			all = append(all, sysfs.Setting{Knob: k.Name, Level: level})
		}
	}
	return all
}

// Specs are the workloads of the cell: base with the cell's workload parameters put in, in each workload that has them.
func (c Cell) Specs(base []workload.Spec) ([]workload.Spec, error) {
	specs := append([]workload.Spec(nil), base...)
	for _, l := range c {
		if !isParameter(l.Axis) {
			continue
		}
		for i, s := range specs {
			if !s.Has(l.Axis) {
				continue
			}
			changed, err := s.With(l.Axis, l.Value)
			if err != nil {
				return nil, fmt.Errorf("workload %s with %s %s: %w", s.Name, l.Axis, l.Value, err)
			}
			specs[i] = changed
		}
	}
	return specs, nil
}
