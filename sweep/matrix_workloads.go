package sweep

import (
	"reflect"
	"slices"

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

// parameters are the numbers of the axes that decide what work a cell is: those that are parameters of workloads, and
// before them the one that picks the target.
func (m Matrix) parameters() []int {
	var all []int
	for i, a := range m.Axes {
		if isParameter(a.Name) || picksTarget(a.Name) {
			all = append(all, i)
		}
	}
	return all
}

// kinds is the number of kinds of work that the combinations can be.
func (m Matrix) kinds() int {
	n := 1
	for _, axis := range m.parameters() {
		n *= len(m.Axes[axis].Levels)
	}
	return n
}

// shapes says whether an axis can make a cell that is left out by rule (workload.Spec.LeftOut).
func (m Matrix) shapes() bool {
	return slices.ContainsFunc(m.Axes, func(a Axis) bool {
		return a.Name == "threads" || a.Name == "regions" || a.Name == "block_size"
	})
}

// kind is the number of a combination among the combinations of the parameters' levels alone: cells of one kind do the
// same work on the same target under different settings, so what concerns work is judged once a kind.
func (w *walk) kind(i int) int {
	kind := 0
	for _, axis := range w.params {
		kind = kind*len(w.matrix.Axes[axis].Levels) + w.level(i, axis)
	}
	return kind
}

// kindOfWork is what cells of one kind do.
type kindOfWork struct {
	number int   // of the combinations; of included cells -1, -2 and so on
	target Level // that picks the target; zero where there is one only
	specs  []workload.Spec
}

// eachWorkloads calls f with each kind of work that a cell asks for: first those of the combinations, then those of the
// included cells. It ends when f returns false.
func (m Matrix) eachWorkloads(base []workload.Spec, f func(kindOfWork) bool) {
	w := m.walk()
	kinds := m.kinds()
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
	if !w.eachKind(kindOfWork{specs: specs}, puts, used, f) {
		return
	}
	for n, c := range m.Include {
		if specs, err := c.Specs(base); err == nil && !f(kindOfWork{-1 - n, c.picks(), specs}) {
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

// eachKind goes through the levels of the axes from puts on; of so the number is that of the levels chosen before.
func (w *walk) eachKind(so kindOfWork, puts [][]put, used []bool, f func(kindOfWork) bool) bool {
	if len(puts) == 0 {
		return used != nil && !used[so.number] || f(so)
	}
	axis := w.matrix.Axes[w.params[len(w.params)-len(puts)]]
	inner := kindOfWork{target: so.target, specs: slices.Clone(so.specs)}
	for level := range axis.Levels {
		for i, p := range puts[0] {
			p.into(&inner.specs[i], level)
		}
		if picksTarget(axis.Name) {
			inner.target = Level{axis.Name, axis.Levels[level]}
		}
		inner.number = so.number*len(axis.Levels) + level
		if !w.eachKind(inner, puts[1:], used, f) {
			return false
		}
	}
	return true
}
