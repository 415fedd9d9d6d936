package sweep

import (
	"iter"
	"slices"
)

// Matrix is the set of cells of a profile: every combination of the axes' levels, less what an exclude matches, and the
// cells of include. It is walked, never held: a matrix of a million cells costs as much memory as one of two.
// Without axes it has one cell, the empty one.
type Matrix struct {
	Axes    []Axis    // in canonical order
	Exclude [][]Level // a cell that matches all the levels of one entry is left out
	Include []Cell    // cells of their own, every axis named; an exclude does not match them

	hard    string // the axis whose levels are hard to change: the cells of each come together; "" for none
	leftOut []bool // of a plan: the kinds of work that are left out by rule (walk.kind)
}

// Cells are the matrix's cells in its own order: the last axis changes fastest, included cells come last.
func (m Matrix) Cells() iter.Seq[Cell] {
	return func(yield func(Cell) bool) {
		w := m.walk()
		for i := range w.size() {
			if !w.excluded(i) && !yield(w.cell(i)) {
				return
			}
		}
	}
}

// Count is the number of cells.
func (m Matrix) Count() int {
	w, n := m.walk(), 0
	if w.whole() {
		return w.size()
	}
	for i := range w.size() {
		if !w.excluded(i) {
			n++
		}
	}
	return n
}

// Axis is the axis of that name.
func (m Matrix) Axis(name string) (Axis, bool) {
	for _, a := range m.Axes {
		if a.Name == name {
			return a, true
		}
	}
	return Axis{}, false
}

// hardLevels are the levels whose cells come together.
func (m Matrix) hardLevels() []string {
	if m.hard == "" {
		return nil
	}
	return m.levelsOf(m.hard)
}

// combinations is the number of cells before any is excluded, and false when it is more than limit.
func (m Matrix) combinations(limit int) (int, bool) {
	n := 1
	for _, a := range m.Axes {
		if len(a.Levels) == 0 {
			return 0, true
		}
		if n > limit/len(a.Levels) {
			return limit, false
		}
		n *= len(a.Levels)
	}
	n += len(m.Include)
	return n, n <= limit
}

// walk is a matrix made ready for looking cells up by number: 0 up to the product of the levels are the combinations
// (excluded ones too), then come the included cells. The numbers are what is shuffled.
type walk struct {
	matrix  Matrix
	product int
	stride  []int   // of each axis: how many numbers one step of its level is
	exclude [][]hit // by level number, so that a cell is judged without making its text
	params  []int   // the axes that decide what work a cell is
}

// hit is one pair of an exclude: the axis and the number of its level.
type hit struct{ axis, level int }

func (m Matrix) walk() *walk {
	w := &walk{matrix: m, product: 1, stride: make([]int, len(m.Axes)), params: m.parameters()}
	for i := len(m.Axes) - 1; i >= 0; i-- {
		w.stride[i] = w.product
		w.product *= len(m.Axes[i].Levels)
	}
	for _, e := range m.Exclude {
		if hits, ok := m.hits(e); ok {
			w.exclude = append(w.exclude, hits)
		}
	}
	return w
}

// hits turns an exclude into numbers; false when one of its levels is none of its axis, so that it can match no cell.
func (m Matrix) hits(levels []Level) ([]hit, bool) {
	var all []hit
	for _, l := range levels {
		axis := slices.IndexFunc(m.Axes, func(a Axis) bool { return a.Name == l.Axis })
		if axis < 0 {
			return nil, false
		}
		level := slices.Index(m.Axes[axis].Levels, l.Value)
		if level < 0 {
			return nil, false
		}
		all = append(all, hit{axis, level})
	}
	return all, true
}

func (w *walk) size() int { return w.product + len(w.matrix.Include) }

// whole says that no combination is excluded, so that none need be looked at.
func (w *walk) whole() bool { return len(w.exclude) == 0 && w.matrix.leftOut == nil }

// level is the number of the level that combination i has on an axis.
func (w *walk) level(i, axis int) int {
	return i / w.stride[axis] % len(w.matrix.Axes[axis].Levels)
}

// levelAt is the level that cell i has on an axis.
func (w *walk) levelAt(i int, axis string) string {
	if i >= w.product {
		level, _ := w.matrix.Include[i-w.product].Get(axis)
		return level
	}
	for a := range w.matrix.Axes {
		if w.matrix.Axes[a].Name == axis {
			return w.matrix.Axes[a].Levels[w.level(i, a)]
		}
	}
	return ""
}

func (w *walk) excluded(i int) bool {
	if i >= w.product {
		return false
	}
	for _, e := range w.exclude {
		if w.matches(i, e) {
			return true
		}
	}
	return w.matrix.leftOut != nil && w.matrix.leftOut[w.kind(i)]
}

func (w *walk) matches(i int, e []hit) bool {
	for _, h := range e {
		if w.level(i, h.axis) != h.level {
			return false
		}
	}
	return true
}

// cell makes cell i.
func (w *walk) cell(i int) Cell {
	if i >= w.product {
		return slices.Clone(w.matrix.Include[i-w.product])
	}
	c := make(Cell, len(w.matrix.Axes))
	for a, axis := range w.matrix.Axes {
		c[a] = Level{axis.Name, axis.Levels[w.level(i, a)]}
	}
	return c
}
