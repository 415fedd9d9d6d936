package sweep

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// neverAxes are settings that look like axes and are none, with the reason.
func neverAxes() map[string]string {
	const view = "never an axis: it is the kernel's view of the cache and changes nothing in the drive; sweep write_cache"
	const iostats = "never an axis: without the kernel's statistics a run cannot be observed"
	return map[string]string{
		"queue/write_cache": view, "queue_write_cache": view, "cache_type": view,
		"iostats": iostats, "queue/iostats": iostats,
	}
}

// canonical is the one text of a level: of a knob, or of a workload parameter. Knobs are looked up once a profile,
// because a range can have thousands of levels.
func (r *profileReader) canonical(axis, text string) (string, error) {
	switch axis {
	case raidLevel:
		return canonicalRAID(text)
	case deviceAxis:
		return r.canonicalDevice(text)
	}
	k, known := r.knobs[axis]
	if !known {
		k, _ = sysfs.LookupKnob(axis)
		r.knobs[axis] = k
	}
	if k.Name != "" {
		return k.Canonical(text)
	}
	return workload.CanonicalParam(axis, text)
}

// axisNames are all axes that a matrix can name, knobs before parameters of workloads.
func axisNames() []string {
	names := []string{raidLevel}
	for _, k := range sysfs.Knobs() {
		names = append(names, k.Name)
	}
	return append(names, workload.AxisParams()...)
}

// isAxis judges the name of an axis, and makes the error.
func (r *profileReader) isAxis(f field) bool {
	names := axisNames()
	if slices.Contains(names, f.name) {
		return true
	}
	if reason, ok := neverAxes()[f.name]; ok {
		r.fail(at(f.key), f.name, "%s", reason)
		return false
	}
	for _, typ := range workload.Types() {
		for _, p := range workload.Params(typ) {
			if p.Name == f.name {
				r.fail(at(f.key), f.name, "not an axis; give it to the workloads (axes of theirs are %s)", strings.Join(workload.AxisParams(), ", "))
				return false
			}
		}
	}
	if word := closest(f.name, append(names, "exclude", "include")); word != "" {
		r.fail(at(f.key), f.name, "no such axis; did you mean %s?", word)
	} else {
		r.fail(at(f.key), f.name, "no such axis; the axes are %s", strings.Join(names, ", "))
	}
	return false
}

const matrixAllowed = "write axes below it, such as queue_depth: [1, 31]; or leave matrix out"

// matrix reads the matrix; n is nil where the profile has none, and then the target may have an axis all the same.
func (r *profileReader) matrix(n *yaml.Node) {
	var fields []field
	if n != nil {
		all, ok := r.fields(n, "matrix", matrixAllowed)
		if !ok {
			return
		}
		if fields = all; len(fields) == 0 && len(r.errs.Errors) == 0 {
			r.fail(at(n), "matrix", "no axis; %s", matrixAllowed)
		}
	}
	exclude, include := r.axes(fields)
	if exclude != nil {
		r.exclude(exclude)
	}
	if include != nil {
		r.include(include)
	}
	r.targetLevels()
}

// exclude reads lists of pairs; each leaves out every cell that matches all its pairs.
func (r *profileReader) exclude(n *yaml.Node) {
	const allowed = "a list of pairs, such as [{queue_depth: 1, write_cache: on}]"
	items, _ := r.items(n, "exclude", allowed)
	for _, item := range items {
		levels, ok := r.pairs(item, "exclude", "pairs, such as {queue_depth: 1, write_cache: on}")
		if !ok {
			continue
		}
		if len(levels) == 0 {
			r.fail(at(item), "exclude", "no pair; it would leave out every cell")
			continue
		}
		m := &r.p.Matrix
		if _, matches := m.hits(levels); !matches {
			if r.small {
				continue // its levels are not there at small scale; the whole profile has been judged
			}
			r.p.Warnings = append(r.p.Warnings, fmt.Sprintf("%s:%d: exclude {%s} matches no cell", r.p.File, item.Line, Cell(levels)))
		}
		m.Exclude = append(m.Exclude, levels)
	}
}

