package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Gating is what a comparison is judged by.
type Gating struct {
	MaxRegression float64 // a share: 0.05 lets a rate fall, or a time grow, by 5 %
}

// Outcome is what may be said of one cell and phase, or of a whole comparison.
type Outcome string

// The outcomes.
const (
	Regression    Outcome = "regression"    // worse by more than the threshold, and significant
	Inconclusive  Outcome = "inconclusive"  // none found, and one as large as the threshold could not have been
	NoRegression  Outcome = "no regression" // none found, and one as large as the threshold would have been
	Improvement   Outcome = "improvement"   // better, and significant
	NotComparable Outcome = "not comparable"
	Missing       Outcome = "missing" // in the base, with figures, and here without
)

// Comparison is one study against another, cell by cell.
type Comparison struct {
	Gating
	Outcome  Outcome // Regression, Inconclusive or NoRegression
	Phases   []PhaseComparison
	Pairs    []Pair // a phase after another, each in the order of the base
	Extra    []Pair // cells and phases that the base has not got
	Looked   int    // how many have a p value, which Holm's method is over
	Warnings []Warning
}

// PhaseComparison is a phase over all its cells that can be compared.
type PhaseComparison struct {
	PhaseID
	Metric       Metric
	Cells        int
	NoisePercent *float64 // of a run, pooled over the cells of both
	Degrees      float64
	// Percent is the change over all cells: of the night, the kernel, the host, whatever they have in common. It is not judged.
	Percent   float64
	Low, High *float64
	// Needs is how many runs a cell, in both, show a change as large as the threshold in four cases of five; 0 when nobody knows, 1000 is many more.
	Needs int
}

// Pair is one phase of one cell in both.
type Pair struct {
	PhaseID
	Cell      string
	Metric    Metric
	Base, New Side
	// Percent is the change of the metric from base to new: of the geometric means. Low and High are its 95 % interval.
	Percent   float64
	Low, High *float64
	// Alone is the p value by itself, P the same after Holm over all that was looked at.
	Alone, P *float64
	// Smallest is the smallest change for the worse, in per cent, that would have been found in four cases of five.
	Smallest *float64
	Outcome  Outcome
	Reason   string // why it is inconclusive, not comparable or missing

	log, se, degrees float64
}

// Side is one of the two.
type Side struct {
	Counts
	N            int
	Median, Mean float64
}

// ErrNothingInCommon is that of two studies without a cell, of the same name and phase, in both.
var ErrNothingInCommon = errors.New("no cell in common")

// ErrNoFigure is that of two studies of which no row has the metric asked for.
var ErrNoFigure = errors.New("no row has a figure of that metric")

// NewComparing returns a study for Compare. Rows of several sweeps are together what was measured of a cell: that nights differ is then in the spread.
func NewComparing(metric Metric) *Study {
	s := NewStudy(metric)
	s.merged = true
	return s
}

// side is one of the two, by cell and phase.
type sideKey struct {
	PhaseID
	cell string
}

