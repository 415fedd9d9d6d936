package ioengine

import (
	"encoding/hex"
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

func unsafeBytes(p unsafe.Pointer, n int) []byte { return unsafe.Slice((*byte)(p), n) }

// bySG runs a test of engine sg synchronously, on one descriptor of the sg node, and on three.
func bySG(t *testing.T, f func(t *testing.T, depth int)) {
	for name, depth := range map[string]int{"SG_IO": 1, "queued": 4, "queued on several descriptors": 40} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f(t, depth)
		})
	}
}

func sgOn(t *testing.T, flags, depth int, change ...func(*played, *SCSI)) (*sg, *played) {
	t.Helper()
	f, _ := directFile(t, flags)
	arena, err := NewArena(depth, testBlock)
	require.NoError(t, err)
	t.Cleanup(func() { arena.Close() })
	e, p, err := play(t, f, depth, arena, change...)
	require.NoError(t, err)
	return e, p
}

// Pass-through goes past partitions and claims: whatever is asked, no command may touch a byte outside the target.
func TestSGNeverLeavesItsRange(t *testing.T) {
	const size = testBlock * testBlocks
	bySG(t, func(t *testing.T, depth int) {
		e, p := sgOn(t, os.O_RDWR, depth)
		one := func(op Op) int32 {
			require.NoError(t, e.Submit([]Op{op}))
			return all(t, e, 1)[0].Result
		}
		for _, c := range []struct {
			what   string
			op     Op
			result int32
		}{
			{"before the begin", Op{Offset: -512, Length: 512}, -int32(unix.EINVAL)},
			{"far before the begin", Op{Offset: -1 << 40, Length: 512, Write: true}, -int32(unix.EINVAL)},
			{"at the end", Op{Offset: size, Length: 512}, 0},
			{"written at the end", Op{Offset: size, Length: 512, Write: true}, -int32(unix.ENOSPC)},
			{"beyond the end", Op{Offset: size + 512, Length: 512}, 0},
			{"as far as numbers go", Op{Offset: 1<<63 - 512, Length: 4096}, 0},
			{"written there", Op{Offset: 1<<63 - 512, Length: 4096, Write: true}, -int32(unix.ENOSPC)},
			{"across the end", Op{Offset: size - 512, Length: 4096}, 512},
			{"written across the end", Op{Offset: size - 1024, Length: 4096, Write: true}, 1024},
			{"between two blocks", Op{Offset: 100, Length: 512}, -int32(unix.EINVAL)},
			{"half a block", Op{Offset: 0, Length: 100}, -int32(unix.EINVAL)},
			{"nothing", Op{Offset: 0, Length: 0}, -int32(unix.EINVAL)},
			{"all but nothing", Op{Offset: 0, Length: 512}, 512},
		} {
			assert.Equal(t, c.result, one(c.op), c.what)
		}
		assert.Equal(t, p.start, p.low)
		assert.Equal(t, p.start+size, p.high)
	})
}

func TestSGRangesThatAreNone(t *testing.T) {
	f, _ := directFile(t, os.O_RDONLY)
	arena, err := NewArena(1, testBlock)
	require.NoError(t, err)
	defer arena.Close()
	for what, change := range map[string]func(*SCSI){
		"begins between blocks": func(s *SCSI) { s.Start = 513 },
		"begins nowhere":        func(s *SCSI) { s.Start = -512 },
		"is empty":              func(s *SCSI) { s.Bytes = 0 },
		"has no block":          func(s *SCSI) { s.Block = 0 },
		"has an odd block":      func(s *SCSI) { s.Block = 520 },
		"ends beyond numbers":   func(s *SCSI) { s.Start, s.Bytes = 1<<62, 1<<62 },
	} {
		_, _, err := play(t, f, 1, arena, func(_ *played, s *SCSI) { change(s) })
		assert.ErrorContains(t, err, "no range of a disk", what)
	}
	_, err = Open("sg", Config{FD: int(f.Fd()), Depth: 1, Arena: arena})
	assert.ErrorContains(t, err, "SCSI and SATA disks alone")
}

