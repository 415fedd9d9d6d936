// Package sysfs shows block devices as the kernel shows them: what they are, what lies under what,
// which settings they have, and whether one may be touched. It reads and writes a single device at a
// time and must not know sweeps, workloads, or when a setting is made.
package sysfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

// Errors a caller branches on.
var (
	// ErrStuck: the kernel did not come back from a read or write in time. The thread that does it
	// may be in D state for as long as the device keeps a command.
	ErrStuck = errors.New("stuck in the kernel")
	// ErrNoDevice: the machine has no such block device.
	ErrNoDevice = errors.New("no such block device")
	// ErrUnsupported: this device cannot have that knob or level.
	ErrUnsupported = errors.New("not supported by this device")

	errCaptured = errors.New("a captured tree takes no commands") // which says nothing of the drive
)

// attributeDeadline is given to a read or write whose context has no deadline: a frozen queue must
// not hold up a sweep for ever.
const attributeDeadline = 60 * time.Second

// Host is one machine: the running one, or a tree that holds its sys, proc and dev. It is the only
// maker of paths below them and the only writer of attributes. The zero value is not usable.
type Host struct {
	root, realRoot string // the second without links

	write  func(path, value string) error
	sg     func(node string) (sgio.Device, error)
	nvme   func(node string) (sgio.NVMe, error)
	euid   func() int
	blkid  string
	pageKB int // of the machine, 0: that of the running kernel

	patience time.Duration // with a device that is looked at
	bridges  *bridges      // what USB bridges said
}

// Option changes how a Host reaches its machine.
type Option func(*Host)

// WithWriter replaces the one function that writes attributes. Its path is the logical one
// ("/sys/block/sda/queue/nr_requests"); value has no newline.
func WithWriter(w func(path, value string) error) Option {
	return func(h *Host) { h.write = w }
}

// WithSG replaces opening a device node for SG_IO. The node is the logical one ("/dev/sda").
func WithSG(open func(node string) (sgio.Device, error)) Option {
	return func(h *Host) { h.sg = open }
}

// WithNVMe replaces opening an NVMe namespace's node for commands. The node is the logical one
// ("/dev/nvme0n1").
func WithNVMe(open func(node string) (sgio.NVMe, error)) Option {
	return func(h *Host) { h.nvme = open }
}

// WithEUID replaces the effective user id that the safety gate judges by. Without it a captured tree
// is never refused for lack of privilege.
func WithEUID(euid int) Option {
	return func(h *Host) { h.euid = func() int { return euid } }
}

// WithBlkid names the blkid program that knows signatures, "" for none. Without this option the
// running machine uses the one in the PATH and a captured tree uses none.
func WithBlkid(program string) Option {
	return func(h *Host) { h.blkid = program }
}

// NewHost gives the machine whose /sys, /proc and /dev lie below root: "/" is the running one.
func NewHost(root string, opts ...Option) Host {
	if abs, err := filepath.Abs(root); err == nil { // real paths are compared with it
		root = abs
	}
	h := Host{root: filepath.Clean(root), patience: 2 * time.Second, bridges: &bridges{}}
	h.realRoot = h.root
	if real, err := filepath.EvalSymlinks(h.root); err == nil {
		h.realRoot = real
	}
	if h.Live() {
		h.euid = os.Geteuid
		h.blkid = "blkid"
	}
	for _, o := range opts {
		o(&h)
	}
	return h
}

// Root is the directory that holds sys, proc and dev.
func (h Host) Root() string { return h.root }

// Live tells the running machine from a captured tree.
func (h Host) Live() bool { return h.root == "/" }

// path makes a logical path a real one.
func (h Host) path(logical string) string { return filepath.Join(h.root, logical) }

// Read gives an attribute's text by one read(2), trailing white space trimmed. An absent attribute
// is an error that is fs.ErrNotExist.
func (h Host) Read(path string) (string, error) {
	b, err := h.readRaw(path)
	if err != nil {
		return "", err
	}
	return string(bytes.TrimRight(b, " \t\r\n\x00")), nil
}

