package report

import (
	"cmp"
	"slices"
	"strings"

	"qdsweep/sweep/stats"
)

// classic is a table in the shape in which an old experiment was posted. The
// summary has a line a cell; here a line is one setting of the drive and of the
// workload, and what was done with it stands in columns, also where it was done
// in several cells because the mode is an axis.
type classic struct {
	title string
	// fits says which phases are of the table.
	fits func(c *stats.Cell, p *stats.Phase, ran stats.Ran) bool
	// dropped are axes that the table shows otherwise.
	dropped []string
	// own are the columns between the axes and the figures.
	own []ownColumn
	// figures are the groups of columns for the lines.
	figures func(lines []*line) [][]column
}

// ownColumn is a column of what the workload was asked to do.
type ownColumn struct {
	name string // no axis that is not dropped is called so
	head []string
	dull string // the column is left out where all lines have this
	of   func(stats.Ran) string
}

// line is one line of a classic table.
type line struct {
	cell *stats.Cell               // only its sweep and axes
	own  []string                  // what stands in the table's own columns
	of   map[string]*stats.Summary // by phase
}

// phase is the summaries of one phase, line by line, nil where there is none.
func phase(lines []*line, name string) []*stats.Summary {
	list := make([]*stats.Summary, len(lines))
	for i, l := range lines {
		list[i] = l.of[name]
	}
	return list
}

// has says whether any line has a phase.
func has(lines []*line, name string) bool {
	return slices.ContainsFunc(lines, func(l *line) bool { return l.of[name] != nil })
}

// lines are the lines of the table, in its order, and the phases that are in it.
func (k classic) lines(t stats.Table, labels map[string]string) (lines []*line, phases []*stats.Phase) {
	list, phases, clash := k.gather(t, false)
	if clash { // two workloads do the same, so which one it was must be said
		list, phases, _ = k.gather(t, true)
	}
	slices.SortStableFunc(list, func(a, b *line) int {
		for i, l := range a.own {
			if c := compareLevels(l, b.own[i]); c != 0 {
				return c
			}
		}
		return 0
	})
	of := map[*stats.Cell]*line{}
	var cells []*stats.Cell
	for _, l := range list {
		of[l.cell] = l
		cells = append(cells, l.cell)
	}
	for _, c := range sorted(cells, labels) { // stable: the axes first, then what the workload was asked
		lines = append(lines, of[c])
	}
	return lines, phases
}

// gather puts the phases of the same setting on the same line. clash: one place
// would have two summaries.
func (k classic) gather(t stats.Table, byWorkload bool) (lines []*line, phases []*stats.Phase, clash bool) {
	byKey := map[string]*line{}
	for _, c := range t.Cells {
		for _, p := range t.Phases {
			s := c.Summaries[p.PhaseID]
			if s == nil || !k.fits(c, p, s.Ran) {
				continue
			}
			if !slices.Contains(phases, p) {
				phases = append(phases, p)
			}
			l := k.line(c, p, s.Ran, byWorkload)
			key := l.cell.Sweep + ";" + strings.Join(l.own, ";")
			for _, level := range l.cell.Levels {
				key += ";" + level.Axis + "=" + level.Asked
			}
			at := byKey[key]
			if at == nil {
				at = l
				byKey[key] = at
				lines = append(lines, at)
			}
			at.merge(l.cell.Levels)
			clash = clash || at.of[p.Phase] != nil
			at.of[p.Phase] = s
		}
	}
	return lines, phases, clash
}

// line is the one on which a phase of a cell stands, still empty.
func (k classic) line(c *stats.Cell, p *stats.Phase, ran stats.Ran, byWorkload bool) *line {
	l := &line{cell: &stats.Cell{Sweep: c.Sweep}, of: map[string]*stats.Summary{}}
	for _, level := range c.Levels {
		if !slices.Contains(k.dropped, level.Axis) {
			l.cell.Levels = append(l.cell.Levels, level)
		}
	}
	if byWorkload {
		l.cell.Levels = append(l.cell.Levels, stats.Level{Axis: "workload", Asked: p.Workload})
	}
	for _, o := range k.own {
		l.own = append(l.own, o.of(ran))
	}
	return l
}

// merge adds what was in force in another cell of the line.
func (l *line) merge(levels []stats.Level) {
	for i := range l.cell.Levels {
		at := &l.cell.Levels[i]
		for e := range strings.SplitSeq(levels[i].Effective, ",") {
			switch {
			case e == "" || slices.Contains(strings.Split(at.Effective, ","), e):
			case at.Effective == "":
				at.Effective = e
			default:
				at.Effective += "," + e
			}
		}
	}
}

// fixed are the columns of the settings.
func (k classic) fixed(lines []*line, withSweep bool, labels map[string]string) (list []column) {
	var axes []*stats.Cell
	for _, l := range lines {
		axes = append(axes, l.cell)
	}
	if withSweep || len(axisNames(axes)) > 0 {
		list = axisColumns(axes, withSweep, labels)
	}
	for i, o := range k.own {
		c := column{head: o.head}
		for _, l := range lines {
			c.cells = append(c.cells, cmp.Or(l.own[i], none))
		}
		if o.dull == "" || slices.ContainsFunc(c.cells, func(s string) bool { return s != o.dull }) {
			list = append(list, c)
		}
	}
	return list
}

// classics writes the tables that the rows have the shape of.
func (p *page) classics(s *summary) {
	labels := labels(s.sweeps)
	for _, k := range classicTables() {
		lines, phases := k.lines(s.table, labels)
		if len(lines) == 0 {
			continue
		}
		p.paragraph("", k.title)
		p.columns(k.fixed(lines, len(s.sweeps) > 1, labels), k.figures(lines), nil)
		if slices.ContainsFunc(phases, func(ph *stats.Phase) bool { return ph.Most > 1 }) {
			p.paragraph("", spread(phases, many(phases)))
		}
		p.blank()
	}
}
