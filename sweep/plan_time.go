package sweep

import (
	"fmt"
	"math"
	"time"
)

// Estimate is a first guess of how long the sweep, with what it builds, and one run take. Of a sweep that its precision ends it is the longest.
func (p *Plan) Estimate() (sweep, run time.Duration) {
	return p.replicates(p.Profile.Repeats), p.work.mean
}

// replicates is a first guess of how long so many replicates take.
func (p *Plan) replicates(n int) time.Duration {
	_, build := p.buildCost()
	return times(build/time.Duration(p.Profile.Repeats)+times(p.work.mean, p.cells-p.skipped), n)
}

// times is d × n, a century at most.
func times(d time.Duration, n int) time.Duration { return seconds(d.Seconds() * float64(n)) }

// least is the fewest replicates of the sweep.
func (p *Profile) least() int {
	if p.Adaptive() {
		return p.RepeatsMin
	}
	return p.Repeats
}

// fitting is how many whole replicates fit before the deadline, as far as can be guessed; 0 when not even the first does.
func (p *Plan) fitting(left time.Duration) int {
	one := p.replicates(1)
	if one <= 0 {
		return p.Profile.Repeats
	}
	return min(int(left/one), p.Profile.Repeats)
}

// span2 is a number, or a range of them where the two differ.
func span2(from, to string) string {
	if from == to {
		return to
	}
	return from + " to " + to
}

// replicatesText is how many replicates, and runs, there are.
func (p *Plan) replicatesText() string {
	least, most := p.Profile.least(), p.Profile.Repeats
	if least == most {
		return fmt.Sprintf("%s = %s", plural(most, "replicate"), plural(p.Count(), "run"))
	}
	return fmt.Sprintf("%d to %s = %d to %s", least, plural(most, "replicate"), p.cells*least, plural(p.Count(), "run"))
}

// textTime says how long it takes, what that rests on, and how it goes with the deadline.
func (p *Plan) textTime(out *planText) {
	least, most := p.replicates(p.Profile.least()), p.replicates(p.Profile.Repeats)
	out.field("time", fmt.Sprintf("about %s (%s a run, %s); a run that takes longer than %s is ended",
		span2(timeText(least), timeText(most)), timeText(p.work.mean), p.basis(), timeText(p.Profile.Timeout)))
	if p.Profile.Adaptive() {
		out.field("", fmt.Sprintf("it ends after the replicate with which every mean is known to ± %s, in every phase", percentOf(p.Profile.Precision)))
	}
	if d := p.Profile.startDeadline(); d.set {
		out.field("", d.String()+": "+p.deadlineText(d.left()))
	}
}

// deadlineText is how much of the sweep there is time for.
func (p *Plan) deadlineText(left time.Duration) string {
	fit, most := p.fitting(left), p.Profile.Repeats
	switch {
	case fit >= most:
		return "fits"
	case fit == 0:
		runs := p.cells
		if p.work.mean > 0 {
			runs = min(int(left/p.work.mean), p.cells-1)
		}
		return fmt.Sprintf("about %d of the %s of the first replicate can be done", runs, plural(p.cells, "run"))
	case p.Profile.Adaptive():
		return fmt.Sprintf("about %s can be finished", plural(fit, "replicate"))
	}
	return fmt.Sprintf("about %d of %s can be finished", fit, plural(most, "replicate"))
}

// basis is what the time of a run rests on.
func (p *Plan) basis() string {
	guessed := p.work.guessed
	if guessed <= 0 {
		return "as the profile says"
	}
	words := "guessed at "
	if text := timeText(guessed); p.work.mean-guessed >= p.work.mean/20 && text != timeText(p.work.mean) {
		words = text + " of it " + words
	}
	rotating, still := false, false
	for _, m := range p.Members() {
		rotating, still = rotating || m.Rotational, still || !m.Rotational
	}
	var at string
	switch {
	case rotating && still:
		at = fmt.Sprintf("%s a drive that rotates, %s another", ratesText(rotatingGuess()), ratesText(stillGuess()))
	case rotating:
		at = ratesText(rotatingGuess()) + " a drive"
	default:
		at = ratesText(stillGuess()) + " a drive"
	}
	return words + at
}

// warnDeadline says of a deadline what the plan's guess says: that the sweep will not be what it is meant to be.
func (p *Plan) warnDeadline() []string {
	d := p.Profile.startDeadline()
	if !d.set {
		return nil
	}
	need := min(2, p.Profile.Repeats)
	if p.Profile.Adaptive() {
		need = p.Profile.RepeatsMin
	}
	if p.fitting(d.left()) >= need {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s, and with fewer than %s it ends as exit 4 (a run takes %s, %s): leave levels out, or give it %s",
		d.text, p.deadlineText(d.left()), plural(need, "replicate"), timeText(p.work.mean), p.basis(), timeText(p.replicates(need)))}
}

// planTime is the part of the plan's JSON that says when it ends.
type planTime struct {
	RepeatsMin    *int     `json:"repeats_min"`    // null: the number of replicates is fixed
	Precision     *float64 `json:"precision"`      // a share
	EstimateMinS  float64  `json:"estimate_min_s"` // of the fewest replicates
	EstimateFrom  string   `json:"estimate_from"`
	GuessedS      float64  `json:"guessed_s"`      // the part of run_s that is a guess
	DeadlineS     *float64 `json:"deadline_s"`     // from now; null: none
	Until         string   `json:"until"`          // "" where the deadline is none, or counts from the start
	ReplicatesFit *int     `json:"replicates_fit"` // before it
}

func (p *Plan) timeJSON() planTime {
	t := planTime{EstimateMinS: p.replicates(p.Profile.least()).Seconds(), EstimateFrom: p.basis(), GuessedS: p.work.guessed.Seconds(), Until: p.Profile.Until.String()}
	if p.Profile.Adaptive() {
		t.RepeatsMin, t.Precision = &p.Profile.RepeatsMin, &p.Profile.Precision
	}
	if d := p.Profile.startDeadline(); d.set {
		left := math.Round(d.left().Seconds())
		fit := p.fitting(d.left())
		t.DeadlineS, t.ReplicatesFit = &left, &fit
	}
	return t
}