// include reads cells; each is exactly one, so every axis must be named.
func (r *profileReader) include(n *yaml.Node) {
	const allowed = "a list of cells with every axis named, such as [{queue_depth: 4, write_cache: on}]"
	items, _ := r.items(n, "include", allowed)
	m := &r.p.Matrix
	for _, item := range items {
		levels, ok := r.pairs(item, "include", "a cell, such as {queue_depth: 4, write_cache: on}")
		if !ok {
			continue
		}
		cell := Cell(levels)
		var lacking []string
		for _, a := range m.Axes {
			if _, named := cell.Get(a.Name); !named {
				lacking = append(lacking, a.Name)
			}
		}
		if len(lacking) > 0 {
			r.fail(at(item), "include", "names no level of %s; it is exactly one cell, so every axis has to be named", strings.Join(lacking, ", "))
			continue
		}
		if r.hasCell(cell) {
			if r.small {
				continue // its levels are among the few that are left
			}
			r.wrong(at(item), "include", cell.String(), "this cell is in the matrix already; take it out")
			continue
		}
		m.Include = append(m.Include, cell)
	}
}

// hasCell says whether the matrix so far has a cell: by its levels, or included before.
func (r *profileReader) hasCell(cell Cell) bool {
	m := &r.p.Matrix
	for _, c := range m.Include {
		if slices.Equal(c, cell) {
			return true
		}
	}
	hits, ok := m.hits(cell)
	if !ok {
		return false
	}
	if _, fits := m.combinations(maxRuns); !fits {
		return false
	}
	w, number := m.walk(), 0
	for _, h := range hits {
		number += h.level * w.stride[h.axis]
	}
	return !w.excluded(number)
}

// pairs reads axis: level pairs, and returns them in canonical axis order; ok is false when one is wrong.
func (r *profileReader) pairs(n *yaml.Node, key, allowed string) (levels []Level, ok bool) {
	fields, ok := r.fields(n, key, allowed)
	for _, f := range fields {
		if _, axis := r.p.Matrix.Axis(f.name); !axis {
			var names []string
			for _, a := range r.p.Matrix.Axes {
				names = append(names, a.Name)
			}
			r.fail(at(f.key), key, "%s is no axis of this matrix; its axes are %s", f.name, strings.Join(names, ", "))
			ok = false
			continue
		}
		text, good := r.level(f.name, f.value)
		ok = ok && good
		levels = append(levels, Level{f.name, text})
	}
	slices.SortFunc(levels, func(a, b Level) int { return compareAxes(a.Axis, b.Axis) })
	return levels, ok
}

// level reads one level, as canonical text.
func (r *profileReader) level(axis string, n *yaml.Node) (string, bool) {
	text, ok := r.scalar(n, axis, "a level is a single value")
	if !ok {
		return "", false
	}
	canonical, err := r.canonical(axis, text)
	if err != nil {
		r.wrong(at(n), axis, text, "%s%s", levelText(err, axis, text), r.meant(axis, text))
		return "", false
	}
	r.place(axis, canonical, at(n))
	return canonical, true
}

// meant is the level that a number with zeros or blanks around it most likely is, as advice.
func (r *profileReader) meant(axis, text string) string {
	bare := strings.TrimLeft(strings.TrimSpace(text), "0")
	if bare == text || !decimalOnly(bare) {
		return ""
	}
	if level, err := r.canonical(axis, bare); err == nil {
		return "; write " + level
	}
	return ""
}

// place remembers where a level stands first, for what only the workloads or the machine can judge.
func (r *profileReader) place(axis, level string, p position) {
	key := "level " + axis + "=" + level
	if _, known := r.p.places[key]; !known {
		r.p.places[key] = p
	}
}

// levels reads the levels of an axis: a list, or a range.
func (r *profileReader) levels(f field) []string {
	const allowed = "a list of levels, such as [1, 31], or a range, such as {from: 1, to: 32, times: 2}"
	if f.value.Kind == yaml.MappingNode {
		return r.span(f)
	}
	items, ok := r.items(f.value, f.name, allowed)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		r.fail(at(f.value), f.name, "no level; %s", allowed)
	}
	var levels []string
	first := map[string]int{}
	for _, n := range items {
		level, ok := r.level(f.name, n)
		if !ok {
			continue
		}
		if line, twice := first[level]; twice {
			r.wrong(at(n), f.name, n.Value, "the level %s is there already, on line %d; take one out", level, line)
			continue
		}
		first[level] = n.Line
		levels = append(levels, level)
	}
	return levels
}
