package stats

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"qdsweep/sweep/results"
)

// Study takes the rows of sweeps one at a time, and keeps of each that is ok one figure, 16 bytes: what is compared. Conclude says what they show.
type Study struct {
	metric Metric // of all phases; "": the gate metric of each
	cells  map[cellKey]*studyCell
	list   []*studyCell
	phases map[PhaseID]*studyPhase
	order  []*studyPhase
	at     map[string]int32 // runs so far, by sweep
	axes   []string         // as they come in cells
	levels map[string][]string
	known  map[Level]bool
	merged bool // cells are by their name alone, whatever the sweep and what was in force
}

// cellKey is a cell by what was in force in it: where a device made 31 of 64, the rows of both are rows of 31.
type cellKey struct{ sweep, levels string }

type studyCell struct {
	number int
	sweep  string
	names  []string // as asked for
	levels []Level  // Effective is one level, that of the key
}

func (c *studyCell) level(axis string) (string, bool) {
	for _, l := range c.levels {
		if l.Axis == axis {
			return l.Effective, true
		}
	}
	return "", false
}

type studyPhase struct {
	PhaseID
	metric Metric
	kind   string // of workload
	cells  map[int]*figures
	list   []*figures
}

// figures are those of one phase in one cell.
type figures struct {
	*studyCell
	Counts
	ran Ran
	all []logFigure
}

// Counts are how many rows of each status there are.
type Counts struct {
	OK, Suspect, Failed, Skipped int
	NotExercised                 int // ok, but the queue depth was not reached
	NoFigure                     int // ok, but without a figure to compare: a record over the limit
}

type logFigure struct {
	log       float64
	replicate int32
	at        int32 // the run's place in its sweep
}

// NewStudy returns one without rows. A metric is for all phases; "" takes the gate metric of each.
func NewStudy(metric Metric) *Study {
	return &Study{metric: metric, cells: map[cellKey]*studyCell{}, phases: map[PhaseID]*studyPhase{}, at: map[string]int32{}, levels: map[string][]string{}, known: map[Level]bool{}}
}

// Add takes one row, in the order of the file. Which attempt of a run counts is the caller's to decide.
func (s *Study) Add(r results.Row) {
	if r.Row == 1 {
		s.at[r.Sweep]++
	}
	if r.Phase == "" {
		return
	}
	p := s.phase(r)
	f := p.figures(s.cell(r))
	if f.ran == (Ran{}) {
		f.ran = ran(r)
	}
	switch r.Status {
	case results.Suspect:
		f.Suspect++
	case results.Failed:
		f.Failed++
	case results.Skipped:
		f.Skipped++
	case results.OK:
		f.OK++
		if p.metric == "" {
			p.metric = Gate(r)
		}
		value, ok := p.metric.Of(r)
		if !ok || !(value > 0) || math.IsInf(value, 0) {
			f.NoFigure++
			return
		}
		if strings.Contains(r.Reason, string(results.DepthNotExercised)) {
			f.NotExercised++
		}
		f.all = append(f.all, logFigure{math.Log(value), int32(r.Replicate), s.at[r.Sweep]})
	}
}

func (s *Study) phase(r results.Row) *studyPhase {
	id := PhaseID{r.Workload, r.Phase}
	p := s.phases[id]
	if p == nil {
		p = &studyPhase{PhaseID: id, metric: s.metric, cells: map[int]*figures{}}
		s.phases[id] = p
		s.order = append(s.order, p)
	}
	if p.kind == "" {
		p.kind = results.LevelIn(r.Parameters, "type")
	}
	return p
}

func (p *studyPhase) figures(c *studyCell) *figures {
	f := p.cells[c.number]
	if f == nil {
		f = &figures{studyCell: c}
		p.cells[c.number] = f
		p.list = append(p.list, f)
	}
	return f
}

func (s *Study) cell(r results.Row) *studyCell {
	levels := levels(r)
	var key strings.Builder
	for i := range levels {
		l := &levels[i]
		if l.Effective = effective(r, l.Axis); l.Effective == "" {
			l.Effective = l.Asked
		}
		key.WriteString(l.Axis + "=" + l.Effective + ";")
	}
	id := cellKey{r.Sweep, key.String()}
	if s.merged {
		id = cellKey{"", r.Cell}
	}
	c := s.cells[id]
	if c == nil {
		c = &studyCell{number: len(s.list), sweep: r.Sweep, levels: levels}
		s.cells[id] = c
		s.list = append(s.list, c)
		for _, l := range levels {
			s.know(l.Axis, l.Effective)
		}
	}
	if !slices.Contains(c.names, r.Cell) {
		c.names = append(c.names, r.Cell)
	}
	return c
}

func (s *Study) know(axis, level string) {
	if s.known[Level{Axis: axis, Effective: level}] {
		return
	}
	s.known[Level{Axis: axis, Effective: level}] = true
	if s.levels[axis] == nil {
		s.axes = append(s.axes, axis)
	}
	s.levels[axis] = append(s.levels[axis], level)
}

// sortLevels puts the levels of an axis from the least to the most, where they have such an order; else they stay as they came.
func sortLevels(levels []string) {
	rank := func(level string) (float64, bool) {
		switch level {
		case "off", "no", "false":
			return 0, true
		case "on", "yes", "true":
			return 1, true
		}
		digits := strings.TrimRight(level, "kmgtKMGT")
		v, err := strconv.ParseFloat(digits, 64)
		for _, unit := range strings.ToLower(level[len(digits):]) {
			v *= math.Pow(1024, float64(strings.IndexRune("kmgt", unit)+1))
		}
		return v, err == nil
	}
	for _, l := range levels {
		if _, ok := rank(l); !ok {
			return
		}
	}
	slices.SortStableFunc(levels, func(a, b string) int {
		x, _ := rank(a)
		y, _ := rank(b)
		return cmp.Compare(x, y)
	})
}

// with are the cells of a phase that have figures.
func (p *studyPhase) with() []*figures {
	var list []*figures
	for _, f := range p.list {
		if len(f.all) > 0 {
			list = append(list, f)
		}
	}
	return list
}

func (f *figures) mean() float64 {
	var sum float64
	for _, v := range f.all {
		sum += v.log
	}
	return sum / float64(len(f.all))
}

// spread is the sum of squared distances from the mean.
func (f *figures) spread() float64 {
	mean, sum := f.mean(), 0.0
	for _, v := range f.all {
		sum += (v.log - mean) * (v.log - mean)
	}
	return sum
}
