package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"qdsweep/sweep/stats"
)

// column is one column of the summary table.
type column struct {
	head  []string // one a line
	pair  string   // a heading above this column and the next
	cells []string
	left  bool // aligned left
}

func (c column) width() int {
	w := 0
	for _, s := range slices.Concat(c.head, c.cells) {
		w = max(w, utf8.RuneCountInString(s))
	}
	return w
}

// none stands where there is nothing to show.
const none = "-"

// table writes the cells with as many phases as fit beside their axes, and with
// d.All the other phases in further tables below.
func (p *page) table(d Data, s *summary) {
	labels := labels(s.sweeps)
	cells := sorted(s.table.Cells, labels)
	axes := axisColumns(cells, len(s.sweeps) > 1, labels)
	seen, legends := seenColumns(cells, s.table.Phases)
	fixed := append(axes, seen...)
	phases := phaseColumns(cells, s.table.Phases)

	shown := 0
	for shown < len(phases) {
		n := fitting(fixed, phases[shown:], p.width)
		if shown > 0 {
			p.blank()
		}
		p.columns(append(slices.Clone(fixed), phases[shown:shown+n]...))
		if shown += n; !d.All {
			break
		}
	}
	p.paragraph("", spread(s.table.Phases[:shown], many(s.table.Phases)))
	for _, l := range append(legends, deviceLegend(s.sweeps, labels), memberLegend(s.sweeps)) {
		if l != "" {
			p.paragraph("", l)
		}
	}
	if shown < len(phases) {
		dir := d.Dir
		if dir == "" {
			dir = "DIR"
		}
		p.paragraph("", fmt.Sprintf("%d of %d phases shown: `qdsweep report %s` has all", shown, len(phases), dir))
	}
}

// fitting is how many phases fit into width beside the fixed columns: one at
// least.
func fitting(fixed, phases []column, width int) int {
	for n := len(phases); n > 1; n-- {
		lines := layout(append(slices.Clone(fixed), phases[:n]...))
		if utf8.RuneCountInString(slices.MaxFunc(lines, byRunes)) <= width {
			return n
		}
	}
	return 1
}

func byRunes(a, b string) int { return utf8.RuneCountInString(a) - utf8.RuneCountInString(b) }

func (p *page) columns(columns []column) {
	for _, line := range layout(columns) {
		p.line(line)
	}
}

// layout makes the lines of a table: the headings, then a line a cell.
func layout(columns []column) []string {
	for i := range columns { // escapes change the width, so they come first
		columns[i].cells = slices.Clone(columns[i].cells)
		for j, c := range columns[i].cells {
			columns[i].cells[j] = Printable(c)
		}
		columns[i].head = slices.Clone(columns[i].head)
		for j, h := range columns[i].head {
			columns[i].head[j] = Printable(h)
		}
	}
	height := 0
	widths := make([]int, len(columns))
	for i, c := range columns {
		height = max(height, len(c.head))
		widths[i] = c.width()
	}
	for i, c := range columns {
		if c.pair != "" { // the heading above two columns may need more than they do
			widths[i+1] += max(0, utf8.RuneCountInString(c.pair)-widths[i]-1-widths[i+1])
		}
	}
	lines := make([]string, height+len(columns[0].cells))
	for i, c := range columns {
		gap := "  "
		switch {
		case i == 0:
			gap = ""
		case columns[i-1].pair != "":
			gap = " "
		}
		for j := range lines {
			text := ""
			switch {
			case j >= height:
				text = c.cells[j-height]
			case j < len(c.head):
				text = c.head[j]
			}
			if j == 0 && c.pair != "" {
				lines[j] += gap + pad(c.pair, widths[i]+1+widths[i+1], true)
				continue
			}
			if j == 0 && i > 0 && columns[i-1].pair != "" {
				continue
			}
			lines[j] += gap + pad(text, widths[i], c.left)
		}
	}
	for j := range lines {
		lines[j] = strings.TrimRight(lines[j], " ")
	}
	return lines
}

func pad(s string, width int, left bool) string {
	blanks := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if left {
		return s + blanks
	}
	return blanks + s
}

// phaseColumns are the medians, a column a phase, in one precision a column.
func phaseColumns(cells []*stats.Cell, phases []*stats.Phase) []column {
	var list []column
	for _, ph := range phases {
		c := column{head: []string{ph.Phase, ph.Metric.Unit()}}
		if ph.Metric == "" {
			c.head[1] = ""
		}
		if many(phases) {
			c.head = append([]string{ph.Workload}, c.head...)
		}
		var medians []float64
		for _, cell := range cells {
			if sample, ok := sampleOf(cell, ph); ok {
				medians = append(medians, sample.Median)
			}
		}
		digits := decimals(medians)
		for _, cell := range cells {
			text := none
			if sample, ok := sampleOf(cell, ph); ok {
				text = strconv.FormatFloat(sample.Median, 'f', digits, 64)
			}
			c.cells = append(c.cells, text)
		}
		list = append(list, c)
	}
	return list
}

// many says whether phases are of several workloads, so that a phase's name
// alone does not say which it is.
func many(phases []*stats.Phase) bool {
	for _, p := range phases {
		if p.Workload != phases[0].Workload {
			return true
		}
	}
	return false
}

func phaseName(p *stats.Phase, withWorkload bool) string {
	if withWorkload {
		return p.Workload + " " + p.Phase
	}
	return p.Phase
}

func sampleOf(c *stats.Cell, p *stats.Phase) (stats.Sample, bool) {
	s := c.Summaries[p.PhaseID]
	if s == nil || p.Metric == "" {
		return stats.Sample{}, false
	}
	sample := s.Of(p.Metric)
	return sample, sample.N > 0
}

// decimals gives the smallest value of a column three digits.
func decimals(values []float64) int {
	if len(values) == 0 {
		return 0
	}
	switch least := slices.Min(values); {
	case least >= 100 || least == 0 && slices.Max(values) >= 100:
		return 0
	case least >= 10:
		return 1
	case least >= 1:
		return 2
	}
	return 3
}

// spread says what the figures are, and how sure.
func spread(phases []*stats.Phase, withWorkload bool) string {
	fewest, most := 0, 0
	var halves []string
	for _, p := range phases {
		if p.Most > 0 && (fewest == 0 || p.Fewest < fewest) {
			fewest = p.Fewest
		}
		most = max(most, p.Most)
		if p.HalfWidthPercent != nil {
			halves = append(halves, phaseName(p, withWorkload)+" "+percent(*p.HalfWidthPercent))
		}
	}
	var text string
	switch {
	case most == 0:
		return "no run is ok: there is nothing to show"
	case most == 1:
		return "single runs: no interval, for one run says nothing of the spread (repeats: 3 or more does)"
	case fewest == most:
		text = fmt.Sprintf("medians of %d", most)
	default:
		text = fmt.Sprintf("medians of %d to %d", fewest, most)
	}
	return text + "; half-width of the 95 % interval: " + strings.Join(halves, ", ")
}

// percent is "2 %", "0.4 %".
func percent(v float64) string {
	switch {
	case v >= 1000:
		return "over 1000 %"
	case v >= 10:
		return fmt.Sprintf("%.0f %%", v)
	case v < 0.05:
		return "under 0.1 %"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " %"
}
