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

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/workload"
)

// claim is main's hold on the target: the device node opened O_EXCL for the whole sweep, or our own folder in the target directory.
type claim struct {
	node *os.File
	dir  *os.File
}

// claimPatience is for a dead process's locks to go, and for a device to let itself be closed.
const claimPatience = 10 * time.Second

// open does all that comes before the first run. What can refuse comes first; nothing is made before everything has agreed.
func (s *Sweep) open(ctx context.Context) error {
	if err := checkOut(s.opt.Out); err != nil {
		return err
	}
	stack, err := s.judgeEarly(ctx)
	if err != nil {
		return err
	}
	if err := s.judgePlaces(stack); err != nil {
		return err
	}
	s.id = newSweepID(time.Now())
	s.hostname, _ = os.Hostname()
	if err := s.startKeeper(ctx, stack); err != nil {
		return err
	}
	// Only now, under the locks, is what reads on the members theirs: before, it may have been what another sweep had set.
	if s.plan, err = s.newPlan(ctx); err != nil {
		return err
	}
	if err := s.sameMembers(stack); err != nil {
		return err
	}
	s.audit.Planned = s.plan.Count()
	if err := s.judge(ctx); err != nil {
		return err
	}
	waited, err := s.claimTarget(ctx)
	if err != nil {
		return err
	}
	if waited { // whoever had it may have left something on it that --erase does not name well enough
		if err := s.judge(ctx); err != nil {
			return err
		}
	}
	if err := s.openFolder(ctx); err != nil {
		return err
	}
	if s.names, s.probes, err = openProbes(s.plan.Stack.Members); err != nil {
		return err
	}
	if err := s.startWorker(ctx); err != nil {
		return err
	}
	return s.layOut(ctx)
}

