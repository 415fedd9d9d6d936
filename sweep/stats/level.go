package stats

import (
	"slices"
	"strings"

	"qdsweep/sweep/results"
)

// pairs takes name=level;name=level apart.
func pairs(s string) []Level {
	var list []Level
	for part := range strings.SplitSeq(s, ";") {
		if name, level, ok := strings.Cut(part, "="); ok {
			list = append(list, Level{Axis: name, Asked: level})
		}
	}
	return list
}

// levels are the axes of a row's cell.
func levels(r results.Row) []Level { return pairs(r.Cell) }

// effective is what read back of an axis in a row; "" where no knob is read
// back for it (a parameter of the workload) or the run did not get that far.
func effective(r results.Row, axis string) string {
	switch axis {
	case "queue_depth":
		return r.QueueDepthEffective
	case "write_cache":
		return r.WriteCacheEffective
	case "max_sectors_kb":
		return r.MaxSectorsKBEffective
	}
	for _, l := range pairs(r.AxesEffective) {
		if l.Axis == axis {
			return l.Asked
		}
	}
	return ""
}

// seen adds what read back in a row to the cell's levels. Only rows that count
// say what was in force.
func (c *Cell) seen(r results.Row) {
	if r.Status != results.OK {
		return
	}
	for i := range c.Levels {
		l := &c.Levels[i]
		e := effective(r, l.Axis)
		if e == "" || slices.Contains(strings.Split(l.Effective, ","), e) {
			continue
		}
		if l.Effective != "" {
			e = l.Effective + "," + e
		}
		l.Effective = e
	}
}
