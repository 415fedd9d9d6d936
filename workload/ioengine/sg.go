package ioengine

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

// SGQueue is how many commands one descriptor of an sg node holds (SG_MAX_QUEUE of drivers/scsi/sg.c, in all
// kernels; one more is EDOM). A deeper queue takes several descriptors.
const SGQueue = 16

const (
	sgTimeoutMS = 60_000 // as sgp_dd's; sd gives a command 30 s and five tries, and here is one
	sgSyncMS    = 180_000
	sgTries     = 4 // of a command that is answered with news (a unit attention) instead of being carried out
	sgSenseRoom = 64
)

// SCSI is what engine sg has to know of a disk, besides the descriptor of its block node.
type SCSI struct {
	Nodes    []int // the disk's sg node, opened once for each SGQueue operations of the depth; none at depth 1
	Start    int64 // bytes: where the target begins on the disk. A command counts from the disk's begin, whatever node it is sent to
	Bytes    int64 // of the target: no command goes beyond it
	Block    int   // logical, bytes
	Limit    int64 // bytes that the device takes in a command, 0 unknown: a larger one that the kernel refuses is over the limit
	Through  bool  // each write with FUA
	ReadOnly bool  // refuse to write; the kernel lets root write through a descriptor that was opened for reading
}

// sg sends SCSI commands past the block layer's scheduler, its limits and its statistics: one at a time by
// SG_IO on the block node, or queued, by write and read on the sg node.
type sg struct {
	SCSI
	kernel sgKernel
	fd     int // the block node
	arena  *Arena
	slots  []sgSlot
	nodes  []sgNode
	polls  []unix.PollFd
	flying int
	done   []Completion // without a read from the node: synchronous, or refused
	reply  sgio.Header
}

// sgSlot is one operation. The kernel has the addresses of its parts while it is in flight, so slots stay where
// they are.
type sgSlot struct {
	header sgio.Header
	cdb    [sgio.MaxCDB]byte
	sense  [sgSenseRoom]byte
	tries  int
	words  string // why it failed, where more is known than an errno
	over   bool
}

type sgNode struct{ fd, flying int }

// sgKernel is the kernel's side; tests play one.
type sgKernel interface {
	do(fd int, h *sgio.Header) syscall.Errno // SG_IO: returns when the command is done
	submit(node int, h *sgio.Header) syscall.Errno
	take(node int, h *sgio.Header) syscall.Errno // waits for a completion
	poll(nodes []unix.PollFd, wait bool) syscall.Errno
	address(fd int, node bool) (sgAddress, syscall.Errno)
	readOnly(fd int) (bool, syscall.Errno)               // of the block node
	covers(fd int) (start, bytes int64, _ syscall.Errno) // of the block node: where it lies on its disk
}

func openSG(c Config) (Engine, error) { return newSG(c, sgLinux{}) }

