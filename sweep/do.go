package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/workload"
)

// do is one run, as one transaction (design section 4). The numbers are the design's.
func (s *Sweep) do(outer context.Context, r Run) error {
	ctx, stop := s.underKeeper(outer)
	defer stop()
	t := s.begin(r)
	s.beforeRun(ctx, t)
	s.stand(ctx, t) // what is built stands
	s.gate(ctx, t)  // 1
	s.apply(ctx, t) // 2, 3: the keeper snapshots, journals, applies and reads back
	s.lookBefore(ctx, t)
	for _, spec := range t.specs { // 4
		s.prepare(ctx, t, spec)
		s.work(ctx, t, spec)
	}
	s.drain(ctx, t)    // 5
	s.readBack(ctx, t) // 6
	s.lookBehind(ctx, t)
	s.restore(t)            // 7: whatever happened before, and not interruptible
	err := s.append(ctx, t) // 8
	s.afterRun(outer, t)
	return err
}

// underKeeper ends a run when the keeper dies: none goes on without one.
func (s *Sweep) underKeeper(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	died, over := s.keeper.Died(), make(chan struct{})
	go func() {
		select {
		case <-died:
			cancel(keeper.ErrKeeperDied)
		case <-over:
		}
	}()
	return ctx, func() { close(over); cancel(nil) }
}

func (s *Sweep) begin(r Run) *transaction {
	t := &transaction{run: r, at: s.holdOf(r), set: r.Cell.Settings(), started: time.Now(), clocks: runClocks(), skipped: r.Skip}
	specs, err := r.Cell.Specs(s.plan.Profile.Workloads)
	if err != nil { // the plan has checked every cell
		t.fail(nil, results.Error.With(err.Error()))
	}
	t.specs = specs
	s.event(Event{Kind: RunBegan, Run: r, Started: t.started})
	return t
}

// gate checks that target and members are those the sweep started with, healthy and allowed.
func (s *Sweep) gate(ctx context.Context, t *transaction) {
	if !t.measuring() {
		return
	}
	if err := ctx.Err(); err != nil {
		t.end = context.Cause(ctx)
		return
	}
	if s.worker == nil { // the last one was killed, or died
		if err := s.startWorker(ctx); err != nil {
			t.end = err
			return
		}
	}
	if err := s.waitForResync(ctx, t.at); err != nil {
		t.end = err
		return
	}
	t.until = time.Now().Add(s.timeout()) // the wait is bounded by itself, and is none of the run's time
	refusals, err := s.host.Recheck(ctx, t.at.stack, s.intent(t.at))
	s.refused(ctx, t, refusals, err)
}

// refused gives the target up where the gate refuses it, or could not look.
func (s *Sweep) refused(ctx context.Context, t *transaction, refusals []sysfs.Refusal, err error) {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		t.end = cause // a signal, or a dead keeper, says nothing of the target
	} else if err != nil {
		t.end = &errEnd{reason: fmt.Sprintf("check the target before a run: %v", err)}
	} else if len(refusals) > 0 {
		t.end = &errEnd{reason: (&RefusedError{Refusals: refusals}).Error()}
	}
}

// apply has the keeper record and make the settings. What a device turns out not to be able to do is judged here, by `unsupported`.
func (s *Sweep) apply(ctx context.Context, t *transaction) {
	if !t.measuring() || len(t.set) == 0 {
		return
	}
	t.touched = true
	apply := s.keeper.ApplyWhole
	if s.plan.Profile.Unsupported == Record {
		apply = s.keeper.Apply // what a device has not got is left out, and the run done all the same
	}
	actx, cancel := context.WithTimeout(ctx, s.keeperPatience())
	defer cancel()
	applied, err := apply(actx, orders(t.at.stack, t.set))
	t.applied = applied
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if errors.Is(err, keeper.ErrKeeperDied) || ctx.Err() != nil {
			t.end = err
			return
		}
		s.notApplied(t, err.Error())
		return
	}
	s.judgeApplied(t)
}

