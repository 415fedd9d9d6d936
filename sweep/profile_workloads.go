package sweep

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"qdsweep/workload"
)

// workloadList reads the workloads, each with what workload.NewSpec allows. It comes after the matrix, whose axes put
// their levels in.
func (r *profileReader) workloadList(n *yaml.Node) {
	const allowed = "a list with one workload at least, such as [{name: rnd-4k, type: io, mode: randread}]"
	items, ok := r.items(n, "workloads", allowed)
	if ok && len(items) == 0 {
		r.fail(at(n), "workloads", "no workload; %s", allowed)
	}
	first := map[string]int{}
	complete := true
	for _, item := range items {
		spec, ok := r.workload(item)
		complete = complete && ok
		if line, twice := first[spec.Name]; twice && spec.Name != "" {
			r.wrong(r.p.places["workload "+spec.Name], "name", spec.Name, "two workloads of one name, the first on line %d; rows go by it", line)
			continue
		}
		first[spec.Name] = item.Line
		r.p.Workloads = append(r.p.Workloads, spec)
	}
	if ok && complete {
		r.parameterAxes()
		r.limitAxis()
	}
}

// workload reads one entry; ok is false when its type is not known, so that nothing can be said about axes.
func (r *profileReader) workload(n *yaml.Node) (spec workload.Spec, ok bool) {
	fields, ok := r.fields(n, "workloads", "a workload is a mapping, such as {name: rnd-4k, type: io, mode: randread}")
	if !ok {
		return spec, false
	}
	values, places := map[string]string{}, map[string]position{}
	var name, typ string
	var typed bool
	for _, f := range fields {
		places[f.name] = at(f.value)
		switch f.name {
		case "name":
			name = r.name(f.value, "workload name")
			r.p.places["workload "+name] = at(f.value)
		case "type":
			typ, typed = r.scalar(f.value, "type", "one of "+strings.Join(workload.Types(), ", "))
		default:
			if text, good := r.parameterValue(f); good {
				values[f.name] = text
			}
		}
	}
	if name == "" && places["name"] == (position{}) {
		r.fail(at(n), "workload name", "missing; write a name, by which its rows are known")
	}
	if places["type"] == (position{}) {
		r.fail(at(n), "type", "missing; write one of %s", strings.Join(workload.Types(), ", "))
	}
	if !typed {
		return workload.Spec{Name: name}, false
	}
	spec, wrong := workload.NewSpec(name, typ, values)
	for _, e := range wrong {
		r.parameter(typ, e, fields, places)
	}
	for key, p := range places {
		r.p.places["workload "+name+" "+key] = p
	}
	for _, a := range r.p.Matrix.Axes {
		if text, given := values[a.Name]; given && spec.Has(a.Name) {
			r.p.Warnings = append(r.p.Warnings, r.p.File+": workload "+name+": "+a.Name+" "+text+" is replaced by each level of the axis "+a.Name)
		}
	}
	return spec, slices.Contains(workload.Types(), typ)
}

// parameterValue is the text of a parameter; of one that may be a list, its values.
func (r *profileReader) parameterValue(f field) (text string, ok bool) {
	const allowed = "a parameter is a single value"
	if f.value.Kind != yaml.SequenceNode || !workload.TakesList(f.name) {
		return r.scalar(f.value, f.name, allowed)
	}
	var values []string
	for _, item := range f.value.Content {
		value, good := r.scalar(item, f.name, "a list of single values")
		if !good {
			return "", false
		}
		values = append(values, value)
	}
	return strings.Join(values, " "), true
}

// parameter reports one wrong parameter: at its key when there is no such key, else at its value.
func (r *profileReader) parameter(typ string, e workload.FieldError, fields []field, places map[string]position) {
	known := []string{"name", "type"}
	for _, p := range workload.Params(typ) {
		known = append(known, p.Name)
	}
	for _, f := range fields {
		if f.name == e.Key && e.Key != "type" && !slices.Contains(known, e.Key) {
			r.unknown(f, "in a workload of type "+typ, known)
			return
		}
	}
	r.wrong(places[e.Key], e.Key, e.Value, "%s", fieldText(e))
}

// limitAxis refuses an axis that no workload can show: SCSI commands do not obey max_sectors_kb.
func (r *profileReader) limitAxis() {
	const axis = "max_sectors_kb"
	if len(r.p.Matrix.levelsOf(axis)) == 0 || slices.ContainsFunc(r.p.Workloads, func(s workload.Spec) bool { return !s.SG() }) {
		return
	}
	r.fail(r.p.places["axis "+axis], axis, "the commands of engine sg do not obey it, and no workload has another engine; take the axis out, or add a workload with engine: auto")
}

// parameterAxes checks each level of an axis that is a workload parameter with each workload that has it.
func (r *profileReader) parameterAxes() {
	for _, a := range r.p.Matrix.Axes {
		if !isParameter(a.Name) {
			continue
		}
		used := false
		for _, s := range r.p.Workloads {
			if !s.Has(a.Name) {
				continue
			}
			used = true
			for _, level := range r.p.Matrix.levelsOf(a.Name) {
				if _, err := s.With(a.Name, level); err != nil {
					r.wrong(r.p.places["level "+a.Name+"="+level], a.Name, level, "not for workload %s, of type %s: %s", s.Name, s.Type, levelText(err, a.Name, level))
				}
			}
		}
		if !used {
			r.fail(r.p.places["axis "+a.Name], a.Name, "no workload of this profile has this parameter; take the axis out")
		}
	}
}

// workloadCells checks the workloads of every cell as far as that needs no machine: what no single value shows.
func (r *profileReader) workloadCells(p position) {
	said := map[string]bool{}
	r.p.Matrix.eachWorkloads(r.p.Workloads, func(k kindOfWork) bool {
		for _, s := range k.specs {
			if s.LeftOut(0) != "" && r.p.Matrix.shapes() {
				continue
			}
			for _, e := range s.Validate() {
				key := s.Name + " " + e.Key + " " + e.Value + " " + e.Reason
				if said[key] {
					continue
				}
				said[key] = true
				r.wrong(r.placeOf(s.Name, e.Key, e.Value, p), e.Key, e.Value, "workload %s: %s", s.Name, fieldText(e))
			}
		}
		return len(said) < 100
	})
}

// placeOf is where a workload's parameter has its value from: an axis, the workload, or a default.
func (r *profileReader) placeOf(name, key, value string, otherwise position) position {
	for _, place := range []string{"level " + key + "=" + value, "workload " + name + " " + key, "workload " + name} {
		if p, ok := r.p.places[place]; ok {
			return p
		}
	}
	return otherwise
}
