package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"qdsweep/sweep/results"
	"qdsweep/sweep/stats"
)

// The JSON form. Names carry their units; docs/report.md says what each means.
type (
	document struct {
		Name        string        `json:"name,omitempty"`
		Description string        `json:"description,omitempty"`
		Sweeps      []*sweepFacts `json:"sweeps"`
		Phases      []phaseJSON   `json:"phases"`
		Cells       []cellJSON    `json:"cells"`
		Audit       auditJSON     `json:"audit"`
		NotOK       []problem     `json:"not_ok"`
		Notes       []*note       `json:"notes"`
		Warnings    []string      `json:"warnings"`
		NotRestored []string      `json:"not_restored_runs"`
		Settings    []string      `json:"settings"`
		Results     []string      `json:"results"`
		Rows        int           `json:"rows"`
		Repeated    int           `json:"rows_of_earlier_attempts"`
		Next        string        `json:"next,omitempty"`
	}
	auditJSON struct {
		Planned   *int `json:"planned"`
		OK        int  `json:"ok"`
		Failed    int  `json:"failed"`
		Suspect   int  `json:"suspect"`
		Skipped   int  `json:"skipped"`
		Remaining *int `json:"remaining"`
	}
	phaseJSON struct {
		Workload  string   `json:"workload"`
		Phase     string   `json:"phase"`
		Metric    string   `json:"metric"`
		Unit      string   `json:"unit"`
		Fewest    int      `json:"runs_a_cell_min"`
		Most      int      `json:"runs_a_cell_max"`
		HalfWidth *float64 `json:"half_width_percent"`
	}
	cellJSON struct {
		Sweep     string            `json:"sweep"`
		Cell      string            `json:"cell"`
		Asked     map[string]string `json:"requested"`
		Effective map[string]string `json:"effective"`
		Phases    []cellPhaseJSON   `json:"phases"`
	}
	cellPhaseJSON struct {
		Workload string `json:"workload"`
		Phase    string `json:"phase"`
		OK       int    `json:"ok"`
		Suspect  int    `json:"suspect"`
		Failed   int    `json:"failed"`
		Skipped  int    `json:"skipped"`

		MBPerS    *sampleJSON `json:"mb_per_s"`
		IOPS      *sampleJSON `json:"iops"`
		Seconds   *sampleJSON `json:"seconds"`
		LatMeanUS *sampleJSON `json:"lat_mean_us"`
		LatP99US  *sampleJSON `json:"lat_p99_us"`

		ObservedDepth     *sampleJSON `json:"observed_depth"`
		ObservedDepthMax  *sampleJSON `json:"observed_depth_max"`
		QueuedDepth       *sampleJSON `json:"queued_depth"`
		ObservedRequestKB *sampleJSON `json:"observed_request_kb"`

		CPUPercent *sampleJSON `json:"cpu_percent"`
		OverLimit  string      `json:"over_the_limit,omitempty"`
	}
	sampleJSON struct {
		N         int      `json:"n"`
		Median    number   `json:"median"`
		Mean      number   `json:"mean"`
		Min       number   `json:"min"`
		Max       number   `json:"max"`
		HalfWidth *float64 `json:"half_width_percent"`
	}
	// number is written as the CSV writes it: 6 significant digits.
	number float64
)

func (n number) MarshalJSON() ([]byte, error) { return []byte(results.NumOf(float64(n)).String()), nil }

// JSON writes one object with all of the summary.
func JSON(w io.Writer, d Data) error {
	s, err := summarise(d)
	if err != nil {
		return err
	}
	doc := document{
		Name: d.Name, Description: d.Description,
		Sweeps: some(s.sweeps), Audit: auditOf(d.Audit),
		NotOK: some(s.problems), Notes: some(s.notes), Warnings: some(s.warnings), NotRestored: some(s.notRestored),
		Settings: some(d.Settings), Results: some(d.resultFiles()), Rows: s.rows, Repeated: s.repeated, Next: d.Next,
		Phases: []phaseJSON{}, Cells: []cellJSON{},
	}
	for _, p := range s.table.Phases {
		unit := ""
		if p.Metric != "" {
			unit = p.Metric.Unit()
		}
		doc.Phases = append(doc.Phases, phaseJSON{p.Workload, p.Phase, string(p.Metric), unit, p.Fewest, p.Most, rounded(p.HalfWidthPercent)})
	}
	for _, c := range sorted(s.table.Cells, labels(s.sweeps)) {
		doc.Cells = append(doc.Cells, cellOf(c, s.table.Phases))
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("make the report's JSON: %w", err)
	}
	_, err = w.Write(append(printableJSON(text), '\n'))
	return err
}

// auditOf leaves out what is not known from rows alone.
func auditOf(a results.Audit) auditJSON {
	j := auditJSON{OK: a.OK, Failed: a.Failed, Suspect: a.Suspect, Skipped: a.Skipped}
	if a.Planned >= 0 {
		j.Planned, j.Remaining = &a.Planned, &a.Remaining
	}
	return j
}

func cellOf(c *stats.Cell, phases []*stats.Phase) cellJSON {
	j := cellJSON{Sweep: c.Sweep, Cell: c.Name, Asked: map[string]string{}, Effective: map[string]string{}, Phases: []cellPhaseJSON{}}
	for _, l := range c.Levels {
		j.Asked[l.Axis] = results.ParseLevel(l.Asked)
		if l.Effective != "" {
			j.Effective[l.Axis] = results.ParseLevel(l.Effective)
		}
	}
	for _, p := range phases {
		s := c.Summaries[p.PhaseID]
		if s == nil {
			continue
		}
		j.Phases = append(j.Phases, cellPhaseJSON{
			Workload: p.Workload, Phase: p.Phase, OK: s.OK, Suspect: s.Suspect, Failed: s.Failed, Skipped: s.Skipped,
			MBPerS: sampleFor(s.MBPerS), IOPS: sampleFor(s.IOPS), Seconds: sampleFor(s.Seconds),
			LatMeanUS: sampleFor(s.LatMeanUS), LatP99US: sampleFor(s.LatP99US),
			ObservedDepth: sampleFor(s.ObservedDepth), ObservedDepthMax: sampleFor(s.ObservedDepthMax),
			QueuedDepth: sampleFor(s.QueuedDepth), ObservedRequestKB: sampleFor(s.ObservedRequestKB),
			CPUPercent: sampleFor(s.CPUPercent), OverLimit: s.OverLimit,
		})
	}
	return j
}

// sampleFor is null for a quantity that was not measured.
func sampleFor(s stats.Sample) *sampleJSON {
	if s.N == 0 {
		return nil
	}
	return &sampleJSON{s.N, number(s.Median), number(s.Mean), number(s.Min), number(s.Max), rounded(s.HalfWidthPercent)}
}

func rounded(v *float64) *float64 {
	if v == nil {
		return nil
	}
	r, ok := results.NumOf(*v).Get()
	if !ok {
		return nil
	}
	return &r
}

// some makes an empty list [] rather than null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// printableJSON escapes in JSON what does not print, so that the object is the
// same to a program and harmless on a terminal. encoding/json does that only for
// what is below U+0020.
func printableJSON(text []byte) []byte {
	var b bytes.Buffer
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n' || strconv.IsPrint(r):
			b.Write(text[:size])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[size:]
	}
	return b.Bytes()
}
