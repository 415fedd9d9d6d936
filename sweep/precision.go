package sweep

import (
	"fmt"
	"slices"
	"sort"

	"qdsweep/sweep/results"
	"qdsweep/sweep/stats"
)

// precision knows how well a sweep's means are known so far. It is told every run once its rows are in results.csv, of this start or of one before, so
// that a sweep that is resumed ends where it would have ended.
type precision struct {
	cells  int // of the walk, excluded ones too
	phases []*phaseLogs
	notOK  map[string][]figure // of runs that are not ok, which alone are repeated
}

// phaseLogs are the figures of one phase, by cell.
type phaseLogs struct {
	stats.PhaseID
	metric stats.Metric
	logs   []stats.Logs
}

type figure struct {
	phase int
	value float64
}

func newPrecision(cells int) *precision {
	return &precision{cells: cells, notOK: map[string][]figure{}}
}

// add counts one run in, in the place of an earlier attempt at it.
func (p *precision) add(cell int, rows []results.Row) {
	run := rows[0].Run
	for _, f := range p.notOK[run] {
		p.phases[f.phase].logs[cell].Remove(f.value)
	}
	delete(p.notOK, run)
	var added []figure
	for _, r := range rows {
		if r.Status != results.OK || r.Phase == "" {
			continue
		}
		i := p.phase(r)
		value, ok := p.phases[i].metric.Of(r)
		if ok && p.phases[i].logs[cell].Add(value) {
			added = append(added, figure{i, value})
		}
	}
	if results.RunStatus(rows) != results.OK {
		p.notOK[run] = added
	}
}

// phase is the number of a row's phase.
func (p *precision) phase(r results.Row) int {
	id := stats.PhaseID{Workload: r.Workload, Phase: r.Phase}
	i := slices.IndexFunc(p.phases, func(have *phaseLogs) bool { return have.PhaseID == id })
	if i < 0 {
		i = len(p.phases)
		p.phases = append(p.phases, &phaseLogs{PhaseID: id, logs: make([]stats.Logs, p.cells)})
	}
	if p.phases[i].metric == "" {
		p.phases[i].metric = stats.Gate(r)
	}
	return i
}

// certainty is how well the means are known: of the phase that is known worst.
type certainty struct {
	phase string     // "" where no phase has a figure
	pool  stats.Pool // of it
	all   []stats.Pool
}

// worst looks at every phase. Cells of targets that get no further run cannot get any better, and are left out.
func (p *precision) worst(gone func(cell int) bool) certainty {
	var k certainty
	for _, phase := range p.phases {
		if phase.metric == "" {
			continue // records over the limit have no figure
		}
		var pool stats.Pool
		for i, l := range phase.logs {
			if l.N > 0 && !gone(i) {
				pool.Add(l)
			}
		}
		if pool.Fewest == 0 {
			continue
		}
		k.all = append(k.all, pool)
		if k.phase == "" || !(pool.HalfWidth() <= k.pool.HalfWidth()) {
			k.phase, k.pool = phaseText(phase.PhaseID), pool
		}
	}
	return k
}

func phaseText(id stats.PhaseID) string {
	if id.Workload == id.Phase {
		return id.Workload
	}
	return id.Workload + " " + id.Phase
}

// enough says that every mean of every phase is known to within the precision that the profile asks for.
func (k certainty) enough(precision float64) bool {
	for _, pool := range k.all {
		if !pool.Within(precision) {
			return false
		}
	}
	return len(k.all) > 0
}

// needs is how many replicates the precision takes if they go on as they went, never less than there are nor more than most.
func (k certainty) needs(precision float64, have, most int) int {
	return have + sort.Search(most-have, func(more int) bool {
		grown := certainty{}
		for _, pool := range k.all {
			grown.all = append(grown.all, pool.Grown(more))
		}
		return grown.enough(precision)
	})
}

func (k certainty) String() string {
	if k.pool.Degrees == 0 {
		return "not known at all"
	}
	return fmt.Sprintf("± %.2g %% (%s)", 100*k.pool.HalfWidth(), k.phase)
}
