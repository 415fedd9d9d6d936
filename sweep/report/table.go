package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"qdsweep/sweep/results"
	"qdsweep/sweep/stats"
)

// column is one column of the summary table.
type column struct {
	head  []string // one a line
	pair  string   // a heading above this column and the next ones
	span  int      // how many columns pair is above; 0 is 2
	cells []string
	left  bool // aligned left
}

// group is how many columns the heading above this one covers: 1 without one.
func (c column) group() int {
	switch {
	case c.pair == "":
		return 1
	case c.span == 0:
		return 2
	}
	return c.span
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

// table writes the cells with as many phases as fit beside their axes, the
// telling ones first, and with d.All all of them, in further tables below.
func (p *page) table(d Data, s *summary) {
	labels := labels(s.sweeps)
	cells := sorted(s.table.Cells, labels)
	axes := axisColumns(cells, len(s.sweeps) > 1, labels)
	seen, legends := seenColumns(cells, s.table.Phases)
	fixed := append(axes, seen...)
	shown := s.table.Phases
	if !d.All {
		shown = p.telling(fixed, cells, shown)
	}
	var figures [][]column
	for _, ph := range shown {
		figures = append(figures, []column{phaseColumn(cells, ph, many(s.table.Phases))})
	}
	p.columns(fixed, figures)
	p.paragraph("", spread(shown, many(s.table.Phases)))
	for _, l := range append(legends, deviceLegend(s.sweeps, labels), memberLegend(s.sweeps)) {
		if l != "" {
			p.paragraph("", l)
		}
	}
	if len(shown) < len(s.table.Phases) {
		dir := d.Dir
		if dir == "" {
			dir = "DIR"
		}
		p.paragraph("", fmt.Sprintf("%d of %d phases shown: `qdsweep report %s` has all", len(shown), len(s.table.Phases), dir))
	}
}

// telling are the phases that fit into one table, in their order: where not all
// do, the ones that tell least are left out first.
func (p *page) telling(fixed []column, cells []*stats.Cell, phases []*stats.Phase) []*stats.Phase {
	ranked := slices.Clone(phases)
	slices.SortStableFunc(ranked, func(a, b *stats.Phase) int { return rank(a) - rank(b) })
	for n := len(ranked); n > 1; n-- {
		kept := slices.DeleteFunc(slices.Clone(phases), func(ph *stats.Phase) bool { return !slices.Contains(ranked[:n], ph) })
		columns := slices.Clone(fixed)
		for _, ph := range kept {
			columns = append(columns, phaseColumn(cells, ph, many(phases)))
		}
		if p.fits(columns) {
			return kept
		}
	}
	return ranked[:1]
}

// rank is how late a phase is asked for. Of bonnie's twelve most people look at
// five; those by the character time the processor.
func rank(p *stats.Phase) int {
	if p.Type != "bonnie" {
		return 0
	}
	switch p.Phase {
	case "write", "rewrite", "read", "seeks", "seq_create":
		return 0
	case "putc", "getc":
		return 2
	}
	return 1
}

// columns writes a table, and where it is wider than the page several, each with
// the fixed columns. What is in one group of figures stays together. Of several
// tables each has only the lines that have something in it; a line that has
// nothing anywhere stands in all.
func (p *page) columns(fixed []column, figures [][]column) {
	nowhere := blankLines(slices.Concat(figures...))
	for first := true; len(figures) > 0; first = false {
		n := len(figures)
		for ; n > 1; n-- {
			if p.fits(slices.Concat(fixed, slices.Concat(figures[:n]...))) {
				break
			}
		}
		if !first {
			p.blank()
		}
		here := slices.Concat(figures[:n]...)
		columns := slices.Concat(fixed, here)
		if blank := blankLines(here); !first || n < len(figures) {
			for i, c := range columns {
				columns[i].cells = nil
				for j, text := range c.cells {
					if !blank[j] || nowhere[j] {
						columns[i].cells = append(columns[i].cells, text)
					}
				}
			}
		}
		for _, line := range layout(columns) {
			p.line(line)
		}
		figures = figures[n:]
	}
}

// blankLines says of each line whether none of the columns has anything in it.
func blankLines(columns []column) []bool {
	blank := make([]bool, len(columns[0].cells))
	for i := range blank {
		blank[i] = !slices.ContainsFunc(columns, func(c column) bool { return c.cells[i] != none })
	}
	return blank
}

func (p *page) fits(columns []column) bool {
	return utf8.RuneCountInString(slices.MaxFunc(layout(columns), byRunes)) <= p.width
}

func byRunes(a, b string) int { return utf8.RuneCountInString(a) - utf8.RuneCountInString(b) }

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
		if c.pair != "" { // the heading above several columns may need more than they do
			last := i + c.group() - 1
			widths[last] += max(0, utf8.RuneCountInString(c.pair)-under(widths[i:last+1]))
		}
	}
	lines := make([]string, height+len(columns[0].cells))
	inGroup := 0 // columns to come that the heading last written is above, too
	for i, c := range columns {
		gap := "  "
		switch {
		case i == 0:
			gap = ""
		case inGroup > 0:
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
				lines[j] += gap + pad(c.pair, under(widths[i:i+c.group()]), true)
				continue
			}
			if j == 0 && inGroup > 0 {
				continue
			}
			lines[j] += gap + pad(text, widths[i], c.left)
		}
		if inGroup--; c.pair != "" {
			inGroup = c.group() - 1
		}
	}
	for j := range lines {
		lines[j] = strings.TrimRight(lines[j], " ")
	}
	return lines
}

