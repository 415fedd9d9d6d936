package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"qdsweep/sysfs"
)

// recoverPatience is for a dead keeper's locks to go: the kernel drops them when it takes the process apart.
const recoverPatience = 10 * time.Second

// restoreJournal handles every entry: arrays are taken hold of, then all else is put back, drives all at once. So what is
// below an array is as it was before main takes the array down.
func (s *server) restoreJournal(ctx context.Context, o RestoreOptions) ([]EntryOutcome, error) {
	entries, err := s.j.Entries()
	if err != nil {
		return nil, err
	}
	if len(o.Forget) > 0 {
		return s.forget(ctx, entries, o)
	}
	return s.restoreEntries(ctx, entries, o), nil
}

func (s *server) outcome(e Entry) EntryOutcome {
	o := EntryOutcome{Key: e.Key(), Name: e.Name, Path: s.j.Path(e), Sweep: e.Sweep, Taken: e.Taken}
	switch {
	case e.Folder != nil:
		o.Name = e.Folder.Path
	case e.Array != nil:
		o.Name = e.Array.String()
	}
	return o
}

func (s *server) restoreEntries(ctx context.Context, entries []Entry, o RestoreOptions) []EntryOutcome {
	all := make([]EntryOutcome, len(entries))
	var down []Entry // arrays that main takes down
	until := time.Now().Add(o.Wait)
	for i, e := range entries {
		if e.Array == nil {
			continue
		}
		if all[i] = s.restoreArray(ctx, e, o, time.Until(until)); all[i].Array != nil {
			down = append(down, e)
		}
	}
	var members []*member
	var at []int // of each member, in entries
	byKey := map[string]int{}
	with := map[string]string{}
	for i, e := range entries {
		if e.Array != nil {
			continue
		}
		byKey[e.Key()] = i
		with[e.Key()] = s.withArray(e, down)
		at = append(at, i)
		members = append(members, newMember(Member{Name: e.Key()}, &claim{}))
	}
	// One thread an entry, as for members; a drive that does not answer leaves its own behind.
	patience := 2*o.Wait + nodePatience + s.restoreTimeout + jobGrace
	found, errs := each(context.WithoutCancel(ctx), members, patience, func(m Member) (out EntryOutcome, err error) {
		defer caught(&err)
		e := entries[byKey[m.Name]]
		if why := with[m.Name]; why != "" {
			return s.drop(ctx, e, o, why), nil
		}
		return s.restoreEntry(ctx, e, o), nil
	})
	for i, m := range members {
		all[at[i]] = found[i]
		if errs[i] != nil {
			out := s.outcome(entries[at[i]])
			out.State, out.Reason, out.Next = StateFailed, errs[i].Error(), "qdsweep restore"
			all[at[i]] = out
		}
		m.release()
	}
	return all
}

// drop removes an entry of which nothing has to be put back, and says why.
func (s *server) drop(ctx context.Context, e Entry, o RestoreOptions, why string) EntryOutcome {
	out := s.outcome(e)
	lock, err := takeLock(ctx, s.h, s.j, e.Key(), out.Name, s.main, o.Wait)
	if err != nil {
		return busyOutcome(out, err)
	}
	defer lock.Close()
	out.Notes = append(out.Notes, why)
	if o.DryRun {
		out.State, out.Next = StateWouldRestore, "qdsweep restore"
		return out
	}
	if err := s.j.Clear(e); err != nil {
		out.State, out.Reason, out.Next = StateFailed, "nothing of it has to be put back, but: "+err.Error(), "qdsweep restore"
		return out
	}
	out.State = StateRemoved
	return out
}

// survives says whether a snapshot holds anything that outlives a boot.
func survives(s sysfs.Snapshot) bool {
	s = s.Surviving()
	return s.WriteCache != "" || len(s.Attributes) > 0
}

// expired is for an entry of another boot, nothing of which outlives one: what is set now is the kernel's and udev's. It is
// compared, where the device is there and is known to be it, and removed.
func (s *server) expired(ctx context.Context, e Entry, o RestoreOptions) EntryOutcome {
	out := s.drop(ctx, e, o, "it is of another boot, and nothing of it outlives one")
	if out.State == StateRemoved {
		out.State = StateRestored
	}
	if e.Identity == "" {
		return out
	}
	d, err := find(s.h, Member{Name: e.Name, Identity: e.Identity})
	if err != nil {
		out.Notes = append(out.Notes, err.Error())
		return out
	}
	out.Now = d.Name
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.restoreTimeout)
	defer cancel()
	notes, err := s.leftAlone(ctx, e, d, nil)
	if err != nil {
		notes = append(notes, err.Error())
	}
	out.Notes = append(out.Notes, notes...)
	return out
}