// A partition that was moved, or made smaller, after it was looked at: the kernel knows, and what lies there now is not touched.
func TestSGStaysInWhatTheBlockNodeCovers(t *testing.T) {
	const size = testBlock * testBlocks
	f, _ := directFile(t, os.O_RDWR)
	arena, err := NewArena(1, testBlock)
	require.NoError(t, err)
	defer arena.Close()
	for what, c := range map[string]struct {
		covered [2]int64
		ok      bool
	}{
		"as it was":              {[2]int64{1 << 20, size}, true},
		"grown at its end":       {[2]int64{1 << 20, 2 * size}, true},
		"a part of a whole disk": {[2]int64{0, 1 << 30}, true},
		"smaller by a sector":    {[2]int64{1 << 20, size - 512}, false},
		"begins a sector later":  {[2]int64{1<<20 + 512, size}, false},
		"begins earlier":         {[2]int64{1<<20 - 512, size}, false},
	} {
		_, _, err := play(t, f, 1, arena, func(p *played, _ *SCSI) { p.covered = &c.covered })
		if c.ok {
			assert.NoError(t, err, what)
		} else {
			assert.ErrorContains(t, err, "the target was bytes 1048576 to ", what)
		}
	}
	_, _, err = play(t, f, 1, arena, func(p *played, _ *SCSI) { p.covered = new([2]int64) })
	assert.ErrorIs(t, err, unix.ENXIO, "a drive that was pulled")
}

// blockdev --setro stops write(2), and no command: the engine must.
func TestSGKeepsADeviceReadOnly(t *testing.T) {
	f, _ := directFile(t, os.O_RDWR)
	arena, err := NewArena(1, testBlock)
	require.NoError(t, err)
	defer arena.Close()
	_, _, err = play(t, f, 1, arena, func(p *played, _ *SCSI) { p.protected = true })
	assert.ErrorIs(t, err, unix.EROFS)
	_, _, err = play(t, f, 1, arena, func(p *played, s *SCSI) { p.protected, s.ReadOnly = true, true })
	assert.NoError(t, err)
}

func TestSGCommands(t *testing.T) {
	for _, c := range []struct {
		what    string
		block   int
		through bool
		op      Op
		want    string
	}{
		{"the partition's begin", 512, false, Op{Length: 4096}, "28000000080000000800"},
		{"in it", 512, false, Op{Offset: 8192, Length: 512}, "28000000081000000100"},
		{"a logical block of 4096", 4096, false, Op{Offset: 8192, Length: 4096}, "28000000010200000100"},
		{"written", 512, false, Op{Length: 4096, Write: true}, "2a000000080000000800"},
		{"written through", 512, true, Op{Length: 4096, Write: true}, "2a080000080000000800"},
		{"read where writes go through", 512, true, Op{Length: 4096}, "28000000080000000800"},
	} {
		e, p := sgOn(t, os.O_RDWR, 1, func(p *played, s *SCSI) { s.Block, p.block, s.Through = c.block, int64(c.block), c.through })
		require.NoError(t, e.Submit([]Op{c.op}), c.what)
		require.Equal(t, int32(c.op.Length), all(t, e, 1)[0].Result, c.what)
		assert.Equal(t, c.want, hex.EncodeToString(p.last[:len(c.want)/2]), c.what)
	}
	// Beyond 2 TiB the place does not fit into ten bytes.
	e, p := sgOn(t, os.O_RDWR, 1, func(p *played, s *SCSI) { p.start, s.Start = 3<<40, 3<<40 })
	require.NoError(t, e.Submit([]Op{{Offset: 4096, Length: 512}}))
	require.EqualValues(t, 512, all(t, e, 1)[0].Result)
	assert.Equal(t, "88000000000180000008000000010000", hex.EncodeToString(p.last[:16]))

	require.NoError(t, e.Sync())
	assert.Equal(t, "35000000000000000000", hex.EncodeToString(p.last[:10]))
}

