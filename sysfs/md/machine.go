package md

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// machine is where is built and taken down. Tests replace what acts.
type machine struct {
	host    sysfs.Host
	run     runner
	mount   func(node, point, kind string, flags uintptr, data string) error
	unmount func(point string) error

	moment   time.Duration // between two looks at something that is about to change
	patience time.Duration // with what somebody else holds for moments: udev probes each array that comes up, and stop is EBUSY meanwhile
}

// How long single programs may take.
const (
	lookTime   = time.Minute      // to read superblocks and signatures: a drive that spins up
	changeTime = 2 * time.Minute  // to create or stop an array, to zero, to wipe
	mountTime  = 30 * time.Minute // to unmount: all that is dirty is written
)

// live is the running machine. On a captured one there is nothing to build.
func live(h sysfs.Host) (machine, error) {
	if !h.Live() {
		return machine{}, fmt.Errorf("%s is a captured machine: arrays are built and taken down on the running one", h.Root())
	}
	m := machine{host: h, run: runProgram, moment: 100 * time.Millisecond, patience: 10 * time.Second}
	m.mount = func(node, point, kind string, flags uintptr, data string) error {
		return unix.Mount(node, point, kind, flags, data)
	}
	m.unmount = func(point string) error { return unix.Unmount(point, unix.UMOUNT_NOFOLLOW) }
	return m, nil
}

// path makes a path of the machine one of ours.
func (m machine) path(p string) string { return filepath.Join(m.host.Root(), p) }

// realPoint is a mount point as the kernel lists it: without links on the way to it.
func (m machine) realPoint(point string) string {
	root, err := filepath.EvalSymlinks(m.host.Root())
	if err != nil {
		return point
	}
	dir, err := filepath.EvalSymlinks(m.path(filepath.Dir(point)))
	if err != nil {
		return point
	}
	inside, err := filepath.Rel(root, dir)
	if err != nil {
		return point
	}
	return filepath.Join("/", inside, filepath.Base(point))
}

// checkNode makes sure that a device's node leads to that very device: programs are given the node's name.
func (m machine) checkNode(d sysfs.Device) error {
	if !m.host.Live() {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(d.Path, &st); err != nil {
		return &os.PathError{Op: "stat", Path: d.Path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK || int(unix.Major(st.Rdev)) != d.Major || int(unix.Minor(st.Rdev)) != d.Minor {
		return fmt.Errorf("the node %s is not that of %s (%s)", d.Path, d.Name, d.Number())
	}
	return nil
}

// readable makes sure that the place of a superblock can be read, from the medium.
func (m machine) readable(ctx context.Context, d sysfs.Device) error {
	if !m.host.Live() {
		return nil
	}
	return within(ctx, lookTime, func() error {
		fd, err := unix.Open(d.Path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: d.Path, Err: err}
		}
		defer unix.Close(fd)
		page := os.Getpagesize()
		buf, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned, as O_DIRECT wants it
		if err != nil {
			return fmt.Errorf("get a buffer: %w", err)
		}
		defer func() { _ = unix.Munmap(buf) }()
		n, err := unix.Pread(fd, buf, 0)
		if err == nil && n == 0 { // a drive that was pulled
			err = unix.ENODEV
		}
		if err != nil {
			return &os.PathError{Op: "read", Path: d.Path, Err: err}
		}
		return nil
	})
}

// attribute is an attribute of an array, "" where it has none.
func (m machine) attribute(ctx context.Context, d sysfs.Device, name string) string {
	text, err := m.host.ReadWithin(ctx, d.SysDir()+"/md/"+name)
	if err != nil {
		return ""
	}
	return text
}

// wait sleeps, or gives the context's error.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// within does something that does not listen to a context: mount and umount of a device that does not answer never return.
func within(ctx context.Context, limit time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", sysfs.ErrStuck, ctx.Err())
	}
}
