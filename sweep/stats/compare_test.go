package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qdsweep/sweep/results"
)

func compared(t require.TestingT, base, other []results.Row, metric Metric) Comparison {
	c, err := Compare(comparing(base, metric), comparing(other, metric), Gating{MaxRegression: 0.05})
	require.NoError(t, err)
	return c
}

func comparing(rows []results.Row, metric Metric) *Study {
	s := NewComparing(metric)
	for _, r := range rows {
		s.Add(r)
	}
	return s
}

// cells24 is a matrix of 24 cells whose rates differ by much more than anything that is looked for.
func cells24(repeats int, slower float64) design {
	return design{
		axes: []string{"queue_depth", "write_cache", "max_sectors_kb"}, levels: [][]string{{"1", "2", "4", "8", "16", "31"}, {"off", "on"}, {"128", "512"}},
		repeats: repeats, noise: threePercent,
		log: func(l []int) float64 {
			log := 0.1*float64(l[0]) + 0.7*float64(l[1])
			if l[0] == 3 && l[1] == 1 && l[2] == 0 {
				log += math.Log1p(-slower)
			}
			return log
		},
	}
}

const slowCell = "queue_depth=8;write_cache=on;max_sectors_kb=128"

func TestSimulatedComparisonsOfTheSame(t *testing.T) {
	n, _ := draws(120)
	for _, repeats := range []int{2, 3, 5} {
		rng, flagged := seeded(21), 0
		for range n {
			d := cells24(repeats, 0)
			c := compared(t, d.rows(rng), d.rows(rng), "")
			require.Equal(t, 24, c.Looked)
			flagged += hit(c.Outcome == Regression)
		}
		t.Logf("%d repeats: %.1f %% of comparisons of the same fire, upper limit %.1f %%", repeats, share(flagged, n), 100*upper(flagged, n))
		assertAtMost5Percent(t, flagged, n)
	}
	// Half of the cells at 1 %, half at 5 %: no cell by itself shows it, the level of the axis does.
	for _, repeats := range []int{3, 5} {
		rng, flagged := seeded(24), 0
		for range n {
			d := cells24(repeats, 0)
			d.noise = func(l []int) float64 { return []float64{0.01, 0.05}[l[1]] }
			flagged += hit(compared(t, d.rows(rng), d.rows(rng), "").Outcome == Regression)
		}
		assertAtMost5Percent(t, flagged, n)
		t.Logf("%d repeats, half the cells five times as noisy: %.1f %% fire, upper limit %.1f %%", repeats, share(flagged, n), 100*upper(flagged, n))
	}
}

func TestSimulatedRegressionsAreFound(t *testing.T) {
	n, full := draws(120)
	for _, repeats := range []int{3, 5} {
		rng, found, named, passed := seeded(22), 0, 0, 0
		for range n {
			c := compared(t, cells24(repeats, 0).rows(rng), cells24(repeats, 0.10).rows(rng), "")
			found += hit(c.Outcome == Regression)
			for _, p := range c.Pairs {
				if p.Cell == slowCell {
					named += hit(p.Outcome == Regression)
					passed += hit(p.Outcome == NoRegression || p.Outcome == Improvement)
				}
			}
			passed += hit(c.Outcome == NoRegression)
		}
		t.Logf("%d repeats: 10 %% in one of 24 cells at 3 %% noise is found in %.1f %% of comparisons, in that cell in %.1f %%", repeats, share(found, n), share(named, n))
		assert.Zero(t, passed, "passed in silence")
		if repeats == 5 {
			least := 92.0
			if full {
				least = 95
			}
			assert.GreaterOrEqual(t, share(named, n), least)
		}
	}
}

// What is called the smallest change that would have been seen is seen in four cases of five.
func TestSimulatedSmallest(t *testing.T) {
	n, full := draws(120)
	rng, found := seeded(23), 0
	probe := compared(t, cells24(20, 0).rows(rng), cells24(20, 0).rows(rng), "")
	assert.Equal(t, NoRegression, probe.Outcome)
	slower := math.Expm1(Shows(0.03, 20, 48, 2, Significance/24))
	for range n {
		c := compared(t, cells24(20, 0).rows(rng), cells24(20, 1-1/(1+slower)).rows(rng), "")
		for _, p := range c.Pairs {
			if p.Cell == slowCell {
				found += hit(*p.P < Significance)
			}
		}
	}
	room := 8.0
	if full {
		room = 2.5
	}
	assert.InDelta(t, 80, share(found, n), room)
}