func newSG(c Config, kernel sgKernel) (*sg, error) {
	if c.SCSI == nil {
		return nil, errors.New("it drives SCSI and SATA disks alone")
	}
	e := &sg{SCSI: *c.SCSI, kernel: kernel, fd: c.FD, arena: c.Arena, done: make([]Completion, 0, c.Depth), slots: make([]sgSlot, c.Arena.Slots())}
	block := int64(e.Block)
	if block < 512 || block&(block-1) != 0 || e.Start < 0 || e.Start%block != 0 || e.Bytes < block || e.Start > math.MaxInt64-e.Bytes {
		return nil, fmt.Errorf("no range of a disk: %d bytes from %d on, in blocks of %d", e.Bytes, e.Start, e.Block)
	}
	e.Bytes -= e.Bytes % block
	if err := e.insideNode(); err != nil {
		return nil, err
	}
	if !e.ReadOnly { // the kernel keeps writes from such a device, and commands not
		readOnly, errno := kernel.readOnly(e.fd)
		if errno == 0 && readOnly {
			errno = unix.EROFS
		}
		if errno != 0 {
			return nil, fmt.Errorf("look whether the device may be written to: %w", errno)
		}
	}
	flags := uint32(sgio.FlagAtTail)
	if c.Depth > 1 {
		if len(e.Nodes)*SGQueue < c.Depth {
			return nil, fmt.Errorf("%d descriptors of the sg node, and each holds %d commands", len(e.Nodes), SGQueue)
		}
		for _, fd := range e.Nodes {
			if err := sameDisk(kernel, e.fd, fd); err != nil {
				return nil, err
			}
			e.nodes = append(e.nodes, sgNode{fd: fd})
			e.polls = append(e.polls, unix.PollFd{Fd: int32(fd)})
		}
		flags |= sgio.FlagDirectIO
	}
	for i := range e.slots {
		s := &e.slots[i]
		s.header = sgio.Header{
			InterfaceID: sgio.InterfaceID, MaxSenseLen: sgSenseRoom, TimeoutMS: sgTimeoutMS, Flags: flags, PackID: int32(i),
			Data: e.arena.at(uint32(i)), Cmd: unsafe.Pointer(&s.cdb[0]), Sense: unsafe.Pointer(&s.sense[0]),
		}
	}
	return e, nil
}

// insideNode holds the range against what the claimed block node itself covers: a partition that was moved or made smaller
// since somebody looked stops every read and write, and no command.
func (e *sg) insideNode() error {
	start, bytes, errno := e.kernel.covers(e.fd)
	if errno != 0 {
		return fmt.Errorf("ask the block node where it lies on its disk: %w", errno)
	}
	if bytes == 0 {
		return fmt.Errorf("the block node has no size any more: %w", unix.ENXIO)
	}
	if e.Start < start || e.Start+e.Bytes > start+bytes {
		return fmt.Errorf("the target was bytes %d to %d of its disk, and its block node is now bytes %d to %d", e.Start, e.Start+e.Bytes, start, start+bytes)
	}
	return nil
}

// inside is how much of an operation lies inside the target, in bytes; of one that no command may be sent for, 0
// and its result, which is what a block device's read or write gives.
func (e *sg) inside(op *Op) (length int64, result int32) {
	block := int64(e.Block)
	switch {
	case op.Write && e.ReadOnly:
		return 0, -int32(unix.EBADF)
	case op.Offset < 0, op.Offset%block != 0, op.Length == 0, int64(op.Length)%block != 0, op.Length > math.MaxInt32:
		return 0, -int32(unix.EINVAL)
	case op.Offset >= e.Bytes && op.Write:
		return 0, -int32(unix.ENOSPC)
	case op.Offset >= e.Bytes:
		return 0, 0
	}
	return min(int64(op.Length), e.Bytes-op.Offset), 0
}

func (e *sg) Submit(ops []Op) error {
	for i := range ops {
		op := &ops[i]
		s := &e.slots[op.Slot]
		s.words, s.over, s.tries = "", false, 0
		length, result := e.inside(op)
		if length == 0 {
			e.complete(op.Slot, result)
			continue
		}
		h := &s.header
		h.Direction, h.DataLen = sgio.FromDevice, uint32(length)
		if op.Write {
			h.Direction = sgio.ToDevice
		}
		lba := uint64(e.Start+op.Offset) / uint64(e.Block)
		h.CmdLen = uint8(sgio.Transfer(&s.cdb, op.Write, lba, uint32(length)/uint32(e.Block), op.Write && e.Through))
		e.send(op.Slot)
	}
	return nil
}

// send hands a slot's command over. What the kernel refuses is that operation's result.
func (e *sg) send(slot uint32) {
	s := &e.slots[slot]
	if e.nodes == nil {
		for {
			if errno := e.kernel.do(e.fd, &s.header); errno != 0 {
				e.complete(slot, e.refused(s, errno))
				return
			}
			if result, again := e.result(s, &s.header); !again {
				e.complete(slot, result)
				return
			}
		}
	}
	node := &e.nodes[slot/SGQueue]
	if errno := e.kernel.submit(node.fd, &s.header); errno != 0 {
		e.complete(slot, e.refused(s, errno))
		return
	}
	node.flying++
	e.flying++
}

