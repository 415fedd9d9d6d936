package workload

import (
	"fmt"
	"os"
	"runtime"
	"strings"
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

// An operation allocates nothing: ten times as many make as many objects, give or take what the runtime does for itself.
func TestTenTimesTheOperationsAllocateTheSame(t *testing.T) {
	onFileEngines(t, func(t *testing.T, engine string) {
		for _, mode := range []string{"read", "randread", "write", "randrw", "randread+randwrite"} {
			made := func(bytes int64) (objects uint64) {
				target := fileTarget(t, bytes)
				s := spec(t, "io", "mode="+mode, "engine="+engine, "runtime=0", "block_size=512", "iodepth=4", "direct=false")
				var before, after runtime.MemStats
				p := ioPhase(s, target, 1)
				runtime.ReadMemStats(&before)
				results := p.run()
				runtime.ReadMemStats(&after)
				require.Empty(t, results[0].Err)
				require.GreaterOrEqual(t, results[0].Operations*512, bytes/2)
				return after.Mallocs - before.Mallocs
			}
			made(256 << 10) // what is made once in a process
			once, often := made(256<<10), made(2560<<10)
			assert.Less(t, often, once+200, "%s: %d objects for 512 operations, %d for 5120", mode, once, often)
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
		assert.LessOrEqual(t, often, once+1024, "KiB after 2048 operations and after 20480 (null: a hundred times these)")
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
