package sweep

import (
	"fmt"
	"os"
	"time"

	"qdsweep/sweep/results"
)

// pace decides before each run whether the sweep goes on, and says how long it takes yet: by its deadline, its precision, and the estimate that both the
// deadline and the user go by.
type pace struct {
	estimate  *estimate
	deadline  deadline
	precision *precision // nil where the number of replicates is fixed

	begun     int       // the last replicate of which a run was done
	done      []int32   // runs done, by replicate - 1
	whole     int       // replicates done without a run missing, one after another
	expected  int       // the replicate that is likely to be the last
	gone      int       // targets that get no further run
	found     certainty // as of the last whole replicate
	byTime    bool      // the deadline ended it
	satisfied bool      // the precision ended it

	run  Run // the one going on; without an ID between two
	took time.Time
}

// startPace begins when the plan is made, for the deadline counts from there. A sweep that is resumed has its results.csv by then.
func (s *Sweep) startPace() error {
	s.pace = &pace{estimate: s.plan.newEstimate(), deadline: s.plan.Profile.startDeadline(), expected: s.plan.Profile.Repeats}
	if s.plan.Profile.Adaptive() {
		s.pace.expected = s.plan.Profile.RepeatsMin // until something is known of the spread
		s.pace.precision = newPrecision(s.pace.estimate.walk.size())
	}
	if s.file == nil {
		return nil
	}
	return s.eachBefore(s.pace.estimate.walk, func(r Run, rows []results.Row) {
		s.remember(r, rows)
		s.pace.estimate.learn(r, s.about(rows))
	})
}

// remember is told of each run whose rows are in results.csv, in their order.
func (s *Sweep) remember(r Run, rows []results.Row) {
	p := s.pace
	if p.precision != nil {
		p.precision.add(int(r.number), rows)
	}
	p.begun = max(p.begun, r.Replicate)
}

// eachBefore goes through the runs of earlier starts, in the order of their rows. How long one took is in no column; what its rows say comes near.
func (s *Sweep) eachBefore(w *walk, remember func(Run, []results.Row)) error {
	f, err := os.Open(s.file.Path())
	if err != nil {
		return err
	}
	defer f.Close()
	var run []results.Row
	for row, err := range results.Read(f) {
		if err != nil {
			return err
		}
		if run = append(run, row); row.Row < row.Rows {
			continue
		}
		r, err := runNamed(run[0].Run)
		if err != nil {
			return err
		}
		if number, ok := w.number(r.Cell); ok {
			r.number = int32(number)
			remember(r, run)
		}
		run = run[:0]
	}
	return nil
}

// reachedBefore says that an earlier start has ended because its precision was reached: its last replicate is whole, and the rows say what they said then.
func (s *Sweep) reachedBefore(cells int) (bool, error) {
	done := s.audit.Done()
	replicates := done / max(cells, 1)
	if replicates < s.profile.RepeatsMin || replicates*cells != done {
		return false, nil
	}
	matrix := s.profile.Matrix
	w := matrix.walk()
	p, last := newPrecision(w.size()), 0
	if err := s.eachBefore(w, func(r Run, rows []results.Row) {
		p.add(int(r.number), rows)
		last = max(last, r.Replicate)
	}); err != nil || last != replicates {
		return false, err
	}
	found := p.worst(func(int) bool { return false })
	if !found.enough(s.profile.Precision) {
		return false, nil
	}
	s.tell("%s", s.reachedText(replicates, found))
	return true, nil
}

// about is how long a run took, by its rows.
func (s *Sweep) about(rows []results.Row) time.Duration {
	took := runOverhead + time.Duration(len(s.plan.Profile.Workloads))*s.plan.Profile.Settle
	var drain float64
	for _, row := range rows {
		if n, ok := row.Seconds.Get(); ok {
			took += seconds(n)
		}
		if n, ok := row.DrainS.Get(); ok {
			drain = max(drain, n)
		}
	}
	return took + seconds(drain)
}

// passed is told of each run in turn that need not be done.
func (s *Sweep) passed(r Run) {
	s.pace.estimate.passed(r)
	s.did(r.Replicate)
}

// did counts a run of a replicate that has its rows.
func (s *Sweep) did(replicate int) {
	p := s.pace
	for len(p.done) < replicate {
		p.done = append(p.done, 0)
	}
	p.done[replicate-1]++
	for p.whole < len(p.done) && int(p.done[p.whole]) >= s.plan.cells {
		p.whole++
	}
}

