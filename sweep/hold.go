package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
)

// hold is main's hold on one target, for the whole sweep, or, of a target that is built, as long as it stands: the device node opened O_EXCL or our own
// folder in the target directory, and the counters of its members.
type hold struct {
	target *Target
	stack  sysfs.Stack // of a built one that stands: with the array

	node *os.File
	dir  *os.File

	pass throughPass // of engine sg

	names  []string
	probes []probe
	shares []share

	standing *standing // of a built one, while it stands
	ended    string    // why it gets no further run, "" while it does
	failures int       // failed runs in a row
	stuck    bool      // a request to it is stuck in the kernel: whoever touches it may not come back
}

// holds are made for every target of the plan. What exists is claimed at once; what is built, when its turn comes.
func (s *Sweep) makeHolds() {
	for _, t := range s.plan.Targets {
		s.holds = append(s.holds, &hold{target: t, stack: t.Stack})
	}
	for _, t := range s.plan.absent {
		s.holds = append(s.holds, &hold{target: t, stack: t.Stack, ended: t.absent})
	}
}

// holdOf is the hold on the target that a run drives.
func (s *Sweep) holdOf(r Run) *hold {
	t := s.plan.TargetOf(r.Cell)
	for _, h := range s.holds {
		if h.target == t {
			return h
		}
	}
	return nil // the plan has a target for every cell
}

// siblings are the stacks of the sweep's other targets, which share disks with this one by the profile's will.
func (s *Sweep) siblings(of *hold) []sysfs.Stack {
	var all []sysfs.Stack
	for _, h := range s.holds {
		if h != of && h.target.absent == "" {
			all = append(all, h.stack)
		}
	}
	return all
}

// end gives a target up: it gets no further run. The first reason counts.
func (s *Sweep) end(h *hold, reason string) {
	if h.ended != "" {
		return
	}
	h.ended = reason
	if len(s.holds) > 1 {
		s.note("%s gets no further run: %s", h.target.name(), h.reason())
	}
}

// stuck gives up a target that does not answer. What is left of the sweep on it is left there: main must be able to end.
func (s *Sweep) stuck(h *hold) {
	h.stuck = true
	s.end(h, h.stack.Target+": a request is stuck in the kernel")
}

// endMember gives up every target that lies on a disk.
func (s *Sweep) endMember(name, reason string) {
	for _, h := range s.holds {
		if slices.ContainsFunc(h.stack.Settable(), func(d sysfs.Device) bool { return d.Name == name }) {
			s.end(h, reason)
		}
	}
}

// over says that no target gets a further run.
func (s *Sweep) over() bool {
	return !slices.ContainsFunc(s.holds, func(h *hold) bool { return h.ended == "" })
}

// endings are the reasons for which targets were given up.
func (s *Sweep) endings() string {
	var all []string
	for _, h := range s.holds {
		switch {
		case h.ended == "":
		case len(s.holds) == 1:
			return h.ended
		default:
			all = append(all, h.target.name()+": "+h.reason())
		}
	}
	return joinLines(all)
}

// reason is why the target gets no further run, to be said behind its name: by itself a reason may begin with that.
func (h *hold) reason() string {
	rest, named := strings.CutPrefix(h.ended, h.stack.Target)
	switch {
	case named && strings.HasPrefix(rest, ": "):
		return rest[2:]
	case named && strings.HasPrefix(rest, " "):
		return "it" + rest
	}
	return h.ended
}

// claimPatience is for a dead process's locks to go, and for a device to let itself be closed.
const claimPatience = 10 * time.Second

// claimAll takes every target that is there, and the disks of those that are built. waited says that somebody else had one of them at first.
func (s *Sweep) claimAll(ctx context.Context) (waited bool, err error) {
	for _, h := range s.holds {
		if h.target.Built() || h.target.absent != "" {
			continue
		}
		w, err := s.claim(ctx, h)
		if err != nil {
			return waited, err
		}
		waited = waited || w
	}
	w, err := s.claimParts(ctx)
	return waited || w, err
}

// claim takes the target O_EXCL (a device), or makes our own folder in it (a directory), journalled before anything is put into it.
func (s *Sweep) claim(ctx context.Context, h *hold) (waited bool, err error) {
	if h.stack.Directory == "" {
		if h.node, waited, err = s.claimNode(ctx, h.stack.Device, s.plan.Writes()); err != nil {
			return waited, err
		}
		return waited, s.claimPass(ctx, h)
	}
	if err := s.checkSpace(h.stack.Directory); err != nil {
		return false, err
	}
	dir := filepath.Join(h.stack.Directory, "qdsweep-"+s.id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		if s.before != nil && errors.Is(err, os.ErrExist) {
			err = &RefusedError{[]sysfs.Refusal{{Reason: dir + " is there yet: the sweep did not end well, and its folder was not removed",
				Fix: "first: sudo qdsweep restore     (or, if that knows nothing of it: rm -r " + ShellQuote(dir) + ")"}}}
		}
		return false, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return false, errors.Join(err, os.Remove(dir))
	}
	h.dir = f
	if h.target.Built() { // its file system goes with the array, which is recorded
		return false, nil
	}
	fctx, cancel := context.WithTimeout(ctx, s.keeperPatience())
	defer cancel()
	if err := s.keeper.Folder(fctx, dir, true); err != nil {
		return false, fmt.Errorf("journal the folder %s: %w", dir, err)
	}
	return false, nil
}

