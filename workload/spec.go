// Package workload is what a run executes: the types io, dd and bonnie, and the worker process that executes
// them. It knows drives only as a descriptor, a size and a block size; it must not know settings,
// profiles or sweeps.
package workload

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Spec is one entry of a profile's workloads, with the parameters of a cell put in. Its zero value is
// of no use: NewSpec fills in the defaults of its type.
type Spec struct {
	Name string // as in the profile; names its files
	Type string // one of Types
	Mode string // io: read, randread, rw, read+write, …; dd: write, write-read, …; bonnie has none

	Engine    string // auto, or one of ioengine.Names
	BlockSize int64  // bytes of one operation; of bonnie its chunk
	Size      int64  // bytes driven (io), of each process's file or range (dd), of the large file (bonnie); 0: the whole device

	IODepth     int // operations outstanding in each thread
	Threads     int // io: threads (of each kind, when readers and writers run at once)
	Regions     int // io, sequential modes: disjoint regions; 0: as many as threads
	Processes   int // dd: how many at once
	ReadPercent int // io, rw and randrw: share of reads

	Runtime time.Duration // 0: once through
	Warmup  time.Duration // before the clock starts
	Timeout time.Duration // 0: only the run's own

	Sync   string // none, fsync (one at the end, inside the clock), dsync (every write)
	Direct bool   // O_DIRECT, without any fallback
	Verify bool   // read back and compare what was written, after the window

	BonniePhases string // all, or those that are done, in order, separated by blanks
	Seeks        int    // operations of the phase seeks, of all seekers together
	Seekers      int    // threads of the phase seeks
	Files        int    // × 1024 small files; 0: no phases of files
	FileSizeMin  int64  // bytes of a small file, drawn between the two, both included
	FileSizeMax  int64
	Directories  int // that the small files are in
}

// FieldError is one parameter of a workload that is wrong on any machine.
type FieldError struct {
	Key, Value string
	Allowed    string // what would be right
	Reason     string // "" is not allowed; else said instead, as "not yet in this version"
}

func (e FieldError) Error() string {
	reason := e.Reason
	if reason == "" {
		reason = "is not allowed"
	}
	text := fmt.Sprintf("%s: %q %s", e.Key, e.Value, reason)
	if e.Allowed != "" {
		text += ": " + e.Allowed
	}
	return text
}

// Types are the workload types of this version.
func Types() []string { return []string{"io", "dd", "bonnie"} }

// NewSpec makes a Spec of a type from the keys of a profile (without name and type), with defaults for
// the keys that are absent. It reports every wrong key at once, sorted. It looks at one value at a time,
// because an axis may yet replace any of them; Validate looks at them together.
func NewSpec(name, typ string, values map[string]string) (Spec, []FieldError) {
	s := Spec{Name: name, Type: typ}
	params := Params(typ)
	if params == nil {
		return s, []FieldError{{Key: "type", Value: typ, Allowed: strings.Join(Types(), ", ")}}
	}
	for _, p := range params {
		if p.Default != "" {
			p.set(&s, p.Default)
		}
	}
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	var wrong []FieldError
	for _, key := range keys {
		p, ok := find(params, key)
		if !ok {
			wrong = append(wrong, unknownKey(typ, key, values[key]))
			continue
		}
		if e := p.put(&s, values[key]); e != nil {
			wrong = append(wrong, *e)
		}
	}
	return s, wrong
}

// CanonicalParam is the one text of a level of a parameter axis, the same from YAML to CSV: 4096 is 4k.
// The error is a FieldError. Levels that only some types have (modes) pass; With decides for one workload.
func CanonicalParam(name, value string) (string, error) {
	var last error
	for _, typ := range Types() {
		p, ok := find(Params(typ), name)
		if !ok || !p.Axis {
			continue
		}
		var s Spec
		if e := p.put(&s, value); e != nil {
			if last == nil {
				last = *e
			} else if one, ok := last.(FieldError); ok && one.Allowed != e.Allowed {
				one.Allowed += " (io); " + e.Allowed + " (" + typ + ")"
				last = one
			}
			continue
		}
		return p.get(s), nil
	}
	if last == nil {
		last = FieldError{Key: name, Value: value, Reason: "is not a parameter that can be an axis", Allowed: strings.Join(AxisParams(), ", ")}
	}
	return "", last
}

// AxisParams are the names of the parameters that can be axes, of any type, in the table's order.
func AxisParams() []string {
	var names []string
	seen := map[string]bool{}
	for _, p := range table() {
		if p.Axis && !seen[p.Name] {
			seen[p.Name] = true
			names = append(names, p.Name)
		}
	}
	return names
}

// With is the workload with one level of a parameter axis put in.
func (s Spec) With(param, value string) (Spec, error) {
	p, ok := find(Params(s.Type), param)
	if !ok {
		return s, fmt.Errorf("workload %s: type %s has no parameter %s", s.Name, s.Type, param)
	}
	if !p.Axis {
		return s, fmt.Errorf("workload %s: %s cannot be an axis", s.Name, param)
	}
	if e := p.put(&s, value); e != nil {
		return s, fmt.Errorf("workload %s: %w", s.Name, *e)
	}
	return s, nil
}

// Has says whether this type has such a parameter.
func (s Spec) Has(param string) bool {
	_, ok := find(Params(s.Type), param)
	return ok
}

// Get is the canonical text of one parameter, "" when it is left to its default of "whatever is there".
func (s Spec) Get(param string) string {
	if p, ok := find(Params(s.Type), param); ok {
		return p.get(s)
	}
	return ""
}

// Values are all parameters that are set, in the table's order: what NewSpec would make this Spec of again.
func (s Spec) Values() [][2]string {
	var values [][2]string
	for _, p := range Params(s.Type) {
		if v := p.get(s); v != "" {
			values = append(values, [2]string{p.Name, v})
		}
	}
	return values
}

// Parameters is the text of the CSV's column parameters: those that matter to the result and have no
// column of their own, as name=value joined by ";", in a fixed order.
func (s Spec) Parameters() string {
	text := []string{"type=" + s.Type}
	for _, p := range Params(s.Type) {
		if p.column || !s.matters(p.Name) {
			continue
		}
		if p.Name == "regions" {
			text = append(text, fmt.Sprintf("regions=%d", s.regions()))
			continue
		}
		if v := p.get(s); v != "" {
			text = append(text, p.Name+"="+v)
		}
	}
	return strings.Join(text, ";")
}

// matters says whether a parameter can change what this mode does.
func (s Spec) matters(param string) bool {
	switch param {
	case "timeout":
		return false
	case "verify":
		return s.Verify
	case "read_percent":
		return s.Mode == "rw" || s.Mode == "randrw"
	case "regions":
		return s.sequential()
	}
	return true
}
