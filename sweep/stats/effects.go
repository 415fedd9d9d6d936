package stats

import "math"

// Verdict is what may be said of an effect.
type Verdict string

// The verdicts.
const (
	Found         Verdict = "found"
	NotFound      Verdict = "not found"      // the smallest that would have been seen is in Smallest
	NotExercised  Verdict = "not exercised"  // not found, and the queue depth was not reached: it could not show
	NotClaimed    Verdict = "not claimed"    // suspect rows are not equally many on all levels
	NotReplicated Verdict = "not replicated" // no cell has two figures: nobody can tell how sure
	NotEstimable  Verdict = "not estimable"  // no two cells differ by this alone
)

// Effect is what one axis does to a phase, or by how much what one axis does depends on another.
type Effect struct {
	PhaseID
	Axes []string
	// From and To are the levels that Percent is of, one an axis: the first and the last.
	From, To []string
	// Percent is the change of the metric from one to the other, over all else; of an interaction, how much more (or less) than the two changes together it is.
	Percent float64
	// Low and High are its 95 % interval. Nil without replicates.
	Low, High *float64
	// Alone is the p value of all levels together, P the same after Holm over all that was looked at.
	Alone, P *float64
	// Smallest is the smallest effect, in per cent, that would have been found in four cases of five.
	Smallest *float64
	Verdict  Verdict
	Levels   []Step // of one axis: each further level against the first
	At       []Step // of one axis: from the first to the last, in each combination of the others
	Suspects []Share
	// Drift is what the drift of the phase alone would make of it, in per cent, by the order of its runs. Nil when no drift was found.
	Drift *float64

	outermost []weight
	error     *errorOf // nil: nothing is known of it
}

// Step is one level against another.
type Step struct {
	From, To  string
	Context   []Level // the levels of the other axes; nil: over all
	Percent   float64
	Low, High *float64 // 95 %
}

// Share is how many of a level's rows are suspect.
type Share struct {
	Axis, Level       string
	Suspect, Measured int
}

// Percent is the share of the rows measured.
func (s Share) Percent() float64 {
	if s.Measured == 0 {
		return 0
	}
	return 100 * float64(s.Suspect) / float64(s.Measured)
}

// unevenSuspects is by how many points the shares of suspect rows may differ between levels.
const unevenSuspects = 10

// mostAt bounds how many combinations an effect is shown in.
const mostAt = 64

// levelsIn are the levels of an axis that a phase's cells have, in order.
func (s *Study) levelsIn(cells []*figures, axis string) []string {
	have := map[string]bool{}
	for _, f := range cells {
		if level, ok := f.level(axis); ok {
			have[level] = true
		}
	}
	var levels []string
	for _, l := range s.levels[axis] {
		if have[l] {
			levels = append(levels, l)
		}
	}
	return levels
}

// suspects counts by the levels of an axis.
func suspects(p *studyPhase, axis string, levels []string) (shares []Share, even bool) {
	low, high := math.Inf(1), math.Inf(-1)
	counts := map[string]Share{}
	for _, f := range p.list {
		if level, ok := f.level(axis); ok {
			c := counts[level]
			counts[level] = Share{axis, level, c.Suspect + f.Suspect, c.Measured + f.Suspect + f.OK}
		}
	}
	for _, level := range levels {
		share := counts[level]
		shares = append(shares, share)
		low, high = min(low, share.Percent()), max(high, share.Percent())
	}
	return shares, high-low <= unevenSuspects
}

