package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// opened is a block device that a process holds open for writing.
type opened struct {
	number  string // "8:16"
	pid     int
	command string
}

// openForWriting looks through /proc/*/fd for block devices that are open for writing. A virtual
// machine or a database holds its disk so, without O_EXCL, and nothing else in the kernel shows it.
// Processes that end meanwhile, and those of others where we have no privilege, are left out.
func (h Host) openForWriting() ([]opened, error) {
	entries, err := os.ReadDir(h.path("/proc"))
	if errors.Is(err, fs.ErrNotExist) && !h.Live() {
		return nil, nil // captured without its /proc
	}
	if err != nil {
		return nil, fmt.Errorf("look through the open files: %w", err)
	}
	var found []opened
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for _, number := range h.writtenBy(pid) {
			found = append(found, opened{number, pid, h.command(pid)})
		}
	}
	return found, nil
}

// writtenBy gives the block devices one process has open for writing. This runs before every run of a
// sweep, over every descriptor of the machine: one system call each, and no os.File, whose poller
// would double that.
func (h Host) writtenBy(pid int) []string {
	fd, err := openRetry(h.path(fmt.Sprintf("/proc/%d/fd", pid)), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var numbers, names []string
	buf := make([]byte, 8192)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if number, ok := h.openedNumber(fd, name); ok && h.openedRW(pid, name) {
				numbers = append(numbers, number)
			}
		}
	}
	return numbers
}

// openedNumber gives the number of the block device behind a descriptor. The inode is looked at, not
// the name: a node can be deleted, or lie outside /dev, or in another mount namespace. No server is
// asked for it: a dead NFS mount among somebody's files must not hang us.
func (h Host) openedNumber(dir int, name string) (string, bool) {
	if !h.Live() {
		buf := make([]byte, 4096)
		n, err := unix.Readlinkat(dir, name, buf)
		node := strings.TrimSuffix(string(buf[:max(n, 0)]), " (deleted)")
		if err != nil || !strings.HasPrefix(node, "/dev/") {
			return "", false
		}
		major, minor, err := h.nodeNumber(node)
		return fmt.Sprintf("%d:%d", major, minor), err == nil
	}
	var st unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st); err != nil {
		return "", false
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", false
	}
	return fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor), true
}

// openedRW reads the open flags, octal, from fdinfo.
func (h Host) openedRW(pid int, fd string) bool {
	text, err := h.readAll(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	if err != nil {
		return false
	}
	for _, line := range strings.Split(text, "\n") {
		if value, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(value), 8, 64)
			return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
		}
	}
	return false
}

// command is a process's name, control characters out of the way: anybody can choose one.
func (h Host) command(pid int) string {
	return printable([]byte(h.text(fmt.Sprintf("/proc/%d/comm", pid))))
}
