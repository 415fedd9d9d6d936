//go:build lab

package ioengine

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	labStart = 3 << 20 // the range that stands for a partition, in the middle of the drive
	labBytes = 1 << 20
)

// labDisk is a drive of the guest: its name, its block node, and its sg node.
func labDisk(t *testing.T, is func(dir string) bool) (name string, block, node *os.File) {
	t.Helper()
	disks, err := filepath.Glob("/sys/block/sd*")
	require.NoError(t, err)
	for _, dir := range disks {
		if !is(dir) {
			continue
		}
		nodes, err := filepath.Glob(dir + "/device/scsi_generic/sg*")
		require.NoError(t, err)
		require.Len(t, nodes, 1)
		open := func(path string) *os.File {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			t.Cleanup(func() { f.Close() })
			return f
		}
		return filepath.Base(dir), open("/dev/" + filepath.Base(dir)), open("/dev/" + filepath.Base(nodes[0]))
	}
	t.Fatal("no such drive")
	return "", nil, nil
}

func isAHCI(dir string) bool {
	page, _ := os.ReadFile(dir + "/device/vpd_pg80")
	return strings.Contains(string(page), "QDLAB-SATA-2")
}

func isDelayed(dir string) bool {
	model, _ := os.ReadFile(dir + "/device/model")
	return strings.TrimSpace(string(model)) == "scsi_debug"
}

// labSG makes the engine as a thread has it, with descriptors of its own.
func labSG(t *testing.T, block, node *os.File, depth, record int, change func(*SCSI)) (*sg, *Arena) {
	t.Helper()
	arena, err := NewArena(depth, record)
	require.NoError(t, err)
	scsi := &SCSI{Start: labStart, Bytes: labBytes, Block: 512}
	for i := 0; depth > 1 && i < depth; i += SGQueue {
		f, err := os.OpenFile(node.Name(), os.O_RDWR, 0)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		scsi.Nodes = append(scsi.Nodes, int(f.Fd()))
	}
	if change != nil {
		change(scsi)
	}
	e, err := Open("sg", Config{FD: int(block.Fd()), Depth: depth, Arena: arena, SCSI: scsi})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()); assert.NoError(t, arena.Close()) })
	return e.(*sg), arena
}

