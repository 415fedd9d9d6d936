package stats

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Options are what the rows do not say.
type Options struct {
	// Built says that an array was built for each raid_level, in every replicate (the profile's target.build).
	Built bool
}

// Conclusions are what the rows of a study show.
type Conclusions struct {
	Phases   []PhaseFindings
	Effects  []Effect // a phase after another: its axes, then its pairs of axes
	Looked   int      // how many of them have a p value, which Holm's method is over
	Warnings []Warning
}

// PhaseFindings is one phase over its cells.
type PhaseFindings struct {
	PhaseID
	Metric Metric
	Type   string
	// NoisePercent is the residual standard deviation of a run about its cell's mean, pooled. Nil when no cell has two runs.
	NoisePercent *float64
	Degrees      float64
	Cells        []CellFindings
	Drift        *Drift
}

// CellFindings is one phase of one cell, in the unit of the metric.
type CellFindings struct {
	Sweep  string
	Cells  []string // by name; several that came to the same levels
	Levels []Level
	Counts
	N            int
	Median, Mean float64
	// Low and High are the 95 % interval of the mean (of the logarithm), the spread pooled over the phase's cells.
	Low, High *float64
	// CVPercent is the standard deviation in per cent of the mean, of this cell alone.
	CVPercent *float64
	Outliers  []Outlier
}

// Outlier is a run too far from its cell's mean to be chance, by the spread of the phase. It stays in all figures.
type Outlier struct {
	Run     string
	Value   float64
	Percent float64 // from the mean of the cell's other runs
}

// Warning is what somebody must know who believes a conclusion.
type Warning struct {
	Code WarningCode
	PhaseID
	Axes []string
	Text string
}

// WarningCode says what a warning is of.
type WarningCode string

// The codes.
const (
	UnequalNoise   WarningCode = "unequal noise"
	Drifting       WarningCode = "drift"
	DriftExplains  WarningCode = "drift could explain it"
	UnevenSuspects WarningCode = "suspect rows"
	Unexercised    WarningCode = "not exercised"
	Unreplicated   WarningCode = "not replicated"
	Unbalanced     WarningCode = "not estimable"
	HasOutliers    WarningCode = "outliers"
	FewBuilds      WarningCode = "few builds"
)

// Conclude says what the rows so far show. The study can go on afterwards.
func (s *Study) Conclude(o Options) Conclusions {
	for _, levels := range s.levels {
		sortLevels(levels)
	}
	var c Conclusions
	var axes []string
	for _, axis := range s.axes {
		if len(s.levels[axis]) > 1 {
			axes = append(axes, axis)
		}
	}
	for _, p := range s.order {
		c.phase(s, p, axes, o)
	}
	c.adjust()
	for _, p := range c.Phases {
		c.warnDrift(p)
	}
	return c
}

func (c *Conclusions) phase(s *Study, p *studyPhase, axes []string, o Options) {
	cells := p.with()
	f := PhaseFindings{PhaseID: p.PhaseID, Metric: p.metric, Type: p.kind}
	n := noiseOf(cells)
	outliers := outliersIn(cells, n)
	for _, cell := range p.list {
		f.Cells = append(f.Cells, findings(cell, n, outliers[cell.number]))
	}
	if n.degrees >= 1 {
		share := percent(math.Sqrt(n.variance))
		f.NoisePercent, f.Degrees = &share, n.degrees
	}
	f.Drift = driftOf(cells)
	c.Phases = append(c.Phases, f)
	c.warnCells(p, cells, n, outliers)

	inside := n // of a build's runs, when all compared share it
	built := o.Built && len(s.levels["raid_level"]) > 0
	if built {
		if v, d, ok := withinPlots(cells, "raid_level"); ok {
			inside = n.only(v, d)
		}
	}
	var effects []Effect
	for _, axis := range axes {
		if len(s.levelsIn(p.list, axis)) < 2 {
			continue
		}
		byBuild := built && axis == "raid_level"
		with := inside
		if byBuild {
			with = n
		}
		e := s.main(p, with, axis, byBuild)
		if byBuild && e.Verdict == NotFound && e.error == nil {
			e.Verdict, e.Alone, e.Low, e.High = NotReplicated, nil, nil, nil
			c.warn(FewBuilds, p.PhaseID, e.Axes, "raid_level was built anew in each replicate, and no two replicates are whole: nothing is known of how much builds differ")
		}
		effects = append(effects, e.noted(with))
	}
	for i, a := range axes {
		for _, b := range axes[i+1:] {
			if len(s.levelsIn(p.list, a)) < 2 || len(s.levelsIn(p.list, b)) < 2 {
				continue
			}
			effects = append(effects, s.interaction(p, inside, a, b).noted(inside))
		}
	}
	for _, e := range effects {
		c.warnEffect(e)
	}
	c.Effects = append(c.Effects, effects...)
}