// Compare looks at each cell and phase that both studies have.
func Compare(base, other *Study, g Gating) (Comparison, error) {
	c := Comparison{Gating: g}
	index := map[sideKey]*figures{}
	for _, p := range other.order {
		for _, f := range p.list {
			index[sideKey{p.PhaseID, f.names[0]}] = f
		}
	}
	common, had := false, map[sideKey]bool{}
	for _, p := range base.order {
		var q *studyPhase
		if q = other.phases[p.PhaseID]; q == nil {
			q = &studyPhase{}
		}
		from := len(c.Pairs)
		var compared [][2]*figures
		for _, f := range p.list {
			key := sideKey{p.PhaseID, f.names[0]}
			had[key] = true
			g := index[key]
			if common = common || g != nil; len(f.all) == 0 {
				continue // nothing to compare with
			}
			pair := Pair{PhaseID: p.PhaseID, Cell: f.names[0], Metric: p.metric, Base: sideOf(f)}
			switch {
			case g == nil:
				pair.Outcome, pair.Reason = Missing, "not in the new results"
			case len(g.all) == 0:
				pair.New, pair.Outcome, pair.Reason = sideOf(g), Missing, withoutFigures(g)
			default:
				pair.New = sideOf(g)
				if differ := f.ran.differs(g.ran); differ != "" {
					pair.Outcome, pair.Reason = NotComparable, differ
				} else if p.metric != q.metric {
					pair.Outcome, pair.Reason = NotComparable, fmt.Sprintf("judged by %s there and %s here", p.metric, q.metric)
				} else {
					compared = append(compared, [2]*figures{f, g})
				}
			}
			c.Pairs = append(c.Pairs, pair)
		}
		c.phase(p, compared, from)
	}
	if !common {
		return c, ErrNothingInCommon
	}
	if len(c.Pairs) == 0 {
		return c, ErrNoFigure
	}
	for _, p := range other.order {
		for _, f := range p.list {
			if !had[sideKey{p.PhaseID, f.names[0]}] && len(f.all) > 0 {
				c.Extra = append(c.Extra, Pair{PhaseID: p.PhaseID, Cell: f.names[0], Metric: p.metric, New: sideOf(f)})
			}
		}
	}
	c.judge()
	return c, nil
}

// withoutFigures says why a cell has nothing to compare.
func withoutFigures(f *figures) string {
	switch {
	case f.NoFigure > 0:
		return "ok, but without such a figure: a record over the device's limit, or the metric is not measured there"
	case f.Suspect > 0:
		return fmt.Sprintf("all %d rows are suspect or failed", f.Suspect+f.Failed)
	case f.Failed > 0:
		return fmt.Sprintf("all %d rows failed", f.Failed)
	}
	return "skipped"
}

func sideOf(f *figures) Side {
	s := Side{Counts: f.Counts, N: len(f.all)}
	if s.N == 0 {
		return s
	}
	values := make([]float64, s.N)
	for i, v := range f.all {
		values[i] = math.Exp(v.log)
	}
	s.Median, s.Mean = median(values), mean(values)
	return s
}

// phase compares the cells that can be; their pairs are those from there on that have no outcome yet.
func (c *Comparison) phase(p *studyPhase, compared [][2]*figures, from int) {
	if len(compared) == 0 {
		return
	}
	var of [2][]*figures
	var rows, suspect [2]int
	for i, two := range compared {
		for side, f := range two {
			mine := *f // numbered anew: both studies count from 0
			cell := *f.studyCell
			cell.number = 2*i + side
			// Which of the two it is is an axis like others: a night can be noisier.
			cell.levels = append(slices.Clone(cell.levels), Level{"results", "", []string{"base", "new"}[side]})
			mine.studyCell = &cell
			compared[i][side] = &mine
			of[side] = append(of[side], &mine)
			rows[side] += f.OK + f.Suspect
			suspect[side] += f.Suspect
		}
	}
	uneven := math.Abs(float64(suspect[0])/float64(rows[0])-float64(suspect[1])/float64(rows[1])) > unevenSuspects/100.0
	if uneven {
		c.Warnings = append(c.Warnings, Warning{UnevenSuspects, p.PhaseID, nil, fmt.Sprintf(
			"suspect rows, which are left out, are %d of %d in the base and %d of %d in the new results: nothing is claimed of this phase", suspect[0], rows[0], suspect[1], rows[1])})
	}
	n := noiseOf(slices.Concat(of[0], of[1]))
	if apart := n.unequalText(); apart != "" {
		c.Warnings = append(c.Warnings, Warning{UnequalNoise, p.PhaseID, nil, apart})
	}
	all := PhaseComparison{PhaseID: p.PhaseID, Metric: p.metric, Cells: len(compared)}
	if n.degrees >= 1 {
		noise := percent(math.Sqrt(n.variance))
		all.NoisePercent, all.Degrees = &noise, n.degrees
	}
	var whole []weight
	next := from
	for _, two := range compared {
		for c.Pairs[next].Outcome != "" {
			next++
		}
		pair := &c.Pairs[next]
		next++
		contrast := []weight{{two[0], -1}, {two[1], 1}}
		whole = append(whole, contrast...)
		step := n.step("", "", nil, contrast)
		pair.Percent, pair.Low, pair.High, pair.log = step.Percent, step.Low, step.High, estimateOf(contrast)
		pair.Outcome = Inconclusive
		if v, d := n.uncertain(contrast); v > 0 {
			pair.se, pair.degrees = math.Sqrt(v), d
			alone := studentP(pair.log/pair.se, d)
			pair.Alone = &alone
		} else {
			pair.Reason = "no cell has two runs: nobody can tell a change from chance"
		}
		if uneven {
			pair.Reason = "suspect rows are not equally many in both"
		}
	}
	for i := range whole {
		whole[i].by /= float64(len(compared))
	}
	step := n.step("", "", nil, whole)
	all.Percent, all.Low, all.High = step.Percent, step.Low, step.High
	c.Phases = append(c.Phases, all)
}