// onDrive is what every kernel and every drive must do, by SG_IO, queued, and queued on several descriptors.
func onDrive(t *testing.T, block, node *os.File) {
	guard := bytes.Repeat([]byte("guard..."), 512) // 4096 bytes on both sides of the range
	direct, err := os.OpenFile(block.Name(), os.O_RDWR|unix.O_DIRECT|unix.O_SYNC, 0)
	require.NoError(t, err)
	defer direct.Close()
	page, err := NewArena(1, testBlock)
	require.NoError(t, err)
	defer page.Close()
	at := func(offset int64) []byte {
		_, err := direct.ReadAt(page.Buffer(0), offset)
		require.NoError(t, err)
		return page.Buffer(0)
	}
	for _, offset := range []int64{labStart - testBlock, labStart + labBytes} {
		copy(page.Buffer(0), guard)
		_, err := direct.WriteAt(page.Buffer(0), offset)
		require.NoError(t, err)
	}
	for _, depth := range []int{1, 4, 40} {
		t.Run(strconv.Itoa(depth), func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			e, arena := labSG(t, block, node, depth, testBlock, nil)
			var ops []Op
			for s := range depth {
				copy(arena.Buffer(uint32(s)), bytes.Repeat([]byte{byte(depth + s)}, testBlock))
				ops = append(ops, Op{Offset: int64(depth-1-s) * testBlock, Length: testBlock, Slot: uint32(s), Write: true})
			}
			require.NoError(t, e.Submit(ops))
			for _, c := range all(t, e, depth) {
				words, _ := e.Explain(c.Slot)
				require.EqualValues(t, testBlock, c.Result, "%s", words)
			}
			require.NoError(t, e.Sync())
			for s := range depth { // another way to the drive sees the same
				require.Equal(t, byte(depth+s), at(labStart + int64(depth-1-s)*testBlock)[100])
			}
			for s := range ops {
				clear(arena.Buffer(uint32(s)))
				ops[s].Write = false
			}
			require.NoError(t, e.Submit(ops))
			for _, c := range all(t, e, depth) {
				require.EqualValues(t, testBlock, c.Result)
				require.Equal(t, bytes.Repeat([]byte{byte(depth) + byte(c.Slot)}, testBlock), arena.Buffer(c.Slot))
			}

			one := func(op Op) int32 {
				require.NoError(t, e.Submit([]Op{op}))
				return all(t, e, 1)[0].Result
			}
			assert.EqualValues(t, 512, one(Op{Offset: labBytes - 512, Length: testBlock}), "the tail")
			assert.EqualValues(t, 512, one(Op{Offset: labBytes - 512, Length: testBlock, Write: true}), "the tail, written")
			assert.EqualValues(t, 0, one(Op{Offset: labBytes, Length: testBlock}), "beyond the end")
			assert.EqualValues(t, -int32(unix.ENOSPC), one(Op{Offset: labBytes, Length: testBlock, Write: true}))
			assert.EqualValues(t, -int32(unix.EINVAL), one(Op{Offset: -testBlock, Length: testBlock, Write: true}))
			assert.EqualValues(t, testBlock, one(Op{Length: testBlock}), "it works on")

			through, _ := labSG(t, block, node, depth, testBlock, func(s *SCSI) { s.Through = true })
			require.NoError(t, through.Submit([]Op{{Length: testBlock, Write: true}}))
			for _, c := range all(t, through, 1) { // FUA, or a word of why not
				if words, _ := through.Explain(c.Slot); c.Result < 0 {
					assert.Contains(t, words, "FUA")
				}
			}

			reader, _ := labSG(t, block, node, depth, testBlock, func(s *SCSI) { s.ReadOnly = true })
			require.NoError(t, reader.Submit([]Op{{Length: testBlock, Write: true}}))
			assert.EqualValues(t, -int32(unix.EBADF), all(t, reader, 1)[0].Result)

			done := make([]Completion, 1)
			allocations := testing.AllocsPerRun(20, func() {
				if e.Submit(ops[:1]) != nil {
					t.Fatal("submit")
				}
				if n, err := e.Reap(1, done); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			})
			assert.Zero(t, allocations)
			for _, offset := range []int64{labStart - testBlock, labStart + labBytes} {
				assert.Equal(t, guard, at(offset), "nothing outside the range was touched")
			}
		})
	}
}

func TestLabSataSGConforms(t *testing.T) {
	_, block, node := labDisk(t, isAHCI)
	onDrive(t, block, node)
}