// noted keeps what Smallest will be reckoned from.
func (e Effect) noted(n noise) Effect {
	if e.error == nil && e.Alone != nil {
		if v, d := n.uncertain(e.outermost); v > 0 {
			e.error = &errorOf{math.Sqrt(v), d}
		}
	}
	return e
}

// adjust looks at all effects together.
func (c *Conclusions) adjust() {
	alone := make([]float64, len(c.Effects))
	for i, e := range c.Effects {
		alone[i] = math.NaN()
		if e.Alone != nil {
			alone[i] = *e.Alone
			c.Looked++
		}
	}
	all := Holm(alone)
	level := lastLevel(all)
	for i := range c.Effects {
		e := &c.Effects[i]
		if e.Alone == nil {
			continue
		}
		p := all[i]
		e.P = &p
		if e.error != nil {
			least := percent(smallest(e.error.se, e.error.degrees, level))
			e.Smallest = &least
		}
		if p < Significance && (e.Verdict == NotFound || e.Verdict == NotExercised) {
			e.Verdict = Found
		}
	}
}

func findings(f *figures, n noise, outliers []Outlier) CellFindings {
	c := CellFindings{Sweep: f.sweep, Cells: f.names, Levels: f.levels, Counts: f.Counts, N: len(f.all), Outliers: outliers}
	if c.N == 0 {
		return c
	}
	values := make([]float64, c.N)
	for i, v := range f.all {
		values[i] = math.Exp(v.log)
	}
	c.Median, c.Mean = median(values), mean(values)
	if v, d := n.uncertain([]weight{{f, 1}}); v > 0 {
		half := n.t95(d) * math.Sqrt(v)
		low, high := math.Exp(f.mean()-half), math.Exp(f.mean()+half)
		c.Low, c.High = &low, &high
	}
	if c.N > 1 {
		cv := 100 * math.Sqrt(squares(values, c.Mean)/float64(c.N-1)) / c.Mean
		c.CVPercent = &cv
	}
	return c
}

// outliersIn finds the runs, by cell, whose distance from the cell's other runs the spread of the phase does not explain: studentised, without themselves in
// that spread, and for all runs of the phase together.
func outliersIn(cells []*figures, n noise) map[int][]Outlier {
	found := map[int][]Outlier{}
	runs := 0
	for _, f := range cells {
		runs += len(f.all)
	}
	if !(n.degrees >= 3) {
		return found
	}
	for _, f := range cells {
		if len(f.all) < 3 { // of two nobody can say which it is
			continue
		}
		mean, count := f.mean(), float64(len(f.all))
		own := slices.Contains(n.own, f)
		for _, v := range f.all {
			of := n.of(f)
			if own {
				of = spread{n.variance * n.degrees, n.degrees}
			}
			t, degrees := (v.log-mean)/math.Sqrt(of.variance()*(count-1)/count), of.degrees
			if own {
				if rest := f.spread() - (v.log-mean)*(v.log-mean)*count/(count-1); rest/(count-2) > unequal*n.variance {
					continue // without it the others are as far from each other: it is the cell's noise
				}
			} else { // it is in that spread
				t, degrees = t*math.Sqrt((degrees-1)/max(degrees-t*t, 1e-9)), degrees-1
			}
			if studentP(t, degrees)*float64(runs) < Significance {
				others := (mean*count - v.log) / (count - 1)
				found[f.number] = append(found[f.number], Outlier{fmt.Sprintf("%s#%d", f.names[0], v.replicate), math.Exp(v.log), percent(v.log - others)})
			}
		}
	}
	return found
}