// notApplied fails the run whose settings could not be made. Where that is because a member went away, what failed on the way is not what happened.
func (s *Sweep) notApplied(t *transaction, why string) {
	reason := results.NotApplied
	for _, m := range t.at.stack.Members {
		if now, err := s.host.Device(m.Name); errors.Is(err, sysfs.ErrNoDevice) || err == nil && now.Identity != m.Identity {
			reason = results.DeviceLost
		}
	}
	t.fail(nil, reason.With(why))
}

// judgeApplied compares what was asked with what reads back.
func (s *Sweep) judgeApplied(t *transaction) {
	for _, a := range t.applied {
		var reason string
		switch {
		case a.NotTried: // the one that failed has its own reason
			continue
		case a.Unsupported:
			reason = results.Unsupported.With(fmt.Sprintf("%s: %s %s: %s", a.Name, a.Knob, a.Level, a.Err))
		case a.Err != "":
			s.notApplied(t, fmt.Sprintf("%s: set %s to %s: %s", a.Name, a.Knob, a.Level, a.Err))
			continue
		case a.Effective != a.Level:
			reason = results.ClampedReason(a.Knob, a.Level, a.Effective) + " (" + a.Name + ")"
		default:
			continue
		}
		switch s.plan.Profile.Unsupported {
		case "skip":
			t.skipped = reason
		case "record":
			t.remarks = append(t.remarks, reason)
		default:
			t.fail(nil, reason)
		}
	}
}

// prepare makes the ground even before a workload: the target synced, the drives' caches flushed, its page cache dropped, the members at rest.
func (s *Sweep) prepare(ctx context.Context, t *transaction, spec workload.Spec) {
	if !t.measuring() {
		return
	}
	s.event(Event{Kind: PhaseBegan, Run: t.run, Phase: "settle"})
	err := s.quiesce(ctx, t.at)
	if err == nil {
		err = s.dropCache(ctx, t.at)
	}
	if err != nil {
		s.problem(ctx, t, &spec, err, "prepare")
		return
	}
	rested, err := s.rest(ctx, t.at, s.plan.Profile.Settle)
	if err != nil {
		s.problem(ctx, t, &spec, err, "prepare")
		return
	}
	t.restless = !rested
	s.lookInForce(ctx, t)
}

// work lets the worker do one workload, under the run's timeout, while the members are observed.
func (s *Sweep) work(ctx context.Context, t *transaction, spec workload.Spec) {
	if !t.measuring() {
		return
	}
	s.event(Event{Kind: PhaseBegan, Run: t.run, Phase: spec.Name})
	wctx, cancel := context.WithDeadlineCause(ctx, t.until, errTimeout)
	defer cancel()
	shares := t.at.shares
	if spec.SG() {
		shares = t.at.beside()
	}
	before := tallies(shares, true)
	o := observe(t.at.names, t.at.probes)
	s.began = func(phase string) { s.event(Event{Kind: PhaseBegan, Run: t.run, Phase: spec.Name + ": " + phase}) }
	found, err := s.worker.Run(wctx, spec, s.target(t.at, spec), s.seedOf(t.run, spec))
	o.finish()
	var suspect []string
	if after := tallies(shares, false); spec.SG() {
		suspect = foreignBeside(shares, before, after, operations(found))
	} else {
		suspect = foreign(shares, before, after)
	}
	if t.restless {
		suspect = append(suspect, string(results.NotAtRest))
	}
	suspect = append(suspect, t.lasting...)
	celsius, warm := s.temperature(ctx, t.at)
	t.latest = len(t.phases)
	for _, r := range found {
		if r.Err != "" {
			t.failPhase(&spec, r)
			if r.Lost {
				s.end(t.at, fmt.Sprintf("%s is lost: %s", t.at.stack.Target, r.Err))
			}
			continue
		}
		t.phases = append(t.phases, phase{spec, r, o.summarise(r, found...), slices.Clone(suspect), celsius, warm})
	}
	if err != nil {
		s.problem(wctx, t, &spec, err, "work")
		s.dropWorker()
	}
	if t.end == nil {
		s.lookForSigns(ctx, t)
	}
}

