package stats

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qdsweep/sweep/results"
)

func TestT95(t *testing.T) {
	// From a printed table of Student's t, 97.5 %.
	for df, want := range map[float64]float64{1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 30: 2.042, 120: 1.980, 1e6: 1.960} {
		assert.InDelta(t, want, T95(df), 0.0006, "%v degrees of freedom", df)
	}
}

func TestSample(t *testing.T) {
	assert.Equal(t, Sample{}, NewSample(nil))
	assert.Equal(t, Sample{N: 1, Median: 7, Mean: 7, Min: 7, Max: 7}, NewSample([]float64{7}), "one value has no interval")
	s := NewSample([]float64{12, 8, 10})
	assert.Equal(t, [4]float64{10, 10, 8, 12}, [4]float64{s.Median, s.Mean, s.Min, s.Max})
	require.NotNil(t, s.HalfWidthPercent) // 4.303 × 2 ÷ √3 ÷ 10
	assert.InDelta(t, 49.68, *s.HalfWidthPercent, 0.01)
	assert.Equal(t, 9.0, NewSample([]float64{10, 8}).Median)
	assert.Nil(t, NewSample([]float64{0, 0}).HalfWidthPercent, "0 has no per cent")
	same := NewSample([]float64{5, 5, 5})
	assert.Zero(t, *same.HalfWidthPercent)
}

func TestSampleStaysWithinItsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(1e-3, 1e9), 1, 30).Draw(t, "v")
		s := NewSample(v)
		require.Equal(t, len(v), s.N)
		require.True(t, s.Min <= s.Median && s.Median <= s.Max)
		require.True(t, s.Min <= s.Mean*(1+1e-12) && s.Mean <= s.Max*(1+1e-12))
		if s.HalfWidthPercent != nil {
			require.GreaterOrEqual(t, *s.HalfWidthPercent, 0.0)
		}
	})
}

func row(cell string, replicate int, phase, status string, iops float64) results.Row {
	return results.Row{
		Sweep: "s", Cell: cell, Run: cell + "#", Replicate: replicate, Workload: "w", Phase: phase, Status: status,
		IOPS: results.NumOf(iops), MBPerS: results.NumOf(iops / 100), QueueDepthEffective: "1",
	}
}

func TestTable(t *testing.T) {
	c := NewCollector()
	for i, v := range []float64{100, 102, 98} {
		c.Add(row("queue_depth=1", i, "randread", results.OK, v))
		c.Add(row("queue_depth=4", i, "randread", results.OK, 3*v))
	}
	c.Add(row("queue_depth=4", 3, "randread", results.Suspect, 9999))
	c.Add(row("queue_depth=4", 4, "randread", results.Failed, 9999))
	c.Add(row("queue_depth=1", 0, "read", results.OK, 50))
	c.Add(results.Row{Sweep: "s", Cell: "queue_depth=64", Status: results.Skipped})
	table := c.Table()

	require.Len(t, table.Phases, 2)
	random, sequential := table.Phases[0], table.Phases[1]
	assert.Equal(t, IOPS, random.Metric)
	assert.Equal(t, MBPerS, sequential.Metric)
	assert.Equal(t, []int{3, 3, 1, 1}, []int{random.Fewest, random.Most, sequential.Fewest, sequential.Most})
	assert.Nil(t, sequential.HalfWidthPercent)
	require.NotNil(t, random.HalfWidthPercent)
	// 2 % a value, 4 degrees of freedom, 3 runs: 2.776 × 2 % ÷ √3
	assert.InDelta(t, 3.26, *random.HalfWidthPercent, 0.05)

	require.Len(t, table.Cells, 3)
	deep := table.Cells[1].Summaries[random.PhaseID]
	assert.Equal(t, [4]int{3, 1, 1, 0}, [4]int{deep.OK, deep.Suspect, deep.Failed, deep.Skipped})
	assert.Equal(t, 300.0, deep.Of(IOPS).Median, "rows that are not ok are left out")
	assert.Equal(t, []Level{{"queue_depth", "4", "1"}}, table.Cells[1].Levels)
	assert.Empty(t, table.Cells[2].Summaries)
}

func TestTwoSweepsAreNotOneSample(t *testing.T) {
	c := NewCollector()
	r := row("queue_depth=1", 1, "read", results.OK, 1)
	c.Add(r)
	r.Sweep = "other"
	c.Add(r)
	assert.Len(t, c.Table().Cells, 2)
}

func TestMetric(t *testing.T) {
	some := results.NumOf(1)
	for name, c := range map[string]struct {
		r    results.Row
		want Metric
	}{
		"sequential":     {results.Row{Phase: "read", MBPerS: some, IOPS: some}, MBPerS},
		"random":         {results.Row{Phase: "randread+randwrite/r", MBPerS: some, IOPS: some}, IOPS},
		"seeks":          {results.Row{Phase: "seeks", MBPerS: some, IOPS: some}, IOPS},
		"files":          {results.Row{Phase: "seq_create", MBPerS: some, IOPS: some}, IOPS},
		"no bytes":       {results.Row{Phase: "create", IOPS: some}, IOPS},
		"time only":      {results.Row{Phase: "remove", Seconds: some}, Seconds},
		"over the limit": {results.Row{Phase: "read", Seconds: some, Reason: results.OverTheLimit.With("EIO")}, ""},
	} {
		assert.Equal(t, c.want, Gate(c.r), name)
	}
}

