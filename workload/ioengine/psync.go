package ioengine

import (
	"golang.org/x/sys/unix"
	"syscall"
)

// psync is pread(2) and pwrite(2): one operation at a time in each thread.
type psync struct {
	fd    uintptr
	arena *Arena
	done  []Completion
}

func openPsync(c Config) (Engine, error) {
	return &psync{fd: uintptr(c.FD), arena: c.Arena, done: make([]Completion, 0, c.Depth)}, nil
}

// Submit does the operations, in order, before it returns.
func (e *psync) Submit(ops []Op) error {
	for i := range ops {
		op := &ops[i]
		call := uintptr(unix.SYS_PREAD64)
		if op.Write {
			call = unix.SYS_PWRITE64
		}
		for {
			n, _, errno := syscall.RawSyscall6(call, e.fd, uintptr(e.arena.at(op.Slot)), uintptr(op.Length), uintptr(op.Offset), 0, 0)
			if errno == unix.EINTR {
				continue
			}
			result := int32(n)
			if errno != 0 {
				result = -int32(errno)
			}
			e.done = append(e.done, Completion{Slot: op.Slot, Result: result})
			break
		}
	}
	return nil
}

func (e *psync) Reap(_ int, done []Completion) (int, error) {
	n := copy(done, e.done)
	e.done = e.done[:copy(e.done, e.done[n:])]
	return n, nil
}

func (e *psync) Close() error { return nil }
