package stats

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// rounding is the variance of log(figure) that six significant digits leave: no spread is known to be smaller.
const rounding = 1e-11

const (
	// unequal is by how much a cell's variance must exceed the others' to be taken for its own, and unequalLevel how unlikely by chance that must be in the
	// phase: of three runs one cell in fifty is so much noisier with nothing behind it.
	unequal      = 4
	unequalLevel = 0.05
	// The same for all cells of a level of an axis, of which much more is known.
	unequalOfLevel = 2
	levelLevel     = 0.05
	fewOfLevel     = 4 // degrees of freedom, below which a level has no noise of its own
)

// noise is the residual variance of a phase's log(figure), pooled over its cells. Where it differs between the levels of an axis (with the write cache on drives
// are less steady) it is pooled by level, and a cell that is noisier than its like has its own.
type noise struct {
	variance float64 // of all that are pooled; NaN without degrees of freedom
	degrees  float64
	groups   []spread
	in       map[int]int // of cells; else the first
	axis     string      // by which they are pooled; "" all together
	levels   []string    // of it, each with its noise
	own      []*figures  // that have their own
	t        map[float64]float64
}

// spread is a variance to be.
type spread struct{ squares, degrees float64 }

func (s spread) variance() float64 {
	if s.degrees < 1 {
		return math.NaN()
	}
	return max(s.squares/s.degrees, rounding)
}

func (s spread) add(other spread) spread {
	return spread{s.squares + other.squares, s.degrees + other.degrees}
}

func (s spread) less(other spread) spread {
	return spread{s.squares - other.squares, s.degrees - other.degrees}
}

// noiseOf pools the cells of a phase.
func noiseOf(cells []*figures) noise {
	n := noise{in: map[int]int{}, t: map[float64]float64{}, groups: []spread{{}}}
	spreads := make([]spread, len(cells))
	for i, f := range cells {
		spreads[i] = spread{f.spread(), float64(len(f.all) - 1)}
		n.groups[0] = n.groups[0].add(spreads[i])
	}
	pooled := n.byLevel(cells, spreads)
	var kept spread
	for _, of := range pooled {
		kept = kept.add(n.apart(cells, spreads, of, unequalLevel/float64(len(cells))))
	}
	n.variance, n.degrees = kept.variance(), kept.degrees
	return n
}

// byLevel finds the axis whose levels differ most surely in their noise, and pools by it; it returns which cells are together.
func (n *noise) byLevel(cells []*figures, spreads []spread) (together [][]int) {
	type axis struct {
		name   string
		levels map[string][]int
		order  []string
	}
	known := map[string]*axis{}
	var axes []*axis
	for i, f := range cells {
		for _, l := range f.levels {
			a := known[l.Axis]
			if a == nil {
				a = &axis{name: l.Axis, levels: map[string][]int{}}
				known[l.Axis] = a
				axes = append(axes, a)
			}
			if a.levels[l.Effective] == nil {
				a.order = append(a.order, l.Effective)
			}
			a.levels[l.Effective] = append(a.levels[l.Effective], i)
		}
	}
	all := n.groups[0]
	var best *axis
	least := levelLevel
	for _, a := range axes {
		for _, level := range a.order {
			var own spread
			for _, i := range a.levels[level] {
				own = own.add(spreads[i])
			}
			rest := all.less(own)
			if own.degrees < fewOfLevel || rest.degrees < fewOfLevel {
				continue
			}
			p := 2 * fisherP(own.variance()/rest.variance(), own.degrees, rest.degrees)
			ratio := own.variance() / rest.variance()
			if ratio < 1 {
				ratio, p = 1/ratio, 2*fisherP(1/ratio, rest.degrees, own.degrees)
			}
			if p *= float64(len(axes) * len(a.order)); ratio > unequalOfLevel && p < least {
				best, least = a, p
			}
		}
	}
	if best == nil {
		whole := make([]int, len(cells))
		for i := range whole {
			whole[i] = i
		}
		return [][]int{whole}
	}
	n.axis, n.groups = best.name, nil
	var few []int // cells without the axis too
	placed := map[int]bool{}
	for _, level := range best.order {
		var own spread
		for _, i := range best.levels[level] {
			own = own.add(spreads[i])
			placed[i] = true
		}
		if own.degrees < fewOfLevel {
			few = append(few, best.levels[level]...)
			continue
		}
		n.group(cells, best.levels[level], own)
		n.levels = append(n.levels, noiseText(own)+" at "+level)
		together = append(together, best.levels[level])
	}
	for i := range cells {
		if !placed[i] {
			few = append(few, i)
		}
	}
	if len(few) > 0 {
		n.group(cells, few, all)
		together = append(together, few)
	}
	return together
}