// say makes a drive answer with a status and sense, of fixed format: key, additional code and qualifier.
func say(times int, status byte, host uint16, sense ...byte) func(*played, *SCSI) {
	return func(p *played, _ *SCSI) {
		p.answer = func(h *sgio.Header, _ []byte) bool {
			if times == 0 {
				return false
			}
			times--
			h.Status, h.HostStatus, h.Residual = status, host, int32(h.DataLen)
			if sense != nil {
				data := [18]byte{0: 0x70, 2: sense[0], 7: 10, 12: sense[1], 13: sense[2]}
				h.SenseLen = uint8(copy(unsafeBytes(h.Sense, int(h.MaxSenseLen)), data[:]))
				h.DriverStatus = 8
			}
			return true
		}
	}
}

func TestSGAnswers(t *testing.T) {
	through := func(_ *played, s *SCSI) { s.Through = true }
	for _, c := range []struct {
		what   string
		drive  []func(*played, *SCSI)
		write  bool
		result int32
		words  string
	}{
		{"a bad sector", []func(*played, *SCSI){say(-1, 2, 0, 3, 0x11, 0)}, false, -int32(unix.ENODATA), "READ(10): medium error: unrecovered read error (03/11/00)"},
		{"no such place", []func(*played, *SCSI){say(-1, 2, 0, 5, 0x21, 0)}, true, -int32(unix.EREMOTEIO), "WRITE(10): illegal request: logical block address out of range (05/21/00)"},
		{"no FUA", []func(*played, *SCSI){say(-1, 2, 0, 5, 0x24, 0), through}, true, -int32(unix.EREMOTEIO),
			"WRITE(10): illegal request: invalid field in the command (05/24/00); it was asked to write through its cache (FUA, sync: dsync), which this drive may not have"},
		{"no answer in time", []func(*played, *SCSI){say(-1, 0, 3)}, false, -int32(unix.ETIMEDOUT), "READ(10): the adapter says timed out (DID_TIME_OUT)"},
		{"gone", []func(*played, *SCSI){say(-1, 0, 1)}, false, -int32(unix.ENOLINK), "READ(10): the adapter says no connection (DID_NO_CONNECT)"},
		{"reserved", []func(*played, *SCSI){say(-1, 0x18, 0)}, false, -int32(unix.EBADE), "READ(10): reservation conflict, without sense"},
		{"aborted", []func(*played, *SCSI){say(-1, 2, 0, 0xb, 0, 0)}, false, -int32(unix.EIO), "READ(10): aborted command (0b/00/00)"},
		{"news, and then it works", []func(*played, *SCSI){say(2, 2, 0, 6, 0x29, 0)}, false, testBlock, ""},
		{"nothing but news", []func(*played, *SCSI){say(-1, 2, 0, 6, 0x29, 0)}, false, -int32(unix.EIO), "READ(10): unit attention: power on, reset, or bus device reset (06/29/00)"},
		{"recovered", []func(*played, *SCSI){func(p *played, s *SCSI) {
			say(-1, 2, 0, 1, 0x17, 0)(p, s)
			told := p.answer
			p.answer = func(h *sgio.Header, cdb []byte) bool { told(h, cdb); h.Residual = 0; return true }
		}}, false, testBlock, ""},
		{"short", []func(*played, *SCSI){func(p *played, _ *SCSI) {
			p.answer = func(h *sgio.Header, _ []byte) bool { h.Residual = 512; return true }
		}}, false, testBlock - 512, ""},
		{"a residual that cannot be", []func(*played, *SCSI){func(p *played, _ *SCSI) {
			p.answer = func(h *sgio.Header, _ []byte) bool { h.Residual = 1 << 30; return true }
		}}, false, 0, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			bySG(t, func(t *testing.T, depth int) {
				e, _ := sgOn(t, os.O_RDWR, depth, c.drive...)
				slot := uint32(depth - 1)
				require.NoError(t, e.Submit([]Op{{Length: testBlock, Slot: slot, Write: c.write}}))
				done := all(t, e, 1)
				assert.Equal(t, []Completion{{Slot: slot, Result: c.result}}, done)
				words, over := e.Explain(slot)
				assert.Equal(t, c.words, words)
				assert.False(t, over)
			})
		})
	}
}

