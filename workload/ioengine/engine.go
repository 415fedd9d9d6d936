// Package ioengine issues I/O: one file an engine, behind one small interface. It knows descriptors,
// offsets and buffers; it must not know workloads, clocks or statistics.
//
// An engine belongs to one goroutine that is locked to its thread (runtime.LockOSThread) from Open to
// Close: a ring made with SINGLE_ISSUER takes submissions from no other. Submit and Reap enter the kernel
// by raw system calls, which keep the scheduler's P while they wait; whoever runs n engines sets
// GOMAXPROCS above n and keeps the collector from starting (see workload's quiet).
package ioengine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// Op is one read or write. Its buffer is the arena's slot of that number; a slot is in flight at most once.
type Op struct {
	Offset int64
	Length uint32 // bytes, at most the arena's block size
	Slot   uint32
	Write  bool
}

// Completion is what became of the Op in a slot: bytes moved, or the errno, negated.
type Completion struct {
	Slot   uint32
	Result int32
}

// Engine issues operations on one descriptor.
type Engine interface {
	// Submit takes operations. They start now, or at the latest in the next Reap. No more may be
	// outstanding than the depth the engine was opened with. The error is the kernel refusing to take
	// any operation at all; an operation's own error is in its completion.
	Submit(ops []Op) error
	// Reap waits for at least least completions (0: does not wait) and gives those that are there, as
	// many as fit into done, which must hold at least least.
	Reap(least int, done []Completion) (int, error)
	// Close gives back what the engine took. Nothing may be in flight.
	Close() error
}

// Config is what an engine works on.
type Config struct {
	FD    int    // stays the caller's
	Depth int    // most operations outstanding
	Arena *Arena // its buffers
	SCSI  *SCSI  // of engine sg; the others need none
}

// Explainer is an engine that knows more of an operation that failed than its errno.
type Explainer interface {
	// Explain is about the operation that completed last in a slot. over says that the kernel refused it for
	// being larger than the device takes, which is a finding, and no fault of the drive.
	Explain(slot uint32) (words string, over bool)
}

// Syncer is an engine to which fsync(2) means nothing: it has its own way to make what it wrote durable.
type Syncer interface{ Sync() error }

var (
	_ Explainer = (*sg)(nil)
	_ Syncer    = (*sg)(nil)
)

// kind is one engine of the table: a new engine is a file and an entry.
type kind struct {
	name string
	open func(Config) (Engine, error)
	sync bool // one operation at a time
}

func kinds() []kind {
	return []kind{
		{name: "psync", open: openPsync, sync: true},
		{name: "libaio", open: openLibaio},
		{name: "io_uring", open: openURing},
		{name: "sg", open: openSG},
		{name: "null", open: openNull},
	}
}

// Names are the engines of this version, without auto.
func Names() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

// Open makes an engine by name, on the calling goroutine's thread, to which it must be locked.
func Open(name string, c Config) (Engine, error) {
	for _, k := range kinds() {
		if k.name == name {
			e, err := k.open(c)
			if err != nil {
				return nil, fmt.Errorf("open engine %s with depth %d: %w", name, c.Depth, err)
			}
			return e, nil
		}
	}
	return nil, fmt.Errorf("no engine %q: %s", name, strings.Join(Names(), ", "))
}

// Depth is how many of the wanted operations the engine can have outstanding in one thread.
func Depth(name string, want int) int {
	for _, k := range kinds() {
		if k.name == name && k.sync {
			return 1
		}
	}
	return want
}

// Auto is the best engine that this kernel, for this process, really allows: io_uring may be compiled
// out, switched off by sysctl or forbidden by a seccomp filter, so it is tried and not looked up.
// libaio waits inside submit for buffered I/O, so without direct it is not considered.
func Auto(direct bool) string {
	if Probe("io_uring") == nil {
		return "io_uring"
	}
	if direct && Probe("libaio") == nil {
		return "libaio"
	}
	return "psync"
}

// Probe tries an engine with one small read; nil: it works here.
func Probe(name string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	zero, err := os.Open("/dev/zero")
	if err != nil {
		return err
	}
	defer zero.Close()
	arena, err := NewArena(1, 512)
	if err != nil {
		return err
	}
	defer arena.Close()
	e, err := Open(name, Config{FD: int(zero.Fd()), Depth: 1, Arena: arena})
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Submit([]Op{{Length: 512}}); err != nil {
		return err
	}
	var done [1]Completion
	if _, err := e.Reap(1, done[:]); err != nil {
		return err
	}
	if r := done[0].Result; r < 0 {
		return fmt.Errorf("probe engine %s: %w", name, syscall.Errno(-r))
	} else if r != 512 {
		return errors.New("probe engine " + name + ": short read of /dev/zero")
	}
	return nil
}
