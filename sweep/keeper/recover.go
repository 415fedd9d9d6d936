package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"qdsweep/sysfs"
)

// recoverPatience is for a dead keeper's locks to go: the kernel drops them when it takes the process apart.
const recoverPatience = 10 * time.Second

// State is what became of a journal entry. The words are part of the JSON output.
type State string

// The states of an entry.
const (
	StateRestored     State = "restored"      // all reads back that is ours to write; the entry is gone
	StateRemoved      State = "removed"       // a folder of ours, and its entry
	StateForgotten    State = "forgotten"     // the entry was dropped because the user said so
	StateWouldRestore State = "would restore" // dry run
	StateBusy         State = "busy"          // a live sweep has it; PID says which
	StateGone         State = "gone"          // the drive or the folder's file system is not there; kept
	StateLeft         State = "left"          // cannot be done without the user; kept
	StateFailed       State = "not restored"  // should have gone back and did not; kept
)

// RestoreOptions say what RestoreJournal does.
type RestoreOptions struct {
	DryRun bool          // change nothing
	Forget []string      // drop these entries instead of restoring anything: identities, as EntryOutcome.Key has them
	Wait   time.Duration // for a sweep that has the drive
}

// EntryOutcome is what became of one journal entry, with what a user needs to know about it.
type EntryOutcome struct {
	Key   string    `json:"key"`   // the identity; what --forget takes
	Name  string    `json:"name"`  // the kernel's name when the entry was made; a folder's path
	Now   string    `json:"now"`   // the name now, "" not there
	Path  string    `json:"path"`  // of the entry
	Sweep string    `json:"sweep"` // "" unknown
	Taken time.Time `json:"taken"`
	State State     `json:"state"`

	Moved  []sysfs.Moved `json:"moved,omitempty"`   // what was (or, in a dry run, is) not as the journal says
	Notes  []string      `json:"notes,omitempty"`   // "queue_depth is 32, journal says 31: left alone"
	Reason string        `json:"reason,omitempty"`  // why it is not restored
	ByHand []string      `json:"by_hand,omitempty"` // commands that do what could not be done
	Next   string        `json:"next,omitempty"`    // what to type
	PID    int           `json:"pid,omitempty"`     // of the sweep that has it
}

// RestoreExit is the exit status of `qdsweep restore`: 0 nothing left, 3 a live sweep has something, 4 entries left
// that are not ours to write, or (dry run) would be restored, 5 one that should have gone back did not.
func RestoreExit(all []EntryOutcome) int {
	exit := map[State]int{StateFailed: 5, StateBusy: 3, StateGone: 4, StateLeft: 4, StateWouldRestore: 4}
	worst := 0
	for _, rank := range []int{4, 3, 5} { // ascending
		for _, o := range all {
			if exit[o.State] == rank {
				worst = rank
			}
		}
	}
	return worst
}

// restoreJournal handles every entry, drives all at once.
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
	if e.Folder != nil {
		o.Name = e.Folder.Path
	}
	return o
}

func (s *server) restoreEntries(ctx context.Context, entries []Entry, o RestoreOptions) []EntryOutcome {
	all := make([]EntryOutcome, len(entries))
	members := make([]*member, len(entries))
	byKey := map[string]int{}
	for i, e := range entries {
		byKey[e.Key()] = i
		members[i] = newMember(Member{Name: e.Key()}, &claim{})
	}
	// One thread an entry, as for members; a drive that does not answer leaves its own behind.
	patience := 2*o.Wait + nodePatience + s.restoreTimeout + jobGrace
	found, errs := each(context.WithoutCancel(ctx), members, patience, func(m Member) (out EntryOutcome, err error) {
		defer caught(&err)
		return s.restoreEntry(ctx, entries[byKey[m.Name]], o), nil
	})
	for i, m := range members {
		all[i] = found[i]
		if errs[i] != nil {
			all[i] = s.outcome(entries[i])
			all[i].State, all[i].Reason = StateFailed, errs[i].Error()
			all[i].Next = "qdsweep restore"
		}
		m.release()
	}
	return all
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
	case e.Identity == "" && e.BootID != s.boot:
		out.State, out.Reason = StateLeft, "it has no identity, so after a reboot it cannot be told from another drive"
		if e.Snapshot.WriteCache != "" {
			out.Notes = append(out.Notes, "its write_cache was "+e.Snapshot.WriteCache)
		}
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
		return busyOutcome(out, err)
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

// busyOutcome is for a claim that failed.
func busyOutcome(out EntryOutcome, err error) EntryOutcome {
	var busy *BusyError
	if errors.As(err, &busy) {
		out.State, out.PID, out.Reason = StateBusy, busy.PID, err.Error()
		out.Next = "wait for it: qdsweep restore --wait 10m"
		if !busy.Node && busy.PID > 0 {
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
	lock, err := takeLock(ctx, s.h, s.j, e.Key(), e.Folder.Path, s.main, o.Wait)
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

// forget drops entries, each by its key or its file's name.
func (s *server) forget(ctx context.Context, entries []Entry, o RestoreOptions) ([]EntryOutcome, error) {
	byKey := map[string]Entry{}
	var keys []string
	for _, e := range entries {
		byKey[e.Key()], byKey[e.File] = e, e
		keys = append(keys, e.Key())
	}
	for _, key := range o.Forget {
		if _, ok := byKey[key]; !ok {
			there := "it is empty"
			if len(keys) > 0 {
				there = "there are '" + strings.Join(keys, "', '") + "'"
			}
			return nil, &StateError{Path: s.j.dir, Reason: fmt.Sprintf("its journal has no entry '%s' to forget: %s", key, there)}
		}
	}
	all := []EntryOutcome{}
	for _, key := range o.Forget {
		e := byKey[key]
		out := s.outcome(e)
		lock, err := takeLock(ctx, s.h, s.j, e.Key(), e.Key(), s.main, o.Wait)
		if err != nil {
			all = append(all, busyOutcome(out, err))
			continue
		}
		switch err := error(nil); {
		case o.DryRun:
			out.State, out.Notes = StateWouldRestore, []string{"it would be forgotten, not restored"}
		default:
			if err = s.j.Clear(e); err != nil {
				out.State, out.Reason = StateFailed, err.Error()
				break
			}
			out.State = StateForgotten
			if e.Snapshot != nil {
				out.Notes = append(out.Notes, "its originals were: "+originals(*e.Snapshot))
			}
		}
		_ = lock.Close()
		all = append(all, out)
	}
	return all, nil
}

// originals is what a snapshot holds of the settings that sweeps change, for somebody who throws it away.
func originals(s sysfs.Snapshot) string {
	var b strings.Builder
	if s.WriteCache != "" {
		fmt.Fprintf(&b, "write_cache %s", s.WriteCache)
	}
	for _, a := range s.Attributes {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", a.Path, a.Value)
	}
	return b.String()
}

// recover restores what a dead keeper of this very main left, and takes over its folders.
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
		default:
			drives = append(drives, e)
		}
	}
	all := []Restored{}
	for i, o := range s.restoreEntries(ctx, drives, RestoreOptions{Wait: recoverPatience}) {
		r := Restored{Member: drives[i].Identity, Name: drives[i].Name, ByHand: o.ByHand}
		if o.State != StateRestored {
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
