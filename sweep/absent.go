package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
)

// A sweep of several targets that is gone on with does without one that is not there, that is another one now, or that still has the settings of a start that
// did not end well: its runs are left remaining, in their places, and the others are done. One drive that died shall not cost the night of all others.

// goOnWithout leaves a target out of this start.
func (s *Sweep) goOnWithout(was begunTarget, refusals []sysfs.Refusal) {
	t := &Target{Level: *was.Level, absent: reasonsOf(refusals)}
	// Its devices are not in it: their names may be those of others now. What it could hold is, by which cells are left out on all targets.
	t.Stack.Target, t.Stack.Directory = was.Target, was.Directory
	if was.Device != nil {
		t.Stack.Bytes = was.Device.Bytes
	}
	s.before.absent = append(s.before.absent, t)
	s.before.refusals = append(s.before.refusals, refusals...)
	s.tell("%s: its runs are left remaining: %s", t.name(), t.absent)
}

// reasonsOf are the reasons alone, each once, on one line.
func reasonsOf(refusals []sysfs.Refusal) string {
	var all []string
	for _, r := range refusals {
		if !slices.Contains(all, r.Reason) {
			all = append(all, r.Reason)
		}
	}
	return strings.Join(all, "; ")
}

// absentAt is the absent target that a level picks, nil for one that is there.
func absentAt(absent []*Target, l Level) *Target {
	for _, t := range absent {
		if t.Level == l {
			return t
		}
	}
	return nil
}

// present are those of the targets that are there.
func present(targets []*Target) []*Target {
	return slices.DeleteFunc(slices.Clone(targets), func(t *Target) bool { return t.absent != "" })
}

// absentNow are the targets that this start does without.
func (s *Sweep) absentNow() []*Target {
	if s.before == nil {
		return nil
	}
	return s.before.absent
}

// claimWithout has the keeper lock what the targets lie on. A sweep that is gone on with does without those that still have settings of an earlier start,
// as long as one is left.
func (s *Sweep) claimWithout(ctx context.Context, targets []*Target) ([]*Target, error) {
	for {
		var all []keeper.Member
		for _, t := range targets {
			all = addMembers(all, t.Stack)
		}
		err := s.keeper.Claim(ctx, all, s.opt.Wait)
		var left *keeper.UnrestoredError
		if s.before == nil || !errors.As(err, &left) {
			return targets, err
		}
		lies := func(t *Target) bool {
			return t.Built() || slices.ContainsFunc(t.Stack.Settable(), func(d sysfs.Device) bool { return d.Name == left.Name })
		}
		rest := slices.DeleteFunc(slices.Clone(targets), lies)
		if len(rest) == 0 || len(rest) == len(targets) {
			return nil, err
		}
		s.nameTargets(targets)
		for i, was := range begunTargets(targets) {
			if lies(targets[i]) {
				s.goOnWithout(was, []sysfs.Refusal{{Reason: left.Error()}})
			}
		}
		targets, s.before.unrestored = rest, true
	}
}

// someRunLeft refuses a start in which nothing could be done: what is left is all on targets that it does without.
func (s *Sweep) someRunLeft() error {
	if len(s.absentNow()) == 0 {
		return nil
	}
	for r := range s.plan.Runs() {
		if _, due := s.due(r); due && s.plan.TargetOf(r.Cell).absent == "" {
			return nil
		}
	}
	return &RefusedError{s.before.refusals}
}

// begunNow are the targets as this start found them; those that it does without as they were when they were there.
func (s *Sweep) begunNow() []begunTarget {
	now := begunTargets(s.plan.Targets)
	for i, was := range s.before.targets() {
		if was.Level != nil && absentAt(s.before.absent, *was.Level) != nil {
			was.BootID = s.before.bootOf(was)
			now = slices.Insert(now, min(i, len(now)), was)
		}
	}
	return now
}

// keepConsents keeps what was allowed for the targets that this start does without, for the one in which they are back.
func (s *Sweep) keepConsents(c *consent) {
	if len(s.absentNow()) == 0 {
		return
	}
	was := s.before.consent
	for _, d := range was.Named {
		if !slices.ContainsFunc(c.Named, func(have begunDevice) bool { return have.argument() == d.argument() }) {
			c.Named = append(c.Named, d)
		}
	}
	c.Contents = maps.Clone(was.Contents)
}

// targets are those of the sweep's last start; none of a version that did not record them.
func (b *begun) targets() []begunTarget {
	if b == nil {
		return nil
	}
	return b.starts[len(b.starts)-1].Targets
}

// bootOf is the boot in which a target of the last start was there: a name says something in that one alone.
func (b *begun) bootOf(t begunTarget) string {
	return cmp.Or(t.BootID, b.starts[len(b.starts)-1].BootID)
}

// another says how a target of the sweep is not what it was: a drive of it is not there, or it lies on others.
func (s *Sweep) another(i int, boot string) ([]sysfs.Refusal, error) {
	targets := s.before.targets()
	if refusals := s.missing(targets[i]); len(refusals) > 0 {
		return refusals, nil
	}
	var others []*Target
	for j, other := range targets {
		if j != i && other.Level != nil {
			others = append(others, &Target{Level: *other.Level})
		}
	}
	now, err := s.profile.resolveTargets(s.host, others)
	var notHere *NotHere
	switch {
	case errors.As(err, &notHere):
		return notHere.Refusals, nil
	case err != nil:
		return nil, err
	case len(now) != len(targets):
		return []sysfs.Refusal{{Reason: fmt.Sprintf("the sweep has %d targets, and had %d", len(now), len(targets))}}, nil
	}
	return differs(targets[i], begunTargets(now[i : i+1])[0], boot == s.before.bootOf(targets[i])), nil
}