func operations(found []workload.Result) (n int64) {
	for _, r := range found {
		n += r.Operations
	}
	return n
}

var errTimeout = errors.New("timeout")

// problem sorts an error of a step into what becomes of the run: given up (a signal, a dead keeper), or failed.
func (s *Sweep) problem(ctx context.Context, t *transaction, spec *workload.Spec, err error, step string) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, workload.ErrStuck):
		t.fail(spec, results.StuckInKernel.With(step+": the worker was still there 10 s after SIGKILL"))
		s.stuck(t.at)
	case cause == nil && errors.Is(err, sysfs.ErrStuck):
		t.fail(spec, results.StuckInKernel.With(fmt.Sprintf("%s: %v", step, err)))
		s.stuck(t.at)
	case errors.Is(cause, errTimeout):
		t.fail(spec, results.Timeout.With(fmt.Sprintf("the run took longer than %v", s.timeout())))
	case cause == nil && errors.Is(err, errTimeout):
		t.fail(spec, results.Timeout.With(fmt.Sprintf("%s took longer than %v, the timeout of a run", step, s.timeout())))
	case cause == nil && s.keeperDead(): // and the context is about to end for it
		t.end = keeper.ErrKeeperDied
	case cause == nil && errors.Is(err, context.DeadlineExceeded): // the workload's own
		t.fail(spec, results.Timeout.With(err.Error()))
	case cause == nil && errors.Is(err, workload.ErrDied):
		t.fail(spec, results.WorkerDied.With(err.Error()))
	case cause != nil:
		t.end = cause
	case errors.Is(err, keeper.ErrKeeperDied):
		t.end = err
	default:
		t.fail(spec, results.Error.With(fmt.Sprintf("%s: %v", step, err)))
	}
}

// drain writes what the run left dirty while its settings are still in force. An abandoned run is not drained: it is restored at once.
func (s *Sweep) drain(ctx context.Context, t *transaction) {
	if t.end != nil || !t.touched && len(t.phases) == 0 || t.at.ended != "" {
		return
	}
	s.event(Event{Kind: PhaseBegan, Run: t.run, Phase: "drain"})
	began := time.Now()
	err := s.quiesce(ctx, t.at)
	if err == nil {
		err = s.drained(ctx, t.at, s.timeout())
	}
	if err == nil {
		t.drain, t.drained = time.Since(began), true
		return
	}
	s.problem(ctx, t, nil, err, "drain")
}

// readBack looks whether a setting moved while the workload ran: by an error handler, udev, tuned or a colleague.
func (s *Sweep) readBack(ctx context.Context, t *transaction) {
	if t.end != nil || !t.touched || t.at.ended != "" {
		return
	}
	cctx, cancel := context.WithTimeout(ctx, s.keeperPatience())
	defer cancel()
	moved, err := s.keeper.Check(cctx)
	if err != nil {
		s.problem(ctx, t, nil, err, "read the settings back")
		return
	}
	for _, m := range moved {
		t.suspect = append(t.suspect, results.Moved.With(m.String()))
	}
}

// append writes the run's rows, all of them or none.
func (s *Sweep) append(ctx context.Context, t *transaction) error {
	if t.end != nil {
		s.event(Event{Kind: RunAbandoned, Run: t.run, Reason: t.end.Error()})
		return errors.Join(t.end, s.orphaned)
	}
	rows := s.rows(t)
	t.became, t.why = results.RunStatus(rows), results.RunReason(rows)
	if err := s.record(ctx, rows); err != nil {
		return s.keepElsewhere(t.run, rows, err)
	}
	if err := s.count(t.run, rows); err != nil {
		return err
	}
	s.remember(t.run, rows)
	s.event(Event{Kind: RunEnded, Run: t.run, Rows: rows, Took: time.Since(t.started)})
	s.watchFailures(t)
	return s.orphaned
}
