package report

import (
	"fmt"
	"io"
	"iter"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sweep/stats"
)

// manyRows makes so many rows of five replicates as they are asked for.
func manyRows(n int) Data {
	return Data{Rows: func() iter.Seq2[results.Row, error] {
		return func(yield func(results.Row, error) bool) {
			for i := range n {
				cell := fmt.Sprintf("queue_depth=%d;write_cache=%s", 1+i%(n/5)/2, []string{"off", "on"}[i%2])
				r := results.Row{Sweep: "s", Cell: cell, Run: fmt.Sprintf("%s#%d", cell, i/(n/5)+1), Replicate: i/(n/5) + 1, Attempt: 1, Row: 1, Rows: 1,
					Workload: "w", Phase: "write", Status: results.OK, MBPerS: results.NumOf(100 + math.Sin(float64(i)*float64(i)))}
				if !yield(r, nil) {
					return
				}
			}
		}
	}}
}

// cpuTime is that of the process: what others do on the machine is none of it.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The shape of the cost, not its size: ten times the rows cost at most 15 times, and memory is a number a row.
func TestCompareCostsInProportion(t *testing.T) {
	cost := func(n int) (least time.Duration) {
		least = math.MaxInt64
		for range 3 {
			runtime.GC()
			start := cpuTime(t)
			c, err := Compare(manyRows(n), manyRows(n), "", stats.Gating{MaxRegression: 0.05})
			require.NoError(t, err)
			require.NoError(t, CompareText(io.Discard, c, 120))
			require.NoError(t, CompareJSON(io.Discard, c))
			least = min(least, cpuTime(t)-start)
		}
		return least
	}
	few, many := cost(10_000), cost(100_000)
	t.Logf("10^4 rows %v, 10^5 rows %v", few, many)
	assert.LessOrEqual(t, many, 15*few)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	assert.Less(t, m.Sys, uint64(300<<20), "the whole process")
}
