package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Mount is one line of /proc/PID/mountinfo (proc(5)), escapes undone.
type Mount struct {
	ID, Parent   int
	Major, Minor int    // of the file system; major 0 where it has no block device of its own
	Root         string // what of the file system is mounted: "/", a bind mount's directory, a btrfs subvolume
	Point        string
	Options      string // of the mount
	Type         string // "ext4"
	Source       string // "/dev/sdb1", "tmpfs", "server:/export"
	SuperOptions string // of the file system
}

// Mounts reads the mounts this process sees, in the kernel's order.
func (h Host) Mounts() ([]Mount, error) {
	text, err := h.readAll("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) && !h.Live() {
		return nil, nil // captured without its /proc
	}
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	return parseMountinfo(strings.NewReader(text))
}

// parseMountinfo reads mountinfo. The optional fields between the sixth and the "-" vary in number.
func parseMountinfo(r io.Reader) ([]Mount, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var mounts []Mount
	for n, line := range strings.Split(string(b), "\n") {
		if line == "" {
			continue
		}
		m, err := parseMount(line)
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %d: %w", n+1, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func parseMount(line string) (Mount, error) {
	// Not strings.Fields: an empty source is an empty field.
	f := strings.Split(line, " ")
	dash := -1
	if len(f) > 6 {
		if dash = slices.Index(f[6:], "-"); dash >= 0 {
			dash += 6
		}
	}
	if dash < 0 || len(f) < dash+3 {
		return Mount{}, fmt.Errorf("%q is no mount", line)
	}
	var m Mount
	var err error
	if m.ID, err = strconv.Atoi(f[0]); err != nil {
		return Mount{}, fmt.Errorf("mount id %q: %w", f[0], err)
	}
	if m.Parent, err = strconv.Atoi(f[1]); err != nil {
		return Mount{}, fmt.Errorf("parent id %q: %w", f[1], err)
	}
	if m.Major, m.Minor, err = parseNumber(f[2]); err != nil {
		return Mount{}, err
	}
	m.Root, m.Point, m.Options = unescape(f[3]), unescape(f[4]), f[5]
	m.Type, m.Source = unescape(f[dash+1]), unescape(f[dash+2])
	m.SuperOptions = strings.Join(f[dash+3:], " ")
	if !strings.HasPrefix(m.Point, "/") {
		return Mount{}, fmt.Errorf("mount point %q is not absolute", m.Point)
	}
	return m, nil
}

// unescape undoes the kernel's octal escapes (\040 is a blank). Each is exactly three digits, so
// "\040!" is " !".
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountOf gives the mount that a path without links lies on. It walks the tree of mounts as the
// kernel does: what is mounted on something hides everything below it, also an older and deeper
// mount, and of two on one point the last one counts.
func mountOf(mounts []Mount, path string) (Mount, bool) {
	ids := make(map[int]bool, len(mounts))
	for _, m := range mounts {
		ids[m.ID] = true
	}
	at := -1
	for i, m := range mounts { // a chroot sees no mount at "/", and parents that are not listed
		if (m.Parent == m.ID || !ids[m.Parent]) && within(path, m.Point) &&
			(at < 0 || len(m.Point) >= len(mounts[at].Point)) {
			at = i
		}
	}
	if at < 0 {
		return Mount{}, false
	}
	for range mounts { // no path has more steps; a circle of parents must end
		next := -1
		for i, m := range mounts {
			if m.Parent == mounts[at].ID && i != at && within(path, m.Point) && within(m.Point, mounts[at].Point) &&
				(next < 0 || len(m.Point) <= len(mounts[next].Point)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		at = next
	}
	return mounts[at], true
}

// within tells whether path is dir or below it.
func within(path, dir string) bool {
	if dir == "/" {
		return strings.HasPrefix(path, "/")
	}
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// noKnobs says why no device setting reaches a file system of this type, "" where they may.
func noKnobs(m Mount) string {
	kind := m.Type
	switch {
	case kind == "btrfs", kind == "bcachefs":
		return ""
	case kind == "zfs":
		return "zfs on " + m.Point + ": the kernel does not say which disks its pool is on"
	case kind == "overlay", kind == "aufs", kind == "unionfs":
		return kind + " on " + m.Point + " has no block device of its own"
	case kind == "tmpfs", kind == "ramfs", kind == "devtmpfs", kind == "hugetlbfs":
		return kind + " on " + m.Point + " is in memory"
	case strings.HasPrefix(kind, "nfs"), kind == "cifs", kind == "smb3", kind == "9p", kind == "virtiofs", kind == "ceph", kind == "afs":
		return kind + " on " + m.Point + ": the disks are another machine's"
	case strings.HasPrefix(kind, "fuse"):
		return kind + " on " + m.Point + ": a program decides where its data goes"
	case m.Major == 0:
		return kind + " on " + m.Point + " has no block device"
	}
	return ""
}

// Swap is one line of /proc/swaps.
type Swap struct {
	Name string // "/dev/sdb2", or a file
	File bool
}

// Swaps reads the active swap areas; none where the kernel has no swap.
func (h Host) Swaps() ([]Swap, error) {
	text, err := h.readAll("/proc/swaps")
	if err != nil {
		if h.exists("/proc/swaps") {
			return nil, fmt.Errorf("read the swap areas: %w", err)
		}
		return nil, nil
	}
	return parseSwaps(text)
}

// parseSwaps reads /proc/swaps: a header, then name (escaped as in mountinfo), type, sizes.
func parseSwaps(text string) ([]Swap, error) {
	var swaps []Swap
	for n, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || n == 0 && f[0] == "Filename" {
			continue
		}
		if len(f) < 5 || !strings.HasPrefix(f[0], "/") {
			return nil, fmt.Errorf("swaps line %d: %q is no swap area", n+1, line)
		}
		swaps = append(swaps, Swap{Name: unescape(f[0]), File: f[1] != "partition"})
	}
	return swaps, nil
}