// sameMembers refuses when the target came to lie on other disks while we waited for the first ones: those are locked, these would be set.
func (s *Sweep) sameMembers(locked sysfs.Stack) error {
	names := func(stack sysfs.Stack) string {
		var all []string
		for _, m := range members(stack) {
			all = append(all, m.Name+" ("+m.Key()+")")
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	was, now := names(locked), names(s.plan.Stack)
	if was == now {
		return nil
	}
	return &RefusedError{[]sysfs.Refusal{{Device: s.plan.Stack.Target, Reason: fmt.Sprintf("lay on %s and lies on %s now", was, now), Fix: "type it again, if that is meant"}}}
}

func (s *Sweep) newPlan(ctx context.Context) (*Plan, error) {
	return NewPlan(ctx, s.profile, s.host, PlanOptions{Allow: s.opt.Allow, Erase: s.opt.Erase})
}

// judgeEarly refuses what can be refused before anything is made, with all reasons at once, and finds the target. A plan that fails on this machine is no
// reason yet: a sweep that has the members may have set what it fails on.
func (s *Sweep) judgeEarly(ctx context.Context) (sysfs.Stack, error) {
	plan, err := s.newPlan(ctx)
	var notHere *NotHere
	switch {
	case err == nil:
		s.plan = plan
		return plan.Stack, s.judge(ctx)
	case !errors.As(err, &notHere):
		return sysfs.Stack{}, err
	case s.host.Live() && os.Geteuid() != 0:
		return sysfs.Stack{}, err // whoever has the members, this user may not claim them
	}
	stack, resolveErr := s.profile.resolve(s.host)
	if resolveErr != nil {
		return stack, resolveErr
	}
	if len(stack.Members) == 0 {
		return stack, err
	}
	return stack, nil
}

// intent is what this sweep wants to do with the target, for the safety gate.
func (s *Sweep) intent() sysfs.Intent {
	in := sysfs.Intent{Write: s.plan.Writes(), Erase: s.opt.Erase, SharedDisk: s.opt.Allow["shared-disk"], NeedKnobs: s.plan.NeedsKnobs(), OwnPIDs: []int{os.Getpid()}}
	if s.keeper != nil {
		in.OwnPIDs = append(in.OwnPIDs, s.keeper.PID())
	}
	if s.worker != nil {
		in.OwnPIDs = append(in.OwnPIDs, s.worker.PID())
	}
	return in
}

func (s *Sweep) judge(ctx context.Context) error {
	refusals, notes, err := s.host.Judge(ctx, s.plan.Stack, s.intent())
	if err != nil {
		return err
	}
	if len(refusals) > 0 {
		return &RefusedError{refusals}
	}
	s.notes = notes
	return nil
}

// judgePlaces refuses to keep the journal or the rows where a power loss, or our own writes, would take them.
func (s *Sweep) judgePlaces(stack sysfs.Stack) error {
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
			if slices.ContainsFunc(stack.Members, func(d sysfs.Device) bool { return d.Name == m.Name }) {
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

// claimTarget takes the target O_EXCL (a device), or makes our own folder in it (a directory), journalled before anything is put into it.
// waited says that somebody else had it at first.
func (s *Sweep) claimTarget(ctx context.Context) (waited bool, err error) {
	if s.plan.Stack.Directory == "" {
		return s.claimNode(ctx)
	}
	if err := s.checkSpace(); err != nil {
		return false, err
	}
	dir := filepath.Join(s.plan.Stack.Directory, "qdsweep-"+s.id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return false, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return false, errors.Join(err, os.Remove(dir))
	}
	s.claim.dir = f
	if err := s.keeper.Folder(ctx, dir, true); err != nil {
		return false, fmt.Errorf("journal the folder %s: %w", dir, err)
	}
	return false, nil
}

func (s *Sweep) claimNode(ctx context.Context) (waited bool, err error) {
	path := filepath.Join(s.host.Root(), s.plan.Stack.Device.Path)
	flags := os.O_RDONLY | unix.O_EXCL | unix.O_CLOEXEC
	if s.plan.Writes() {
		flags = os.O_RDWR | unix.O_EXCL | unix.O_CLOEXEC
	}
	until := time.Now().Add(s.opt.Wait)
	for {
		f, err := os.OpenFile(path, flags, 0)
		if err == nil {
			s.claim.node = f
			return waited, s.checkNode(f)
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
			if errors.Is(err, unix.EBUSY) {
				return waited, &RefusedError{[]sysfs.Refusal{{Device: s.plan.Stack.Device.Name, Reason: "somebody else has claimed it (O_EXCL): a file system, md, LVM or another program",
					Fix: "lsblk " + path + " shows what lies on it; --wait 10m waits for it"}}}
			}
			return waited, fmt.Errorf("claim the target: %w", err)
		}
		waited = true
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return waited, err
		}
	}
}

// checkNode makes sure that the node that was opened is the device that was judged: a stale /dev, or a name that moved in between, would have
// another one overwritten.
func (s *Sweep) checkNode(f *os.File) error {
	if !s.host.Live() {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("claim the target: %w", err)
	}
	d := s.plan.Stack.Device
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
func (s *Sweep) checkSpace() error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.plan.Stack.Directory, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", s.plan.Stack.Directory, err)
	}
	need, size := s.plan.SpaceNeeded(), int64(st.Blocks)*st.Bsize
	need += min(size/20, 1<<30)
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return &RefusedError{[]sysfs.Refusal{{Device: s.plan.Stack.Directory, Reason: fmt.Sprintf("has %d MiB free, and the files need %d MiB (a margin of 5 %% of the file system, at most 1 GiB, included)", free>>20, (need+1<<20-1)>>20),
			Fix: "make room, or lower the workloads' size"}}}
	}
	return nil
}

func (s *Sweep) openFolder(ctx context.Context) error {
	var err error
	if s.out, err = createFolder(s.opt.Out); err != nil {
		return err
	}
	if s.logFile, err = openLog(s.out); err != nil {
		return err
	}
	s.log = zerolog.New(s.logFile).With().Timestamp().Logger()
	if err := s.out.save("profile.yaml", s.plan.Profile.YAML(), 0o644); err != nil {
		return err
	}
	if err := s.recordEnvironment(); err != nil {
		return err
	}
	if err := s.recordConsent(ctx); err != nil {
		return err
	}
	if s.file, err = results.Open(s.out.dir, s.id, append([]results.Option{results.WithOwner(s.out.uid, s.out.gid)}, s.opt.Results...)...); err != nil {
		return err
	}
	s.linkState()
	s.status = startStatus(s)
	s.event(Event{Kind: Began})
	for _, n := range s.notes {
		s.note("%s", n)
	}
	for _, w := range s.plan.Warnings {
		s.note("warning: %s", w)
	}
	return nil
}

// linkState leaves a link STATE/sweeps/SWEEP to the output folder, so that status and resume find it. A link that cannot be made costs nothing else.
func (s *Sweep) linkState() {
	dir, err := filepath.Abs(s.out.dir)
	if err != nil {
		return
	}
	sweeps := filepath.Join(s.opt.StateDir, "sweeps")
	err = os.MkdirAll(sweeps, 0o700)
	if err == nil {
		err = os.Symlink(dir, filepath.Join(sweeps, s.id))
	}
	if err != nil {
		s.note("no link to the output folder in %s: %v", sweeps, err)
	}
}

// openLog makes the log. It is the first file of a folder, and must not be there: of two sweeps that found the same folder absent in the same second (a loop
// over drives starts them so) only one may write into it.
func openLog(f folder) (*lateWriter, error) {
	w, err := os.OpenFile(f.path("log.jsonl"), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, &UsageError{fmt.Sprintf("--out %s: another sweep has just begun in it; name a folder that does not exist yet", f.dir)}
	}
	if err != nil {
		return nil, err
	}
	return newLateWriter(w), f.own(w.Name())
}

// startKeeper starts the settings process and has it lock the members.
func (s *Sweep) startKeeper(ctx context.Context, stack sysfs.Stack) error {
	var err error
	if s.keeper, err = s.newKeeper(ctx); err != nil {
		return err
	}
	return s.keeper.Claim(ctx, members(stack), s.opt.Wait)
}

func (s *Sweep) newKeeper(ctx context.Context) (*keeper.Client, error) {
	if s.opt.StartKeeper != nil {
		return s.opt.StartKeeper(ctx)
	}
	return keeper.Start(ctx, keeper.Options{StateDir: s.opt.StateDir, Sweep: s.id, Log: os.Stderr})
}

func members(stack sysfs.Stack) []keeper.Member {
	var out []keeper.Member
	for _, m := range stack.Members {
		out = append(out, keeper.Member{Name: m.Name, Identity: m.Identity})
	}
	return out
}

// startWorker starts the worker. The keeper is told of each process before it gets work, also of one that replaces one that died between two runs.
func (s *Sweep) startWorker(ctx context.Context) (err error) {
	s.worker, err = workload.Start(ctx, workload.StartOptions{Stderr: os.Stderr, Started: func(pid int) error {
		ctx, cancel := context.WithTimeout(context.Background(), claimPatience)
		defer cancel()
		return s.keeper.Worker(ctx, pid)
	}})
	if err != nil {
		s.worker = nil
		return fmt.Errorf("start the worker: %w", err)
	}
	return nil
}

// dropWorker gives up a worker that was killed or died; the next run's gate starts another.
func (s *Sweep) dropWorker() {
	s.worker.Close()
	s.worker = nil
}

// layOut makes the files of a directory target, once, at the original settings.
func (s *Sweep) layOut(ctx context.Context) error {
	if s.claim.dir == nil {
		return nil
	}
	for _, w := range s.plan.Largest() {
		s.note("laying out the files of %s", w.Name)
		if err := s.worker.Prepare(ctx, w, s.target(), s.plan.Profile.Seed); err != nil {
			return fmt.Errorf("lay out the files of %s in %s: %w", w.Name, s.claim.dir.Name(), err)
		}
	}
	return nil
}

// target is what the worker is handed.
func (s *Sweep) target() workload.Target {
	d := s.plan.Stack.Device
	return workload.Target{File: s.claim.node, Dir: s.claim.dir, Name: s.plan.Stack.Target, Bytes: d.Bytes, LogicalBlock: d.LogicalBlock}
}

func (s *Sweep) keeperDead() bool {
	select {
	case <-s.keeper.Died():
		return true
	default:
		return false
	}
}

// reviveKeeper starts another keeper after one died: it puts back what the journal says, and takes the locks again. The error is of the putting back;
// a keeper that did that and cannot go on is orphaned.
func (s *Sweep) reviveKeeper() ([]keeper.Restored, error) {
	ctx, cancel := context.WithTimeout(context.Background(), reviveLimit)
	defer cancel()
	old := s.keeper
	fresh, err := s.newKeeper(ctx)
	if err != nil {
		return nil, fmt.Errorf("start another keeper after one died: %w; what it had changed is in the journal: sudo qdsweep restore", err)
	}
	old.Close()
	s.keeper = fresh
	put, err := fresh.Recover(ctx)
	if err != nil {
		return put, err
	}
	if err := fresh.Claim(ctx, members(s.plan.Stack), claimPatience); err != nil {
		s.orphaned = fmt.Errorf("go on with another keeper after one died: %w", err)
		return put, nil
	}
	if s.worker != nil && fresh.Worker(ctx, s.worker.PID()) != nil {
		s.dropWorker() // whatever killed the keeper took it, too
	}
	return put, nil
}

// removeFolder removes our own folder in the target directory, and then its record: a crash in between leaves a record of nothing.
func (s *Sweep) removeFolder() error {
	dir := s.claim.dir.Name()
	s.claim.dir.Close()
	ctx, cancel := context.WithTimeout(context.Background(), restoreLimit)
	defer cancel()
	err := bounded(ctx, restoreLimit, func() error { return keeper.RemoveFolder(dir) })
	if err == nil {
		err = s.keeper.Folder(ctx, dir, false)
	}
	if err != nil {
		return fmt.Errorf("remove our folder %s: %w; by hand: rm -r %s, then sudo qdsweep restore", dir, err, ShellQuote(dir))
	}
	return nil
}

// close gives up everything that was taken, in the reverse order. It is called once, also when open failed half-way.
func (s *Sweep) close() error {
	var errs []error
	if s.worker != nil {
		s.worker.Close()
	}
	if s.claim.dir != nil {
		errs = append(errs, s.removeFolder())
	}
	if s.claim.node != nil {
		// The last close of a device writes what is dirty. One that does not answer must not keep us.
		_ = bounded(context.Background(), claimPatience, s.claim.node.Close)
	}
	closeProbes(s.probes)
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
	s.status.stop()
	s.logFile.Close()
	return errors.Join(errs...)
}
