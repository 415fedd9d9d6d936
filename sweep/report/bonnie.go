package report

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"qdsweep/sweep/results"
	"qdsweep/sweep/stats"
)

// bonniePhases are bonnie's twelve, in the order of its table and of its CSV.
func bonniePhases() []string {
	return append(bonnieInOut(), bonnieFiles()...)
}

// bonnieInOut are those of the table's upper part, bonnieFiles of the lower.
func bonnieInOut() []string { return []string{"putc", "write", "rewrite", "getc", "read", "seeks"} }

func bonnieFiles() []string {
	return []string{"seq_create", "seq_stat", "seq_delete", "ran_create", "ran_stat", "ran_delete"}
}

// machine is one bonnie workload of one cell: what bonnie++ would have printed
// as one line.
type machine struct {
	name string
	of   map[string]*stats.Summary // by phase
	ran  stats.Ran
}

// NoBonnieError says that there is no row that --format bonnie could show.
type NoBonnieError struct{}

func (*NoBonnieError) Error() string {
	return "--format bonnie: no row of these results is of a workload of type bonnie; --format text shows what there is"
}

// Bonnie writes the classic table of bonnie, a line a cell, and then the same in
// the CSV of bonnie++ 2.00, which its bon_csv2html and bon_csv2txt take; these
// pass over what is no line of theirs. Figures are medians of the ok rows.
// onlyCSV leaves the table out.
func Bonnie(w io.Writer, d Data, width int, onlyCSV bool) error {
	s, err := summarise(d)
	if err != nil {
		return err
	}
	list, phases := machines(s)
	if len(list) == 0 {
		return &NoBonnieError{}
	}
	var text string
	if !onlyCSV {
		if width <= 0 {
			width = 120
		}
		p := &page{width: max(width, 40)}
		p.paragraph("", title(d, s))
		p.blank()
		p.bonnie(list)
		p.paragraph("", spread(phases, many(phases)))
		p.paragraph("", "KiB/s: K is 1024; %CP: CPU time of the workload, user and system, in per cent of the elapsed; create, read (stat) and delete: files a second")
		p.blank()
		p.audit(d, s)
		p.problems(s)
		p.blank()
		text = p.text.String()
	}
	for _, m := range list {
		text += m.csv()
	}
	_, err = io.WriteString(w, text)
	return err
}

// machines are the bonnie workloads of all cells, in the order of the summary.
// Where there are several each has a number before its name, for bon_csv2txt
// leaves of a name hardly more.
func machines(s *summary) (list []*machine, phases []*stats.Phase) {
	for _, p := range s.table.Phases {
		if p.Type == "bonnie" {
			phases = append(phases, p)
		}
	}
	for _, c := range sorted(s.table.Cells, labels(s.sweeps)) {
		of := map[string]*machine{}
		for _, p := range phases {
			phase := c.Summaries[p.PhaseID]
			if phase == nil {
				continue
			}
			m := of[p.Workload]
			if m == nil {
				m = &machine{name: results.ParseLevel(c.Name), of: map[string]*stats.Summary{}, ran: phase.Ran}
				if m.name == "" {
					m.name = p.Workload
				} else if many(phases) {
					m.name += " " + p.Workload
				}
				if len(s.sweeps) > 1 {
					m.name += " " + c.Sweep
				}
				of[p.Workload] = m
				list = append(list, m)
			}
			m.of[p.Phase] = phase
		}
	}
	if len(list) > 1 {
		for i, m := range list {
			m.name = strconv.Itoa(i+1) + " " + m.name
		}
	}
	return list, phases
}

// rate is a phase's figure as bonnie has it: KiB/s, or seeks or files a second.
func (m *machine) rate(phase string) (float64, bool) {
	s := m.of[phase]
	switch {
	case s == nil:
		return 0, false
	case phase == "seeks" || slices.Contains(bonnieFiles(), phase):
		return s.IOPS.Median, s.IOPS.N > 0
	}
	return s.MBPerS.Median * 1e6 / 1024, s.MBPerS.N > 0
}

// figures are rate and %CP of a phase, "" where there is none.
func (m *machine) figures(phase string) (rate, cpu string) {
	v, ok := m.rate(phase)
	if !ok {
		return "", ""
	}
	rate = strconv.FormatFloat(v, 'f', 0, 64)
	if v < 1000 && (phase == "seeks" || v < 100) {
		rate = strconv.FormatFloat(v, 'f', 1, 64)
	}
	if s := m.of[phase].CPUPercent; s.N > 0 {
		digits := 0
		if s.Median < 9.95 { // two digits of what bonnie++ would call 0
			digits = 1
		}
		cpu = strings.TrimSuffix(strconv.FormatFloat(s.Median, 'f', digits, 64), ".0")
	}
	return rate, cpu
}