// readRaw is one open, one read and one close: what an attribute shows is made anew at offset 0, so
// a second read of the rest could mix two states. os.File is avoided because its poller and the
// kernel's attribute files do not go together.
func (h Host) readRaw(path string) ([]byte, error) {
	fd, err := openRetry(h.path(path), unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	defer unix.Close(fd)
	buf := make([]byte, os.Getpagesize())
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		return buf[:max(n, 0)], nil
	}
}

// readAll gives the whole of a file of /proc, which can be longer than one read gives.
func (h Host) readAll(path string) (string, error) {
	b, err := os.ReadFile(h.path(path))
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			pe.Path = path
		}
		return "", err
	}
	return string(b), nil
}

// text is Read for an attribute whose absence means "".
func (h Host) text(path string) string {
	s, err := h.Read(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(s)
}

// ReadWithin is Read in a goroutine of its own: attributes of queue/ can wait behind a write that
// waits for the device. ErrStuck when ctx (or 60 s, where it has no deadline) ends first.
func (h Host) ReadWithin(ctx context.Context, path string) (string, error) {
	type answer struct {
		s   string
		err error
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	done := make(chan answer, 1)
	go func() {
		s, err := h.Read(path)
		done <- answer{s, err}
	}()
	select {
	case a := <-done:
		return a.s, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("read %s: %w (%w)", path, ErrStuck, ctx.Err())
	}
}

// Write writes value and a newline to an attribute by one write(2). It never creates a file. ErrStuck
// when ctx (or 60 s, where it has no deadline) ends before the kernel is back; the value may then
// still take effect later. No error proves nothing: read back.
func (h Host) Write(ctx context.Context, path, value string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write %q to %s: %w", value, path, err)
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	write := h.write
	if write == nil {
		write = h.writeAttribute
	}
	done := make(chan error, 1)
	go func() { done <- write(path, value) }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("write %q to %s: %w", value, path, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("write %q to %s: %w (%w)", value, path, ErrStuck, ctx.Err())
	}
}

// writeAttribute gives bare errnos; Write says the rest. O_CREAT would turn ENOENT into EACCES on
// sysfs and make files in a captured tree.
func (h Host) writeAttribute(path, value string) error {
	fd, err := openRetry(h.path(path), unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	line := []byte(value + "\n")
	n, err := unix.Write(fd, line)
	closed := unix.Close(fd)
	switch {
	case err != nil:
		return err
	case n != len(line):
		return io.ErrShortWrite
	}
	return closed
}

// openRetry opens, again after a signal.
func openRetry(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, attributeDeadline)
}

// OpenSG opens a device node ("/dev/sda") for SG_IO.
func (h Host) OpenSG(node string) (sgio.Device, error) {
	switch {
	case h.sg != nil:
		return h.sg(node)
	case !h.Live():
		return nil, fmt.Errorf("open %s for SG_IO: %w", node, errCaptured)
	}
	return sgio.Open(node)
}

// OpenNVMe opens a namespace's node ("/dev/nvme0n1") for NVMe commands.
func (h Host) OpenNVMe(node string) (sgio.NVMe, error) {
	switch {
	case h.nvme != nil:
		return h.nvme(node)
	case !h.Live():
		return nil, fmt.Errorf("open %s for NVMe commands: %w", node, errCaptured)
	}
	return sgio.OpenNVMe(node)
}

// syncNode is fsync of a device node: its dirty pages are written, and the kernel's flush is sent.
func (h Host) syncNode(node string) error {
	fd, err := openRetry(h.path(node), unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return &os.PathError{Op: "open", Path: node, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.Fsync(fd); err != nil {
		return &os.PathError{Op: "fsync", Path: node, Err: err}
	}
	return nil
}

// BootID is the kernel's random id of this boot (proc(5), /proc/sys/kernel/random/boot_id).
func (h Host) BootID() (string, error) {
	id, err := h.Read("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return id, nil
}

// KernelRelease is what uname -r says, "" when unknown.
func (h Host) KernelRelease() string { return h.text("/proc/sys/kernel/osrelease") }
