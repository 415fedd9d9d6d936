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
	var hidden []column
	for _, ph := range s.table.Phases {
		if c := phaseColumn(cells, ph, many(s.table.Phases)); slices.Contains(shown, ph) {
			figures = append(figures, []column{c})
		} else {
			hidden = append(hidden, c)
		}
	}
	p.columns(fixed, figures, hidden)
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
// the fixed columns. What is in one group of figures stays together. A line that
// has its figures in another table, or in hidden columns, is left out; one that
// has none anywhere is not.
func (p *page) columns(fixed []column, figures [][]column, hidden []column) {
	nowhere := blankLines(slices.Concat(slices.Concat(figures...), hidden))
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
		columns, blank := slices.Concat(fixed, here), blankLines(here)
		for i, c := range columns {
			columns[i].cells = nil
			for j, text := range c.cells {
				if !blank[j] || nowhere[j] {
					columns[i].cells = append(columns[i].cells, text)
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

// unit is that of a phase's figures; of seeks and removed files nobody says IOPS.
func unit(p *stats.Phase) string {
	switch {
	case p.Metric == "":
		return ""
	case p.Metric == stats.IOPS && (p.Type == "bonnie" || p.Type == "dd"):
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