// main is the effect of one axis.
func (s *Study) main(p *studyPhase, n noise, axis string, built bool) Effect {
	cells := p.with()
	e := Effect{PhaseID: p.PhaseID, Axes: []string{axis}}
	// Levels of which every row is suspect count as well: nothing is left of them.
	all := s.levelsIn(p.list, axis)
	var even bool
	e.Suspects, even = suspects(p, axis, all)
	levels := s.levelsIn(cells, axis)
	e.Verdict = NotEstimable
	if len(levels) < 2 {
		e.notClaimed(even)
		return e
	}
	in := contexts(cells, axis)
	contrasts := steps(in, levels)
	outermost := -1
	for j, c := range contrasts {
		if len(c) == 0 {
			continue
		}
		outermost = j
		e.Levels = append(e.Levels, n.step(levels[0], levels[j+1], nil, c))
	}
	if outermost >= 0 {
		last := levels[outermost+1]
		e.From, e.To = []string{levels[0]}, []string{last}
		for _, c := range in {
			if at := balanced([]*context{c}, []string{levels[0], last}, []float64{-1, 1}); len(at) > 0 && len(in) > 1 && len(e.At) < mostAt {
				e.At = append(e.At, n.step(levels[0], last, c.others, at))
			}
		}
		if whole, ok := wholePlots(in, levels); built && ok {
			e.byPlots(whole, levels)
		} else {
			e.judge(n, contrasts, contrasts[outermost])
		}
	}
	if axis == "queue_depth" && e.Verdict == NotFound && unreached(cells) {
		e.Verdict = NotExercised
	}
	e.notClaimed(even)
	return e
}

// interaction is by how much the effect of one axis depends on another.
func (s *Study) interaction(p *studyPhase, n noise, a, b string) Effect {
	cells := p.with()
	e := Effect{PhaseID: p.PhaseID, Axes: []string{a, b}, Verdict: NotEstimable}
	evenAll := true
	for _, axis := range e.Axes {
		shares, even := suspects(p, axis, s.levelsIn(p.list, axis))
		e.Suspects, evenAll = append(e.Suspects, shares...), evenAll && even
	}
	ofA, ofB := s.levelsIn(cells, a), s.levelsIn(cells, b)
	if len(ofA) < 2 || len(ofB) < 2 {
		e.notClaimed(evenAll)
		return e
	}
	contrasts := crossings(contexts(cells, a, b), ofA, ofB)
	outermost := -1
	for i, c := range contrasts {
		if len(c) > 0 {
			outermost = i
		}
	}
	if outermost >= 0 {
		// The four corners are in the contrast's first four cells, in the order of crossings.
		corner := contrasts[outermost][3].cell
		toA, _ := corner.level(a)
		toB, _ := corner.level(b)
		e.From, e.To = []string{ofA[0], ofB[0]}, []string{toA, toB}
		e.judge(n, contrasts, contrasts[outermost])
	}
	if (a == "queue_depth" || b == "queue_depth") && e.Verdict == NotFound && unreached(cells) {
		e.Verdict = NotExercised
	}
	e.notClaimed(evenAll)
	return e
}

// judge fills in the figures of an effect: its estimate is that of the outermost contrast, its p value that of all.
func (e *Effect) judge(n noise, contrasts [][]weight, outermost []weight) {
	step := n.step("", "", nil, outermost)
	e.Percent, e.Low, e.High, e.outermost = step.Percent, step.Low, step.High, outermost
	e.Verdict = NotReplicated
	if p := n.jointP(contrasts); !math.IsNaN(p) {
		e.Verdict, e.Alone = NotFound, &p
	}
}

func (e *Effect) notClaimed(even bool) {
	if !even {
		e.Verdict = NotClaimed
	}
}

func (n noise) step(from, to string, at []Level, contrast []weight) Step {
	log := estimateOf(contrast)
	s := Step{From: from, To: to, Context: at, Percent: percent(log)}
	if v, d := n.uncertain(contrast); v > 0 {
		half := n.t95(d) * math.Sqrt(v)
		low, high := percent(log-half), percent(log+half)
		s.Low, s.High = &low, &high
	}
	return s
}

// unreached says that the deeper queues were not: most rows of the deepest level say so.
func unreached(cells []*figures) bool {
	rows, of := 0, 0
	deepest := ""
	for _, f := range cells {
		level, ok := f.level("queue_depth")
		if !ok {
			continue
		}
		pair := []string{deepest, level}
		if sortLevels(pair); deepest == "" || pair[1] == level && level != deepest {
			deepest, rows, of = level, 0, 0
		}
		if level == deepest {
			rows, of = rows+f.NotExercised, of+len(f.all)
		}
	}
	return of > 0 && 2*rows > of
}
