package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"qdsweep/sweep/results"
	"qdsweep/sweep/stats"
)

// axisNames are the axes of the cells, queue_depth last: it then stands beside
// the depth that was seen.
func axisNames(cells []*stats.Cell) []string {
	var names []string
	for _, c := range cells {
		for _, l := range c.Levels {
			if !slices.Contains(names, l.Axis) {
				names = append(names, l.Axis)
			}
		}
	}
	if i := slices.Index(names, "queue_depth"); i >= 0 {
		names = append(slices.Delete(names, i, i+1), "queue_depth")
	}
	return names
}

func levelOf(c *stats.Cell, axis string) stats.Level {
	for _, l := range c.Levels {
		if l.Axis == axis {
			return l
		}
	}
	return stats.Level{Axis: axis}
}

// axisColumns are the levels: asked alone, or asked and in force beside each
// other for queue_depth and for every axis where the two differ somewhere.
// labels are shown for the levels of the axis device.
func axisColumns(cells []*stats.Cell, withSweep bool, labels map[string]string) []column {
	var list []column
	if withSweep {
		c := column{head: []string{"sweep"}, left: true}
		for _, cell := range cells {
			c.cells = append(c.cells, cell.Sweep)
		}
		list = append(list, c)
	}
	for _, axis := range axisNames(cells) {
		asked, force := column{}, column{head: []string{"", "in force"}}
		differs, numbers := axis == "queue_depth", true
		for _, cell := range cells {
			l := levelOf(cell, axis)
			if axis == "device" {
				l.Asked, l.Effective = label(labels, l.Asked), label(labels, l.Effective)
			}
			asked.cells = append(asked.cells, orNone(l.Asked))
			force.cells = append(force.cells, orNone(l.Effective))
			if l.Effective != "" && l.Effective != l.Asked {
				differs = true
			}
			if _, ok := size(l.Asked); !ok && l.Asked != "" {
				numbers = false
			}
		}
		numbers = numbers || axis == "raid_level" // none stands among numbers
		asked.left, force.left = !numbers, !numbers
		if !differs {
			asked.head = axisHead(axis)
			list = append(list, asked)
			continue
		}
		asked.head, asked.pair = []string{"", "asked"}, axis
		list = append(list, asked, force)
	}
	if len(list) == 0 { // a sweep without axes has one cell
		list = append(list, column{head: []string{"cell"}, cells: repeat(none, len(cells)), left: true})
	}
	return list
}

// label is what a level of the axis device is called.
func label(labels map[string]string, level string) string {
	if l, ok := labels[level]; ok {
		return l
	}
	return results.ParseLevel(level)
}

// axisHead breaks the names that are words, and gives the unit of those that
// have one.
func axisHead(axis string) []string {
	switch axis {
	case "write_cache":
		return []string{"write", "cache"}
	case "raid_level":
		return []string{"raid", "level"}
	}
	if strings.HasSuffix(axis, "_kb") {
		return []string{axis, "KiB"}
	}
	return []string{axis}
}

func repeat(s string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = s
	}
	return list
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// seenColumns are what the devices were seen doing: how many commands they had,
// and, where max_sectors_kb is an axis, how large those were. Each is shown for
// the phase that shows it best, and the legend names that.
func seenColumns(cells []*stats.Cell, phases []*stats.Phase) (list []column, legends []string) {
	depth := func(s *stats.Summary) stats.Sample { return s.ObservedDepth }
	if best := largest(cells, phases, depth); best != nil {
		list = append(list, seenColumn(cells, best, depth, "depth", "seen*"))
		legends = append(legends, "* commands in the drives during "+phaseName(best, many(phases))+", mean a member")
	}
	if !slices.Contains(axisNames(cells), "max_sectors_kb") {
		return list, legends
	}
	request := func(s *stats.Summary) stats.Sample { return s.ObservedRequestKB }
	if best := largest(cells, phases, request); best != nil {
		list = append(list, seenColumn(cells, best, request, "request", "seen**", "KiB"))
		legends = append(legends, "** mean size of a request to the drives during "+phaseName(best, many(phases)))
	}
	return list, legends
}

func seenColumn(cells []*stats.Cell, p *stats.Phase, of func(*stats.Summary) stats.Sample, head ...string) column {
	c := column{head: head}
	for _, cell := range cells {
		text := none
		if s := cell.Summaries[p.PhaseID]; s != nil && of(s).N > 0 {
			text = strconv.FormatFloat(of(s).Mean, 'f', 1, 64)
		}
		c.cells = append(c.cells, text)
	}
	return c
}

// largest is the phase in which a quantity reaches its largest mean.
func largest(cells []*stats.Cell, phases []*stats.Phase, of func(*stats.Summary) stats.Sample) *stats.Phase {
	var best *stats.Phase
	most := -1.0
	for _, p := range phases {
		for _, c := range cells {
			if s := c.Summaries[p.PhaseID]; s != nil && of(s).N > 0 && of(s).Mean > most {
				best, most = p, of(s).Mean
			}
		}
	}
	return best
}

// sorted orders cells by their levels as the table shows them: numbers by size,
// words before them and by the alphabet, in which off comes before on, devices
// by their names.
func sorted(cells []*stats.Cell, labels map[string]string) []*stats.Cell {
	axes := axisNames(cells)
	list := slices.Clone(cells)
	slices.SortStableFunc(list, func(a, b *stats.Cell) int {
		for _, axis := range axes {
			x, y := levelOf(a, axis).Asked, levelOf(b, axis).Asked
			c := compareLevels(x, y)
			if axis == "device" {
				c = natural(label(labels, x), label(labels, y))
			}
			if c != 0 {
				return c
			}
		}
		return 0 // the same cell of two sweeps: in the order they came
	})
	return list
}

func compareLevels(a, b string) int {
	x, numA := size(a)
	y, numB := size(b)
	switch {
	case numA && numB:
		return cmp.Compare(x, y)
	case numA:
		return 1 // none, 0, 1
	case numB:
		return -1
	}
	return strings.Compare(a, b)
}

// size reads 31, 4k, 1m, 10g as a number.
func size(s string) (float64, bool) {
	factor := 1.0
	for i, unit := range []string{"k", "m", "g", "t"} {
		if rest, ok := strings.CutSuffix(s, unit); ok {
			s, factor = rest, float64(int64(1)<<(10*(i+1)))
			break
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	return v * factor, err == nil
}
