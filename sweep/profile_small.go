package sweep

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"qdsweep/workload"
)

// SmallScale is the one value of --scale: the profile with what its key small puts in.
const SmallScale = "small"

// smallSuffix ends the name of a profile at small scale, so that its folder, its rows and its tables cannot be taken for the whole one's.
const smallSuffix = "-" + SmallScale

const smallAllowed = "what --scale small puts in, such as {repeats: 1, settle: 100ms, matrix: {queue_depth: [1, 31]}, workloads: {rnd-4k: {runtime: 2s}}}"

// smallKeys are the keys of small. What is driven, and what becomes of a level that a drive cannot have, are the same at any scale.
func smallKeys() []string { return []string{"repeats", "settle", "timeout", "matrix", "workloads"} }

// smallDocument is the document of a profile at small scale: a copy with other values in it, whose nodes keep their places, so that whatever
// is wrong with a value of small is said with the line it is on. What is wrong with small itself is said, and left out of it.
func (r *profileReader) smallDocument(root, n *yaml.Node) *yaml.Node {
	fields, ok := r.fields(n, "small", smallAllowed)
	if ok && len(fields) == 0 {
		r.fail(at(n), "small", "changes nothing; %s", smallAllowed)
	}
	r.placesIn(n)
	whole := *root
	whole.Content = nil
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "small" {
			whole.Content = append(whole.Content, root.Content[i], root.Content[i+1])
		}
	}
	var good []field
	for _, f := range fields {
		switch f.name {
		case "repeats", "settle", "timeout":
		case "matrix":
			f.value = r.smallMatrix(valueOf(&whole, "matrix"), f)
		case "workloads":
			f.value = r.smallWorkloads(valueOf(&whole, "workloads"), f)
		default:
			r.unknown(f, "in small", smallKeys())
			continue
		}
		if f.value != nil {
			good = append(good, f)
		}
	}
	return replaced(&whole, good)
}

// placesIn remembers where everything in small stands.
func (r *profileReader) placesIn(n *yaml.Node) {
	r.inSmall[at(n)] = true
	for _, c := range n.Content {
		r.placesIn(c)
	}
}

// smallMatrix is the matrix with other levels for some of its axes. Its shape is the same: excludes and included cells stay.
func (r *profileReader) smallMatrix(matrix *yaml.Node, f field) *yaml.Node {
	fields, _ := r.fields(f.value, "matrix", "axes of this profile's matrix with other levels, such as queue_depth: [1, 31]")
	var axes []string
	if matrix != nil && matrix.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(matrix.Content); i += 2 {
			if name := matrix.Content[i].Value; name != "exclude" && name != "include" {
				axes = append(axes, name)
			}
		}
	}
	var good []field
	for _, axis := range fields {
		word := closest(axis.name, axes)
		switch {
		case slices.Contains(axes, axis.name):
			good = append(good, axis)
		case axes == nil:
			r.fail(at(axis.key), axis.name, "this profile's matrix has no axis whose levels small could change")
		case axis.name == "exclude" || axis.name == "include":
			r.fail(at(axis.key), axis.name, "is no axis; those of the matrix hold at small scale too, as far as they match")
		case word != "":
			r.fail(at(axis.key), axis.name, "no axis of this profile's matrix; did you mean %s?", word)
		default:
			r.fail(at(axis.key), axis.name, "no axis of this profile's matrix; its axes are %s", strings.Join(axes, ", "))
		}
	}
	return replaced(matrix, good)
}

// smallWorkloads is the list of workloads with other parameters for some of them, by name.
func (r *profileReader) smallWorkloads(list *yaml.Node, f field) *yaml.Node {
	fields, _ := r.fields(f.value, "workloads", "parameters by the workload's name, such as {rnd-4k: {runtime: 2s}}")
	if list == nil || list.Kind != yaml.SequenceNode {
		return list // and that is said of the whole profile
	}
	all := *list
	all.Content = slices.Clone(list.Content)
	var names []string
	for _, item := range all.Content {
		if name := valueOf(item, "name"); name != nil {
			names = append(names, name.Value)
		}
	}
	for _, one := range fields {
		i := slices.IndexFunc(all.Content, func(item *yaml.Node) bool {
			name := valueOf(item, "name")
			return name != nil && name.Value == one.name
		})
		word := closest(one.name, names)
		switch {
		case i >= 0:
			all.Content[i] = replaced(all.Content[i], r.smallParameters(one))
		case word != "":
			r.fail(at(one.key), one.name, "no workload of this name; did you mean %s?", word)
		default:
			r.fail(at(one.key), one.name, "no workload of this name; the workloads are %s", strings.Join(names, ", "))
		}
	}
	return &all
}

