package stats

import "math"

// An array that is built for each raid level, once a replicate, is one draw of what building makes of it (where on the disks, how the file system was laid out), and all
// cells of that level and replicate share it. So its effect is judged by how much replicates differ in it, however many cells each has: replicate × raid_level.

// plots are the means of whole replicates, by level.
type plots [][]float64 // [replicate][level]

type plotID struct {
	sweep     string
	replicate int32
}

// wholePlots are the means over the contexts that have all levels, in the replicates that have all their runs; false with less than two of these.
func wholePlots(in []*context, levels []string) (plots, bool) {
	sums := map[plotID][]float64{}
	runs := map[plotID]int{}
	perSweep := map[string]int{}
	var order []plotID
	for _, c := range in {
		if len(c.cells) < len(levels) {
			continue
		}
		perSweep[c.sweep]++
		for i, level := range levels {
			seen := map[int32]bool{}
			for _, v := range c.cells[level].all {
				if seen[v.replicate] {
					continue // two cells that came to the same levels
				}
				seen[v.replicate] = true
				id := plotID{c.sweep, v.replicate}
				if sums[id] == nil {
					sums[id] = make([]float64, len(levels))
					order = append(order, id)
				}
				sums[id][i] += v.log
				runs[id]++
			}
		}
	}
	var whole plots
	for _, id := range order {
		n := perSweep[id.sweep]
		if runs[id] != n*len(levels) {
			continue
		}
		for i := range sums[id] {
			sums[id][i] /= float64(n)
		}
		whole = append(whole, sums[id])
	}
	return whole, len(whole) > 1
}

// byPlots judges an effect by whole plots.
func (e *Effect) byPlots(w plots, levels []string) {
	rows, columns := float64(len(w)), float64(len(levels))
	means := make([]float64, len(levels))
	total := 0.0
	for _, plot := range w {
		for i, v := range plot {
			means[i] += v / rows
			total += v / rows / columns
		}
	}
	var between, residual float64
	for _, plot := range w {
		own := mean(plot)
		for i, v := range plot {
			residual += (v - own - means[i] + total) * (v - own - means[i] + total)
		}
	}
	for _, m := range means {
		between += rows * (m - total) * (m - total)
	}
	degrees := (rows - 1) * (columns - 1)
	residual = max(residual/degrees, rounding)
	se := math.Sqrt(2 * residual / rows)
	half := T95(degrees) * se
	e.Levels = nil
	for i, m := range means[1:] {
		log := m - means[0]
		low, high := percent(log-half), percent(log+half)
		e.Levels = append(e.Levels, Step{From: levels[0], To: levels[i+1], Percent: percent(log), Low: &low, High: &high})
	}
	last := e.Levels[len(e.Levels)-1]
	e.Percent, e.Low, e.High, e.To = last.Percent, last.Low, last.High, []string{last.To}
	for i := range e.At { // one replicate's build is not told from another's there
		e.At[i].Low, e.At[i].High = nil, nil
	}
	p := fisherP(between/(columns-1)/residual, columns-1, degrees)
	e.Alone, e.Verdict = &p, NotFound
	e.error = &errorOf{se, degrees}
}

// errorOf is the standard error of an effect's logarithm.
type errorOf struct{ se, degrees float64 }

// withinPlots is the residual variance inside whole plots: what all runs of a build share does not count in the comparison of cells that share it. By least squares of cells
// and plots, each in turn until both fit. False when too little is left.
func withinPlots(cells []*figures, axis string) (variance, degrees float64, ok bool) {
	type plot struct {
		plotID
		level string
	}
	type at struct{ cell, plot int }
	plotsOf := map[plot]int{}
	levels := map[string]bool{}
	var values []float64
	var where []at
	perCell := make([]int, len(cells))
	var perPlot []int
	for c, f := range cells {
		level, has := f.level(axis)
		if !has {
			return 0, 0, false
		}
		levels[f.sweep+";"+level] = true
		for _, v := range f.all {
			id := plot{plotID{f.sweep, v.replicate}, level}
			n, known := plotsOf[id]
			if !known {
				n = len(perPlot)
				plotsOf[id] = n
				perPlot = append(perPlot, 0)
			}
			values, where = append(values, v.log), append(where, at{c, n})
			perCell[c]++
			perPlot[n]++
		}
	}
	sweepOut := func(counts []int, of func(at) int) (moved float64) {
		means := make([]float64, len(counts))
		for i, v := range values {
			means[of(where[i])] += v / float64(counts[of(where[i])])
		}
		for i := range values {
			values[i] -= means[of(where[i])]
			moved = max(moved, math.Abs(means[of(where[i])]))
		}
		return moved
	}
	for range 100 {
		sweepOut(perCell, func(a at) int { return a.cell })
		if sweepOut(perPlot, func(a at) int { return a.plot }) < 1e-12 {
			break
		}
	}
	degrees = float64(len(values) - len(cells) - len(perPlot) + len(levels))
	if degrees < 1 {
		return 0, 0, false
	}
	for _, v := range values {
		variance += v * v
	}
	return max(variance/degrees, rounding), degrees, true
}