func TestEffectiveLevelsThatDiffer(t *testing.T) {
	c := NewCollector()
	r := row("queue_depth=4;scheduler=none", 1, "read", results.OK, 1)
	for _, e := range []string{"4", "1", "4"} {
		r.QueueDepthEffective, r.AxesEffective = e, "nr_requests=64;scheduler=none"
		c.Add(r)
	}
	r.Status, r.QueueDepthEffective = results.Failed, "2"
	c.Add(r)
	assert.Equal(t, []Level{{"queue_depth", "4", "4,1"}, {"scheduler", "none", "none"}}, c.Table().Cells[0].Levels)
}

// Pooled over many cells, the interval covers what it says.
func TestThePooledIntervalCovers95Percent(t *testing.T) {
	const sweeps, cells, runs, noise = 300, 8, 3, 0.03
	seed := uint64(1)
	normal := func() float64 { // Box-Muller over a small generator: the same on every machine
		next := func() float64 {
			seed = seed*6364136223846793005 + 1442695040888963407
			return (float64(seed>>11) + 0.5) / (1 << 53)
		}
		return math.Sqrt(-2*math.Log(next())) * math.Cos(2*math.Pi*next())
	}
	covered := 0
	for range sweeps {
		var p Pool
		first := 0.0
		for c := range cells {
			v := make([]float64, runs)
			for i := range v {
				v[i] = 100 * float64(c+1) * math.Exp(noise*normal())
			}
			if c == 0 {
				first = (math.Log(v[0]) + math.Log(v[1]) + math.Log(v[2])) / 3
			}
			p.Add(logs(v))
		}
		if math.Abs(first-math.Log(100)) <= math.Log1p(p.HalfWidth()) {
			covered++
		}
	}
	assert.InDelta(t, 0.95, float64(covered)/sweeps, 0.03)
}

// A refused record is a finding without a figure: it is neither 0 nor part of a median.
func TestOverTheLimit(t *testing.T) {
	c := NewCollector()
	r := row("block_size=1m", 1, "read", results.OK, 0)
	r.Reason = results.JoinReasons(results.Clamped.With("x"), results.OverTheLimit.With("EINVAL (a record of 1024 KiB; sdb takes 128)"))
	c.Add(r)
	s := c.Table().Cells[0].Summaries[PhaseID{"w", "read"}]
	assert.Equal(t, 1, s.OK)
	assert.Equal(t, "EINVAL", s.OverLimit)
	assert.Zero(t, s.MBPerS.N)
	assert.Empty(t, c.Table().Phases[0].Metric)

	for reason, want := range map[string]string{"over the limit: ENOMEM": "ENOMEM", "over the limit": "over", "over the limit: 12": "over", "cached: ENOMEM": ""} {
		assert.Equal(t, want, overLimit(reason), reason)
	}
}

func TestCPU(t *testing.T) {
	c := NewCollector()
	for _, v := range []float64{1, 3} {
		r := row("queue_depth=1", int(v), "read", results.OK, 100)
		r.Seconds, r.CPUUserS, r.CPUSysS = results.NumOf(10), results.NumOf(v), results.NumOf(v/2)
		c.Add(r)
	}
	r := row("queue_depth=1", 4, "read", results.OK, 100)
	r.CPUUserS, r.CPUSysS = results.NumOf(1), results.NumOf(1) // and no time
	c.Add(r)
	s := c.Table().Cells[0].Summaries[PhaseID{"w", "read"}]
	assert.Equal(t, []int{3, 2}, []int{s.CPUSeconds.N, s.CPUPercent.N})
	assert.Equal(t, 30.0, s.CPUPercent.Median)
	assert.Equal(t, 2.0, s.CPUSeconds.Median)
}

func TestRan(t *testing.T) {
	c := NewCollector()
	r := row("queue_depth=1", 1, "read", results.Failed, 0)
	r.Engine, r.Threads, r.Parameters = "sg", results.IntOf(4), "type=io;size=8g;regions=2"
	c.Add(r)
	s := c.Table().Cells[0].Summaries[PhaseID{"w", "read"}]
	assert.Equal(t, Ran{Engine: "sg", Threads: 4, Parameters: r.Parameters}, s.Ran)
	assert.Equal(t, []string{"8g", "2", ""}, []string{s.Ran.Parameter("size"), s.Ran.Parameter("regions"), s.Ran.Parameter("chunk")})
	assert.Equal(t, "io", c.Table().Phases[0].Type)
}
