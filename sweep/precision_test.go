package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
	"qdsweep/sweep/stats"
)

// noisy is a sweep whose cells have rates of their own, and runs that scatter about them.
type noisy struct {
	cells, phases int
	noise         float64
	random        *rand.Rand
	precision     *precision
	sums          []float64
}

func (n *noisy) rate(cell, phase int) float64 { return 100 * float64(1+cell) * float64(1+phase) }

func (n *noisy) replicate(number int) {
	for cell := range n.cells {
		var rows []results.Row
		for phase := range n.phases {
			x := n.noise * n.random.NormFloat64()
			n.sums[cell*n.phases+phase] += x
			rows = append(rows, results.Row{Run: fmt.Sprintf("%d#%d", cell, number), Replicate: number, Row: phase + 1, Rows: n.phases, Workload: "w",
				Phase: fmt.Sprintf("p%d", phase), Status: results.OK, MBPerS: results.NumOf(n.rate(cell, phase) * math.Exp(x))})
		}
		n.precision.add(cell, rows)
	}
}

// sweep goes on until the precision is reached, or most replicates are done, and says how often the 95 % intervals hold the true mean.
func (n *noisy) sweep(least, most int, precision float64) (replicates, covered int, reached bool, end certainty) {
	n.precision, n.sums = newPrecision(n.cells), make([]float64, n.cells*n.phases)
	for replicates = 1; ; replicates++ {
		n.replicate(replicates)
		if replicates < least {
			continue
		}
		end = n.precision.worst(func(int) bool { return false })
		if reached = end.enough(precision); reached || replicates == most {
			break
		}
	}
	for phase, pool := range end.all {
		for cell := range n.cells {
			if math.Abs(n.sums[cell*n.phases+phase])/float64(replicates) <= math.Log1p(pool.HalfWidth()) {
				covered++
			}
		}
	}
	return replicates, covered, reached, end
}

// With the stopping, the intervals hold the true mean in 93 to 97 % of cases, from one cell on; and the precision is reached with a third of the runs of a
// fixed twenty where there is little noise. More of the same, finer, is in docs/decisions.md.
func TestPrecisionOnSimulatedNoise(t *testing.T) {
	const sweeps = 3000 // cells × phases of intervals: the share is known to 0.3 %
	for _, c := range []struct {
		cells, phases int
		noise         float64
		fewest, most  float64 // replicates, on average
	}{
		{1, 1, 0.01, 6, 6.66}, {2, 1, 0.01, 6, 6.66}, {6, 2, 0.01, 6, 6.66},
		{1, 1, 0.03, 9, 14}, {2, 1, 0.03, 9, 14}, {6, 2, 0.03, 9, 14},
		{1, 1, 0.1, 19.5, 20}, {6, 2, 0.1, 20, 20},
	} {
		t.Run(fmt.Sprintf("%d cells, %d phases, %.0f%%", c.cells, c.phases, 100*c.noise), func(t *testing.T) {
			n := &noisy{cells: c.cells, phases: c.phases, noise: c.noise, random: rand.New(rand.NewPCG(11, uint64(c.cells)))}
			replicates, covered, reached, ended := 0, 0, 0, 0
			all := sweeps / (c.cells * c.phases)
			for range all {
				r, in, ok, end := n.sweep(6, 20, 0.02)
				replicates, covered = replicates+r, covered+in
				if ok {
					reached++
					for _, pool := range end.all {
						require.LessOrEqual(t, pool.HalfWidth(), 0.02)
					}
				} else {
					ended++
					require.Equal(t, 20, r)
					require.Contains(t, end.String(), "± ")
				}
			}
			share := float64(covered) / float64(all*c.cells*c.phases)
			assert.True(t, share >= 0.93 && share <= 0.97, "the intervals cover %.1f %%", 100*share)
			mean := float64(replicates) / float64(all)
			assert.True(t, mean >= c.fewest && mean <= c.most, "%.2f replicates on average", mean)
			if c.noise <= 0.03 {
				assert.GreaterOrEqual(t, float64(reached)/float64(all), 0.98, "the precision is reached")
			} else {
				assert.GreaterOrEqual(t, float64(ended)/float64(all), 0.9, "it stops at max")
			}
		})
	}
}

