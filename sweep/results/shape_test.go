package results

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cost is the CPU time a piece of work takes and the most heap it holds alive.
func cost(work func(sample func())) (cpu time.Duration, peak uint64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	start := cpuTime()
	var sampling time.Duration
	work(func() {
		at := cpuTime()
		runtime.GC()
		runtime.ReadMemStats(&m)
		if m.HeapAlloc > before {
			peak = max(peak, m.HeapAlloc-before)
		}
		sampling += cpuTime() - at
	})
	return cpuTime() - start - sampling, peak
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The shape of the cost, not its size: ten times the rows cost at most 15 times
// as much, and hold no more memory. The fsync is left out, being the disk's.
func TestTenTimesTheRowsCostTenTimes(t *testing.T) {
	if raceDetector {
		t.Skip("would measure the race detector; `make test` runs it without")
	}
	const phases = 10
	type figures struct {
		cpu  time.Duration
		peak uint64
	}
	measure := func(rows int) map[string]figures {
		dir := t.TempDir()
		fs := map[string]figures{}
		put := func(name string, work func(sample func())) {
			cpu, peak := cost(work)
			fs[name] = figures{cpu, peak}
		}
		put("append", func(sample func()) {
			f := open(t, dir)
			f.sync = func() error { return nil }
			for i := range rows / phases {
				if err := f.Append(aRun(i, 1, phases)); err != nil {
					require.NoError(t, err)
				}
				if i%(rows/phases/8) == 0 {
					sample()
				}
			}
			require.NoError(t, f.Close())
		})
		put("open", func(sample func()) {
			f := open(t, dir)
			sample()
			require.NoError(t, f.Close())
		})
		read := func() io.ReadCloser {
			f, err := os.Open(filepath.Join(dir, FileName))
			require.NoError(t, err)
			return f
		}
		put("read", func(sample func()) {
			f := read()
			defer f.Close()
			n := 0
			for _, err := range Read(f) {
				if err != nil {
					require.NoError(t, err)
				}
				if n++; n%(rows/8) == 0 {
					sample()
				}
			}
			require.Equal(t, rows, n)
		})
		put("audit", func(sample func()) {
			f := read()
			defer f.Close()
			a, err := AuditOf(Read(f), rows/phases)
			sample()
			require.NoError(t, err)
			require.Equal(t, rows/phases, a.OK)
		})
		put("copy", func(sample func()) {
			history := filepath.Join(dir, "history.csv")
			for range 2 { // once all of it, once nothing
				_, err := Copy(history, filepath.Join(dir, FileName), sweepName, 0)
				require.NoError(t, err)
				sample()
			}
		})
		return fs
	}
	measure(1_000) // warm up
	small, large := measure(10_000), measure(100_000)
	for range 3 { // another program on the same cores makes one of them dearer, never cheaper
		dear := false
		for name, s := range small {
			dear = dear || large[name].cpu > 15*s.cpu
		}
		if !dear {
			break
		}
		for _, again := range []struct{ best, now map[string]figures }{{small, measure(10_000)}, {large, measure(100_000)}} {
			for name, f := range again.now {
				again.best[name] = figures{min(f.cpu, again.best[name].cpu), again.best[name].peak}
			}
		}
	}
	for name, s := range small {
		l := large[name]
		t.Logf("%-6s 10^4 rows: %v, %d KiB; 10^5 rows: %v, %d KiB", name, s.cpu, s.peak>>10, l.cpu, l.peak>>10)
		assert.LessOrEqual(t, l.cpu, 15*max(s.cpu, 5*time.Millisecond), name)
		assert.LessOrEqual(t, l.peak, s.peak+s.peak/4+512<<10, "%s: memory grows with the rows", name)
	}
}
