package sweep

import (
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
	used := make([]bool, kinds)
	for i := range w.product {
		if !w.excluded(i) {
			used[w.kind(i)] = true
		}
	}
	if !w.eachKind(base, 0, 0, used, f) {
		return
	}
	for _, c := range m.Include {
		if specs, err := c.Specs(base); err == nil && !f(-1, specs) {
			return
		}
	}
}

// eachKind goes through the levels of the parameter axes from the n-th on, putting one in at a time: so that the
// levels of the outer axes are put in once and not once a cell.
func (w *walk) eachKind(specs []workload.Spec, n, kind int, used []bool, f func(int, []workload.Spec) bool) bool {
	if n == len(w.params) {
		return !used[kind] || f(kind, specs)
	}
	axis := w.matrix.Axes[w.params[n]]
	inner := slices.Clone(specs)
	for number, level := range axis.Levels {
		for i, s := range specs {
			if changed, err := s.With(axis.Name, level); err == nil {
				inner[i] = changed
			}
		}
		if !w.eachKind(inner, n+1, kind*len(axis.Levels)+number, used, f) {
			return false
		}
	}
	return true
}
