package ioengine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uring is io_uring. Submit only fills the submission ring; Reap submits and waits in one io_uring_enter,
// so a full round of n operations costs one system call.
//
// Where the kernel has them: SINGLE_ISSUER with DEFER_TASKRUN (completions are worked off in our own
// Reap, not by interrupting the thread), a registered buffer, file and ring descriptor (none is looked up
// per operation). Each falls back alone.
type uring struct {
	kernel     uringKernel
	fd         int
	enterFD    uintptr
	flags      uintptr // of every io_uring_enter
	registered bool    // the ring descriptor is, at index enterFD

	rings, sqeMemory []byte

	sqHead, sqTail *uint32
	sqMask         uint32
	sqes           unsafe.Pointer
	tail           uint32 // ours; published in Reap
	queued         uint32 // filled, not taken by the kernel
	flying         int

	cqHead, cqTail *uint32
	cqMask         uint32
	cqes           unsafe.Pointer
	head           uint32

	arena                  *Arena
	opRead, opWrite, sqeFl uint8
	target                 int32
}

// uringKernel is what a ring asks of the kernel before and after its I/O: what some kernels, filters and limits
// refuse, and where the ring then does without. Tests refuse it in their place.
type uringKernel struct {
	setup    func(entries uint32, p *uringParams) (fd int, errno syscall.Errno)
	register func(fd int, op uintptr, arg unsafe.Pointer, n uintptr) syscall.Errno
}

func openURing(c Config) (Engine, error) {
	return openURingOf(c, uringKernel{setup: uringSetup, register: uringRegister})
}

func uringSetup(entries uint32, p *uringParams) (int, syscall.Errno) {
	fd, _, errno := syscall.RawSyscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	return int(fd), errno
}

func uringRegister(fd int, op uintptr, arg unsafe.Pointer, n uintptr) syscall.Errno {
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_REGISTER, uintptr(fd), op, uintptr(arg), n, 0, 0)
		if errno != unix.EINTR {
			return errno
		}
	}
}

func openURingOf(c Config, kernel uringKernel) (Engine, error) {
	r := &uring{kernel: kernel, fd: -1, arena: c.Arena, opRead: uringOpRead, opWrite: uringOpWrite, target: int32(c.FD)}
	params, err := r.setup(uint32(c.Depth))
	if err != nil {
		return nil, err
	}
	if params.features&uringFeatSingleMmap == 0 {
		_ = r.Close()
		return nil, errors.New("io_uring of this kernel is too old (5.6 is needed)")
	}
	if err := r.mapRings(params); err != nil {
		_ = r.Close()
		return nil, err
	}
	r.registerAll()
	return r, nil
}

// setup tries the best flags first: an older kernel answers EINVAL to those that it does not know.
func (r *uring) setup(entries uint32) (*uringParams, error) {
	var errno syscall.Errno
	for _, flags := range []uint32{uringSetupSingleIssuer | uringSetupDeferTaskrun, uringSetupCoopTaskrun, 0} {
		params := &uringParams{flags: flags}
		var fd int
		if fd, errno = r.kernel.setup(entries, params); errno == 0 {
			r.fd, r.enterFD, r.flags = fd, uintptr(fd), uringEnterGetEvents
			return params, nil
		}
		if errno != unix.EINVAL {
			break
		}
	}
	switch errno {
	case unix.EPERM:
		return nil, fmt.Errorf("io_uring_setup: %w: kernel.io_uring_disabled is set, or a filter of this container forbids it", errno)
	case unix.ENOMEM:
		return nil, fmt.Errorf("io_uring_setup: %w: RLIMIT_MEMLOCK (ulimit -l) is too low for the rings, or there is no memory", errno)
	case unix.ENOSYS:
		return nil, fmt.Errorf("io_uring_setup: %w: a kernel without it, or a filter of this container", errno)
	default:
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
}

func (r *uring) mapRings(p *uringParams) (err error) {
	bytes := max(int(p.sqOff.array)+int(p.sqEntries)*4, int(p.cqOff.cqes)+int(p.cqEntries)*int(unsafe.Sizeof(uringCQE{})))
	const prot, how = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if r.rings, err = unix.Mmap(r.fd, uringOffSQRing, bytes, prot, how); err != nil {
		return fmt.Errorf("map the rings: %w", err)
	}
	if r.sqeMemory, err = unix.Mmap(r.fd, uringOffSQEs, int(p.sqEntries)*int(unsafe.Sizeof(uringSQE{})), prot, how); err != nil {
		return fmt.Errorf("map the submission entries: %w", err)
	}
	word := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[offset])) }
	r.sqHead, r.sqTail, r.sqMask = word(p.sqOff.head), word(p.sqOff.tail), *word(p.sqOff.ringMask)
	r.cqHead, r.cqTail, r.cqMask = word(p.cqOff.head), word(p.cqOff.tail), *word(p.cqOff.ringMask)
	r.cqes, r.sqes = unsafe.Pointer(&r.rings[p.cqOff.cqes]), unsafe.Pointer(&r.sqeMemory[0])
	r.tail, r.head = atomic.LoadUint32(r.sqTail), atomic.LoadUint32(r.cqHead)
	for i := range p.sqEntries { // entry i always describes itself; set once
		*word(p.sqOff.array + 4*i) = i
	}
	return nil
}

