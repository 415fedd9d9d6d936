package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"qdsweep/sysfs"
)

// lastLook is what a drive gets that did not answer within all of its time before.
const lastLook = time.Second

// restoreAll puts back every member whose originals are recorded, all at once, and removes the entries of those that
// read back. It is not interruptible. A member that fails stays recorded: it is tried again by the next call, and
// gets no settings any more.
func (s *server) restoreAll() []Restored {
	var todo []*member
	originals := map[string]sysfs.Snapshot{}
	patience := map[string]time.Duration{}
	all := []Restored{}
	for _, m := range s.members {
		switch {
		case m.entry == nil:
			continue
		case m.stuck != nil && m.busy():
			all = append(all, *m.stuck) // its thread is still in the kernel with the last try
			continue
		}
		todo = append(todo, m)
		originals[m.Key()] = *m.entry.Snapshot
		patience[m.Key()] = s.restoreTimeout
		if m.stuck != nil {
			// It had its time. Whoever asks again wants to end, and gets a last look.
			patience[m.Key()] = min(s.restoreTimeout, lastLook)
		}
	}
	if len(todo) == 0 {
		return all
	}
	_, errs := each(context.Background(), todo, slices.Max(slices.Collect(maps.Values(patience)))+jobGrace, func(m Member) (struct{}, error) {
		return struct{}{}, s.putBack(m, originals[m.Key()], patience[m.Key()])
	})
	var back []*member
	var entries []Entry
	for i, m := range todo {
		if errs[i] == nil {
			back, entries = append(back, m), append(entries, *m.entry)
			m.recorded = false
		}
	}
	cleared := s.j.Clear(entries...)
	for i, m := range todo {
		r := Restored{Member: m.Identity, Name: m.Name}
		m.applied, m.stuck = nil, nil
		switch {
		case errs[i] != nil:
			r.Err, r.ByHand, r.Stuck = reason(errs[i]), byHand(errs[i]), errors.Is(errs[i], sysfs.ErrStuck)
			m.dead = "it could not be restored"
			if r.Stuck {
				m.stuck = &r
			}
		case cleared != nil:
			// As it was, but still recorded. It keeps its entry, so it is not snapshotted again.
			r.Err = "all settings are as they were, but: " + cleared.Error()
		}
		all = append(all, r)
	}
	if cleared == nil {
		for _, m := range back {
			m.entry = nil
		}
	}
	return all
}

// putBack restores one member, on its thread, wherever the drive is now.
func (s *server) putBack(m Member, original sysfs.Snapshot, patience time.Duration) (err error) {
	defer caught(&err)
	d, err := find(s.h, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return d.Restore(ctx, original)
}

// reason is an error without what else is said: that it is not restored, and the commands.
func reason(err error) string {
	var e *sysfs.RestoreError
	if !errors.As(err, &e) || len(e.Items) == 0 {
		return err.Error()
	}
	var parts []string
	for _, i := range e.Items {
		have := i.Have
		if have == "" {
			have = "unknown"
		}
		part := fmt.Sprintf("%s is %s, was %s", i.Knob, have, i.Want)
		if i.Err != "" {
			part += " (" + i.Err + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func byHand(err error) []string {
	var e *sysfs.RestoreError
	if errors.As(err, &e) {
		return e.ByHand()
	}
	return nil
}
