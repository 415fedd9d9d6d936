package ioengine

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ABI of include/uapi/linux/aio_abi.h, and of the completion ring in fs/aio.c.
const (
	iocbPread  = 0
	iocbPwrite = 1

	aioRingMagic    = 0xa10a10a1
	aioRingIncompat = 0 // features of the ring that a reader has to know
)

type iocb struct {
	data   uint64 // given back in the event: the slot
	key    uint32
	_      int32 // aio_rw_flags
	opcode uint16
	_      int16 // aio_reqprio
	fd     uint32
	buffer unsafe.Pointer
	bytes  uint64
	offset int64
	_      uint64 // aio_reserved2
	_      uint32 // aio_flags
	resfd  uint32
}

type aioEvent struct {
	data   uint64
	object uint64
	result int64
	extra  int64
}

type aioRing struct {
	id       uint32
	entries  uint32
	head     uint32
	tail     uint32
	magic    uint32
	compat   uint32
	incompat uint32
	header   uint32
}

// libaio is Linux's native asynchronous I/O, without the library of that name: io_setup, io_submit, and
// completions read straight out of the ring that the kernel maps into the process, which saves
// io_getevents whenever something is there already.
type libaio struct {
	context unsafe.Pointer // also the address of the ring
	ring    *aioRing       // nil: a layout unknown here, so only io_getevents
	events  unsafe.Pointer
	arena   *Arena
	iocbs   []iocb       // one a slot
	queue   []*iocb      // not taken by the kernel yet
	refused []Completion // by io_submit itself
	flying  int
	got     []aioEvent
}

func openLibaio(c Config) (Engine, error) {
	e := &libaio{arena: c.Arena, iocbs: make([]iocb, c.Arena.Slots()), queue: make([]*iocb, 0, c.Depth), refused: make([]Completion, 0, c.Depth), got: make([]aioEvent, c.Depth)}
	if _, _, errno := syscall.RawSyscall(unix.SYS_IO_SETUP, uintptr(c.Depth), uintptr(unsafe.Pointer(&e.context)), 0); errno != 0 {
		if errno == unix.EAGAIN {
			return nil, fmt.Errorf("io_setup: more than /proc/sys/fs/aio-max-nr: %w", errno)
		}
		return nil, fmt.Errorf("io_setup: %w", errno)
	}
	ring := (*aioRing)(e.context)
	if ring.magic == aioRingMagic && ring.incompat == aioRingIncompat {
		e.ring, e.events = ring, unsafe.Add(e.context, ring.header)
	}
	for i := range e.iocbs {
		e.iocbs[i] = iocb{data: uint64(i), fd: uint32(c.FD), buffer: c.Arena.at(uint32(i))}
	}
	return e, nil
}

func (e *libaio) Submit(ops []Op) error {
	for i := range ops {
		op := &ops[i]
		cb := &e.iocbs[op.Slot]
		cb.opcode = iocbPread
		if op.Write {
			cb.opcode = iocbPwrite
		}
		cb.bytes, cb.offset = uint64(op.Length), op.Offset
		e.queue = append(e.queue, cb)
	}
	return e.flush()
}

// flush hands the queue over. io_submit stops at the first operation that it refuses, and says so only
// when that is the first of the call.
func (e *libaio) flush() error {
	for len(e.queue) > 0 {
		n, _, errno := syscall.RawSyscall(unix.SYS_IO_SUBMIT, uintptr(e.context), uintptr(len(e.queue)), uintptr(unsafe.Pointer(&e.queue[0])))
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			if e.flying > 0 {
				return nil // the next Reap makes room and tries again
			}
			return fmt.Errorf("io_submit: %w", errno)
		default:
			// The first one is refused by itself (EINVAL for its alignment, EBADF…): its own error.
			e.refuse(errno)
			continue
		}
		if n == 0 {
			return fmt.Errorf("io_submit took none of %d operations", len(e.queue))
		}
		e.flying += int(n)
		e.queue = e.queue[:copy(e.queue, e.queue[n:])]
	}
	return nil
}

// refuse completes the first of the queue with the error that io_submit gave for it.
func (e *libaio) refuse(errno syscall.Errno) {
	e.refused = append(e.refused, Completion{Slot: uint32(e.queue[0].data), Result: -int32(errno)})
	e.queue = e.queue[:copy(e.queue, e.queue[1:])]
}

func (e *libaio) Reap(least int, done []Completion) (int, error) {
	n := copy(done, e.refused)
	e.refused = e.refused[:copy(e.refused, e.refused[n:])]
	for {
		n += e.take(done[n:])
		if len(e.queue) > 0 {
			if err := e.flush(); err != nil {
				return n, err
			}
		}
		if n >= least {
			return n, nil
		}
		if e.flying == 0 {
			return n, fmt.Errorf("io_getevents: %d completions asked for, nothing in flight", least-n)
		}
		want, room := least-n, len(done)-n
		got, _, errno := syscall.RawSyscall6(unix.SYS_IO_GETEVENTS, uintptr(e.context), uintptr(min(want, e.flying)), uintptr(min(room, len(e.got))),
			uintptr(unsafe.Pointer(&e.got[0])), 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return n, fmt.Errorf("io_getevents: %w", errno)
		}
		for i := range e.got[:got] {
			done[n] = completion(&e.got[i])
			n++
		}
		e.flying -= int(got)
	}
}

// take empties the mapped ring without a system call.
func (e *libaio) take(done []Completion) int {
	if e.ring == nil {
		return 0
	}
	n, head, tail := 0, e.ring.head, atomic.LoadUint32(&e.ring.tail)
	for head != tail && n < len(done) {
		done[n] = completion((*aioEvent)(unsafe.Add(e.events, uintptr(head)*unsafe.Sizeof(aioEvent{}))))
		n++
		if head++; head == e.ring.entries {
			head = 0
		}
	}
	if n > 0 {
		atomic.StoreUint32(&e.ring.head, head)
		e.flying -= n
	}
	return n
}

func completion(ev *aioEvent) Completion {
	return Completion{Slot: uint32(ev.data), Result: int32(ev.result)}
}

func (e *libaio) Close() error {
	if _, _, errno := syscall.RawSyscall(unix.SYS_IO_DESTROY, uintptr(e.context), 0, 0); errno != 0 {
		return fmt.Errorf("io_destroy: %w", errno)
	}
	return nil
}