// registerAll takes what can be had; an operation works the same without.
func (r *uring) registerAll() {
	iov := unix.Iovec{Base: &r.arena.memory[0]}
	iov.SetLen(len(r.arena.memory))
	if r.call(uringRegisterBuffers, unsafe.Pointer(&iov), 1) == 0 { // over RLIMIT_MEMLOCK, or over 1 GiB: without
		r.opRead, r.opWrite = uringOpReadFixed, uringOpWriteFixed
	}
	file := r.target
	if r.call(uringRegisterFiles, unsafe.Pointer(&file), 1) == 0 {
		r.target, r.sqeFl = 0, uringSQEFixedFile
	}
	update := uringRSrcUpdate{offset: ^uint32(0), data: uint64(r.fd)}
	if r.call(uringRegisterRingFDs, unsafe.Pointer(&update), 1) == 0 {
		r.enterFD, r.flags = uintptr(update.offset), r.flags|uringEnterRegisteredRing
		r.registered = true
	}
}

func (r *uring) call(op uintptr, arg unsafe.Pointer, n uintptr) syscall.Errno {
	return r.kernel.register(r.fd, op, arg, n)
}

func (r *uring) Submit(ops []Op) error {
	for i := range ops {
		op := &ops[i]
		sqe := (*uringSQE)(unsafe.Add(r.sqes, uintptr(r.tail&r.sqMask)*unsafe.Sizeof(uringSQE{})))
		*sqe = uringSQE{
			opcode: r.opRead, flags: r.sqeFl, fd: r.target, offset: uint64(op.Offset),
			addr: r.arena.at(op.Slot), length: op.Length, userData: uint64(op.Slot),
		}
		if op.Write {
			sqe.opcode = r.opWrite
		}
		r.tail++
	}
	r.queued += uint32(len(ops))
	r.flying += len(ops)
	return nil
}

func (r *uring) Reap(least int, done []Completion) (int, error) {
	atomic.StoreUint32(r.sqTail, r.tail)
	n := 0
	for {
		if r.queued == 0 {
			if n += r.take(done[n:]); n >= least {
				return n, nil
			}
		}
		if r.flying == 0 {
			return n, fmt.Errorf("io_uring_enter: %d completions asked for, nothing in flight", least-n)
		}
		taken, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, r.enterFD, uintptr(r.queued), uintptr(max(least-n, 0)), r.flags, 0, 0)
		switch errno {
		case 0:
			r.queued -= uint32(taken)
		case unix.EINTR:
		case unix.EAGAIN, unix.EBUSY: // short of memory, or completions must be taken first
			got := r.take(done[n:])
			if n += got; got == 0 && r.flying == int(r.queued) {
				return n, fmt.Errorf("io_uring_enter: %w", errno)
			}
			if n >= least && n > 0 {
				return n, nil // the caller comes back; the rest is submitted then
			}
		default:
			return n, fmt.Errorf("io_uring_enter: %w", errno)
		}
		if least <= n && r.queued == 0 {
			n += r.take(done[n:])
			return n, nil
		}
	}
}

func (r *uring) take(done []Completion) int {
	n, tail := 0, atomic.LoadUint32(r.cqTail)
	for r.head != tail && n < len(done) {
		cqe := (*uringCQE)(unsafe.Add(r.cqes, uintptr(r.head&r.cqMask)*unsafe.Sizeof(uringCQE{})))
		done[n] = Completion{Slot: uint32(cqe.userData), Result: cqe.result}
		n++
		r.head++
	}
	if n > 0 {
		atomic.StoreUint32(r.cqHead, r.head)
		r.flying -= n
	}
	return n
}

func (r *uring) Close() error {
	var errs []error
	if r.registered { // it holds a reference to the ring for as long as this thread lives
		update := uringRSrcUpdate{offset: uint32(r.enterFD)}
		_ = r.call(uringUnregisterRingFDs, unsafe.Pointer(&update), 1)
	}
	for _, memory := range [][]byte{r.sqeMemory, r.rings} {
		if memory != nil {
			errs = append(errs, unix.Munmap(memory))
		}
	}
	if r.fd >= 0 {
		errs = append(errs, unix.Close(r.fd))
	}
	return errors.Join(errs...)
}