// A partition is asked where it lies, by its own descriptor, and one that became smaller while it was held is no target any more.
func TestLabSataSGAsksThePartition(t *testing.T) {
	name, _, _ := labDisk(t, isAHCI)
	partition := func(script string) {
		c := exec.Command("sfdisk", "-q", "--force", "--no-reread", "/dev/"+name)
		c.Stdin = strings.NewReader(script)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	partition("32768,65536\n")
	defer func() { _ = exec.Command("sfdisk", "-q", "--delete", "/dev/"+name).Run() }()
	require.Eventually(t, func() bool { _, err := os.Stat("/dev/" + name + "1"); return err == nil }, 10*time.Second, 10*time.Millisecond)
	f, err := os.OpenFile("/dev/"+name+"1", os.O_RDWR|unix.O_EXCL, 0)
	require.NoError(t, err)
	defer f.Close()
	start, bytes, errno := sgLinux{}.covers(int(f.Fd()))
	require.Zero(t, errno)
	assert.EqualValues(t, [2]int64{32768 * 512, 65536 * 512}, [2]int64{start, bytes})
	e, _ := labSG(t, f, nil, 1, testBlock, func(s *SCSI) { s.Start, s.Bytes = start, bytes })
	require.NoError(t, e.Submit([]Op{{Length: testBlock}}))
	assert.EqualValues(t, testBlock, all(t, e, 1)[0].Result)

	disk, err := os.Open("/dev/" + name)
	require.NoError(t, err)
	defer disk.Close()
	part := struct {
		start, length int64
		number        int32
		_             [128]byte
	}{32768 * 512, 1 << 20, 1, [128]byte{}}
	resize := struct {
		op, flags, length int32
		data              unsafe.Pointer
	}{op: 3, length: int32(unsafe.Sizeof(part)), data: unsafe.Pointer(&part)} // BLKPG_RESIZE_PARTITION
	_, _, errno = unix.Syscall(unix.SYS_IOCTL, disk.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&resize)))
	runtime.KeepAlive(&part)
	require.Zero(t, errno, "the kernel lets somebody make it smaller while we hold it")
	arena, err := NewArena(1, testBlock)
	require.NoError(t, err)
	defer arena.Close()
	_, err = Open("sg", Config{FD: int(f.Fd()), Depth: 1, Arena: arena, SCSI: &SCSI{Start: start, Bytes: bytes, Block: 512}})
	assert.ErrorContains(t, err, "the target was bytes 16777216 to 50331648 of its disk, and its block node is now bytes 16777216 to 17825792")
}

func TestLabDelaySGConforms(t *testing.T) {
	_, block, node := labDisk(t, isDelayed)
	onDrive(t, block, node)
}

// AHCI of the lab takes 128 KiB; the sg driver has room for 168 pieces of 32 KiB there.
func TestLabSataSGOverTheLimit(t *testing.T) {
	_, block, node := labDisk(t, isAHCI)
	for _, c := range []struct {
		depth  int
		record uint32
		errno  unix.Errno
	}{
		{1, 128 << 10, 0}, {4, 128 << 10, 0}, {1, 256 << 10, unix.EIO}, {4, 256 << 10, unix.EINVAL}, {1, 8 << 20, unix.EIO}, {4, 8 << 20, unix.ENOMEM},
	} {
		e, _ := labSG(t, block, node, c.depth, int(c.record), func(s *SCSI) { s.Limit, s.Bytes = 128<<10, 32<<20 })
		require.NoError(t, e.Submit([]Op{{Length: c.record}}))
		result := all(t, e, 1)[0].Result
		_, over := e.Explain(0)
		if c.errno == 0 {
			assert.EqualValues(t, c.record, result)
		} else {
			assert.Equal(t, -int32(c.errno), result, "%d bytes at depth %d", c.record, c.depth)
		}
		assert.Equal(t, c.errno != 0, over)
	}
}

// A large record reaches the drive in one piece by both ways, with and without a copy in the sg driver.
func TestLabDelaySGLargeRecords(t *testing.T) {
	_, block, node := labDisk(t, isDelayed)
	const dio = "/sys/module/sg/parameters/allow_dio"
	defer os.WriteFile(dio, []byte("0"), 0o644)
	for _, allow := range []string{"0", "1"} {
		require.NoError(t, os.WriteFile(dio, []byte(allow), 0o644))
		for _, depth := range []int{1, 2} {
			const record = 4 << 20
			e, arena := labSG(t, block, node, depth, record, func(s *SCSI) { s.Bytes = 2 * record })
			for i := range arena.Buffer(0) {
				arena.Buffer(0)[i] = byte(i >> 12)
			}
			require.NoError(t, e.Submit([]Op{{Offset: record, Length: record, Write: true}}))
			c := all(t, e, 1)[0]
			words, _ := e.Explain(0)
			require.EqualValues(t, record, c.Result, "%s", words)
			want := bytes.Clone(arena.Buffer(0))
			clear(arena.Buffer(0))
			require.NoError(t, e.Submit([]Op{{Offset: record, Length: record}}))
			require.EqualValues(t, record, all(t, e, 1)[0].Result)
			assert.True(t, bytes.Equal(want, arena.Buffer(0)), "allow_dio %s, depth %d", allow, depth)
		}
	}
}

