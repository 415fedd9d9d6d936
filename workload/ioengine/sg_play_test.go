package ioengine

import (
	"encoding/binary"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

// played is a SCSI drive and the kernel in front of it: commands are carried out on a file that stands for the
// target's range of the drive. Queued commands complete in another order than they came.
type played struct {
	t      *testing.T
	file   *os.File
	start  int64 // where the file's first byte lies on the drive
	block  int64
	queued map[int][]sgio.Header // by sg node

	low, high int64                                         // what commands touched, bytes of the drive: [low, high)
	last      [sgio.MaxCDB]byte                             // the command that came last
	answer    func(h *sgio.Header, cdb []byte) (taken bool) // instead of carrying it out
	refuse    func(h *sgio.Header) syscall.Errno            // instead of taking it
	protected bool                                          // by BLKROSET
	covered   *[2]int64                                     // what the block node covers: begin and bytes; nil: the target
	addresses [2]sgAddress                                  // of the block node, and of the sg node
}

const playedNode = 1000 // the first descriptor of the sg node

func (p *played) run(h *sgio.Header) {
	cdb := unsafeBytes(h.Cmd, int(h.CmdLen))
	p.last = [sgio.MaxCDB]byte{}
	copy(p.last[:], cdb)
	h.Status, h.HostStatus, h.DriverStatus, h.SenseLen, h.Residual = 0, 0, 0, 0, 0
	if p.answer != nil && p.answer(h, cdb) {
		return
	}
	var lba, blocks int64
	switch cdb[0] {
	case 0x28, 0x2a:
		lba, blocks = int64(binary.BigEndian.Uint32(cdb[2:])), int64(binary.BigEndian.Uint16(cdb[7:]))
	case 0x88, 0x8a:
		lba, blocks = int64(binary.BigEndian.Uint64(cdb[2:])), int64(binary.BigEndian.Uint32(cdb[10:]))
	default:
		return
	}
	if blocks*p.block != int64(h.DataLen) { // no assert: it would allocate
		p.t.Errorf("a command of %d bytes in a header of %d", blocks*p.block, h.DataLen)
	}
	if p.high == 0 || lba*p.block < p.low {
		p.low = lba * p.block
	}
	p.high = max(p.high, (lba+blocks)*p.block)
	data, at := unsafeBytes(h.Data, int(h.DataLen)), lba*p.block-p.start
	var n int
	var err error
	if h.Direction == sgio.ToDevice {
		n, err = p.file.WriteAt(data, at)
	} else {
		n, err = p.file.ReadAt(data, at)
	}
	if err != nil {
		p.t.Errorf("the drive, %d bytes at %d: %v", h.DataLen, at, err)
	}
	h.Residual = int32(len(data) - n)
}

func (p *played) do(_ int, h *sgio.Header) syscall.Errno {
	if p.refuse != nil {
		if errno := p.refuse(h); errno != 0 {
			return errno
		}
	}
	p.run(h)
	return 0
}

func (p *played) submit(node int, h *sgio.Header) syscall.Errno {
	if p.refuse != nil {
		if errno := p.refuse(h); errno != 0 {
			return errno
		}
	}
	if len(p.queued[node]) == SGQueue {
		return unix.EDOM
	}
	p.queued[node] = append(p.queued[node], *h)
	return 0
}

func (p *played) take(node int, h *sgio.Header) syscall.Errno {
	q := p.queued[node]
	if len(q) == 0 {
		p.t.Fatal("a read of the sg node that would wait for ever")
	}
	*h = q[len(q)-1]
	p.queued[node] = q[:len(q)-1]
	p.run(h)
	return 0
}

func (p *played) poll(nodes []unix.PollFd, wait bool) syscall.Errno {
	ready := false
	for i := range nodes {
		if nodes[i].Events != 0 && len(p.queued[int(nodes[i].Fd)]) > 0 {
			nodes[i].Revents, ready = unix.POLLIN, true
		}
	}
	if wait && !ready {
		p.t.Fatal("a poll that would wait for ever")
	}
	return 0
}

func (p *played) covers(int) (start, bytes int64, _ syscall.Errno) {
	return p.covered[0], p.covered[1], 0
}

func (p *played) readOnly(int) (bool, syscall.Errno) { return p.protected, 0 }

func (p *played) address(_ int, node bool) (sgAddress, syscall.Errno) {
	if node {
		return p.addresses[1], 0
	}
	return p.addresses[0], 0
}

// play makes engine sg on a drive of which the file is a range, somewhere in its middle.
func play(t *testing.T, f *os.File, depth int, arena *Arena, change ...func(*played, *SCSI)) (*sg, *played, error) {
	t.Helper()
	st, err := f.Stat()
	require.NoError(t, err)
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	require.NoError(t, err)
	drive, err := os.OpenFile(f.Name(), flags&unix.O_ACCMODE, 0)
	require.NoError(t, err)
	t.Cleanup(func() { drive.Close() })
	p := &played{t: t, file: drive, start: 1 << 20, block: 512, queued: map[int][]sgio.Header{}}
	scsi := &SCSI{Start: p.start, Bytes: st.Size(), Block: 512, ReadOnly: flags&unix.O_ACCMODE == unix.O_RDONLY}
	for i := 0; depth > 1 && i < depth; i += SGQueue {
		node := playedNode + i
		p.queued[node] = make([]sgio.Header, 0, SGQueue)
		scsi.Nodes = append(scsi.Nodes, node)
	}
	for _, c := range change {
		c(p, scsi)
	}
	if p.covered == nil {
		p.covered = &[2]int64{scsi.Start, scsi.Bytes}
	}
	e, err := newSG(Config{FD: 3, Depth: depth, Arena: arena, SCSI: scsi}, p)
	return e, p, err
}
