//go:build lab

package workload

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/workload/ioengine"
)

// mapping puts a device-mapper table over 16 MiB of a drive, and gives it as a target with a function that changes the table.
func mapping(t *testing.T, drive, table string) (Target, func(table string)) {
	t.Helper()
	const sectors = 16 << 20 / sector
	dmsetup := func(args ...string) {
		out, err := exec.Command("dmsetup", args...).CombinedOutput()
		require.NoError(t, err, "dmsetup %s: %s", strings.Join(args, " "), out)
	}
	full := func(table string) string { return fmt.Sprintf("0 %d "+table, sectors, "/dev/"+drive) }
	dmsetup("create", "liar", "--table", full(table))
	dmsetup("mknodes")
	t.Cleanup(func() { dmsetup("remove", "--retry", "liar") })
	f, err := os.OpenFile("/dev/mapper/liar", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return Target{File: f, Name: "/dev/mapper/liar", Bytes: sectors * sector, LogicalBlock: 512}, func(table string) {
		dmsetup("reload", "liar", "--table", full(table))
		dmsetup("suspend", "liar")
		dmsetup("resume", "liar")
	}
}

// A drive that lies: through a real block layer a bit flips on its way back, a write is dropped though it is said to be done, and one goes elsewhere.
func TestLabDelayVerifyFindsALyingDrive(t *testing.T) {
	names := drives(t)
	drive := names[len(names)-2]
	for _, module := range []string{"dm_flakey", "dm_mod"} {
		require.NoError(t, exec.Command("modprobe", module).Run())
	}
	const honest = "linear %s 0"
	target, change := mapping(t, drive, honest)
	under, err := os.OpenFile("/dev/"+drive, os.O_RDWR|unix.O_DIRECT, 0) // its page cache is another one than the mapping's
	require.NoError(t, err)
	defer under.Close()
	arena, err := ioengine.NewArena(1, sector)
	require.NoError(t, err)
	defer arena.Close()
	for _, direct := range []string{"true", "false"} {
		s := spec(t, "io", "mode=write", "size=2m", "block_size=64k", "engine=io_uring", "iodepth=8", "runtime=0", "verify=true", "direct="+direct)
		lie := func(do func()) Result {
			p := ioPhase(s, target, 3)
			p.written = do
			return p.run()[0]
		}
		r := ok(t, reply{Results: ioPhase(s, target, 3).run()})[0]
		assert.Equal(t, r.Bytes, r.Verified)

		const where = 1<<20 + 77
		r = lie(func() {
			require.NoError(t, unix.Fsync(int(target.File.Fd()))) // what is in the page cache of the mapping, if anything
			b := arena.Buffer(0)
			_, err := under.ReadAt(b, where/sector*sector)
			require.NoError(t, err)
			b[where%sector] ^= 2
			_, err = under.WriteAt(b, where/sector*sector)
			require.NoError(t, err)
		})
		t.Log(r.Err)
		assert.True(t, r.Corrupt)
		assert.Regexp(t, fmt.Sprintf(`^1 of 32 blocks of 64k differ, read back: byte %d of /dev/mapper/liar is 0x.. and should be 0x..: 1 bit of its sector`, where), r.Err)

		if direct == "true" { // everything is read 64 KiB further on: as if the drive had put it before
			r = lie(func() { change("linear %s 128") })
			change(honest)
			t.Log(r.Err)
			assert.True(t, r.Corrupt)
			assert.Regexp(t, `holds write \d+, which went to 65536 of /dev/mapper/liar: misdirected`, r.Err)
		}
	}
	// A drive that drops writes says yes to them: what is found is what was there before.
	s := spec(t, "io", "mode=write", "size=1m", "block_size=64k", "engine=psync", "runtime=0", "verify=true")
	change("flakey %s 0 0 60 1 drop_writes")
	r := ioPhase(s, target, 99).run()[0]
	change(honest)
	t.Log(r.Err)
	assert.True(t, r.Corrupt)
	assert.Regexp(t, `^16 of 16 blocks of 64k differ, read back: byte 0 of /dev/mapper/liar .* nothing that this phase wrote`, r.Err)
}

// Every mode that writes, on a drive with a queue, and by a real worker: what was written is found.
func TestLabDelayVerify(t *testing.T) {
	w, _ := startWorker(t, "worker", os.Stderr)
	target := deviceTarget(t, drives(t)[2])
	for engine, mode := range map[string]string{"psync": "randwrite", "libaio": "rw", "io_uring": "randread+randwrite"} {
		s := spec(t, "io", "mode="+mode, "engine="+engine, "iodepth=16", "threads=2", "size=512k", "runtime=500ms", "verify=true")
		results, err := w.Run(t.Context(), s, target, 7)
		require.NoError(t, err)
		for _, r := range results {
			assert.Empty(t, r.Err, "%s %s", engine, mode)
		}
		assert.Positive(t, results[len(results)-1].Verified)
	}
	s := spec(t, "dd", "mode=write-read", "size=2m", "processes=3", "verify=true")
	results, err := w.Run(t.Context(), s, target, 7)
	require.NoError(t, err)
	require.Len(t, results, 2)
	assert.Equal(t, results[0].Bytes, results[0].Verified)
	assert.Empty(t, results[1].Err)
}

// One operation a second: the window is what was asked for, and the worker is back when the operation in flight is.
func TestLabDelayOneIOPS(t *testing.T) {
	const ndelay = "/sys/bus/pseudo/drivers/scsi_debug/ndelay"
	was, err := os.ReadFile(ndelay)
	require.NoError(t, err)
	attribute(t, ndelay, "900000000")
	defer attribute(t, ndelay, strings.TrimSpace(string(was)))
	w, _ := startWorker(t, "worker", os.Stderr)
	target := deviceTarget(t, drives(t)[0])
	for _, engine := range []string{"psync", "io_uring"} {
		begin := time.Now()
		r := quickly(t, w, spec(t, "io", "engine="+engine, "runtime=2s"), target)
		took := time.Since(begin)
		require.Empty(t, r.Err)
		assert.Equal(t, int64(2*time.Second), r.Window.End-r.Window.Start)
		assert.EqualValues(t, 2, r.Operations)
		assert.Less(t, took, 4*time.Second, "two in the window, the third is waited for")
		assert.GreaterOrEqual(t, r.Latency.P50US, 900_000.0)
	}
}

// A bad place under the page cache: the kernel gives what lies before it, and the reason only to who asks on.
func TestLabDelayBadSectorBuffered(t *testing.T) {
	const opts = "/sys/bus/pseudo/drivers/scsi_debug/opts"
	attribute(t, opts, "2") // medium errors at sector 0x1234
	defer attribute(t, opts, "0")
	w, _ := startWorker(t, "worker", os.Stderr)
	r := quickly(t, w, spec(t, "io", "mode=read", "engine=psync", "block_size=64k", "runtime=0", "direct=false", "size=4m"), deviceTarget(t, drives(t)[1]))
	t.Log(r.Err)
	assert.Equal(t, int(unix.EIO), r.Errno)
	assert.False(t, r.Lost)
	assert.Contains(t, r.Err, "read of 65536 bytes at 2359296 of /dev/")
}