// What the kernel refuses is over the limit where the record is larger than the device takes, and else an error.
func TestSGRefusedByTheKernel(t *testing.T) {
	for _, c := range []struct {
		errno syscall.Errno
		limit int64
		over  bool
		words string
	}{
		{unix.EIO, 1024, true, "the kernel refuses a record of 4096 bytes; the device takes 1024"},
		{unix.EINVAL, 1024, true, "the kernel refuses a record of 4096 bytes; the device takes 1024"},
		{unix.ENOMEM, 1024, true, "the kernel refuses a record of 4096 bytes; the device takes 1024"},
		{unix.EIO, 4096, false, ""},
		{unix.EINVAL, 4096, false, "the kernel cannot make one command of the record: its memory may be in more pieces than max_segments"},
		{unix.ENOMEM, 0, false, "the kernel has no memory for the command"},
		{unix.EDOM, 1024, false, "the sg node's queue of 16 commands is full"},
		{unix.EAGAIN, 1024, false, "the sg node takes no further command now"},
		{unix.ENODEV, 1024, false, ""},
	} {
		bySG(t, func(t *testing.T, depth int) {
			e, p := sgOn(t, os.O_RDONLY, depth, func(p *played, s *SCSI) {
				s.Limit = c.limit
				p.refuse = func(*sgio.Header) syscall.Errno { return c.errno }
			})
			require.NoError(t, e.Submit([]Op{{Length: testBlock}}))
			assert.Equal(t, -int32(c.errno), all(t, e, 1)[0].Result)
			words, over := e.Explain(0)
			assert.Equal(t, c.words, words)
			assert.Equal(t, c.over, over, "%v with a limit of %d", c.errno, c.limit)
			p.refuse = nil
			require.NoError(t, e.Submit([]Op{{Length: testBlock}}))
			assert.EqualValues(t, testBlock, all(t, e, 1)[0].Result, "the engine works on")
			words, over = e.Explain(0)
			assert.Empty(t, words)
			assert.False(t, over)
		})
	}
}

// A command that the kernel took no second time, after news, is not lost.
func TestSGRefusedAfterNews(t *testing.T) {
	bySG(t, func(t *testing.T, depth int) {
		e, p := sgOn(t, os.O_RDONLY, depth, say(1, 2, 0, 6, 0x29, 0))
		told := p.answer
		p.answer = func(h *sgio.Header, cdb []byte) bool {
			p.refuse = func(*sgio.Header) syscall.Errno { return unix.ENODEV }
			return told(h, cdb)
		}
		require.NoError(t, e.Submit([]Op{{Length: testBlock}}))
		assert.Equal(t, -int32(unix.ENODEV), all(t, e, 1)[0].Result)
	})
}

func TestSGNodeOfAnotherDisk(t *testing.T) {
	f, _ := directFile(t, os.O_RDONLY)
	arena, err := NewArena(2, testBlock)
	require.NoError(t, err)
	defer arena.Close()
	_, _, err = play(t, f, 2, arena, func(p *played, _ *SCSI) { p.addresses = [2]sgAddress{{2, 0, 0, 0}, {3, 0, 0, 1}} })
	assert.ErrorContains(t, err, "the sg node is that of SCSI device 3:0:0:1, and the disk is 2:0:0:0")
	_, _, err = play(t, f, 2, arena, func(_ *played, s *SCSI) { s.Nodes = nil })
	assert.ErrorContains(t, err, "each holds 16 commands")

	null, err := os.Open("/dev/null") // is no disk, and the kernel says so
	require.NoError(t, err)
	defer null.Close()
	err = sameDisk(sgLinux{}, int(null.Fd()), int(null.Fd()))
	assert.True(t, errors.Is(err, unix.ENOTTY), "%v", err)
}

func TestSGSyncInWords(t *testing.T) {
	e, p := sgOn(t, os.O_RDWR, 1, say(1, 2, 0, 6, 0x29, 0))
	require.NoError(t, e.Sync(), "after news it is sent again")
	say(-1, 2, 0, 3, 0x0c, 0)(p, nil)
	assert.EqualError(t, e.Sync(), "SYNCHRONIZE CACHE(10): medium error: write error (03/0c/00): no data available")
	p.refuse = func(*sgio.Header) syscall.Errno { return unix.ENODEV }
	assert.ErrorIs(t, e.Sync(), unix.ENODEV)
}
