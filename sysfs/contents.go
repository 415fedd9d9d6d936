package sysfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Contents is what can be told of the data on a device without knowing whose it is.
type Contents struct {
	PartitionTable string   // "gpt", "dos"; "unknown kind" where only the kernel's partitions show it; "" none
	Signatures     []string // what blkid knows: "ext4", "linux_raid_member", "LVM2_member"
	IDs            []string // which one each is, where it says so: "ext4 0c6f…", "gpt 7d1e…"
	FirstNonZero   bool     // the first MiB is not all zero
	LastNonZero    bool     // the last one
}

// Blank tells that nothing speaks for data on the device.
func (c Contents) Blank() bool {
	return c.PartitionTable == "" && len(c.Signatures) == 0 && !c.FirstNonZero && !c.LastNonZero
}

// Text is what a refusal says of it: "an ext4 signature and a gpt partition table".
func (c Contents) Text() string {
	var parts []string
	for _, s := range c.Signatures {
		parts = append(parts, "a signature of "+s)
	}
	if c.PartitionTable != "" {
		parts = append(parts, "a partition table ("+c.PartitionTable+")")
	}
	if len(parts) == 0 {
		switch {
		case c.FirstNonZero && c.LastNonZero:
			parts = append(parts, "unknown data (its first and last MiB are not zero)")
		case c.FirstNonZero:
			parts = append(parts, "unknown data (its first MiB is not zero)")
		case c.LastNonZero:
			parts = append(parts, "unknown data (its last MiB is not zero)")
		default:
			return "nothing"
		}
	}
	return strings.Join(parts, " and ")
}

const edge = 1 << 20

// Contents looks at a device: signatures by blkid's low-level probing, partitions by the kernel, and
// the first and last MiB by reading them from the medium. In a captured tree a regular file stands
// for the device. A device that cannot be read is an error, never blank.
func (h Host) Contents(ctx context.Context, d Device) (Contents, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	type answer struct {
		c   Contents
		err error
	}
	done := make(chan answer, 1)
	go func() {
		c, err := h.contents(ctx, d)
		done <- answer{c, err}
	}()
	select {
	case a := <-done:
		if a.err != nil {
			return Contents{}, fmt.Errorf("look at the contents of %s: %w", d.Name, a.err)
		}
		return a.c, nil
	case <-ctx.Done():
		return Contents{}, fmt.Errorf("look at the contents of %s: %w (%w)", d.Name, ErrStuck, ctx.Err())
	}
}

func (h Host) contents(ctx context.Context, d Device) (Contents, error) {
	var c Contents
	var err error
	if c.FirstNonZero, c.LastNonZero, err = h.edges(d); err != nil {
		return c, err
	}
	if err := h.signatures(ctx, d, &c); err != nil {
		return c, err
	}
	if parts, err := d.Partitions(); err != nil {
		return c, err
	} else if len(parts) > 0 && c.PartitionTable == "" {
		c.PartitionTable = "unknown kind"
	}
	return c, nil
}

// edges reads the first and last MiB. O_DIRECT, so that no page of the cache that was filled through
// another node or before a take-down answers in place of the medium.
func (h Host) edges(d Device) (firstNonZero, lastNonZero bool, err error) {
	file := h.path(d.Path)
	fd, err := openRetry(file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECT|unix.O_NONBLOCK)
	if errors.Is(err, unix.EINVAL) { // a captured tree on a file system without it
		fd, err = openRetry(file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK)
	}
	if err != nil {
		return false, false, &os.PathError{Op: "open", Path: d.Path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, false, &os.PathError{Op: "stat", Path: d.Path, Err: err}
	}
	block := st.Mode&unix.S_IFMT == unix.S_IFBLK
	if block != h.Live() || !block && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, false, fmt.Errorf("%s is not what stands for a device here", d.Path)
	}
	if block && (int(unix.Major(st.Rdev)) != d.Major || int(unix.Minor(st.Rdev)) != d.Minor) {
		return false, false, fmt.Errorf("%s is %d:%d, not %s", d.Path, unix.Major(st.Rdev), unix.Minor(st.Rdev), d.Number())
	}
	if d.Bytes == 0 {
		return false, false, fmt.Errorf("%s has no size", d.Path)
	}
	buf, err := unix.Mmap(-1, 0, edge, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return false, false, fmt.Errorf("get a buffer: %w", err)
	}
	defer func() { _ = unix.Munmap(buf) }()
	length := min(d.Bytes, edge)
	if firstNonZero, err = nonZero(fd, buf[:length], 0, block); err != nil {
		return false, false, &os.PathError{Op: "read the first MiB of", Path: d.Path, Err: err}
	}
	if lastNonZero, err = nonZero(fd, buf[:length], d.Bytes-length, block); err != nil {
		return false, false, &os.PathError{Op: "read the last MiB of", Path: d.Path, Err: err}
	}
	return firstNonZero, lastNonZero, nil
}

// nonZero reads a whole range and looks for a byte that is not zero. A captured device's file may be
// shorter than the device: what is not there counts as zero. A short read of a device is a loss.
func nonZero(fd int, buf []byte, at int64, strict bool) (bool, error) {
	clear(buf)
	for done := 0; done < len(buf); {
		n, err := unix.Pread(fd, buf[done:], at+int64(done))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return false, err
		case n == 0 && strict:
			return false, io.ErrUnexpectedEOF
		case n == 0:
			done = len(buf)
		case !strict && n%512 != 0: // the file's end; O_DIRECT takes no odd offset
			done = len(buf)
		default:
			done += n
		}
	}
	return len(bytes.TrimLeft(buf, "\x00")) > 0, nil
}

// signatures asks blkid -p. Where the program is missing the edges alone decide: every signature
// that matters lies in them.
func (h Host) signatures(ctx context.Context, d Device, c *Contents) error {
	if h.blkid == "" {
		return nil
	}
	program, err := exec.LookPath(h.blkid)
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/" + h.blkid); err != nil {
			return nil
		}
	}
	cmd := exec.CommandContext(ctx, program, "-p", "-o", "export", h.path(d.Path))
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() == 2 && stderr.Len() == 0: // nothing found; with a message: not opened
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == 8:
		c.Signatures = append(c.Signatures, "several kinds at once")
		return nil
	default:
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	parseBlkid(string(out), c)
	return nil
}

// parseBlkid reads the KEY=value lines of blkid -o export. PART_ENTRY_… describes where the device
// itself lies, not what is on it.
func parseBlkid(out string, c *Contents) {
	uuid, table := "", ""
	defer func() {
		if n := len(c.Signatures); uuid != "" && n > 0 {
			c.IDs = append(c.IDs, c.Signatures[n-1]+" "+uuid)
		}
		if table != "" && c.PartitionTable != "" {
			c.IDs = append(c.IDs, c.PartitionTable+" "+table)
		}
	}()
	for _, line := range strings.Split(out, "\n") {
		key, value, ok := strings.Cut(line, "=")
		if !ok || value == "" {
			continue
		}
		value = printable([]byte(strings.ReplaceAll(value, `\`, "")))
		switch key {
		case "TYPE":
			if !slices.Contains(c.Signatures, value) {
				c.Signatures = append(c.Signatures, value)
			}
		case "UUID":
			uuid = value
		case "PTTYPE":
			c.PartitionTable = value
		case "PTUUID":
			table = value
		}
	}
}
