package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"qdsweep/sysfs"
)

// Array is an array that a sweep makes, or of level "none" a file system on its first member: what it takes to know it
// again, in any boot, and to take it down. The keeper records it; main makes it and takes it down.
type Array struct {
	UUID       string        `json:"uuid"`
	Level      string        `json:"level"`
	Filesystem string        `json:"filesystem,omitempty"`
	MountPoint string        `json:"mount_point,omitempty"`
	Members    []ArrayMember `json:"members"`
}

// ArrayMember is a disk or a partition, whose identity ends in -partN.
type ArrayMember struct {
	Identity sysfs.Identity `json:"identity,omitempty"`
	Name     string         `json:"name"`
	Bytes    int64          `json:"bytes"`
}

// String is "raid5 of sdb1, sdc1, sdd1", or "ext4 on sdb1".
func (a Array) String() string {
	names := make([]string, len(a.Members))
	for i, m := range a.Members {
		names[i] = m.Name
	}
	if a.Level == "none" {
		return fmt.Sprintf("%s on %s", a.Filesystem, strings.Join(names, ", "))
	}
	return fmt.Sprintf("raid%s of %s", a.Level, strings.Join(names, ", "))
}

// identity is the array device's own, where the kernel or udev tells: written as in sysfs.
func (a Array) identity() sysfs.Identity {
	plain := strings.ToLower(strings.NewReplacer("-", "", ":", "").Replace(a.UUID))
	if len(plain) != 32 {
		return ""
	}
	return sysfs.Identity("wwid:md-uuid-" + plain[:8] + ":" + plain[8:16] + ":" + plain[16:24] + ":" + plain[24:])
}

var partitionSuffix = regexp.MustCompile(`-part\d+$`)

// names says whether an array is on a member, through a partition or whole, or is it.
func (a Array) names(h sysfs.Host, m Member) bool {
	if m.Identity != "" && m.Identity == a.identity() {
		return true
	}
	return slices.ContainsFunc(a.Members, func(am ArrayMember) bool {
		if m.Identity != "" || am.Identity != "" {
			return partitionSuffix.ReplaceAllString(string(am.Identity), "") == partitionSuffix.ReplaceAllString(string(m.Identity), "")
		}
		if am.Name == m.Name {
			return true
		}
		d, err := h.Device(am.Name)
		if err != nil {
			return false
		}
		whole, err := d.Whole()
		return err == nil && whole.Name == m.Name
	})
}

// is says whether a device is this array: by its UUID, or where neither kernel nor udev tells that, by what is under it.
func (a Array) is(h sysfs.Host, d sysfs.Device) bool {
	if d.Kind != sysfs.KindMD {
		return false
	}
	if d.Identity != "" {
		return d.Identity == a.identity()
	}
	stack, err := h.Resolve(d.Path)
	if err != nil {
		return false
	}
	under := map[string]bool{}
	for _, l := range stack.Layers {
		under[memberKey(l.Device.Identity, l.Device.Name)] = true
	}
	for _, m := range stack.Members {
		under[memberKey(m.Identity, m.Name)] = true
	}
	for _, m := range a.Members {
		if !under[memberKey(m.Identity, m.Name)] {
			return false
		}
	}
	return len(a.Members) > 0
}

// arrayHold is an array of ours that is recorded; the lock says that somebody sees to it.
type arrayHold struct {
	entry Entry
	lock  *os.File
	dead  bool // a dead sweep's, held for main to take it down
}

func (s *server) holdOf(uuid string) int {
	return slices.IndexFunc(s.arrays, func(a *arrayHold) bool { return a.entry.Array.UUID == uuid })
}

// array records an array that main is about to make, or (made false) that main has taken it down.
func (s *server) array(a Array, made bool) error {
	switch {
	case a.UUID == "" || len(a.Members) == 0:
		return errors.New("array: it has no UUID or no members")
	case a.MountPoint != "" && !filepath.IsAbs(a.MountPoint):
		return fmt.Errorf("array %s: its mount point %s is not an absolute path", a.UUID, a.MountPoint)
	case !made:
		return s.arrayGone(a)
	}
	e := s.entry()
	e.Array = &a
	if i := s.holdOf(a.UUID); i >= 0 {
		if s.arrays[i].dead {
			return fmt.Errorf("array %s is a dead sweep's, and is to be taken down", a.UUID)
		}
		// Again, with what is known of it by now.
		e.Taken = s.arrays[i].entry.Taken
		if err := s.j.Save(e); err != nil {
			return err
		}
		s.arrays[i].entry = e
		return nil
	}
	lock, err := takeLock(context.Background(), s.h, s.j, e.Key(), a.String(), s.main, 0)
	if err != nil {
		return err
	}
	if err := s.j.Save(e); err != nil {
		_ = s.j.Clear(e)
		_ = lock.Close()
		return err
	}
	s.arrays = append(s.arrays, &arrayHold{entry: e, lock: lock})
	return nil
}