func shifted(rows []results.Row, cell string, by float64) []results.Row {
	list := append([]results.Row{}, rows...)
	for i := range list {
		v, _ := list[i].MBPerS.Get()
		if strings.HasPrefix(list[i].Cell, cell) {
			list[i].MBPerS = results.NumOf(v * by)
		}
	}
	return list
}

func quiet(repeats int) design {
	d := cells24(repeats, 0)
	d.noise = func([]int) float64 { return 0.005 }
	return d
}

func TestWhatBecomesOfAComparison(t *testing.T) {
	base, again := quiet(4).rows(seeded(31)), quiet(4).rows(seeded(34))
	for name, c := range map[string]struct {
		change  func([]results.Row) []results.Row
		outcome Outcome
		cells   map[Outcome]int
	}{
		"the same":        {func(r []results.Row) []results.Row { return r }, NoRegression, map[Outcome]int{NoRegression: 24}},
		"one slower":      {func(r []results.Row) []results.Row { return shifted(r, slowCell, 0.9) }, Regression, map[Outcome]int{NoRegression: 23, Regression: 1}},
		"one faster":      {func(r []results.Row) []results.Row { return shifted(r, slowCell, 1.1) }, NoRegression, map[Outcome]int{NoRegression: 23, Improvement: 1}},
		"slower, allowed": {func(r []results.Row) []results.Row { return shifted(r, slowCell, 0.97) }, NoRegression, map[Outcome]int{NoRegression: 24}},
		"one gone": {func(r []results.Row) []results.Row {
			var list []results.Row
			for _, x := range r {
				if x.Cell != slowCell {
					list = append(list, x)
				}
			}
			return list
		}, Inconclusive, map[Outcome]int{NoRegression: 23, Missing: 1}},
		"one failed": {func(r []results.Row) []results.Row {
			for i := range r {
				if r[i].Cell == slowCell {
					r[i].Status = results.Failed
				}
			}
			return r
		}, Inconclusive, map[Outcome]int{NoRegression: 23, Missing: 1}},
		"another engine": {func(r []results.Row) []results.Row {
			for i := range r {
				r[i].Engine, r[i].Parameters = "libaio", "type=io;size=2g"
			}
			return r
		}, Inconclusive, map[Outcome]int{NotComparable: 24}},
		"a fifth suspect": {func(r []results.Row) []results.Row {
			for i := range r {
				if i%5 == 0 {
					r[i].Status = results.Suspect
				}
			}
			return shifted(r, slowCell, 0.5)
		}, Inconclusive, map[Outcome]int{Inconclusive: 24}},
		"noisy": {func(r []results.Row) []results.Row {
			for i := range r {
				v, _ := r[i].MBPerS.Get()
				r[i].MBPerS = results.NumOf(v * (1 + 0.1*math.Sin(float64(i*i))))
			}
			return r
		}, Inconclusive, map[Outcome]int{Inconclusive: 24}},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]results.Row{}, base...)
			for i := range before {
				before[i].Engine, before[i].Parameters = "psync", "type=io;size=1g"
			}
			after := append([]results.Row{}, again...)
			for i := range after {
				after[i].Engine, after[i].Parameters = "psync", "type=io;size=1g"
			}
			got := compared(t, before, c.change(after), "")
			counts := map[Outcome]int{}
			for _, p := range got.Pairs {
				counts[p.Outcome]++
				if p.Outcome == NotComparable {
					assert.Equal(t, "engine psync there, libaio here; size 1g there, 2g here", p.Reason)
				}
				if p.Outcome == Inconclusive {
					assert.NotEmpty(t, p.Reason)
				}
			}
			assert.Equal(t, c.cells, counts)
			assert.Equal(t, c.outcome, got.Outcome)
		})
	}
}

