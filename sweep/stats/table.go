package stats

import (
	"strings"

	"qdsweep/sweep/results"
)

// Metric is a column that phases are judged by.
type Metric string

// The metrics.
const (
	MBPerS  Metric = "mb_per_s"
	IOPS    Metric = "iops"
	Seconds Metric = "seconds"
)

// Unit is how people write the metric's unit.
func (m Metric) Unit() string {
	switch m {
	case MBPerS, MBPerSSlowest:
		return "MB/s"
	case IOPS:
		return "IOPS"
	case Seconds:
		return "s"
	}
	return "µs"
}

// Level is one axis of a cell: what was asked for, and what the members read
// back ("" unknown; several, comma-separated, where runs differ).
type Level struct{ Axis, Asked, Effective string }

// Table is the rows summarised.
type Table struct {
	Cells  []*Cell // in the order they were first seen
	Phases []*Phase
}

// Cell is one combination of levels in one sweep: rows of two sweeps are never
// summarised together, for the nights were not the same.
type Cell struct {
	Sweep     string
	Name      string
	Levels    []Level // in the order of the name
	Summaries map[PhaseID]*Summary
}

// PhaseID names a phase of a sweep.
type PhaseID struct{ Workload, Phase string }

// Phase is one column of the table: a phase over all its cells.
type Phase struct {
	PhaseID
	// Metric is the one it is judged by: IOPS where it is random or of files,
	// else MB/s; seconds where it moves no bytes.
	Metric Metric
	// HalfWidthPercent is half the width of the 95 % interval of a cell's mean
	// of the metric's logarithm, the spread pooled over the cells, at the number
	// of runs of the cell that has the fewest. Nil: no cell has two.
	HalfWidthPercent *float64
	// Fewest and Most are how many ok runs the phase's cells have.
	Fewest, Most int
	// Type is the workload's, as its rows say; "" where they do not.
	Type string
}

// Summary is one phase of one cell, from its ok rows; the others are counted.
type Summary struct {
	OK, Suspect, Failed, Skipped int
	// OverLimit is the errno with which a record larger than the device takes
	// was refused (EIO, EINVAL, ENOMEM), a finding of ok rows that have no
	// figures; "" where none was.
	OverLimit string
	// Ran is what the first row that says so says was run.
	Ran Ran

	MBPerS, IOPS, Seconds      Sample
	LatMeanUS, LatP99US        Sample
	ObservedDepth, QueuedDepth Sample
	ObservedDepthMax           Sample
	ObservedRequestKB          Sample
	MBPerSSlowest              Sample // threads × the slowest of them
	CPUSeconds                 Sample // user and system, of the workload alone
	CPUPercent                 Sample // 100 × these ÷ seconds, row by row
	LatMaxUS                   Sample
}

// Of is the sample of a metric.
func (s *Summary) Of(m Metric) Sample {
	switch m {
	case MBPerS:
		return s.MBPerS
	case IOPS:
		return s.IOPS
	}
	return s.Seconds
}

// Collector takes rows one at a time and keeps of each only the numbers.
type Collector struct {
	cells  map[cellID]*cell
	order  []*cell
	phases map[PhaseID]*Phase
	list   []*Phase
}

type cellID struct{ sweep, name string }

type cell struct {
	Cell
	values map[PhaseID]*values
}

// values are the numbers of the ok rows of one phase of one cell.
type values struct {
	counts Summary
	of     [columns][]float64
}

// The columns that are summarised.
const (
	mbPerS = iota
	iops
	seconds
	latMean
	latP99
	depth
	queued
	depthMax
	requestKB
	slowest
	cpuSeconds
	cpuPercent
	latMax
	columns
)

// NewCollector returns an empty collector.
func NewCollector() *Collector {
	return &Collector{cells: map[cellID]*cell{}, phases: map[PhaseID]*Phase{}}
}

