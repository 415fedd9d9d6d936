package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
)

// claim is main's hold on the target: the device node opened O_EXCL for the whole sweep, or our own folder in the target directory.
type claim struct {
	node *os.File
	dir  *os.File
}

// claimPatience is for a dead process's locks to go, and for a device to let itself be closed.
const claimPatience = 10 * time.Second

// claimTarget takes the target O_EXCL (a device), or makes our own folder in it (a directory), journalled before anything is put into it.
// waited says that somebody else had it at first.
func (s *Sweep) claimTarget(ctx context.Context) (waited bool, err error) {
	if s.plan.Targets[0].Stack.Directory == "" {
		return s.claimNode(ctx)
	}
	if err := s.checkSpace(); err != nil {
		return false, err
	}
	dir := filepath.Join(s.plan.Targets[0].Stack.Directory, "qdsweep-"+s.id)
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
	path := filepath.Join(s.host.Root(), s.plan.Targets[0].Stack.Device.Path)
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
				return waited, &RefusedError{[]sysfs.Refusal{{Device: s.plan.Targets[0].Stack.Device.Name, Reason: "somebody else has claimed it (O_EXCL): a file system, md, LVM or another program",
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
	d := s.plan.Targets[0].Stack.Device
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
	if err := unix.Statfs(s.plan.Targets[0].Stack.Directory, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", s.plan.Targets[0].Stack.Directory, err)
	}
	need, size := s.plan.SpaceNeeded(), int64(st.Blocks)*st.Bsize
	need += min(size/20, 1<<30)
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return &RefusedError{[]sysfs.Refusal{{Device: s.plan.Targets[0].Stack.Directory, Reason: fmt.Sprintf("has %d MiB free, and the files need %d MiB (a margin of 5 %% of the file system, at most 1 GiB, included)", free>>20, (need+1<<20-1)>>20),
			Fix: "make room, or lower the workloads' size"}}}
	}
	return nil
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