func (e *sg) complete(slot uint32, result int32) {
	e.done = append(e.done, Completion{Slot: slot, Result: result})
}

func (e *sg) Reap(least int, done []Completion) (int, error) {
	n := e.refusals(done)
	for n < len(done) && (n < least || least == 0 && e.flying > 0) {
		if e.flying == 0 {
			return n, fmt.Errorf("read the sg node: %d completions asked for, nothing in flight", least-n)
		}
		before := n
		if len(e.nodes) == 1 && least > 0 { // reading waits
			if err := e.take(&e.nodes[0], done, &n); err != nil {
				return n, err
			}
		} else if err := e.takeReady(least > 0, done, &n); err != nil {
			return n, err
		}
		n += e.refusals(done[n:]) // of commands that were sent again
		if least == 0 && n == before {
			break
		}
	}
	return n, nil
}

// refusals gives what completed without a read from the node.
func (e *sg) refusals(done []Completion) int {
	n := copy(done, e.done)
	e.done = e.done[:copy(e.done, e.done[n:])]
	return n
}

// takeReady reads a completion from each descriptor that has one.
func (e *sg) takeReady(wait bool, done []Completion, n *int) error {
	for i := range e.nodes {
		e.polls[i].Events, e.polls[i].Revents = 0, 0
		if e.nodes[i].flying > 0 {
			e.polls[i].Events = unix.POLLIN
		}
	}
	if errno := e.kernel.poll(e.polls, wait); errno != 0 {
		return fmt.Errorf("poll the sg node: %w", errno)
	}
	for i := range e.nodes {
		if e.polls[i].Revents != 0 && e.nodes[i].flying > 0 && *n < len(done) {
			if err := e.take(&e.nodes[i], done, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *sg) take(node *sgNode, done []Completion, n *int) error {
	e.reply = sgio.Header{InterfaceID: sgio.InterfaceID, PackID: -1}
	if errno := e.kernel.take(node.fd, &e.reply); errno != 0 {
		return fmt.Errorf("read the sg node: %w", errno)
	}
	slot := e.reply.PackID
	if slot < 0 || int(slot) >= len(e.slots) {
		return fmt.Errorf("read the sg node: an answer to command %d, which was not sent", slot)
	}
	node.flying--
	e.flying--
	result, again := e.result(&e.slots[slot], &e.reply)
	if again {
		e.send(uint32(slot))
		return nil
	}
	done[*n] = Completion{Slot: uint32(slot), Result: result}
	*n++
	return nil
}

// Sync has the drive write its cache to the medium: SYNCHRONIZE CACHE(10) of all of it.
func (e *sg) Sync() error {
	var s sgSlot
	s.cdb[0] = 0x35
	s.header = sgio.Header{
		InterfaceID: sgio.InterfaceID, Direction: sgio.NoData, CmdLen: 10, MaxSenseLen: sgSenseRoom, TimeoutMS: sgSyncMS,
		Cmd: unsafe.Pointer(&s.cdb[0]), Sense: unsafe.Pointer(&s.sense[0]),
	}
	for {
		if errno := e.kernel.do(e.fd, &s.header); errno != 0 {
			return fmt.Errorf("SYNCHRONIZE CACHE(10): %w", errno)
		}
		result, again := e.result(&s, &s.header)
		switch {
		case again:
		case result < 0:
			return fmt.Errorf("%s: %w", s.words, syscall.Errno(-result))
		default:
			return nil
		}
	}
}

// Close has nothing to give back: the descriptors are the caller's.
func (e *sg) Close() error { return nil }