// judge looks at all pairs together.
func (c *Comparison) judge() {
	alone := make([]float64, len(c.Pairs))
	for i, p := range c.Pairs {
		alone[i] = math.NaN()
		if p.Alone != nil {
			alone[i] = *p.Alone
			c.Looked++
		}
	}
	all := Holm(alone)
	level := lastLevel(all)
	least := map[float64]float64{} // by degrees of freedom
	c.Outcome = NoRegression
	for i := range c.Pairs {
		p := &c.Pairs[i]
		if p.Alone != nil {
			p.P = &all[i]
			if least[p.degrees] == 0 {
				least[p.degrees] = smallest(1, p.degrees, level)
			}
			c.outcome(p, p.se*least[p.degrees])
		}
		switch {
		case p.Outcome == Regression:
			c.Outcome = Regression
		case p.Outcome != NoRegression && p.Outcome != Improvement && c.Outcome != Regression:
			c.Outcome = Inconclusive
		}
	}
	for i := range c.Phases {
		c.Phases[i].Needs = c.needs(&c.Phases[i], level)
	}
}

// threshold is the largest change of the logarithm that is let pass, for the worse.
func (c *Comparison) threshold(m Metric) float64 {
	if m.LessIsBetter() {
		return math.Log1p(c.MaxRegression)
	}
	return -math.Log1p(-c.MaxRegression)
}

// outcome is of a pair of which the smallest difference that would have been found is known.
func (c *Comparison) outcome(p *Pair, seen float64) {
	worse := -p.log
	shown := -percent(-seen)
	if p.Metric.LessIsBetter() {
		worse, shown = p.log, percent(seen)
	}
	p.Smallest = &shown
	threshold := c.threshold(p.Metric)
	significant := *p.P < Significance
	switch {
	case p.Reason != "": // suspect rows
	case significant && worse > threshold:
		p.Outcome = Regression
	case significant && worse < 0:
		p.Outcome = Improvement
	case seen > threshold:
		p.Reason = fmt.Sprintf("nothing below %.2g %% would have been seen", shown)
	default:
		p.Outcome = NoRegression
	}
}

// mostRuns is where it is no longer worth saying how many runs it takes.
const mostRuns = 1000

func (c *Comparison) needs(p *PhaseComparison, level float64) int {
	if p.NoisePercent == nil {
		return 0
	}
	noise, threshold := math.Log1p(*p.NoisePercent/100), c.threshold(p.Metric)
	return 2 + sort.Search(mostRuns-2, func(more int) bool { return Shows(noise, 2+more, 2*p.Cells, 2, level) <= threshold })
}

// Shows is the smallest difference of logarithms that would be found in four cases of five, at a two-sided level, where each cell has so many runs, of the given standard
// deviation, which is pooled over the cells. Terms is the sum of the squared weights of the cells compared: 2 for one cell against another.
func Shows(noise float64, runs, cells int, terms, level float64) float64 {
	return smallest(noise*math.Sqrt(terms/float64(runs)), float64(cells*(runs-1)), level)
}