func (s *server) restoreEntry(ctx context.Context, e Entry, o RestoreOptions) EntryOutcome {
	out := s.outcome(e)
	switch {
	case e.Damage != "":
		out.State, out.Reason = StateLeft, e.Damage
		out.Next = fmt.Sprintf("look into it, then: qdsweep restore --forget '%s'", e.Key())
		return out
	case e.Folder != nil:
		return s.restoreFolder(ctx, e, o, out)
	case e.BootID != s.boot && !survives(*e.Snapshot):
		return s.expired(ctx, e, o)
	case e.Identity == "" && e.BootID != s.boot:
		out.State, out.Reason = StateLeft, "it has no identity, so after a reboot it cannot be told from another drive"
		out.Notes = append(out.Notes, "its write_cache was "+e.Snapshot.WriteCache)
		out.Next = fmt.Sprintf("look at the drive, then: qdsweep restore --forget '%s'", e.Key())
		return out
	}
	m := Member{Name: e.Name, Identity: e.Identity}
	d, err := find(s.h, m)
	var changed *ChangedError
	switch {
	case errors.Is(err, sysfs.ErrNoDevice) || errors.As(err, &changed):
		// Its lock still tells whether a live sweep waits for it to come back.
		lock, busy := takeLock(ctx, s.h, s.j, e.Key(), e.Name, s.main, o.Wait)
		if busy != nil {
			return busyOutcome(out, busy)
		}
		_ = lock.Close()
		out.State, out.Reason = StateGone, err.Error()
		out.Next = fmt.Sprintf("put it back and: qdsweep restore; or, for good: qdsweep restore --forget '%s'", e.Key())
		return out
	case err != nil:
		out.State, out.Reason, out.Next = StateFailed, err.Error(), "qdsweep restore"
		return out
	}
	out.Now = d.Name
	c, err := take(ctx, s.h, s.j, d, s.main, o.Wait)
	if err != nil {
		var busy *BusyError
		if out = busyOutcome(out, err); errors.As(err, &busy) && busy.Dying && !o.DryRun {
			s.restoreHeld(e, d, &out)
		}
		return out
	}
	defer c.release()
	if now, ok := s.j.load(e.file()); !ok {
		// Its sweep has ended meanwhile, and well.
		out.State = StateRestored
		return out
	} else if now.Damage == "" {
		e = now
	}
	return s.restoreDrive(e, d, o, out)
}

// restoreHeld puts back a drive that a killed keeper holds, which has a thread in the kernel: the others of its drives need
// not wait for the one that does not answer. Which one that is nobody can see, and the command may still change something
// when it comes to its end: so the entry stays.
func (s *server) restoreHeld(e Entry, d sysfs.Device, out *EntryOutcome) {
	ctx, cancel := context.WithTimeout(context.Background(), s.restoreTimeout)
	defer cancel()
	if err := d.Restore(ctx, *e.Snapshot); err != nil {
		out.State, out.Reason, out.ByHand = StateFailed, reason(err), byHand(err)
		return
	}
	out.Reason = "all settings are as they were, but the entry stays: " + out.Reason
}

// takeOver takes the lock of a folder or an array. That it is free does not say that the sweep is dead: where only its keeper
// is, main starts another one, which must not find them gone.
func (s *server) takeOver(ctx context.Context, e Entry, name string, wait time.Duration) (*os.File, error) {
	for until := time.Now().Add(wait); ; {
		lock, err := takeLock(ctx, s.h, s.j, e.Key(), name, s.main, time.Until(until))
		if err != nil || !e.mainLives(s.boot) {
			return lock, err
		}
		_ = lock.Close()
		if !time.Now().Before(until) {
			return nil, &BusyError{Key: e.Key(), Name: name, PID: e.PID, By: commandLine(s.h, e.PID)}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(dyingPoll):
		}
	}
}

// busyOutcome is for a claim that failed.
func busyOutcome(out EntryOutcome, err error) EntryOutcome {
	var busy *BusyError
	if errors.As(err, &busy) {
		out.State, out.PID, out.Reason = StateBusy, busy.PID, err.Error()
		out.Next = "wait for it: qdsweep restore --wait 10m"
		if !busy.Node && !busy.Dying && busy.PID > 0 {
			out.Next = fmt.Sprintf("let it end, or end it (kill %d) and it restores by itself; or wait: qdsweep restore --wait 10m", busy.PID)
		}
		return out
	}
	out.State, out.Reason, out.Next = StateFailed, err.Error(), "qdsweep restore"
	return out
}