// smallParameters are the parameters of one workload.
func (r *profileReader) smallParameters(one field) (good []field) {
	params, _ := r.fields(one.value, one.name, "parameters of this workload, such as {runtime: 2s}")
	for _, p := range params {
		if p.name == "name" || p.name == "type" {
			r.fail(at(p.key), p.name, "is the same at any scale; take it out")
			continue
		}
		good = append(good, p)
	}
	return good
}

// valueOf is the value of a key of a mapping; nil where n is none or has it not.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// replaced is a mapping with other values for some keys; a key that it has not is put at its end.
func replaced(n *yaml.Node, fields []field) *yaml.Node {
	if n == nil {
		return nil
	}
	changed := *n
	changed.Content = slices.Clone(n.Content)
next:
	for _, f := range fields {
		for i := 0; i+1 < len(changed.Content); i += 2 {
			if changed.Content[i].Value == f.name {
				changed.Content[i+1] = f.value
				continue next
			}
		}
		changed.Content = append(changed.Content, f.key, f.value)
	}
	return &changed
}

// readSmall reads the profile at small scale, with everything that is checked of a whole one.
func (r *profileReader) readSmall() {
	again := newProfileReader(r.p.File, r.p.Source)
	again.small = true
	again.profile(r.scaled)
	r.errs.Errors = append(r.errs.Errors, r.dueToSmall(again.errs.Errors)...)
	if most := 64 - len(smallSuffix); len(r.p.Name) > most {
		r.wrong(r.p.places["name"], "name", r.p.Name, "at small scale %s is put after it, so it has %d characters at most", smallSuffix, most)
	}
	small := again.p
	small.Name += smallSuffix
	small.Scaled = r.p.changedIn(small)
	small.Warnings = append([]string{"small scale shows that everything works here; its figures are not for conclusions"}, small.Warnings...)
	r.p.Small = small
}

// dueToSmall are the errors that the whole profile has not. Of one that stands elsewhere than in small it is said what it is due to.
func (r *profileReader) dueToSmall(errs []ProfileError) (more []ProfileError) {
	for _, e := range errs {
		if slices.Contains(r.errs.Errors, e) {
			continue
		}
		if !r.inSmall[position{e.Line, e.Column}] {
			e.Allowed += " (at small scale)"
		}
		more = append(more, e)
	}
	return more
}

// changedIn says what is otherwise at small scale.
func (p *Profile) changedIn(small *Profile) []string {
	changed := []string{} // not nil, which would be the whole
	differ := func(what, now, before string) {
		if now != before {
			changed = append(changed, fmt.Sprintf("%s %s instead of %s", what, now, before))
		}
	}
	differ("repeats", small.RepeatsText(), p.RepeatsText())
	differ("settle", span(small.Settle), span(p.Settle))
	if small.TimeoutGiven && small.Timeout != p.Timeout {
		changed = append(changed, "timeout "+span(small.Timeout))
	}
	for _, a := range small.Matrix.Axes {
		whole, _ := p.Matrix.Axis(a.Name)
		differ(a.Name, strings.Join(abbreviated(a.Levels), " "), strings.Join(abbreviated(whole.Levels), " "))
	}
	for i, s := range small.Workloads {
		if i < len(p.Workloads) { // they are as many, unless one is wrong
			changed = append(changed, changedWork(p.Workloads[i], s)...)
		}
	}
	return changed
}

// changedWork is the same of one workload.
func changedWork(whole, small workload.Spec) []string {
	var values []string
	for _, p := range workload.Params(small.Type) {
		now, before := small.Get(p.Name), whole.Get(p.Name)
		switch {
		case now == before:
		case before == "":
			values = append(values, p.Name+" "+now)
		default:
			values = append(values, fmt.Sprintf("%s %s instead of %s", p.Name, now, before))
		}
	}
	if values == nil {
		return nil
	}
	return []string{small.Name + ": " + strings.Join(values, ", ")}
}

// scale puts the profile at small scale in the place of the whole one. The error is the user's.
func (p *Profile) scale(scale string) error {
	switch {
	case scale == "":
		return nil
	case scale != SmallScale:
		return fmt.Errorf("--scale %s: there is one scale, small; leave the flag out for the whole profile", scale)
	case p.Small == nil:
		return fmt.Errorf("--scale small: the profile %s does not say what that is; add it to the file, such as\n  small: %s", p.Name, smallExample(p))
	}
	*p = *p.Small
	return nil
}

// smallExample is what could be added to a profile, with its own workloads' names.
func smallExample(p *Profile) string {
	var works []string
	for _, s := range p.Workloads {
		works = append(works, fmt.Sprintf("%s: {%s}", scalarText(s.Name), smallGuess(s)))
	}
	return fmt.Sprintf("{repeats: 1, settle: 100ms, workloads: {%s}}", strings.Join(works, ", "))
}

func smallGuess(s workload.Spec) string {
	if s.Has("runtime") && s.Runtime > 0 {
		return "runtime: 1s"
	}
	return "size: 16m"
}