func (c *Conclusions) warn(code WarningCode, id PhaseID, axes []string, text string) {
	c.Warnings = append(c.Warnings, Warning{code, id, axes, text})
}

func (c *Conclusions) warnCells(p *studyPhase, cells []*figures, n noise, outliers map[int][]Outlier) {
	if len(cells) > 0 && n.degrees < 1 {
		c.warn(Unreplicated, p.PhaseID, nil, "no cell has two runs: nobody can tell how sure its figures are")
	}
	if text := n.unequalText(); text != "" {
		c.warn(UnequalNoise, p.PhaseID, nil, text)
	}
	var runs []string
	for _, f := range cells {
		for _, o := range outliers[f.number] {
			runs = append(runs, fmt.Sprintf("%s (%+.3g %%)", o.Run, o.Percent))
		}
	}
	if len(runs) > 0 {
		c.warn(HasOutliers, p.PhaseID, nil, "runs far from the others of their cell, which count all the same: "+some(runs))
	}
}

// some names the first of a list, and how many more there are.
func some(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

func (c *Conclusions) warnEffect(e Effect) {
	axes := strings.Join(e.Axes, " × ")
	switch e.Verdict {
	case NotClaimed:
		if len(e.Axes) > 1 { // said of the axis
			return
		}
		var shares []string
		for _, s := range e.Suspects {
			shares = append(shares, fmt.Sprintf("%d of %d at %s", s.Suspect, s.Measured, s.Level))
		}
		c.warn(UnevenSuspects, e.PhaseID, e.Axes, fmt.Sprintf("suspect rows, which are left out, are not equally many on all levels of %s (%s): no effect of it is claimed", axes, some(shares)))
	case NotExercised:
		if len(e.Axes) == 1 {
			c.warn(Unexercised, e.PhaseID, e.Axes, "the depth was not reached in most rows of the deepest queue: what queue_depth does was not exercised, which is not the same as no effect")
		}
	case NotEstimable:
		c.warn(Unbalanced, e.PhaseID, e.Axes, fmt.Sprintf("no cells with figures differ in %s alone: nothing can be said of it", axes))
	}
}

// warnDrift says of a phase that drifted, and which of its effects that could be.
func (c *Conclusions) warnDrift(p PhaseFindings) {
	d := p.Drift
	if d == nil || d.P >= Significance/float64(len(c.Phases)) {
		return
	}
	c.warn(Drifting, p.PhaseID, nil, fmt.Sprintf("figures drifted by %+.3g %% from the first run to the last (%+.3g to %+.3g), whatever the settings", d.Percent, d.Low, d.High))
	for i := range c.Effects {
		e := &c.Effects[i]
		if e.PhaseID != p.PhaseID || len(e.outermost) == 0 {
			continue
		}
		log := d.of(e.outermost)
		share := percent(log)
		e.Drift = &share
		effect := math.Log1p(e.Percent / 100)
		if e.Verdict == Found && log*effect > 0 && math.Abs(log) >= math.Abs(effect)/2 {
			c.warn(DriftExplains, p.PhaseID, e.Axes, fmt.Sprintf("the drift alone, in the order in which the runs came, would make %+.3g %% of the %+.3g %% of %s: it could be the night and not the setting",
				share, e.Percent, strings.Join(e.Axes, " × ")))
		}
	}
}