// What is queued is in the drive: all of it at once.
func TestLabDelaySGQueues(t *testing.T) {
	name, block, node := labDisk(t, isDelayed)
	busy := func() int {
		text, err := os.ReadFile("/sys/block/" + name + "/device/device_busy")
		require.NoError(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		return n
	}
	const depth = 40 // more than one descriptor holds
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e, _ := labSG(t, block, node, depth, testBlock, nil)
	var ops []Op
	for s := range depth {
		ops = append(ops, Op{Offset: int64(s) * testBlock, Length: testBlock, Slot: uint32(s)})
	}
	most := 0
	for range 20 { // a guest may be too slow to have all of them there within 10 ms
		require.NoError(t, e.Submit(ops))
		most = max(most, busy())
		all(t, e, depth)
		if most == depth {
			break
		}
	}
	assert.Greater(t, most, depth/2)
	t.Logf("%d of %d commands at once", most, depth)
	assert.Eventually(t, func() bool { return busy() == 0 }, time.Second, time.Millisecond)
}

// An sg node of another drive is told from the one of the claimed block node by the kernel itself.
func TestLabDelaySGNodeOfAnotherDrive(t *testing.T) {
	_, block, _ := labDisk(t, isDelayed)
	first := true
	_, _, other := labDisk(t, func(dir string) bool {
		if !isDelayed(dir) || first {
			first = first && !isDelayed(dir)
			return false
		}
		return true
	})
	arena, err := NewArena(2, testBlock)
	require.NoError(t, err)
	defer arena.Close()
	_, err = Open("sg", Config{FD: int(block.Fd()), Depth: 2, Arena: arena, SCSI: &SCSI{Bytes: labBytes, Block: 512, Nodes: []int{int(other.Fd())}}})
	assert.ErrorContains(t, err, "the sg node is that of SCSI device")
}

// Logical blocks of 4096 bytes, and places beyond 2^32 of them, which take READ(16) and WRITE(16).
func TestLabSataSGLargeBlocksFarOut(t *testing.T) {
	out, err := exec.Command("modprobe", "scsi_debug", "sector_size=4096", "virtual_gb=20000", "dev_size_mb=16", "max_luns=1", "ndelay=10000").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() { // after the descriptors are closed
		assert.Eventually(t, func() bool { return exec.Command("rmmod", "scsi_debug").Run() == nil }, 10*time.Second, 50*time.Millisecond)
	})
	nodes := func() bool {
		disks, _ := filepath.Glob("/sys/block/sd*")
		for _, dir := range disks {
			if _, err := os.Stat("/dev/" + filepath.Base(dir)); err == nil && isDelayed(dir) {
				return true
			}
		}
		return false
	}
	require.Eventually(t, nodes, 10*time.Second, 20*time.Millisecond)
	_, block, node := labDisk(t, isDelayed)
	const far = 18 << 40
	for _, depth := range []int{1, 2} {
		e, arena := labSG(t, block, node, depth, 64<<10, func(s *SCSI) { s.Start, s.Bytes, s.Block = far, labBytes, 4096 })
		one := func(op Op) int32 {
			require.NoError(t, e.Submit([]Op{op}))
			return all(t, e, 1)[0].Result
		}
		copy(arena.Buffer(0), "far out")
		require.EqualValues(t, 64<<10, one(Op{Offset: 8192, Length: 64 << 10, Write: true}))
		clear(arena.Buffer(0))
		require.EqualValues(t, 64<<10, one(Op{Offset: 8192, Length: 64 << 10}))
		assert.Equal(t, "far out", string(arena.Buffer(0)[:7]))
		assert.EqualValues(t, 4096, one(Op{Offset: labBytes - 4096, Length: 8192}))
		assert.EqualValues(t, -int32(unix.EINVAL), one(Op{Offset: 512, Length: 4096}))
		require.NoError(t, e.Sync())
	}
}