// arrayGone removes the entry of an array that is no more, also one that this keeper does not hold: its predecessor may
// have died holding it.
func (s *server) arrayGone(a Array) error {
	i := s.holdOf(a.UUID)
	if i >= 0 {
		if err := s.j.Clear(s.arrays[i].entry); err != nil {
			return err
		}
		s.dropLocks(s.arrays[i].entry)
		_ = s.arrays[i].lock.Close()
		s.arrays = slices.Delete(s.arrays, i, i+1)
		return nil
	}
	e := Entry{Array: &a}
	if _, ok := s.j.load(e.file()); !ok {
		return nil
	}
	lock, err := takeLock(context.Background(), s.h, s.j, e.Key(), a.String(), s.main, 0)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := s.j.Clear(e); err != nil {
		return err
	}
	s.dropLocks(e)
	return nil
}

// dropLocks removes the lock files of an array that is no more: its own, and that of its device. Each sweep makes others.
func (s *server) dropLocks(e Entry) {
	s.j.dropLock(sysfs.Identity(e.Key()).FileName())
	if id := e.Array.identity(); id != "" {
		s.j.dropLock(id.FileName())
	}
}

// adoptArray takes over an array of this very sweep from a keeper that died.
func (s *server) adoptArray(ctx context.Context, e Entry) error {
	lock, err := takeLock(ctx, s.h, s.j, e.Key(), e.Array.String(), s.main, recoverPatience)
	if err != nil {
		return err
	}
	s.arrays = append(s.arrays, &arrayHold{entry: e, lock: lock})
	return nil
}

// freeOfArrays refuses members of an array that is recorded and not of this sweep: nobody may touch them before it is taken
// down.
func (s *server) freeOfArrays(members []*member) error {
	entries, err := s.j.Entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Array == nil {
			continue
		}
		if i := s.holdOf(e.Array.UUID); i >= 0 && !s.arrays[i].dead {
			continue
		}
		for _, m := range members {
			if e.Array.names(s.h, m.Member) {
				return &UnrestoredError{Key: e.Key(), Name: m.Name, Path: s.j.Path(e), Taken: e.Taken, Array: e.Array.String()}
			}
		}
	}
	return nil
}

// partOf is the UUID of the array of this sweep that a device is, "" of any other device.
func (s *server) partOf(d sysfs.Device) string {
	for _, a := range s.arrays {
		if !a.dead && a.entry.Array.is(s.h, d) {
			return a.entry.Array.UUID
		}
	}
	return ""
}

// restoreArray takes hold of an array of a dead sweep, for main to take it down: the keeper stops no array.
func (s *server) restoreArray(ctx context.Context, e Entry, o RestoreOptions, wait time.Duration) EntryOutcome {
	out := s.outcome(e)
	i := s.holdOf(e.Array.UUID)
	switch {
	case i >= 0 && !s.arrays[i].dead:
		return busyOutcome(out, &BusyError{Key: e.Key(), Name: e.Array.String(), PID: s.main, By: commandLine(s.h, s.main)})
	case i >= 0: // asked for again
		out.State, out.Array, out.Next = StateTakeDown, e.Array, "qdsweep restore"
		return out
	}
	lock, err := s.takeOver(ctx, e, e.Array.String(), wait)
	if err != nil {
		return busyOutcome(out, err)
	}
	now, ok := s.j.load(e.file())
	switch {
	case !ok: // its sweep, or another restore, has seen to it meanwhile
		out.State = StateRemoved
	case now.Damage != "":
		out.State, out.Reason = StateLeft, now.Damage
	case o.DryRun:
		out.State, out.Array, out.Next = StateWouldRestore, now.Array, "qdsweep restore"
	default:
		out.State, out.Array, out.Next = StateTakeDown, now.Array, "qdsweep restore"
		s.arrays = append(s.arrays, &arrayHold{entry: now, lock: lock, dead: true})
		return out
	}
	_ = lock.Close()
	return out
}

// withArray says why an entry needs no restoring, "" where it does: what it is of goes with an array of ours that main
// takes down, or went with one.
func (s *server) withArray(e Entry, down []Entry) string {
	for _, a := range down {
		if e.PartOf != "" && e.PartOf == a.Array.UUID {
			return "it goes with the array of the sweep: " + a.Array.String()
		}
		if e.Folder != nil && e.Sweep == a.Sweep && below(a.Array.MountPoint, e.Folder.Path) {
			return "it goes with the file system of the sweep: " + a.Array.String()
		}
	}
	if e.PartOf == "" || e.BootID != s.boot {
		return ""
	}
	d, err := s.h.Device(e.Name)
	if i := s.holdOf(e.PartOf); err == nil && i >= 0 && s.arrays[i].entry.Array.is(s.h, d) {
		return ""
	}
	if id := (Array{UUID: e.PartOf}).identity(); e.Identity == id && id != "" {
		if _, err := find(s.h, Member{Name: e.Name, Identity: id}); !errors.Is(err, sysfs.ErrNoDevice) {
			return "" // there, or nobody knows
		}
	}
	return "it went with the array of the sweep"
}

// below says whether a path is in a folder.
func below(dir, path string) bool {
	return dir != "" && strings.HasPrefix(filepath.Clean(path), filepath.Clean(dir)+"/")
}

// leftArrays says, when main is gone, which arrays of this sweep are still there.
func (s *server) leftArrays() {
	for _, a := range s.arrays {
		if !a.dead {
			fmt.Fprintf(os.Stderr, "qdsweep keeper: main is gone; the array %s (%s) of this sweep is still there: sudo qdsweep restore\n",
				a.entry.Array.UUID, a.entry.Array)
		}
	}
}
