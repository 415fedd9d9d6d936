package sweep

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// stopped makes the output folder of a sweep that has so many runs behind it, of one row each, and as many before it.
func stopped(t testing.TB, rows int) (dir string) {
	const cells = 100
	dir = t.TempDir()
	p, err := ReadProfile("x.yaml", strings.NewReader(fmt.Sprintf("version: 1\nname: x\nseed: 1\nmatrix: {queue_depth: {from: 1, to: %d, step: 1}}\nrepeats: %d\n"+
		"workloads: [{name: r, type: io, mode: randread}]\n", cells, 2*rows/cells)))
	require.NoError(t, err)
	s := start{Sweep: "s", Planned: 2 * rows, Profile: profileHash(p.YAML())}
	environment, err := json.Marshal([]start{s})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "profile.yaml"), p.YAML(), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "environment.json"), environment, 0o644))
	name := filepath.Join(dir, results.FileName)
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Write(results.Header())
	require.NoError(t, err)
	n := 0
	for r := range (&Plan{Profile: p}).Runs() {
		if n++; n > rows {
			break
		}
		_, err := f.Write(results.Encode([]results.Row{{Sweep: "s", Run: r.ID, Cell: r.Cell.String(), Replicate: r.Replicate, Attempt: 1, Status: results.OK, Restored: true,
			Host: "h", Kernel: "6.1.0", Target: "/dev/disk/by-id/ata-EXAMPLE", Members: "sda:DISK400SATA:S0000001", Workload: "r", Phase: "randread",
			MBPerS: results.NumOf(123.456), IOPS: results.NumOf(30141), Seconds: results.NumOf(30)}}))
		require.NoError(t, err)
	}
	return dir
}

// takeUp reads a folder as resume does, and goes through the plan to the first run that is due.
func takeUp(t testing.TB, dir string, rows int) *Sweep {
	s := &Sweep{opt: Options{Out: dir, StateDir: t.TempDir()}}
	require.NoError(t, s.reopen())
	done := 0
	for r := range (&Plan{Profile: s.profile}).Runs() {
		if _, due := s.due(r); due {
			break
		}
		done++
	}
	require.Equal(t, rows, done)
	require.Equal(t, rows, s.audit.OK)
	return s
}

// The shape of the cost, not its size: ten times the rows are taken up in at most 15 times the CPU time, and in the same memory (two bytes a planned run
// aside, which are 40 KB and 400 KB here).
func TestResumeOfTenTimesTheRows(t *testing.T) {
	if raceDetector {
		t.Skip("would measure the race detector; `make test` runs it without")
	}
	type figures struct {
		cpu  time.Duration
		peak uint64
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	cpu := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	dirs := map[int]string{}
	measure := func(rows int) (f figures) {
		if dirs[rows] == "" {
			dirs[rows] = stopped(t, rows)
		}
		before, began := heap(), cpu()
		s := takeUp(t, dirs[rows], rows)
		f.cpu = cpu() - began
		if after := heap(); after > before {
			f.peak = after - before
		}
		require.NoError(t, s.close())
		s.logFile.Close()
		return f
	}
	measure(1_000) // warm up
	small, large := measure(10_000), measure(100_000)
	for range 3 { // another program on the same cores makes one of them dearer, never cheaper
		if large.cpu <= 15*small.cpu {
			break
		}
		small.cpu, large.cpu = min(small.cpu, measure(10_000).cpu), min(large.cpu, measure(100_000).cpu)
	}
	t.Logf("10^4 rows: %v, %d KiB; 10^5 rows: %v, %d KiB", small.cpu, small.peak>>10, large.cpu, large.peak>>10)
	assert.LessOrEqual(t, large.cpu, 15*max(small.cpu, 5*time.Millisecond))
	assert.LessOrEqual(t, large.peak, small.peak+small.peak/4+512<<10, "memory grows with the rows")
}

// BenchmarkResume takes up a sweep of which a million rows are there, and a million runs are to come.
func BenchmarkResume(b *testing.B) {
	const rows = 1_000_000
	dir := stopped(b, rows)
	for b.Loop() {
		s := takeUp(b, dir, rows)
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-heap")
		require.NoError(b, s.close())
		s.logFile.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
