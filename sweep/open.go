package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
)

// open does all that comes before the first run. What can refuse comes first; nothing is made before everything has agreed.
func (s *Sweep) open(ctx context.Context) error {
	if s.before == nil {
		if err := checkOut(s.opt.Out); err != nil {
			return err
		}
		if err := s.checkHistory(); err != nil {
			return err
		}
		if err := s.absoluteState(); err != nil {
			return err
		}
		s.id = newSweepID(time.Now(), s.profile.Scaled != nil)
	} else if err := s.sameMachine(); err != nil {
		return err
	}
	targets, err := s.judgeEarly(ctx)
	if err != nil {
		return err
	}
	if err := s.judgePlaces(targets); err != nil {
		return err
	}
	s.hostname, _ = os.Hostname()
	if targets, err = s.startKeeper(ctx, targets); err != nil {
		return err
	}
	// Only now, under the locks, is what reads on the members theirs: before, it may have been what another sweep had set.
	if s.plan, err = s.newPlan(ctx); err != nil {
		return err
	}
	if err := s.sameMembers(targets); err != nil {
		return err
	}
	if s.before == nil {
		s.ledger = newLedger(s.plan.Profile)
	}
	s.audit.Planned = s.plan.Count()
	if s.before != nil && s.opt.RetryFailed {
		s.repeats = s.audit.Failed + s.audit.Suspect
	}
	if err := s.someRunLeft(); err != nil {
		return err
	}
	if err := s.startPace(); err != nil {
		return err
	}
	if err := s.judge(ctx); err != nil {
		return err
	}
	if s.before != nil {
		if err := s.foreignContents(ctx); err != nil {
			return err
		}
	}
	s.makeHolds()
	if err := s.resolveParts(); err != nil {
		return err
	}
	waited, err := s.claimAll(ctx)
	if err != nil {
		return err
	}
	if waited { // whoever had it may have left something on it that --erase does not name well enough
		if err := s.judge(ctx); err != nil {
			return err
		}
	}
	s.watchKernel()
	folder := s.openFolder
	if s.before != nil {
		folder = s.goOn
	}
	if err := folder(ctx); err != nil {
		return err
	}
	if err := s.beforeSweep(ctx); err != nil {
		return err
	}
	if err := s.startWorker(ctx); err != nil {
		return err
	}
	for _, h := range s.holds {
		if h.target.Built() || h.target.absent != "" {
			continue
		}
		if err := h.watchMembers(s.host); err != nil {
			return err
		}
		if err := s.layOut(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// absoluteState makes the state folder's path whole: mount points below it are recorded, and looked for by their whole path.
func (s *Sweep) absoluteState() error {
	if s.opt.StateDir == "" {
		return nil // which the keeper refuses
	}
	dir, err := filepath.Abs(s.opt.StateDir)
	if err == nil {
		s.opt.StateDir = dir
	}
	return err
}

// sameMembers refuses when a target came to lie on other disks while we waited for the first ones: those are locked, these would be set.
func (s *Sweep) sameMembers(locked []*Target) error {
	names := func(targets []*Target) string {
		var claimed []keeper.Member
		for _, t := range targets {
			claimed = addMembers(claimed, t.Stack)
		}
		var all []string
		for _, m := range claimed {
			all = append(all, m.Name+" ("+m.Key()+")")
		}
		return strings.Join(all, ", ")
	}
	was, now := names(locked), names(s.plan.Targets)
	if was == now {
		return nil
	}
	return &RefusedError{[]sysfs.Refusal{{Device: s.plan.together().Target, Reason: fmt.Sprintf("lay on %s and lies on %s now", was, now), Fix: "type it again, if that is meant"}}}
}

func (s *Sweep) newPlan(ctx context.Context) (*Plan, error) {
	plan, err := NewPlan(ctx, s.profile, s.host, PlanOptions{Allow: s.opt.Allow, Erase: s.opt.Erase, absent: s.absentNow()})
	if err == nil {
		s.nameTargets(plan.Targets)
	}
	return plan, err
}

// judgeEarly refuses what can be refused before anything is made, with all reasons at once, and finds the target. A plan that fails on this machine is no
// reason yet: a sweep that has the members may have set what it fails on.
func (s *Sweep) judgeEarly(ctx context.Context) ([]*Target, error) {
	plan, err := s.newPlan(ctx)
	var notHere *NotHere
	switch {
	case err == nil:
		s.plan = plan
		if err := s.judge(ctx); err != nil && !s.builtBefore(plan.Targets) {
			return nil, err
		}
		return plan.Targets, nil
	case !errors.As(err, &notHere):
		return nil, err
	case s.host.Live() && os.Geteuid() != 0:
		return nil, err // whoever has the members, this user may not claim them
	}
	targets, resolveErr := s.profile.resolveTargets(s.host, s.absentNow())
	if resolveErr != nil {
		return nil, resolveErr
	}
	targets = present(targets)
	for _, t := range targets {
		if len(t.Stack.Members) == 0 {
			return nil, err
		}
	}
	return targets, nil
}

// intent is what this sweep wants to do with a target, or with each of them (nil), for the safety gate.
func (s *Sweep) intent(h *hold) sysfs.Intent {
	in := sysfs.Intent{Write: s.plan.Writes(), Erase: s.opt.Erase, SharedDisk: s.opt.Allow["shared-disk"], NeedKnobs: s.plan.NeedsKnobs(), OwnPIDs: []int{os.Getpid()}}
	if s.keeper != nil {
		in.OwnPIDs = append(in.OwnPIDs, s.keeper.PID())
	}
	if s.worker != nil {
		in.OwnPIDs = append(in.OwnPIDs, s.worker.PID())
	}
	if h != nil {
		in.Siblings = s.siblings(h)
	}
	return in
}

func (s *Sweep) judge(ctx context.Context) error {
	refusals, notes, err := s.plan.judgeTargets(ctx, s.host, s.intent(nil))
	if err != nil {
		return err
	}
	if refusals = slices.Concat(refusals, s.plan.refuseReadOnly(s.host), s.plan.refuseHooks(s.opt.Allow)); len(refusals) > 0 {
		return &RefusedError{refusals}
	}
	if s.before != nil { // what was allowed at first may be for a target that this start does without
		notes = slices.DeleteFunc(notes, func(n string) bool {
			return slices.ContainsFunc(s.opt.Erase, func(e string) bool { return n == sysfs.UnusedErase(e) && !slices.Contains(s.before.typed, e) })
		})
	}
	s.notes = notes
	return nil
}

// judgePlaces refuses to keep the journal or the rows where a power loss, or our own writes, would take them.
func (s *Sweep) judgePlaces(targets []*Target) error {
	var refusals []sysfs.Refusal
	for _, place := range []struct{ what, dir, flag string }{{"the state folder", s.opt.StateDir, "--state-dir"}, {"the output folder", s.opt.Out, "--out"}} {
		dir, err := filepath.Abs(place.dir)
		if err != nil {
			return err
		}
		if !s.opt.Allow["volatile-state"] {
			fs, err := volatileFS(dir)
			if err != nil {
				return err
			}
			if fs != "" {
				refusals = append(refusals, sysfs.Refusal{Device: dir, Reason: fmt.Sprintf("%s is on %s, which does not survive a power loss", place.what, fs),
					Fix: fmt.Sprintf("name a folder on a disk with %s, or accept the loss with --allow volatile-state", place.flag)})
			}
		}
		if s.opt.Allow["shared-disk"] || !s.host.Live() {
			continue
		}
		below, err := s.host.ResolveDirectory(existing(dir))
		if err != nil {
			continue // no block device below it: not one of ours
		}
		for _, m := range below.Members {
			if slices.ContainsFunc(targets, func(t *Target) bool {
				return slices.ContainsFunc(t.Stack.Members, func(d sysfs.Device) bool { return d.Name == m.Name })
			}) {
				refusals = append(refusals, sysfs.Refusal{Device: m.Name, Reason: fmt.Sprintf("%s %s is on this disk, which the sweep measures: its own writes would be in the figures", place.what, dir),
					Fix: fmt.Sprintf("name a folder on another disk with %s, or accept it with --allow shared-disk", place.flag)})
			}
		}
	}
	if len(refusals) > 0 {
		return &RefusedError{refusals}
	}
	return nil
}

// close gives up everything that was taken, in the reverse order. It is called once, also when open failed half-way.
func (s *Sweep) close() error {
	var errs []error
	if s.worker != nil {
		s.worker.Close()
	}
	s.closing = true
	for _, h := range s.holds {
		if h.standing == nil {
			errs = append(errs, s.letGo(h))
			continue
		}
		s.strike(h) // what is left of it is in unrestored
	}
	for _, p := range s.parts {
		p.drop()
	}
	if s.kernelLog != nil {
		errs = append(errs, s.kernelLog.Close())
	}
	if s.keeper != nil {
		var named *keeper.NotRestoredError // what it names is in unrestored already
		err := s.keeper.Close()
		if err != nil && !errors.Is(err, keeper.ErrKeeperDied) && !(errors.As(err, &named) && len(s.unrestored) > 0) {
			errs = append(errs, err)
		}
	}
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// leave ends what tells of the sweep, and says in status.json how it ended: why before its last run, the exit code, and what to type. It comes last:
// what was built is taken down before, and after_sweep is told of, too.
func (s *Sweep) leave(stopped string, code int, next string) {
	s.status.end(stopped, code, next)
	s.logFile.Close()
}
