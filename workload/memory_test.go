package workload

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/workload/ioengine"
)

// onFileEngines runs a test over every engine that works on a file; sg wants a SCSI disk.
func onFileEngines(t *testing.T, f func(t *testing.T, engine string)) {
	for _, engine := range ioengine.Names() {
		if engine != "sg" {
			t.Run(engine, func(t *testing.T) { f(t, engine) })
		}
	}
}

// In steady state an operation allocates nothing, in the loop and in the engine.
func TestTheLoopAllocatesNothing(t *testing.T) {
	onFileEngines(t, func(t *testing.T, engine string) {
		for _, mode := range []string{"read", "randread", "write", "randwrite", "rw", "randrw"} {
			t.Run(mode, func(t *testing.T) {
				runtime.LockOSThread() // a ring belongs to its thread
				defer runtime.UnlockOSThread()
				const operations = 2000
				s := spec(t, "io", "mode="+mode, "engine="+engine, "runtime=0", "block_size=512", "iodepth=4", "direct=false")
				l := ioPhase(s, fileTarget(t, operations*512), 1).lanes[0]
				require.NoError(t, l.setup())
				defer l.close()
				defer quiet(1)()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				l.loop(Window{0, noTime}, new(atomic.Bool))
				runtime.ReadMemStats(&after)
				require.Nil(t, l.err)
				require.EqualValues(t, operations, l.operations)
				assert.Less(t, after.Mallocs-before.Mallocs, uint64(operations/20), "some are the runtime's own")
			})
		}
	})
}

// A worker that has done ten times as much is as large.
func TestAWorkerDoesNotGrow(t *testing.T) {
	onFileEngines(t, func(t *testing.T, engine string) {
		w, _ := startWorker(t, "worker", os.Stderr)
		dio := "false" // fast
		if engine == "libaio" {
			dio = direct(t)
		}
		work := func(bytes int64) (peak int) {
			target := fileTarget(t, bytes)
			for _, mode := range []string{"randread", "write"} {
				s := spec(t, "io", "mode="+mode, "engine="+engine, "runtime=0", "block_size=512", "iodepth=8", "direct="+dio)
				if engine == "null" { // it is fast enough for a leak of a byte an operation to show
					target.Bytes = bytes * 100
				}
				results, err := w.Run(t.Context(), s, target, 1)
				require.NoError(t, err)
				require.Empty(t, results[0].Err)
			}
			return peakKiB(t, w.PID())
		}
		work(512 << 10)
		once := work(512 << 10)
		often := work(5 << 20)
		slack := 1024
		if engine != "null" { // it is repeated until it is timed, as often as the machine has it: what passes leave is not collected in between
			slack = 3072
		}
		assert.LessOrEqual(t, often, once+slack, "KiB after 2048 operations and after 20480 (null: a hundred times these)")
	})
}

// peakKiB is the most that a process has had in memory.
func peakKiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	var kib int
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(t, err)
	return kib
}
