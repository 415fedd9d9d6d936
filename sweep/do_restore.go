package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"qdsweep/sweep/keeper"
)

// restoreLimit bounds one restore, write caches included (design section 4: 60 s at most, then named).
const restoreLimit = 60 * time.Second

const (
	// restoreGrace is for the keeper to say, after all of that, which members it left.
	restoreGrace = 15 * time.Second
	// reviveLimit bounds the start of another keeper, its wait for the dead one's locks (twice 10 s), and one restore.
	reviveLimit = restoreLimit + 75*time.Second
)

// keeperLimit bounds what the keeper is asked for beside restoring. It gives each drive 20 s for each setting by itself, all drives at once, so a keeper that
// has not answered by then is itself stuck: the disk of the state folder does not answer.
const keeperLimit = 5 * time.Minute

// restore puts everything back. It runs under no context of the sweep: a second Ctrl-C changes nothing. A keeper that died is replaced here,
// also where this run has changed nothing: no other run can go on without one.
func (s *Sweep) restore(t *transaction) {
	t.restored = true
	dead := s.keeperDead()
	if !t.touched && !dead {
		return
	}
	var put []keeper.Restored
	var err error
	if !dead {
		s.event(Event{Kind: PhaseBegan, Run: t.run, Phase: "restore"})
		ctx, cancel := context.WithTimeout(context.Background(), s.restorePatience())
		defer cancel()
		put, err = s.keeper.Restore(ctx)
		dead = errors.Is(err, keeper.ErrKeeperDied) || s.keeperDead()
	}
	if dead {
		put, err = s.reviveKeeper() // when the rows are measured the run counts all the same
	}
	t.restored = s.left(t.at, t.touched, put, err)
	if dead && t.end == nil && s.orphaned == nil && t.restored { // of a run that is begun again the loop says it
		s.note("the keeper died; a new one put every setting back, and the run %s counts", t.run.ID)
	}
}

// left notes what restoring left of the members, and says whether all is as it was. Where there was no answer it is not known of any: that is said, and is
// no "as it was". A member that is not as it was gets no further run, on any target.
func (s *Sweep) left(h *hold, touched bool, put []keeper.Restored, err error) (restored bool) {
	known, own := map[string]bool{}, map[string]bool{}
	for _, d := range h.stack.Settable() {
		own[d.Name] = true
	}
	restored = true
	for _, p := range put {
		known[p.Name] = true
		// A keeper tries what it could not put back again with each restore: its last word counts.
		s.unrestored = slices.DeleteFunc(s.unrestored, func(r keeper.Restored) bool { return r.Name == p.Name })
		if p.Err != "" {
			restored = restored && !own[p.Name]
			s.unrestored = append(s.unrestored, p)
			s.endMember(p.Name, "a setting of "+p.Name+" could not be restored")
		}
	}
	var named *keeper.NotRestoredError
	if err == nil || errors.As(err, &named) {
		return restored
	}
	s.orphaned = err // no run goes on without a keeper
	if !touched {
		return restored // all was as it was before
	}
	for _, m := range h.stack.Settable() {
		if !known[m.Name] {
			s.unrestored = append(s.unrestored, keeper.Restored{Member: m.Identity, Name: m.Name, Err: fmt.Sprintf("whether it is as it was is not known: %v", err)})
		}
	}
	return false
}

// keeperPatience is how long the keeper may take to answer anything but a restore.
func (s *Sweep) keeperPatience() time.Duration { return cmp.Or(s.opt.answers, keeperLimit) }

// restorePatience is longer than the keeper itself gives to drives, so that it is the keeper who says which did not answer.
func (s *Sweep) restorePatience() time.Duration {
	if s.opt.patience > 0 {
		return s.opt.patience
	}
	return restoreLimit + restoreGrace
}