func TestMoreOrLessIsBetterByTheMetric(t *testing.T) {
	rows := func(by float64, seed uint64) (list []results.Row) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for replicate := 1; replicate <= 8; replicate++ {
			noise := math.Exp(0.005 * rng.NormFloat64())
			r := cellRow("queue_depth=1", replicate, 100*noise*by)
			r.Seconds, r.LatP99US = results.NumOf(10*noise*by), results.NumOf(500*noise*by)
			list = append(list, r)
		}
		return list
	}
	for metric, worse := range map[Metric]float64{"": 0.8, MBPerS: 0.8, Seconds: 1.25, LatP99US: 1.25} {
		assert.Equal(t, Regression, compared(t, rows(1, 1), rows(worse, 2), metric).Outcome, metric)
		assert.Equal(t, NoRegression, compared(t, rows(1, 1), rows(1/worse, 2), metric).Outcome, metric)
	}
	_, err := Compare(comparing(rows(1, 1), IOPS), comparing(rows(1, 2), IOPS), Gating{0.05})
	assert.ErrorIs(t, err, ErrNoFigure)
	other := rows(1, 1)
	for i := range other {
		other[i].Cell = "queue_depth=2"
	}
	_, err = Compare(comparing(rows(1, 1), ""), comparing(other, ""), Gating{0.05})
	assert.ErrorIs(t, err, ErrNothingInCommon)
}

// One run each is no comparison, however far they are from each other; nor do runs of another night that are much noisier make those of the base noisy.
func TestWithoutReplicatesNothingIsClaimed(t *testing.T) {
	base := []results.Row{cellRow("queue_depth=1", 1, 100)}
	c := compared(t, base, []results.Row{cellRow("queue_depth=1", 1, 10)}, "")
	assert.Equal(t, Inconclusive, c.Outcome)
	assert.Nil(t, c.Pairs[0].P)
	assert.Contains(t, c.Pairs[0].Reason, "no cell has two runs")
}

func TestANoisyNightIsJudgedByItsOwn(t *testing.T) {
	d := quiet(5)
	base := d.rows(seeded(41))
	d.noise = func([]int) float64 { return 0.05 }
	c := compared(t, base, d.rows(seeded(42)), "")
	require.NotEmpty(t, c.Warnings)
	assert.Equal(t, UnequalNoise, c.Warnings[0].Code)
	assert.Contains(t, c.Warnings[0].Text, "differs with results (0.47 % at base")
	assert.Equal(t, Inconclusive, c.Outcome)
	assert.Greater(t, c.Phases[0].Needs, 10)
}

func TestExtraCellsAreSaid(t *testing.T) {
	base, other := quiet(3).rows(seeded(51)), quiet(3).rows(seeded(52))
	for i := 1; i <= 2; i++ {
		other = append(other, cellRow("queue_depth=64", i, 100))
	}
	extra := compared(t, base, other, "").Extra
	require.Len(t, extra, 1)
	assert.Equal(t, "queue_depth=64", extra[0].Cell)
	assert.Equal(t, 2, extra[0].New.N)
}

// Base and new change places: every change is the other way round, and as likely.
func TestAComparisonHasTwoSides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := func(label string) (list []results.Row) {
			for i := range rapid.IntRange(1, 20).Draw(t, label) {
				r := cellRow(fmt.Sprint("queue_depth=", rapid.IntRange(1, 3).Draw(t, "cell")), i+1, rapid.Float64Range(90, 110).Draw(t, "rate"))
				list = append(list, r)
			}
			return list
		}
		a, b := comparing(rows("a"), ""), comparing(rows("b"), "")
		there, err := Compare(a, b, Gating{0.05})
		back, other := Compare(b, a, Gating{0.05})
		require.Equal(t, err, other)
		if err != nil {
			return
		}
		by := map[string]Pair{}
		for _, p := range back.Pairs {
			by[p.Cell] = p
		}
		for _, p := range there.Pairs {
			if p.Outcome == Missing {
				continue
			}
			q := by[p.Cell]
			require.InDelta(t, 1, (1+p.Percent/100)*(1+q.Percent/100), 1e-9)
			require.Equal(t, p.P == nil, q.P == nil)
			if p.P != nil {
				require.InDelta(t, *p.P, *q.P, 1e-9)
			}
		}
	})
}
