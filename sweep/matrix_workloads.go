package sweep

import (
	"reflect"
	"slices"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// levelsOf are all levels an axis has in any cell: its own, then those that only included cells have.
func (m Matrix) levelsOf(axis string) []string {
	a, _ := m.Axis(axis)
	levels := slices.Clone(a.Levels)
	seen := map[string]bool{}
	for _, l := range levels {
		seen[l] = true
	}
	for _, c := range m.Include {
		if l, ok := c.Get(axis); ok && !seen[l] {
			seen[l] = true
			levels = append(levels, l)
		}
	}
	return levels
}

// parameters are the numbers of the axes that are parameters of workloads.
func (m Matrix) parameters() []int {
	var all []int
	for i, a := range m.Axes {
		if _, knob := sysfs.LookupKnob(a.Name); !knob {
			all = append(all, i)
		}
	}
	return all
}

// shapes says whether an axis can make a cell that is left out by rule (workload.Spec.LeftOut).
func (m Matrix) shapes() bool {
	return slices.ContainsFunc(m.Axes, func(a Axis) bool {
		return a.Name == "threads" || a.Name == "regions" || a.Name == "block_size"
	})
}

// kind is the number of a combination among the combinations of the parameters' levels alone: cells of one kind do the
// same work under different settings, so what concerns work is judged once a kind.
func (w *walk) kind(i int) int {
	kind := 0
	for _, axis := range w.params {
		kind = kind*len(w.matrix.Axes[axis].Levels) + w.level(i, axis)
	}
	return kind
}

// eachWorkloads calls f with the workloads of each kind of work that a cell asks for: first those of the combinations,
// with the kind's number, then those of the included cells, with -1. It ends when f returns false.
func (m Matrix) eachWorkloads(base []workload.Spec, f func(kind int, specs []workload.Spec) bool) {
	w := m.walk()
	kinds := 1
	for _, axis := range w.params {
		kinds *= len(m.Axes[axis].Levels)
	}
	var used []bool // nil: all of them
	if !w.whole() {
		used = make([]bool, kinds)
		for i := range w.product {
			if !w.excluded(i) {
				used[w.kind(i)] = true
			}
		}
	}
	specs := slices.Clone(base)
	puts := make([][]put, len(w.params))
	for n, axis := range w.params {
		puts[n] = putsOf(m.Axes[axis], specs)
	}
	if !w.eachKind(specs, puts, 0, used, f) {
		return
	}
	for _, c := range m.Include {
		if specs, err := c.Specs(base); err == nil && !f(-1, specs) {
			return
		}
	}
}

// put puts the levels of one axis into one workload, by copying the fields that the axis changes. Spec.With looks its
// parameter up each time, which would make a matrix of a million combinations take a minute.
type put struct {
	levels []workload.Spec // the workload with each level; nil when its type has not got the parameter
	fields []int           // in which these differ
}

// putsOf prepares one axis for each workload. It puts the first level in, and with it all that the levels have in common.
func putsOf(a Axis, specs []workload.Spec) []put {
	puts := make([]put, len(specs))
	for i, s := range specs {
		if !s.Has(a.Name) {
			continue
		}
		p := &puts[i]
		for _, level := range a.Levels {
			changed, err := s.With(a.Name, level)
			if err != nil { // refused with the profile's errors
				changed = s
			}
			p.levels = append(p.levels, changed)
		}
		specs[i] = p.levels[0]
		first := reflect.ValueOf(p.levels[0])
		for field := range first.NumField() {
			if slices.ContainsFunc(p.levels, func(s workload.Spec) bool {
				return !reflect.ValueOf(s).Field(field).Equal(first.Field(field))
			}) {
				p.fields = append(p.fields, field)
			}
		}
	}
	return puts
}

// into puts a level into a workload.
func (p put) into(s *workload.Spec, level int) {
	if len(p.fields) == 0 {
		return
	}
	to, from := reflect.ValueOf(s).Elem(), reflect.ValueOf(&p.levels[level]).Elem()
	for _, field := range p.fields {
		to.Field(field).Set(from.Field(field))
	}
}

// eachKind goes through the levels of the parameter axes from puts on; kind is the number so far.
func (w *walk) eachKind(specs []workload.Spec, puts [][]put, kind int, used []bool, f func(int, []workload.Spec) bool) bool {
	if len(puts) == 0 {
		return used != nil && !used[kind] || f(kind, specs)
	}
	levels := len(w.matrix.Axes[w.params[len(w.params)-len(puts)]].Levels)
	inner := slices.Clone(specs)
	for level := range levels {
		for i, p := range puts[0] {
			p.into(&inner[i], level)
		}
		if !w.eachKind(inner, puts[1:], kind*levels+level, used, f) {
			return false
		}
	}
	return true
}