func ok(run string, status string, rate float64) []results.Row {
	return []results.Row{{Run: run, Row: 1, Rows: 1, Workload: "w", Phase: "read", Status: status, MBPerS: results.NumOf(rate)}}
}

// The last attempt at a run is the one that counts, and rows that are not ok do not.
func TestPrecisionTakesLastAttempts(t *testing.T) {
	all := func(int) bool { return false }
	p, want := newPrecision(2), newPrecision(2)
	for cell := range 2 {
		for k, rate := range []float64{100, 104, 99, 101, 97, 103} {
			run := fmt.Sprintf("%d#%d", cell, k)
			want.add(cell, ok(run, results.OK, rate))
			if k%2 == 0 {
				mixed := append(ok(run, results.OK, 3*rate), results.Row{Run: run, Row: 2, Rows: 2, Workload: "w", Phase: "write", Status: results.Suspect, MBPerS: results.NumOf(1)})
				p.add(cell, mixed)
			}
			p.add(cell, ok(run, results.OK, rate))
		}
	}
	a, b := p.worst(all), want.worst(all)
	assert.InDelta(t, b.pool.HalfWidth(), a.pool.HalfWidth(), 1e-9)
	assert.Equal(t, [2]int{6, 10}, [2]int{a.pool.Fewest, a.pool.Degrees})
	assert.Len(t, a.all, 1, "a phase without a figure is none")
	assert.Equal(t, "w read", a.phase)
}

// Nothing is known without figures; a cell whose target is gone, or that never worked, does not hold the others up.
func TestPrecisionOfWhatThereIs(t *testing.T) {
	all := func(int) bool { return false }
	assert.False(t, newPrecision(3).worst(all).enough(0.5))
	p := newPrecision(3)
	for k := range 8 {
		for cell := range 2 {
			if cell == 1 && k > 0 {
				continue
			}
			p.add(cell, ok(fmt.Sprintf("%d#%d", cell, k), results.OK, 100+0.1*float64(k%2)))
		}
		p.add(2, ok(fmt.Sprintf("2#%d", k), results.Failed, 1))
	}
	assert.Equal(t, 1, p.worst(all).pool.Fewest)
	assert.False(t, p.worst(all).enough(0.0004), "a cell with one run")
	assert.True(t, p.worst(func(cell int) bool { return cell == 1 }).enough(0.0008))
	assert.Equal(t, "not known at all", certainty{}.String())
}

// A look at what is known tells how many replicates it will take.
func TestPrecisionNeeds(t *testing.T) {
	n := &noisy{cells: 8, phases: 1, noise: 0.03, random: rand.New(rand.NewPCG(3, 3))}
	n.precision, n.sums = newPrecision(8), make([]float64, 8)
	for k := range 4 {
		n.replicate(k)
	}
	k := n.precision.worst(func(int) bool { return false })
	assert.InDelta(t, 10, k.needs(0.02, 4, 20), 4)
	assert.Equal(t, 4, k.needs(0.1, 4, 20))
	assert.Equal(t, 20, k.needs(0.001, 4, 20))
}

// Below ten degrees of freedom more is asked for, below five nothing is enough.
func TestWithin(t *testing.T) {
	pool := func(cells, runs int, spread float64) (p stats.Pool) {
		for range cells {
			var l stats.Logs
			for i := range runs {
				l.Add(100 * math.Exp(spread*float64(1-2*(i%2))))
			}
			p.Add(l)
		}
		return p
	}
	assert.False(t, pool(1, 5, 1e-9).Within(0.02), "4 degrees of freedom")
	assert.True(t, pool(1, 6, 1e-9).Within(0.02))
	for cells, want := range map[int]bool{1: false, 2: true} { // 5 and 10 degrees
		p := pool(cells, 6, 0.01)
		share := p.HalfWidth() * 1.2
		assert.Equal(t, want, p.Within(share), "%d cells", cells)
		assert.True(t, p.Within(p.HalfWidth()/0.59))
		assert.False(t, p.Within(p.HalfWidth()*0.99))
	}
}
