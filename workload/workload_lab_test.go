//go:build lab

package workload

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// drives are the scsi_debug drives of the guest: RAM behind a latency of 10 ms, 64 commands at once.
func drives(t testing.TB) []string {
	t.Helper()
	models, err := filepath.Glob("/sys/block/sd*/device/model")
	require.NoError(t, err)
	var names []string
	for _, m := range models {
		text, err := os.ReadFile(m)
		require.NoError(t, err)
		if strings.TrimSpace(string(text)) == "scsi_debug" {
			names = append(names, strings.Split(m, "/")[3])
		}
	}
	require.NotEmpty(t, names)
	return names
}

func deviceTarget(t *testing.T, name string) Target {
	t.Helper()
	f, err := os.Open("/dev/" + name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	bytes, err := deviceBytes(int(f.Fd()))
	require.NoError(t, err)
	require.Positive(t, bytes)
	nodes, err := filepath.Glob("/sys/block/" + name + "/device/scsi_generic/sg*")
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	sg, err := os.OpenFile("/dev/"+filepath.Base(nodes[0]), os.O_RDWR|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { sg.Close() })
	return Target{File: f, Name: "/dev/" + name, Bytes: bytes, LogicalBlock: 512, SG: sg}
}

func attribute(t testing.TB, path, value string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = f.WriteString(value + "\n")
	require.NoError(t, err, "write %q to %s", value, path)
	require.NoError(t, f.Close())
}

func quickly(t *testing.T, w *Worker, s Spec, target Target) Result {
	t.Helper()
	results, err := w.Run(t.Context(), s, target, 7)
	require.NoError(t, err)
	require.Len(t, results, 1)
	return results[0]
}

// A drive with a known latency gives known answers: IOPS grow as the drive's queue, and the latency is
// what Little's law says.
func TestLabDelayIOPSFollowTheDepth(t *testing.T) {
	name := drives(t)[0]
	depth := "/sys/block/" + name + "/device/queue_depth"
	was, err := os.ReadFile(depth)
	require.NoError(t, err)
	defer attribute(t, depth, strings.TrimSpace(string(was)))
	w, _ := startWorker(t, "worker", os.Stderr)
	target := deviceTarget(t, name)
	for _, engine := range []string{"libaio", "io_uring"} {
		iops := map[int]float64{}
		for _, d := range []int{1, 2, 4, 8, 31} {
			attribute(t, depth, strconv.Itoa(d))
			s := spec(t, "io", "engine="+engine, "iodepth=32", "runtime=2s", "warmup=500ms")
			r := quickly(t, w, s, target)
			require.Empty(t, r.Err)
			iops[d] = float64(r.Operations) / r.Window.Seconds()
			t.Logf("%s at queue_depth %d: %.0f IOPS, mean %.0f us, %.1f us of CPU each", engine, d, iops[d], r.Latency.MeanUS,
				(r.CPUUserS+r.CPUSysS)*1e6/float64(r.Operations))
			if r.Operations > 400 { // else what the window's ends cut off weighs too much
				assert.InEpsilon(t, 32, iops[d]*r.Latency.MeanUS/1e6, 0.25, "Little's law: 32 are outstanding")
			}
			assert.LessOrEqual(t, iops[d], 105*float64(d), "no drive is faster than it is")
		}
		// A guest on a busy machine is slow now and then; that it grows with the depth stays.
		assert.Greater(t, iops[8], 2.5*iops[1])
		assert.Greater(t, iops[31], 10*iops[1])
	}
}

// One thread of psync has one outstanding, so 10 ms is what it sees.
func TestLabDelayLatencyOfOne(t *testing.T) {
	w, _ := startWorker(t, "worker", os.Stderr)
	s := spec(t, "io", "engine=psync", "runtime=2s")
	r := quickly(t, w, s, deviceTarget(t, drives(t)[0]))
	require.Empty(t, r.Err)
	assert.GreaterOrEqual(t, r.Latency.P50US, 10000.0)
	assert.Equal(t, 1, r.IODepth)
	assert.InEpsilon(t, 1, float64(r.Operations)/2*r.Latency.MeanUS/1e6, 0.15)
}

// Field case 19: the drive goes away in the middle. The run ends by itself, as lost and without numbers,
// with every engine.
func TestLabDelayDeviceDeletedMidRun(t *testing.T) {
	for _, c := range [][2]string{{"psync", "8"}, {"libaio", "8"}, {"io_uring", "8"}, {"sg", "1"}, {"sg", "8"}} {
		engine, depth := c[0], c[1]
		t.Run(engine+" "+depth, func(t *testing.T) {
			all := drives(t)
			name := all[len(all)-1]
			device, err := filepath.EvalSymlinks("/sys/block/" + name + "/device")
			require.NoError(t, err)
			host := regexpHost(device)
			target := deviceTarget(t, name)
			w, _ := startWorker(t, "worker", os.Stderr)
			busy := "/sys/block/" + name + "/stat"
			before := reads(t, busy)
			go func() {
				underWay := func() bool { return reads(t, busy) >= before+20 }
				if engine == "sg" { // which is not in stat
					inARow := 0 // opening the drive sends commands, too
					underWay = func() bool {
						if inARow++; reads(t, device+"/device_busy") == 0 {
							inARow = 0
						}
						return inARow >= 10
					}
				}
				for !underWay() {
					time.Sleep(10 * time.Millisecond)
				}
				attribute(t, device+"/delete", "1")
			}()
			s := spec(t, "io", "engine="+engine, "iodepth="+depth, "threads=2", "runtime=1h", "timeout=60s")
			r := quickly(t, w, s, target)
			t.Log(r.Err)
			assert.True(t, r.Lost)
			assert.Contains(t, r.Err, "device lost")
			assert.Zero(t, r.Operations)
			assert.Zero(t, r.Bytes)
			assert.Zero(t, r.Latency)

			r = quickly(t, w, s, target)
			assert.True(t, r.Lost, "it stays lost: %s", r.Err)

			require.NoError(t, target.File.Close())
			attribute(t, "/sys/class/scsi_host/"+host+"/scan", "- - -")
			require.Eventually(t, func() bool {
				now, _ := filepath.Glob("/sys/class/scsi_host/" + host + "/device/target*/*/block/sd*")
				if len(now) == 0 {
					return false
				}
				_, err := os.Stat("/dev/" + filepath.Base(now[0]))
				return err == nil
			}, 30*time.Second, 50*time.Millisecond)
		})
	}
}

func regexpHost(device string) string {
	for _, part := range strings.Split(device, "/") {
		if strings.HasPrefix(part, "host") {
			return part
		}
	}
	return ""
}

func reads(t *testing.T, stat string) int {
	text, err := os.ReadFile(stat)
	if err != nil {
		return 1 << 30 // gone already
	}
	n, err := strconv.Atoi(strings.Fields(string(text))[0])
	assert.NoError(t, err)
	return n
}

// Field case 6: a bad sector ends the phase with the kernel's errno, and the device is not lost.
func TestLabDelayBadSector(t *testing.T) {
	const opts = "/sys/bus/pseudo/drivers/scsi_debug/opts"
	attribute(t, opts, "2") // medium errors at sector 0x1234
	defer attribute(t, opts, "0")
	w, _ := startWorker(t, "worker", os.Stderr)
	target := deviceTarget(t, drives(t)[1])
	for _, engine := range []string{"psync", "libaio", "io_uring", "sg"} {
		r := quickly(t, w, spec(t, "io", "mode=read", "engine="+engine, "block_size=64k", "runtime=0"), target) // at depth 1 nothing is merged
		t.Log(r.Err)
		assert.Contains(t, []int{int(unix.EIO), int(unix.ENODATA)}, r.Errno)
		assert.False(t, r.Lost)
		assert.Contains(t, r.Err, "read of 65536 bytes at 2359296 of /dev/")
		if engine == "sg" {
			assert.Contains(t, r.Err, "READ(10): medium error: unrecovered read error (03/11/00): ENODATA")
		}
		assert.Zero(t, r.Operations)
	}
}

// Field case 25: what cannot be written is an error, whichever call the kernel refuses.
func TestLabDelayReadOnlyDevice(t *testing.T) {
	w, _ := startWorker(t, "worker", os.Stderr)
	target := deviceTarget(t, drives(t)[2])
	require.NoError(t, unix.IoctlSetPointerInt(int(target.File.Fd()), unix.BLKROSET, 1))
	defer unix.IoctlSetPointerInt(int(target.File.Fd()), unix.BLKROSET, 0)
	for _, engine := range []string{"psync", "libaio", "io_uring", "sg"} {
		r := quickly(t, w, spec(t, "io", "mode=write", "engine="+engine, "size=1m", "runtime=0"), target)
		t.Log(r.Err)
		assert.Contains(t, []int{int(unix.EPERM), int(unix.EACCES), int(unix.EROFS)}, r.Errno)
		assert.Zero(t, r.Operations)
	}
	r := quickly(t, w, spec(t, "io", "mode=read", "size=1m", "runtime=0", "block_size=64k"), target)
	assert.Empty(t, r.Err, "reading is fine")
}

// dd on a range of a device and on files, with every sync.
func TestLabDelayDD(t *testing.T) {
	w, _ := startWorker(t, "worker", os.Stderr)
	target := deviceTarget(t, drives(t)[2])
	dir, err := os.MkdirTemp("/scratch", "dd-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	folder, err := os.Open(dir)
	require.NoError(t, err)
	defer folder.Close()
	for _, sync := range []string{"none", "fsync", "dsync"} {
		for _, direct := range []string{"true", "false"} {
			s := spec(t, "dd", "mode=write-read", "size=4m", "processes=3", "sync="+sync, "direct="+direct)
			for _, to := range []Target{target, {Dir: folder, Name: dir, LogicalBlock: 512}} {
				require.NoError(t, w.Prepare(t.Context(), s, to, 1))
				results, err := w.Run(t.Context(), s, to, 1)
				require.NoError(t, err)
				require.Len(t, results, 2)
				for _, r := range results {
					assert.Empty(t, r.Err)
					assert.EqualValues(t, 12<<20, aPass(r).Bytes)
				}
			}
		}
	}
}
