package stats

import (
	"fmt"
	"strings"
)

// differs says in which of its parameters a phase was driven otherwise there than here, "" when it was not. Rows that say nothing (of a table made by hand) are taken as they come.
func (r Ran) differs(other Ran) string {
	var parts []string
	add := func(name, there, here string) {
		if there != here {
			parts = append(parts, fmt.Sprintf("%s %s there, %s here", name, orNone(there), orNone(here)))
		}
	}
	number := func(name string, there, here int64) {
		if there != 0 || here != 0 {
			add(name, fmt.Sprint(there), fmt.Sprint(here))
		}
	}
	if r == (Ran{}) || other == (Ran{}) {
		return ""
	}
	add("engine", r.Engine, other.Engine)
	number("block_size", r.BlockSize, other.BlockSize)
	number("threads", r.Threads, other.Threads)
	number("iodepth", r.IODepth, other.IODepth)
	if r.Parameters != other.Parameters {
		here := map[string]string{}
		for _, p := range pairs(other.Parameters) {
			here[p.Axis] = p.Asked
		}
		for _, p := range pairs(r.Parameters) {
			add(p.Axis, p.Asked, here[p.Axis])
			delete(here, p.Axis)
		}
		for _, p := range pairs(other.Parameters) {
			if level, left := here[p.Axis]; left {
				add(p.Axis, "", level)
			}
		}
	}
	return strings.Join(parts, "; ")
}

func orNone(level string) string {
	if level == "" {
		return "none"
	}
	return level
}
