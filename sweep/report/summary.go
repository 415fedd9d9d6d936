package report

import (
	"time"

	"qdsweep/sweep/results"
	"qdsweep/sweep/stats"
)

// summary is everything the forms of a report share.
type summary struct {
	table       stats.Table
	sweeps      []*sweepFacts
	problems    []problem
	notes       []*note
	warnings    []string
	rows        int // read
	repeated    int // rows of attempts that a later one replaces
	notRestored []string
}

// sweepFacts is what the rows say of one sweep.
type sweepFacts struct {
	Sweep   string         `json:"sweep"`
	Host    string         `json:"host"`
	Kernel  string         `json:"kernel"`
	Target  string         `json:"target"`  // of several all, with a comma between
	Members string         `json:"members"` // of all targets, each once
	Targets []*targetFacts `json:"targets"`
	Started time.Time      `json:"started"`
	Ended   time.Time      `json:"ended"` // of the last phase, about
}

// problem is a run that is not ok, by its worst row.
type problem struct {
	Sweep    string `json:"sweep"`
	Run      string `json:"run"`
	Attempt  int    `json:"attempt"`
	Workload string `json:"workload"`
	Phase    string `json:"phase"`
	Status   string `json:"status"`
	Reason   string `json:"reason"`
}

// note is a reason that ok rows give: of one phase, or, where it is the
// settings' or the clock's and so the whole run's, of any ("").
type note struct {
	Code     results.Code `json:"code"`
	Workload string       `json:"workload"`
	Phase    string       `json:"phase"`
	Rows     int          `json:"rows"`
	Of       int          `json:"of_ok_rows"`
	Example  string       `json:"example"`
	differs  bool
}

type runID struct{ sweep, run string }

// summarise reads the rows twice: which attempt of a run counts is known only
// when all are read.
func summarise(d Data) (*summary, error) {
	s := &summary{warnings: d.Warnings}
	last := map[runID]int{} // of runs that were repeated
	for r, err := range d.Rows() {
		if err != nil {
			if !bearable(err) {
				return nil, err
			}
			s.warnings = append(s.warnings, err.Error())
			continue
		}
		s.rows++
		if id := (runID{r.Sweep, r.Run}); r.Attempt > max(1, last[id]) {
			last[id] = r.Attempt
		}
	}
	c := &summariser{summary: s, collect: stats.NewCollector(),
		sweeps: map[string]*sweepFacts{}, notes: map[noteID]*note{}, okRows: map[stats.PhaseID]int{}, null: map[string]bool{}}
	for r, err := range d.Rows() {
		if err != nil {
			continue // said above
		}
		if r.Attempt < last[runID{r.Sweep, r.Run}] {
			s.repeated++
			continue
		}
		c.add(r)
	}
	for _, n := range s.notes {
		n.Of = c.okRows[stats.PhaseID{Workload: n.Workload, Phase: n.Phase}]
	}
	for _, f := range s.sweeps {
		f.settle()
	}
	s.table = c.collect.Table()
	return s, nil
}

type noteID struct {
	code results.Code
	of   stats.PhaseID
}

type summariser struct {
	*summary
	collect *stats.Collector
	sweeps  map[string]*sweepFacts
	notes   map[noteID]*note
	okRows  map[stats.PhaseID]int
	null    map[string]bool // workloads that did no I/O
	worst   results.Row     // of the run being read
	clock   time.Time       // where it has got to
}

func (c *summariser) add(r results.Row) {
	c.collect.Add(r)
	c.facts(r)
	if r.Engine == "null" && !c.null[r.Workload] {
		c.null[r.Workload] = true
		c.warnings = append(c.warnings, "workload "+r.Workload+" ran with the engine null, which does no I/O: its figures time qdsweep, not a drive")
	}
	if r.Status == results.OK {
		c.note(r)
	}
	if r.Row == 1 || results.RunStatus([]results.Row{c.worst, r}) != c.worst.Status {
		c.worst = r
	}
	if r.Row < r.Rows {
		return
	}
	if !r.Restored && r.Status != results.Skipped { // nothing was set for a skipped one
		c.notRestored = append(c.notRestored, r.Run)
	}
	if w := c.worst; w.Status != results.OK {
		c.problems = append(c.problems, problem{w.Sweep, w.Run, w.Attempt, w.Workload, w.Phase, w.Status, w.Reason})
	}
}

func (c *summariser) facts(r results.Row) {
	f := c.sweeps[r.Sweep]
	if f == nil {
		f = &sweepFacts{Sweep: r.Sweep, Host: r.Host, Kernel: r.Kernel, Started: r.Started}
		c.sweeps[r.Sweep] = f
		c.summary.sweeps = append(c.summary.sweeps, f)
	}
	f.target(r)
	if r.Started.IsZero() {
		return
	}
	if f.Started.IsZero() || r.Started.Before(f.Started) {
		f.Started = r.Started
	}
	// Phases of a run may all carry the run's start: they came one after another.
	at := r.Started
	if r.Row > 1 && c.clock.After(at) {
		at = c.clock
	}
	seconds, _ := r.Seconds.Get()
	c.clock = at.Add(time.Duration(seconds * float64(time.Second)))
	if c.clock.After(f.Ended) {
		f.Ended = c.clock
	}
}

func (c *summariser) note(r results.Row) {
	phase := stats.PhaseID{Workload: r.Workload, Phase: r.Phase}
	c.okRows[phase]++
	c.okRows[stats.PhaseID{}]++
	for _, part := range results.SplitReasons(r.Reason) {
		id := noteID{results.CodeOf(part), phase}
		switch id.code {
		case results.Clamped, results.Differs, results.ClockStepped:
			id.of = stats.PhaseID{}
		}
		n := c.notes[id]
		if n == nil {
			n = &note{Code: id.code, Workload: id.of.Workload, Phase: id.of.Phase, Example: part}
			c.notes[id] = n
			c.summary.notes = append(c.summary.notes, n)
		}
		n.Rows++
		n.differs = n.differs || n.Example != part
	}
}
