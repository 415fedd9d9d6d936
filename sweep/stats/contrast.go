package stats

import (
	"math"
	"strings"

	"gonum.org/v1/gonum/mat"
)

// mostContrasts bounds how many contrasts are tested at once: an axis of more levels is tested by its first and last alone.
const mostContrasts = 64

// context is one combination of the levels of all axes but those looked at, in one sweep: in it cells differ by nothing else.
type context struct {
	sweep  string
	others []Level
	cells  map[string]*figures // by the level, or the two levels, of what is looked at
}

// contexts sorts a phase's cells for a look at some axes. Cells without one of these are left out.
func contexts(cells []*figures, axes ...string) []*context {
	known := map[string]*context{}
	var list []*context
next:
	for _, f := range cells {
		looked := make([]string, len(axes))
		for i, a := range axes {
			level, ok := f.level(a)
			if !ok {
				continue next
			}
			looked[i] = level
		}
		key := strings.Builder{}
		key.WriteString(f.sweep)
		var others []Level
		for _, l := range f.levels {
			if !contains(axes, l.Axis) {
				others = append(others, l)
				key.WriteString(";" + l.Axis + "=" + l.Effective)
			}
		}
		c := known[key.String()]
		if c == nil {
			c = &context{f.sweep, others, map[string]*figures{}}
			known[key.String()] = c
			list = append(list, c)
		}
		c.cells[strings.Join(looked, ";")] = f
	}
	return list
}

func contains(axes []string, axis string) bool {
	for _, a := range axes {
		if a == axis {
			return true
		}
	}
	return false
}

// steps are the contrasts of each further level of an axis to its first: mean differences over the contexts that have both. A level that is nowhere beside
// the first has none (nil).
func steps(in []*context, levels []string) [][]weight {
	list := make([][]weight, len(levels)-1)
	for j, level := range levels[1:] {
		list[j] = balanced(in, []string{levels[0], level}, []float64{-1, 1})
	}
	return list
}

// crossings are the contrasts of an interaction: by how much the step from the first to another level of one axis differs between the first and another level
// of the other axis. With too many of them it is the outermost alone.
func crossings(in []*context, a, b []string) [][]weight {
	cross := func(i, j int) []weight {
		return balanced(in, []string{a[0] + ";" + b[0], a[0] + ";" + b[j], a[i] + ";" + b[0], a[i] + ";" + b[j]}, []float64{1, -1, -1, 1})
	}
	if (len(a)-1)*(len(b)-1) > mostContrasts {
		return [][]weight{cross(len(a)-1, len(b)-1)}
	}
	var list [][]weight
	for i := 1; i < len(a); i++ {
		for j := 1; j < len(b); j++ {
			list = append(list, cross(i, j))
		}
	}
	return list
}

// balanced weighs cells so, in all contexts that have each of them.
func balanced(in []*context, levels []string, by []float64) (contrast []weight) {
	whole := 0
	for _, c := range in {
		var part []weight
		for i, level := range levels {
			if f := c.cells[level]; f != nil {
				part = append(part, weight{f, by[i]})
			}
		}
		if len(part) == len(levels) {
			contrast = append(contrast, part...)
			whole++
		}
	}
	for i := range contrast {
		contrast[i].by /= float64(whole)
	}
	return contrast
}

// jointP tests whether any of several contrasts is other than 0: Wald's F, which for one is Student's t. NaN when nothing is known of the spread.
func (n noise) jointP(contrasts [][]weight) float64 {
	var have [][]weight
	for _, c := range contrasts {
		if len(c) > 0 {
			have = append(have, c)
		}
	}
	if len(have) == 0 {
		return math.NaN()
	}
	if len(have) > mostContrasts {
		have = have[len(have)-1:]
	}
	degrees := math.Inf(1)
	estimates := mat.NewVecDense(len(have), nil)
	covariance := mat.NewSymDense(len(have), nil)
	type part struct {
		of int
		by float64
	}
	shares := map[int][]part{}
	variances := map[int]float64{}
	for i, c := range have {
		v, d := n.uncertain(c)
		if !(v > 0) {
			return math.NaN()
		}
		degrees = min(degrees, d)
		estimates.SetVec(i, estimateOf(c))
		for _, w := range c {
			shares[w.cell.number] = append(shares[w.cell.number], part{i, w.by})
			variances[w.cell.number] = n.of(w.cell).variance() / float64(len(w.cell.all))
		}
	}
	for cell, parts := range shares {
		for _, a := range parts {
			for _, b := range parts {
				if a.of <= b.of {
					covariance.SetSym(a.of, b.of, covariance.At(a.of, b.of)+a.by*b.by*variances[cell])
				}
			}
		}
	}
	var root mat.Cholesky
	if !root.Factorize(covariance) {
		return n.jointP(have[len(have)-1:])
	}
	var solved mat.VecDense
	if err := root.SolveVecTo(&solved, estimates); err != nil {
		return n.jointP(have[len(have)-1:])
	}
	return fisherP(mat.Dot(estimates, &solved)/float64(len(have)), float64(len(have)), degrees)
}
