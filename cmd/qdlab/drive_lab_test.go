//go:build lab

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/cmd/qdlab/drive"
)

// served starts a modelled drive for one test, and gives its folder below /sys/block.
func served(t *testing.T, args ...string) string {
	t.Helper()
	parts := strings.Split(t.Name(), "/")
	serial := "T-" + strings.ToUpper(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, strings.TrimPrefix(parts[len(parts)-1], "TestLabModel")))
	serial = serial[:min(20, len(serial))]
	out, err := exec.Command("qdlab", append([]string{"drive", "start", "--serial", serial}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(driveSockets, serial)); err == nil {
			tell(t, serial, "end")
		}
	})
	return "/sys/block/" + strings.TrimSpace(string(out))
}

func tell(t *testing.T, serial, order string) string {
	t.Helper()
	out, err := exec.Command("qdlab", "drive", "tell", serial, order).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", serial, order, out)
	return strings.TrimSpace(string(out))
}

func node(dir string) string { return "/dev/" + filepath.Base(dir) }

func cacheType(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(dir + "/device/scsi_disk/*/cache_type")
	require.NoError(t, err)
	require.Len(t, names, 1)
	return names[0]
}

// direct opens a drive past the page cache.
func direct(t *testing.T, dir string) *os.File {
	t.Helper()
	file, err := os.OpenFile(node(dir), os.O_RDWR|unix.O_DIRECT, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// aligned is memory that O_DIRECT takes.
func aligned(size int) []byte {
	buffer := make([]byte, size+4096)
	shift := 4096 - int(uintptr(unsafe.Pointer(&buffer[0]))&4095)
	return buffer[shift : shift+size]
}

// iops does blocks of 4 KiB at random with so many threads, as fast as it can.
func iops(t *testing.T, dir string, write bool, threads int, length time.Duration) float64 {
	t.Helper()
	require.NoError(t, os.WriteFile(dir+"/queue/scheduler", []byte("none"), 0o644), "a scheduler would sort what waits for the drive")
	file := direct(t, dir)
	size, err := file.Seek(0, 2)
	require.NoError(t, err)
	var count atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for i := range threads {
		wait.Add(1)
		go func() {
			defer wait.Done()
			buffer, random := aligned(4096), rand.New(rand.NewPCG(uint64(i), 7))
			for time.Since(began) < length {
				at := random.Int64N(size/4096) * 4096
				var err error
				if write {
					_, err = unix.Pwrite(int(file.Fd()), buffer, at)
				} else {
					_, err = unix.Pread(int(file.Fd()), buffer, at)
				}
				if !assert.NoError(t, err) {
					return
				}
				count.Add(1)
			}
		}()
	}
	wait.Wait()
	return float64(count.Load()) / time.Since(began).Seconds()
}

func TestLabModelIsADisk(t *testing.T) {
	dir := driveFolder(t, "QDLAB-NCQ")
	assert.Equal(t, "32", read(t, dir+"/device/queue_depth"))
	assert.Equal(t, "QDLAB", read(t, dir+"/device/vendor"))
	assert.Equal(t, "DISK 2007 NCQ", read(t, dir+"/device/model"))
	assert.Regexp(t, `^naa\.5001405`, read(t, dir+"/device/wwid"))
	assert.Equal(t, "1", read(t, dir+"/queue/rotational"))
	assert.Equal(t, "524288", read(t, dir+"/size"))
	assert.Equal(t, "write back", read(t, cacheType(t, dir)))
	assert.Equal(t, "write back", read(t, dir+"/queue/write_cache"))
	assert.Equal(t, "1", read(t, dir+"/queue/fua"))
	for _, depth := range []string{"1", "31", "32"} {
		require.NoError(t, write(t, dir+"/device/queue_depth", depth))
		assert.Equal(t, depth, read(t, dir+"/device/queue_depth"))
	}
	for _, state := range []string{"write through", "write back"} {
		require.NoError(t, write(t, cacheType(t, dir), state))
		assert.Equal(t, state, read(t, cacheType(t, dir)))
		out, _ := exec.Command("sdparm", "--get=WCE", node(dir)).CombinedOutput() // 5: there is no saved page
		assert.Contains(t, string(out), map[string]string{"write through": "WCE           0  [cha: y, def:  1]", "write back": "WCE           1  [cha: y, def:  1]"}[state])
	}
	limit := driveFolder(t, "QDLAB-2X2")
	assert.Equal(t, "64", read(t, limit+"/queue/max_sectors_kb"), "as its page says")
}

// alone is how many random reads a drive does in a second, one after another, without what the kernel and we take
// for a command: after each, the same block is read again, from the drive's memory. What is left of the host is how late
// an emulated CPU wakes that has gone to sleep: milliseconds, where the host is busy.
func alone(t *testing.T, dir string, m drive.Model, length time.Duration) float64 {
	t.Helper()
	file, block, random := direct(t, dir), aligned(4096), rand.New(rand.NewPCG(1, 7))
	var took time.Duration
	began, count := time.Now(), 0
	for ; time.Since(began) < length; count++ {
		at := random.Int64N(m.SizeMB<<20/4096) * 4096
		start := time.Now()
		_, err := file.ReadAt(block, at)
		require.NoError(t, err)
		middle := time.Now()
		_, err = file.ReadAt(block, at)
		require.NoError(t, err)
		took += middle.Sub(start) - time.Since(middle) + time.Duration(float64(m.Interface.Overhead)/m.Speed)
	}
	return float64(count) / took.Seconds()
}

// The kernel sees the model's timing: what the same code gives without a kernel. A machine that others use has a timing of its own: the long form alone.
func TestLabModelIOPS(t *testing.T) {
	if os.Getenv("QDSWEEP_CHAOS") != "long" {
		t.Skip("the long form alone: make lab-full")
	}
	m, err := drive.FindModel("ncq-2007")
	require.NoError(t, err)
	m.Speed = 0.25 // what is not the drive's counts for less
	for _, order := range []drive.Order{drive.Shortest, drive.FirstCome} {
		m.Queue.Order = order
		dir := served(t, "ncq-2007", "--speed", "0.25", "--with", fmt.Sprintf("queue: {order: %s}", order))
		require.NoError(t, write(t, dir+"/device/queue_depth", "1"))
		got := map[int]float64{1: alone(t, dir, m, 12*time.Second)}
		require.NoError(t, write(t, dir+"/device/queue_depth", "31"))
		got[31] = iops(t, dir, false, 31, 8*time.Second)
		for _, depth := range []int{1, 31} {
			want, err := drive.Simulate(m, drive.Workload{Random: true, Block: 4096, Depth: depth, Warmup: time.Second, Length: 60 * time.Second})
			require.NoError(t, err)
			t.Logf("%s, depth %d: %.1f IOPS, simulated %.1f", order, depth, got[depth], want.IOPS)
			if depth == 1 { // between two commands the host sleeps, and a busy one is late; the drive is never early
				assert.Less(t, got[depth], 1.1*want.IOPS, order)
				assert.Greater(t, got[depth], 0.75*want.IOPS, order)
			} else {
				assert.InEpsilon(t, want.IOPS, got[depth], 0.1, order)
			}
		}
		if order == drive.Shortest {
			assert.GreaterOrEqual(t, got[31]/got[1], 1.4)
		}
		tell(t, diskSerial(dir), "end")
	}
}

func TestLabModelWriteCache(t *testing.T) {
	dir := served(t, "ncq-2007")
	require.NoError(t, write(t, cacheType(t, dir), "write through"))
	off := iops(t, dir, true, 1, 3*time.Second)
	require.NoError(t, write(t, cacheType(t, dir), "write back"))
	on := iops(t, dir, true, 1, 500*time.Millisecond)
	t.Logf("random writes: %.1f IOPS with the cache off, %.1f with it on", off, on)
	assert.Greater(t, on, 3*off)
}

// What fsync has acknowledged is there after the drive has lost its power; and something is lost that it has not.
func TestLabModelPowerCycle(t *testing.T) {
	dir := served(t, "ncq-2007", "--speed", "0.1") // slow, so that the cache is not empty when the power goes
	file := direct(t, dir)
	block := aligned(4096)
	fill := func(i int, value byte) {
		for j := range block {
			block[j] = value
		}
		_, err := file.WriteAt(block, int64(i)*1<<20)
		require.NoError(t, err)
	}
	for i := range 16 {
		fill(i, 1)
	}
	require.NoError(t, file.Sync())
	for i := range 16 {
		fill(i, 2)
	}
	tell(t, diskSerial(dir), "power-cycle")
	lost := 0
	for i := range 16 {
		_, err := file.ReadAt(block, int64(i)*1<<20)
		require.NoError(t, err)
		require.Contains(t, []byte{1, 2}, block[0])
		require.Equal(t, bytes.Repeat(block[:1], 512), block[:512])
		if block[0] == 1 {
			lost++
		}
	}
	assert.Greater(t, lost, 0, "all of it had been destaged: nothing was tested")
}

func TestLabModelQuirks(t *testing.T) {
	t.Run("ignores MODE SELECT", func(t *testing.T) {
		dir := served(t, "ncq-2007", "--with", "quirks: {mode_select: ignored}")
		require.NoError(t, write(t, cacheType(t, dir), "write through"), "it says so")
		assert.Equal(t, "write back", read(t, cacheType(t, dir)))
	})
	t.Run("refuses MODE SELECT", func(t *testing.T) {
		dir := served(t, "ncq-2007", "--with", "quirks: {mode_select: refused}")
		require.ErrorIs(t, write(t, cacheType(t, dir), "write back"), unix.EINVAL, "even the state it is in")
	})
	t.Run("saves the page", func(t *testing.T) {
		folder := t.TempDir()
		dir := served(t, "tagged-depth-1999", "--folder", folder)
		require.NoError(t, write(t, cacheType(t, dir), "write through"))
		assert.Equal(t, "false\n", read(t, folder+"/saved")+"\n")
		tell(t, diskSerial(dir), "power-cycle")
		_ = exec.Command("sdparm", "--get=WCE", node(dir)).Run() // is told of the reset
		out, err := exec.Command("sdparm", "--get=WCE", node(dir)).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Regexp(t, `WCE +0 .*sav: +0`, string(out), "sd saves where it can: the drive comes back as it was told")
	})
	t.Run("is full", func(t *testing.T) {
		dir := served(t, "ncq-2007", "--with", "quirks: {queue_full_over: 20}", "--speed", "4")
		iops(t, dir, false, 31, 3*time.Second)
		assert.Regexp(t, `^(1\d|2\d|30|31)$`, read(t, dir+"/device/queue_depth"), "the kernel has lowered it from 32")
	})
	t.Run("is busy", func(t *testing.T) {
		dir := served(t, "ncq-2007", "--with", "quirks: {busy_over: 1}")
		iops(t, dir, false, 31, 3*time.Second)
		assert.Equal(t, "32", read(t, dir+"/device/queue_depth"), "nothing shows")
	})
	t.Run("has a bad sector", func(t *testing.T) {
		dir := served(t, "ncq-2007", "--with", "quirks: {bad_sectors: [{lba: 2048}]}")
		_, err := direct(t, dir).ReadAt(aligned(4096), 1<<20)
		require.ErrorIs(t, err, unix.ENODATA, "what the kernel makes of a medium error")
		_, err = direct(t, dir).ReadAt(aligned(4096), 1<<20+4096)
		require.NoError(t, err)
	})
	t.Run("refuses large transfers", func(t *testing.T) {
		dir := served(t, "sgpdd-2008")
		_, err := direct(t, dir).ReadAt(aligned(256<<10), 0)
		require.Error(t, err)
		require.NoError(t, write(t, dir+"/queue/max_sectors_kb", "128"))
		_, err = direct(t, dir).ReadAt(aligned(256<<10), 0)
		require.NoError(t, err)
	})
	t.Run("has no identity", func(t *testing.T) {
		out, err := exec.Command("qdlab", "drive", "start", "ncq-2007", "--serial", "NOBODY", "--with", "quirks: {no_serial: true}").Output()
		require.NoError(t, err)
		defer tell(t, "NOBODY", "end")
		dir := "/sys/block/" + strings.TrimSpace(string(out))
		assert.NoFileExists(t, dir+"/device/vpd_pg80")
		assert.Empty(t, diskSerial(dir))
	})
	t.Run("leaves and returns under another name", func(t *testing.T) {
		dir := served(t, "ncq-2007")
		serial := diskSerial(dir)
		file := direct(t, dir) // whoever holds it open keeps the letter
		block := aligned(4096)
		block[0] = 7
		_, err := file.WriteAt(block, 0)
		require.NoError(t, err)
		tell(t, serial, "leave")
		assert.NoDirExists(t, dir)
		name := tell(t, serial, "return")
		assert.NotEqual(t, filepath.Base(dir), name)
		again := "/sys/block/" + name
		assert.Equal(t, serial, diskSerial(again))
		block[0] = 0
		_, err = direct(t, again).ReadAt(block, 0)
		require.NoError(t, err)
		assert.Equal(t, byte(7), block[0])
	})
	t.Run("never comes back", func(t *testing.T) {
		dir := served(t, "ncq-2007", "--with", "quirks: {hang_at: [2048]}")
		failed := make(chan error, 1)
		file := direct(t, dir)
		go func() {
			_, err := file.ReadAt(aligned(4096), 1<<20)
			failed <- err
		}()
		_, err := direct(t, dir).ReadAt(aligned(4096), 0)
		require.NoError(t, err, "others do")
		select {
		case err := <-failed:
			t.Fatalf("it came back: %v", err)
		case <-time.After(500 * time.Millisecond):
		}
		for released := time.Now(); time.Since(released) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
			tell(t, diskSerial(dir), "release") // the kernel tries again, and hangs again, five times
			select {
			case err := <-failed:
				require.Error(t, err)
				return
			default:
			}
		}
		t.Fatal("it was released, and did not come back")
	})
}
