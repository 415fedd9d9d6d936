package sweep

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const millionRuns = `
version: 1
name: million
seed: 1
repeats: 3
target: {device: sda}
matrix:
  queue_depth: {from: 1, to: 31, step: 1}
  nr_requests: {from: 32, to: 64, step: 1}
  max_sectors_kb: {from: 4, to: 328, step: 4}
  iodepth: [1, 2, 4, 64]
  exclude: [{queue_depth: 1, nr_requests: 32}, {queue_depth: 2, iodepth: 64}]
workloads: [{name: a, type: io, engine: libaio, block_size: 1m}]
`

// A million runs are planned and walked without holding them: four bytes a cell are all that stays.
func TestAMillionRunsTakeLittleMemory(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{})
	p, err := planOf(t, m.host(), millionRuns, PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, 3*(31*33*82*4-82*4-33*82), p.Count())

	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	seen := 0
	for range p.Runs() {
		seen++
		if seen == p.Count()/2 {
			runtime.GC()
			runtime.ReadMemStats(&during)
		}
	}
	assert.Equal(t, p.Count(), seen)
	assert.Less(t, int64(during.HeapAlloc)-int64(before.HeapAlloc), int64(8*p.Cells()), "bytes held halfway")
}

func BenchmarkMillionRuns(b *testing.B) {
	t := &testing.T{}
	m := &planMachine{t: t, root: b.TempDir(), devices: map[string]string{}}
	m.disk("sda", planDisk{})
	for b.Loop() {
		p, err := NewPlan(b.Context(), read(b, millionRuns), m.host(), PlanOptions{})
		require.NoError(b, err)
		n := 0
		for range p.Runs() {
			n++
		}
		b.ReportMetric(float64(n), "runs")
	}
}
