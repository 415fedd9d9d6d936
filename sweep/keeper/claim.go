package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

const (
	// nodePatience: systemd-udevd takes a shared flock on a node while it probes it, for moments.
	nodePatience = 3 * time.Second
	claimPoll    = 20 * time.Millisecond
)

// claim is the hold on one member: an flock on the file STATE/lock/IDENTITY, which keeps other sweeps away by what
// the drive is, and one on the whole-disk node, which keeps udev from probing it (and so from resetting limits).
// Both go when the process does, however it ends. The open node also keeps the kernel from giving the drive's name
// to another one while we hold it.
type claim struct {
	lock, node *os.File
}

func (c *claim) release() {
	if c.node != nil {
		_ = c.node.Close()
	}
	if c.lock != nil {
		_ = c.lock.Close()
	}
}

// take claims a device, waiting at most wait for another sweep. pid is what the lock file tells others.
func take(ctx context.Context, h sysfs.Host, j *Journal, d sysfs.Device, pid int, wait time.Duration) (*claim, error) {
	c := &claim{}
	key := memberKey(d.Identity, d.Name)
	lock, err := takeLock(ctx, h, j, key, d.Name, pid, wait)
	if err != nil {
		return nil, err
	}
	c.lock = lock
	if err := c.takeNode(ctx, h, d, max(wait, nodePatience)); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// takeLock takes the lock file of a key alone, for a drive that may not be there.
func takeLock(ctx context.Context, h sysfs.Host, j *Journal, key, name string, pid int, wait time.Duration) (*os.File, error) {
	lock, err := j.openLock(sysfs.Identity(key).FileName())
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	got, err := flock(ctx, lock, wait)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	if !got {
		defer lock.Close()
		if p, err := identify(flockHolder("/", int(lock.Fd()))); err == nil && dying(p) {
			return nil, &BusyError{Key: key, Name: name, PID: p.pid, Dying: true}
		}
		holder := readPID(lock)
		return nil, &BusyError{Key: key, Name: name, PID: holder, By: commandLine(h, holder)}
	}
	// The text only tells others whom to ask; the flock is what counts, and a stale text harms nobody.
	_ = lock.Truncate(0)
	_, _ = lock.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return lock, nil
}

func (c *claim) takeNode(ctx context.Context, h sysfs.Host, d sysfs.Device, patience time.Duration) error {
	path := filepath.Join(h.Root(), d.Path)
	// O_NONBLOCK: a drive without a medium must not hold us up.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) && !h.Live() {
		return nil // a captured tree has no nodes
	}
	if err != nil {
		return fmt.Errorf("claim %s: open %s: %w", d.Name, d.Path, err)
	}
	c.node = os.NewFile(uintptr(fd), d.Path)
	got, err := flock(ctx, c.node, patience)
	if err != nil {
		return fmt.Errorf("claim %s: flock %s: %w", d.Name, d.Path, err)
	}
	if !got {
		pid := flockHolder(h.Root(), fd)
		return &BusyError{Key: memberKey(d.Identity, d.Name), Name: d.Name, PID: pid, By: commandLine(h, pid), Node: true}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("claim %s: %w", d.Name, err)
	}
	block := st.Mode&unix.S_IFMT == unix.S_IFBLK
	number := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	if h.Live() && (!block || number != d.Number()) {
		return fmt.Errorf("claim %s: the node %s is not that device (%s, wanted %s)", d.Name, d.Path, number, d.Number())
	}
	return nil
}

// flock takes an exclusive lock, trying until patience or ctx is over. A blocking flock(2) could not be given up.
func flock(ctx context.Context, f *os.File, patience time.Duration) (bool, error) {
	deadline := time.Now().Add(patience)
	for {
		var errno error
		raw, err := f.SyscallConn()
		if err != nil {
			return false, err
		}
		err = raw.Control(func(fd uintptr) { errno = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
		switch {
		case err != nil:
			return false, err
		case errno == nil:
			return true, nil
		case errno != unix.EWOULDBLOCK && errno != unix.EINTR:
			return false, errno
		case !time.Now().Before(deadline):
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(min(claimPoll, time.Until(deadline))):
		}
	}
}

func readPID(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid
}

// commandLine is a process's, shortened, "" when unknown.
func commandLine(h sysfs.Host, pid int) string {
	if pid <= 0 {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(h.Root(), "proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	s := strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
	s = strings.Map(func(r rune) rune { // it goes to a terminal
		if r < 0x20 || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 60 {
		s = string(r[:59]) + "…"
	}
	return s
}

// flockHolder finds who holds an flock on an open node, by /proc/locks (proc(5)), 0 when unknown. A line:
//
//	1: FLOCK  ADVISORY  WRITE 431 00:05:123 0 EOF
func flockHolder(root string, fd int) int {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0
	}
	b, err := os.ReadFile(filepath.Join(root, "proc/locks"))
	if err != nil {
		return 0
	}
	want := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] == "FLOCK" && f[5] == want {
			pid, _ := strconv.Atoi(f[4])
			return pid
		}
	}
	return 0
}