// Add takes one row. Which attempt of a run counts is the caller's to decide.
func (c *Collector) Add(r results.Row) {
	id := cellID{r.Sweep, r.Cell}
	in := c.cells[id]
	if in == nil {
		in = &cell{values: map[PhaseID]*values{}}
		in.Sweep, in.Name, in.Levels = r.Sweep, r.Cell, levels(r)
		c.cells[id] = in
		c.order = append(c.order, in)
	}
	in.seen(r)
	if r.Phase == "" {
		return // the run never worked: no phase to count it in
	}
	phase := PhaseID{r.Workload, r.Phase}
	v := in.values[phase]
	if v == nil {
		v = &values{}
		in.values[phase] = v
	}
	if c.phases[phase] == nil {
		c.phases[phase] = &Phase{PhaseID: phase}
		c.list = append(c.list, c.phases[phase])
	}
	if p := c.phases[phase]; p.Type == "" {
		p.Type = results.LevelIn(r.Parameters, "type")
	}
	if v.counts.Ran == (Ran{}) {
		v.counts.Ran = ran(r)
	}
	switch r.Status {
	case results.Suspect:
		v.counts.Suspect++
	case results.Failed:
		v.counts.Failed++
	case results.Skipped:
		v.counts.Skipped++
	case results.OK:
		v.counts.OK++
		if errno := overLimit(r.Reason); errno != "" { // no rate, whatever its columns say
			v.counts.OverLimit = errno
			return
		}
		if p := c.phases[phase]; p.Metric == "" {
			p.Metric = Gate(r)
		}
		cpu, percent := cpuOf(r)
		for i, n := range [columns]results.Num{
			r.MBPerS, r.IOPS, r.Seconds, r.LatMeanUS, r.LatP99US,
			r.ObservedDepth, r.QueuedDepth, r.ObservedDepthMax, r.ObservedRequestKB,
			r.MBPerSSlowest, cpu, percent, r.LatMaxUS,
		} {
			if x, ok := n.Get(); ok {
				v.of[i] = append(v.of[i], x)
			}
		}
	}
}

// Gate is the metric that a row's phase is judged by: the design's gate metric.
// "" when the row has no figure at all (a record over the limit): the next row
// decides.
func Gate(r results.Row) Metric {
	_, rate := r.MBPerS.Get()
	_, ops := r.IOPS.Get()
	_, time := r.Seconds.Get()
	switch {
	case ops && (!rate || strings.Contains(r.Phase, "rand") || counted(r.Phase)):
		return IOPS
	case rate:
		return MBPerS
	case time && r.Reason == "":
		return Seconds
	}
	return ""
}

// counted says whether a phase of bonnie is one of seeks or files: it moves
// bytes, too, but nobody asks how many.
func counted(phase string) bool {
	return phase == "seeks" || strings.HasPrefix(phase, "seq_") || strings.HasPrefix(phase, "ran_")
}

// Table summarises what was added. The collector can go on afterwards.
func (c *Collector) Table() Table {
	pools := map[PhaseID]*Pool{}
	for _, p := range c.list {
		p.Fewest, p.Most = 0, 0
		pools[p.PhaseID] = &Pool{}
	}
	t := Table{Phases: c.list}
	for _, in := range c.order {
		in.Summaries = map[PhaseID]*Summary{}
		for id, v := range in.values {
			s := v.counts
			for i, to := range [columns]*Sample{
				&s.MBPerS, &s.IOPS, &s.Seconds, &s.LatMeanUS, &s.LatP99US,
				&s.ObservedDepth, &s.QueuedDepth, &s.ObservedDepthMax, &s.ObservedRequestKB,
				&s.MBPerSSlowest, &s.CPUSeconds, &s.CPUPercent, &s.LatMaxUS,
			} {
				*to = NewSample(v.of[i])
			}
			in.Summaries[id] = &s
			p := c.phases[id]
			pools[id].Add(logs(v.of[p.Metric.column()]))
			n := s.Of(p.Metric).N
			if p.Most = max(p.Most, n); n > 0 && (p.Fewest == 0 || n < p.Fewest) {
				p.Fewest = n
			}
		}
		t.Cells = append(t.Cells, &in.Cell)
	}
	for _, p := range c.list {
		if pool := pools[p.PhaseID]; pool.Degrees > 0 {
			percent := 100 * pool.HalfWidth()
			p.HalfWidthPercent = &percent
		}
	}
	return t
}

// logs are the logarithms of a cell's figures. Where one has none (no rate, no
// time), the cell says nothing of the spread.
func logs(values []float64) (l Logs) {
	for _, v := range values {
		if !l.Add(v) {
			return Logs{}
		}
	}
	return l
}

func (m Metric) column() int {
	switch m {
	case MBPerS:
		return mbPerS
	case IOPS:
		return iops
	}
	return seconds
}

// Of is the metric's figure in a row; false where it has none, or was refused
// as a record over the limit.
func (m Metric) Of(r results.Row) (float64, bool) {
	if overLimit(r.Reason) != "" {
		return 0, false
	}
	switch m {
	case MBPerS:
		return r.MBPerS.Get()
	case IOPS:
		return r.IOPS.Get()
	case Seconds:
		return r.Seconds.Get()
	case MBPerSSlowest:
		return r.MBPerSSlowest.Get()
	}
	return m.latency(r).Get()
}