// claimNode opens a device O_EXCL, waiting for whoever has it as long as --wait says.
func (s *Sweep) claimNode(ctx context.Context, d sysfs.Device, write bool) (f *os.File, waited bool, err error) {
	path := filepath.Join(s.host.Root(), d.Path)
	flags := os.O_RDONLY | unix.O_EXCL | unix.O_CLOEXEC
	if write {
		flags = os.O_RDWR | unix.O_EXCL | unix.O_CLOEXEC
	}
	until := time.Now().Add(s.opt.Wait)
	for {
		f, err := os.OpenFile(path, flags, 0)
		if err == nil {
			if err := s.checkNode(f, d); err != nil {
				return nil, waited, errors.Join(err, f.Close())
			}
			return f, waited, nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
			if errors.Is(err, unix.EBUSY) {
				return nil, waited, &RefusedError{[]sysfs.Refusal{{Device: d.Name, Reason: "somebody else has claimed it (O_EXCL): a file system, md, LVM or another program",
					Fix: "lsblk " + path + " shows what lies on it; --wait 10m waits for it"}}}
			}
			return nil, waited, fmt.Errorf("claim %s: %w", d.Name, err)
		}
		waited = true
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, waited, err
		}
	}
}

// checkNode makes sure that the node that was opened is the device that was judged: a stale /dev, or a name that moved in between, would have
// another one overwritten.
func (s *Sweep) checkNode(f *os.File, d sysfs.Device) error {
	if !s.host.Live() {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("claim %s: %w", d.Name, err)
	}
	got := "no block device"
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Mode&unix.S_IFMT == unix.S_IFBLK {
		got = fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	if got != d.Number() {
		return &RefusedError{[]sysfs.Refusal{{Device: d.Name, Reason: fmt.Sprintf("the node %s is %s, and %s is %s", f.Name(), got, d.Name, d.Number()), Fix: "qdsweep devices shows what is there now"}}}
	}
	return nil
}

// checkSpace refuses a directory without room for the files, plus 5 % of the file system, at most 1 GiB (design section 8).
func (s *Sweep) checkSpace(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	need, size := s.plan.SpaceNeeded(), int64(st.Blocks)*st.Bsize
	need += min(size/20, 1<<30)
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return &RefusedError{[]sysfs.Refusal{{Device: dir, Reason: fmt.Sprintf("has %d MiB free, and the files need %d MiB (a margin of 5 %% of the file system, at most 1 GiB, included)", free>>20, (need+1<<20-1)>>20),
			Fix: "make room, or lower the workloads' size"}}}
	}
	if files := s.plan.FilesNeeded(); st.Files > 0 && int64(st.Ffree) < files { // 0: it makes inodes as it needs them
		return &RefusedError{[]sysfs.Refusal{{Device: dir, Reason: fmt.Sprintf("has %d inodes free, and the files need %d", st.Ffree, files),
			Fix: "remove files, lower the workload's files or directories, or make the file system with more inodes (mkfs.ext4 -N)"}}}
	}
	return nil
}

// watchMembers opens the counters of the target's members; an array's spare, which does nothing, would lower the mean depth.
func (h *hold) watchMembers(host sysfs.Host) (err error) {
	if h.names, h.probes, err = openProbes(host.DataMembers(h.stack)); err != nil {
		return err
	}
	h.shares, err = openShares(h.stack)
	return err
}

// letGo gives up what a hold has, but for an array, which is taken down by itself.
func (s *Sweep) letGo(h *hold) error {
	var errs []error
	if h.dir != nil {
		switch {
		case h.target.Built():
			errs = append(errs, h.dir.Close())
		case h.stuck: // its record stays
			s.note("our folder %s is still there, for its file system does not answer; when it does: sudo qdsweep restore", h.dir.Name())
		default:
			errs = append(errs, s.removeFolder(h.dir))
		}
		h.dir = nil
	}
	s.landed(h, claimPatience)
	if h.node != nil && !h.stuck {
		// The last close of a device writes what is dirty. One that does not answer must not keep us.
		_ = bounded(context.Background(), claimPatience, h.node.Close)
		h.node = nil
	}
	h.pass.close()
	closeProbes(h.probes)
	closeShares(h.shares)
	h.names, h.probes, h.shares = nil, nil, nil
	return errors.Join(errs...)
}

// perFile is what one file more may take to be removed: a drive that seeks for each does some hundred a second, and the journal of a file system takes many
// at once.
const perFile = 2 * time.Millisecond

// removeFolder removes our own folder in the target directory, and then its record: a crash in between leaves a record of nothing.
func (s *Sweep) removeFolder(f *os.File) error {
	dir := f.Name()
	f.Close()
	limit := restoreLimit + time.Duration(s.plan.FilesNeeded())*perFile
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := bounded(ctx, limit, func() error { return keeper.RemoveFolder(dir) })
	if err == nil {
		err = s.keeper.Folder(ctx, dir, false)
	}
	if err != nil {
		return fmt.Errorf("remove our folder %s: %w; by hand: rm -r %s, then sudo qdsweep restore", dir, err, ShellQuote(dir))
	}
	return nil
}