// group makes cells be judged by one spread.
func (n *noise) group(cells []*figures, which []int, by spread) {
	for _, i := range which {
		n.in[cells[i].number] = len(n.groups)
	}
	n.groups = append(n.groups, by)
}

// apart takes the noisier cells out of a group one by one, the noisiest first: next to it all others look quiet. A quieter one stays: judged by the others'
// noise it says less than it could, and by its own few runs it would say less still. What is left is returned.
func (n *noise) apart(cells []*figures, spreads []spread, which []int, level float64) (left spread) {
	if len(which) == 0 {
		return spread{}
	}
	group := n.in[cells[which[0]].number]
	left = n.groups[group]
	order := slices.DeleteFunc(slices.Clone(which), func(i int) bool { return spreads[i].degrees < 1 })
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(spreads[b].squares/spreads[b].degrees, spreads[a].squares/spreads[a].degrees)
	})
	for _, i := range order {
		own, rest := spreads[i], left.less(spreads[i])
		if rest.degrees < 1 {
			break
		}
		if ratio := own.variance() / rest.variance(); ratio <= unequal || fisherP(ratio, own.degrees, rest.degrees) >= level {
			break
		}
		left = rest
		n.own = append(n.own, cells[i])
		n.group(cells, []int{i}, own)
	}
	n.groups[group] = left
	return left
}

// only is a noise of one spread, whatever the cell.
func (n noise) only(variance, degrees float64) noise {
	return noise{variance: variance, degrees: degrees, groups: []spread{{variance * degrees, degrees}}, t: n.t}
}

// of is the spread of one figure of a cell.
func (n noise) of(f *figures) spread { return n.groups[n.in[f.number]] }

// t95 is T95, remembered: a million cells have the same few degrees of freedom.
func (n noise) t95(degrees float64) float64 {
	if n.t[degrees] == 0 {
		n.t[degrees] = T95(degrees)
	}
	return n.t[degrees]
}

// unequalText says whose noise is not the others'; "" when it is all the same.
func (n noise) unequalText() string {
	var parts []string
	if n.axis != "" {
		parts = append(parts, fmt.Sprintf("it differs with %s (%s), and each level is judged by its own", n.axis, some(n.levels)))
	}
	var names []string
	for _, f := range n.own {
		names = append(names, fmt.Sprintf("%s (%s)", f.names[0], noiseText(n.of(f))))
	}
	if len(names) > 0 {
		parts = append(parts, "cells much noisier than the others, judged by their own: "+some(names))
	}
	if len(parts) == 0 {
		return ""
	}
	return "noise is not the same everywhere: " + strings.Join(parts, "; ")
}

// noiseText is a spread as people read it: of one run, in per cent.
func noiseText(s spread) string {
	if s.degrees < 1 {
		return "unknown"
	}
	return fmt.Sprintf("%.2g %%", percent(math.Sqrt(s.variance())))
}

// weight is one cell in a contrast of cells' means.
type weight struct {
	cell *figures
	by   float64
}

// uncertain is the variance of a contrast, and its degrees of freedom: by Satterthwaite (and so Welch) where more than one spread is in it. NaN where nothing is known.
func (n noise) uncertain(contrast []weight) (variance, degrees float64) {
	if len(contrast) == 2 && n.in[contrast[0].cell.number] == n.in[contrast[1].cell.number] { // the most frequent, without a map
		for _, w := range contrast {
			variance += w.by * w.by / float64(len(w.cell.all))
		}
		of := n.of(contrast[0].cell)
		return variance * of.variance(), of.degrees
	}
	parts := map[int]float64{}
	for _, w := range contrast {
		group := n.in[w.cell.number]
		parts[group] += w.by * w.by / float64(len(w.cell.all))
	}
	if len(parts) == 1 {
		of := n.of(contrast[0].cell)
		return parts[n.in[contrast[0].cell.number]] * of.variance(), of.degrees
	}
	var under float64
	for _, group := range slices.Sorted(maps.Keys(parts)) { // in order: sums are the same each time
		v := parts[group] * n.groups[group].variance()
		variance += v
		under += v * v / n.groups[group].degrees
	}
	return variance, variance * variance / under
}

func estimateOf(contrast []weight) (log float64) {
	for _, w := range contrast {
		log += w.by * w.cell.mean()
	}
	return log
}