// under is how wide the columns of a group are together.
func under(widths []int) int {
	sum := len(widths) - 1
	for _, w := range widths {
		sum += w
	}
	return sum
}

func pad(s string, width int, left bool) string {
	blanks := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if left {
		return s + blanks
	}
	return blanks + s
}

// phaseColumn are the medians of a phase, in one precision.
func phaseColumn(cells []*stats.Cell, ph *stats.Phase, withWorkload bool) column {
	c := column{head: []string{ph.Phase, unit(ph)}}
	if withWorkload {
		c.head = append([]string{ph.Workload}, c.head...)
	}
	var summaries []*stats.Summary
	for _, cell := range cells {
		summaries = append(summaries, cell.Summaries[ph.PhaseID])
	}
	c.cells = figures(summaries, threeDigits, func(s *stats.Summary) stats.Sample {
		if ph.Metric == "" {
			return stats.Sample{}
		}
		return s.Of(ph.Metric)
	})
	return c
}

// unit is that of a phase's figures; of seeks and files nobody says IOPS.
func unit(p *stats.Phase) string {
	switch {
	case p.Metric == "":
		return ""
	case p.Type == "bonnie" && p.Metric == stats.IOPS:
		return "/s"
	}
	return p.Metric.Unit()
}

// threeDigits lets the smallest figure of a column decide how many decimals it has.
const threeDigits = -1

// figures are the medians of one quantity of several summaries (nil: there is
// none), with so many decimals. What was refused as over the limit has the errno
// in its place: that is a finding, and no 0. What has no ok row says why.
func figures(of []*stats.Summary, digits int, quantity func(*stats.Summary) stats.Sample) []string {
	if digits == threeDigits {
		var medians []float64
		for _, s := range of {
			if s != nil && quantity(s).N > 0 {
				medians = append(medians, quantity(s).Median)
			}
		}
		digits = decimals(medians)
	}
	var cells []string
	for _, s := range of {
		text := none
		switch {
		case s == nil:
		case quantity(s).N > 0:
			text = strconv.FormatFloat(quantity(s).Median, 'f', digits, 64)
		case s.OverLimit != "":
			text = s.OverLimit
		case s.OK == 0 && s.Failed > 0:
			text = results.Failed
		case s.OK == 0 && s.Suspect > 0:
			text = results.Suspect
		}
		cells = append(cells, text)
	}
	return cells
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
	if withWorkload && p.Workload != p.Phase {
		return p.Workload + " " + p.Phase
	}
	return p.Phase
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
