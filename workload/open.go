package workload

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// open opens the target, or one file of a directory target, for one thread: read-only where the thread
// only reads. Devices are opened through the descriptor that came with the request, so that a name that
// went to another drive meanwhile cannot be hit, and without O_EXCL, which main holds.
func (t Target) open(file string, how int) (*os.File, error) {
	how |= unix.O_CLOEXEC
	if t.Dir != nil {
		fd, err := unix.Openat(int(t.Dir.Fd()), file, how|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open %s in %s%s: %w", file, t.Name, directly(how), err)
		}
		return os.NewFile(uintptr(fd), file), nil
	}
	if t.File == nil {
		return nil, fmt.Errorf("open %s: no descriptor was given", t.Name)
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(t.File.Fd())), how, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s%s: %w", t.Name, directly(how), err)
	}
	return os.NewFile(uintptr(fd), t.Name), nil
}

// goesPast says why a file that is open with O_DIRECT would be read and written through the page cache all the same, or not at all.
// Some files accept the flag and fall back (ext4 with data=journal, encrypted ones); kernels from 6.1 on tell by statx(2).
func goesPast(f *os.File, what string, block int64) error {
	how, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || how&unix.O_DIRECT == 0 {
		return nil
	}
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st); err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return nil // it does not tell
	}
	align := int64(st.Dio_offset_align)
	switch {
	case align == 0:
		return fmt.Errorf("%s: its file system takes no direct I/O on it, and would go through the page cache: direct: false says so", what)
	case block%align != 0:
		return fmt.Errorf("%s: direct I/O on it needs a block_size that is a multiple of %d, and %d is not", what, align, block)
	}
	return nil
}

func directly(how int) string {
	if how&unix.O_DIRECT != 0 {
		return " with O_DIRECT"
	}
	return ""
}

// openFlags are those of a thread that reads, writes or does both.
func (s Spec) openFlags(read, write bool) int {
	how := unix.O_RDONLY
	switch {
	case read && write:
		how = unix.O_RDWR
	case write:
		how = unix.O_WRONLY
	}
	if s.Direct && !s.SG() {
		how |= unix.O_DIRECT
	}
	if write && s.Sync == "dsync" && !s.SG() {
		how |= unix.O_DSYNC
	}
	return how
}

// file is the name of a workload's n-th file in our folder: the workload's own, made harmless.
func (s Spec) file(n int) string {
	var b strings.Builder
	for _, c := range []byte(s.Name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return fmt.Sprintf("%s.%d", b.String(), n)
}

// forget drops what the page cache has of a file, so that buffered reads meet the drive, and looks whether it is gone:
// resident is how many bytes of it stayed, because somebody else has the file mapped, or the file system is the page cache itself.
// Dirty pages are not dropped, so they are written first.
func (t Target) forget(file string) (resident int64, err error) {
	name := t.Name
	if t.Dir != nil {
		name = file + " in " + t.Name
	}
	f, err := t.open(file, unix.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := unix.Fsync(fd); err != nil {
		return 0, fmt.Errorf("sync %s before its page cache is dropped: %w", name, err)
	}
	if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
		return 0, fmt.Errorf("drop the page cache of %s: %w", name, err)
	}
	if resident, err = cached(f); err != nil {
		return 0, fmt.Errorf("look at the page cache of %s: %w", name, err)
	}
	return resident, nil
}