// restoreDrive puts back a drive that is there and ours.
func (s *server) restoreDrive(e Entry, d sysfs.Device, o RestoreOptions, out EntryOutcome) EntryOutcome {
	ctx, cancel := context.WithTimeout(context.Background(), s.restoreTimeout)
	defer cancel()
	ours := *e.Snapshot
	if e.BootID != s.boot {
		// The kernel and udev have set the rest since, maybe other ones than then: not ours to overwrite.
		ours = ours.Surviving()
	}
	before, err := d.Differences(ctx, ours)
	out.Moved = before
	if err == nil && e.BootID != s.boot {
		out.Notes, err = s.leftAlone(ctx, e, d, before)
	}
	if o.DryRun {
		out.State = StateWouldRestore
		if err != nil {
			out.Reason = err.Error()
		}
		out.Next = "qdsweep restore"
		return out
	}
	// Also where nothing differed, or comparing failed: Restore writes only what is not as it was.
	if err := d.Restore(ctx, ours); err != nil {
		out.State, out.Reason, out.ByHand, out.Next = StateFailed, reason(err), byHand(err), "qdsweep restore"
		return out
	}
	if err := s.j.Clear(e); err != nil {
		out.State, out.Reason, out.Next = StateFailed, "all settings are as they were, but: "+err.Error(), "qdsweep restore"
		return out
	}
	out.State = StateRestored
	return out
}

// leftAlone says how the rest of a drive differs from a journal of another boot.
func (s *server) leftAlone(ctx context.Context, e Entry, d sysfs.Device, ours []sysfs.Moved) ([]string, error) {
	all, err := d.Differences(ctx, *e.Snapshot)
	if err != nil {
		return nil, err
	}
	put := map[string]bool{}
	for _, m := range ours {
		put[m.Knob] = true
		if m.Knob == "write_cache" { // which the kernel's views of it follow
			put["cache_type"], put["queue/write_cache"] = true, true
		}
	}
	var notes []string
	for _, m := range all {
		if put[m.Knob] {
			continue
		}
		now := m.To
		if now == "" {
			now = "gone"
		}
		notes = append(notes, fmt.Sprintf("%s is %s, journal says %s: left alone", m.Knob, now, m.From))
	}
	return notes, nil
}

func (s *server) restoreFolder(ctx context.Context, e Entry, o RestoreOptions, out EntryOutcome) EntryOutcome {
	lock, err := s.takeOver(ctx, e, e.Folder.Path, o.Wait)
	if err != nil {
		return busyOutcome(out, err)
	}
	defer lock.Close()
	sameBoot := e.BootID == s.boot
	if o.DryRun {
		out.State, out.Next = StateWouldRestore, "qdsweep restore"
		if _, err := lookAt(e.Folder.Path); err == nil {
			out.Now = e.Folder.Path
		}
		return out
	}
	removed, err := removeFolder(*e.Folder, sameBoot)
	switch {
	case err != nil:
		out.Now, out.State, out.Reason = e.Folder.Path, StateLeft, err.Error()
		out.Next = fmt.Sprintf("look at it, remove it by hand, then: qdsweep restore --forget '%s'", e.Key())
		return out
	case !removed && !parentIs(*e.Folder, sameBoot):
		out.State, out.Reason = StateGone, "the file system that holds it is not mounted there"
		out.Next = fmt.Sprintf("mount it and: qdsweep restore; or: qdsweep restore --forget '%s'", e.Key())
		return out
	case !removed:
		out.Notes = append(out.Notes, "it was gone already")
	}
	if err := s.j.Clear(e); err != nil {
		out.State, out.Reason, out.Next = StateFailed, "it is removed, but: "+err.Error(), "qdsweep restore"
		return out
	}
	out.State = StateRemoved
	return out
}

// recover restores what a dead keeper of this very main left, and takes over its folders and arrays: main goes on with them.
func (s *server) recover(ctx context.Context) ([]Restored, error) {
	entries, err := s.j.Entries()
	if err != nil {
		return nil, err
	}
	var drives []Entry
	for _, e := range entries {
		switch {
		case e.Damage != "" || e.PID != s.main || e.Sweep != s.sweep || e.BootID != s.boot:
			// Another's. The number alone is not enough: two containers on one state folder have the same ones.
		case e.Folder != nil:
			if err := s.adopt(ctx, e); err != nil {
				fmt.Fprintf(os.Stderr, "qdsweep keeper: %v\n", err)
			}
		case e.Array != nil:
			if err := s.adoptArray(ctx, e); err != nil {
				fmt.Fprintf(os.Stderr, "qdsweep keeper: %v\n", err)
			}
		default:
			drives = append(drives, e)
		}
	}
	all := []Restored{}
	for i, o := range s.restoreEntries(ctx, drives, RestoreOptions{Wait: recoverPatience}) {
		r := Restored{Member: drives[i].Identity, Name: drives[i].Name, ByHand: o.ByHand}
		if o.State != StateRestored && o.State != StateRemoved {
			r.Err = o.Reason
		}
		all = append(all, r)
	}
	return all, notRestored(all)
}

func (s *server) adopt(ctx context.Context, e Entry) error {
	lock, err := takeLock(ctx, s.h, s.j, e.Key(), e.Folder.Path, s.main, recoverPatience)
	if err != nil {
		return err
	}
	s.folders = append(s.folders, &folderHold{e, lock})
	return nil
}