// enough says, before a run that is yet to be done, that the sweep ends here: the precision is reached, which is nil, or the deadline leaves no time. A
// replicate is begun only if all of it can be finished, the first if there is time for a run; and of one that was begun each run that can be.
func (s *Sweep) enough(r Run) (over bool, why error) {
	p := s.pace
	fresh := r.Replicate > p.begun
	if fresh && p.precision != nil && s.reached(r.Replicate-1) {
		return true, nil
	}
	if !p.deadline.set {
		return false, nil
	}
	p.estimate.toReplicate(r.Replicate)
	left, need, what := p.deadline.left(), seconds(p.estimate.of(r)), "the next run takes"
	if fresh && r.Replicate > 1 {
		need, what = p.estimate.whole(), "the next takes"
	}
	if need <= left {
		return false, nil
	}
	p.byTime = true
	return true, &errEnd{all: true, reason: fmt.Sprintf("%s: %s done, %s about %s, and %s", p.deadline.text, s.replicatesText(), what, timeText(need), leftText(left))}
}

func leftText(left time.Duration) string {
	if left <= 0 {
		return "no time is left"
	}
	return "there are " + timeText(left) + " left"
}

// replicatesText is how much was done: "3 of 5 replicates are".
func (s *Sweep) replicatesText() string {
	whole, all := s.pace.whole, fmt.Sprint(s.plan.Profile.Repeats)
	if s.plan.Profile.Adaptive() {
		all = fmt.Sprintf("%d to %s", s.plan.Profile.RepeatsMin, all)
	}
	verb := "are"
	if whole == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%d of %s replicates %s", whole, all, verb)
}

// reached says that the replicates so far are enough for the precision asked for. Then what was planned is what was done.
func (s *Sweep) reached(replicates int) bool {
	p, profile := s.pace, s.plan.Profile
	p.found = p.precision.worst(s.goneCell)
	if replicates >= 2 {
		p.expected = max(p.found.needs(profile.Precision, replicates, profile.Repeats), profile.RepeatsMin)
	}
	if replicates < profile.RepeatsMin || !p.found.enough(profile.Precision) {
		return false
	}
	p.satisfied = true
	s.audit.Planned = replicates * s.plan.cells
	s.note("%s", s.reachedText(replicates, p.found))
	return true
}

func (s *Sweep) reachedText(replicates int, found certainty) string {
	return fmt.Sprintf("precision %s reached: after %s every mean is known to %s or better", percentOf(s.profile.Precision), plural(replicates, "replicate"), found)
}

// lastWord says, when all replicates were done, how well the means are known that were to be known better.
func (s *Sweep) lastWord() {
	p, profile := s.pace, s.plan.Profile
	if p.precision == nil || p.satisfied || p.whole < profile.Repeats {
		return
	}
	if p.found = p.precision.worst(s.goneCell); !p.found.enough(profile.Precision) {
		s.note("precision %s not reached: after %s, which is the most, it is %s", percentOf(profile.Precision), plural(profile.Repeats, "replicate"), p.found)
	}
}

// goneCell says that a cell gets no further run.
func (s *Sweep) goneCell(cell int) bool {
	if s.pace.gone == 0 {
		return false
	}
	return s.holdOf(Run{Cell: s.pace.estimate.walk.cell(cell)}).ended != ""
}

// sufficient says that a sweep which its deadline ended has what makes it a good one all the same: as many whole replicates as are needed to say anything.
func (s *Sweep) sufficient() bool {
	if s.pace == nil || !s.pace.byTime {
		return false
	}
	least := min(2, s.plan.Profile.Repeats)
	if s.plan.Profile.Adaptive() {
		least = s.plan.Profile.RepeatsMin
	}
	return s.pace.whole >= least
}

// clock follows the runs, for the estimate.
func (s *Sweep) clock(e Event) {
	p := s.pace
	switch e.Kind {
	case RunBegan:
		p.run, p.took = e.Run, time.Now()
		p.estimate.toReplicate(e.Run.Replicate)
	case RunEnded:
		p.run = Run{}
		p.estimate.ran(e.Run, e.Took)
		s.did(e.Run.Replicate)
	case RunAbandoned:
		p.run = Run{}
	}
}

// timeLeft is how long the rest takes, by the estimate so far; below 0 where there is none yet.
func (s *Sweep) timeLeft() time.Duration {
	p := s.pace
	if p == nil || s.plan == nil {
		return -1
	}
	s.leaveOut()
	profile := s.plan.Profile
	rest := p.estimate.rest()
	if p.run.ID != "" {
		rest -= min(time.Since(p.took), seconds(p.estimate.of(p.run)))
	}
	more := max(p.expected-p.estimate.replicate, 0)
	whole := p.estimate.whole()
	if p.deadline.set && whole > 0 {
		more = min(more, max(int((p.deadline.left()-rest)/whole), 0))
	}
	if p.satisfied || p.byTime || profile.Repeats == p.whole {
		return 0
	}
	return max(rest, 0) + time.Duration(more)*whole
}

// leaveOut takes the cells of targets that get no further run out of the estimate.
func (s *Sweep) leaveOut() {
	gone := 0
	for _, h := range s.holds {
		if h.ended != "" {
			gone++
		}
	}
	if gone == s.pace.gone {
		return
	}
	s.pace.gone = gone
	s.pace.estimate.drop(func(c Cell) bool { return s.holdOf(Run{Cell: c}).ended != "" })
}
