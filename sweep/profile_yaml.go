package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"qdsweep/workload"
)

// YAML is the profile as resolved: defaults, flags, seed and engines written out. Read again it gives the same plan,
// so that a sweep's folder says what was done without the file it came from.
func (p *Profile) YAML() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "version: %d\nname: %s\n", ProfileVersion, scalarText(p.Name))
	if p.Description != "" {
		fmt.Fprintf(&b, "description: %s\n", quoted(p.Description))
	}
	p.Target.yaml(&b)
	p.Matrix.yaml(&b)
	fmt.Fprintf(&b, "repeats: %s\norder: %s\n", p.RepeatsText(), p.Order)
	if p.SeedGiven {
		fmt.Fprintf(&b, "seed: %d\n", p.Seed)
	}
	fmt.Fprintf(&b, "settle: %s\n", span(p.Settle))
	if p.TimeoutGiven {
		fmt.Fprintf(&b, "timeout: %s\n", span(p.Timeout))
	}
	if p.Deadline > 0 {
		fmt.Fprintf(&b, "deadline: %s\n", span(p.Deadline))
	}
	if p.Until.Set {
		fmt.Fprintf(&b, "until: %s\n", quoted(p.Until.String()))
	}
	fmt.Fprintf(&b, "unsupported: %s\nworkloads:\n", p.Unsupported)
	for _, s := range p.Workloads {
		fmt.Fprintf(&b, "  - {%s}\n", strings.Join(workloadPairs(s), ", "))
	}
	p.Hooks.yaml(&b)
	return b.Bytes()
}

func workloadPairs(s workload.Spec) []string {
	pairs := []string{"name: " + scalarText(s.Name), "type: " + s.Type}
	for _, v := range s.Values() {
		pairs = append(pairs, v[0]+": "+scalarText(v[1]))
	}
	return pairs
}

func (m Matrix) yaml(b *bytes.Buffer) {
	if len(m.Axes) == 0 || len(m.Axes) == 1 && m.Axes[0].Name == deviceAxis && len(m.Exclude)+len(m.Include) == 0 {
		return
	}
	b.WriteString("matrix:\n")
	for _, a := range m.Axes {
		if a.Name != deviceAxis { // which comes from the target
			fmt.Fprintf(b, "  %s: %s\n", a.Name, listText(a.Levels))
		}
	}
	cells := func(key string, all []Cell) {
		if len(all) == 0 {
			return
		}
		fmt.Fprintf(b, "  %s:\n", key)
		for _, c := range all {
			pairs := make([]string, len(c))
			for i, l := range c {
				value := l.Value
				if l.Axis == deviceAxis {
					value = deviceOf(value)
				}
				pairs[i] = l.Axis + ": " + scalarText(value)
			}
			fmt.Fprintf(b, "    - {%s}\n", strings.Join(pairs, ", "))
		}
	}
	exclude := make([]Cell, len(m.Exclude))
	for i, e := range m.Exclude {
		exclude[i] = e
	}
	cells("exclude", exclude)
	cells("include", m.Include)
}

func (t TargetSpec) yaml(b *bytes.Buffer) {
	switch {
	case t.Device != "":
		fmt.Fprintf(b, "target:\n  device: %s\n", quoted(t.Device))
	case t.Directory != "":
		fmt.Fprintf(b, "target:\n  directory: %s\n", quoted(t.Directory))
	case t.Devices != nil:
		fmt.Fprintf(b, "target:\n  devices: %s\n", listText(t.Devices))
	case t.Arrays != nil:
		b.WriteString("target:\n  arrays:\n")
		for _, a := range t.Arrays {
			fmt.Fprintf(b, "    %s: %s\n", a.Level, quoted(a.Device+a.Directory)) // one of them
		}
	case t.Build != nil:
		b.WriteString("target:\n  build:\n")
		t.Build.yaml(b)
	}
}

func (s *BuildSpec) yaml(b *bytes.Buffer) {
	fmt.Fprintf(b, "    members: %s\n", listText(s.Members))
	if s.ChunkKB > 0 {
		fmt.Fprintf(b, "    chunk_kb: %d\n", s.ChunkKB)
	}
	if len(s.Layout) > 0 {
		var pairs []string
		for _, level := range raidLevels() {
			if layout, ok := s.Layout[level]; ok {
				pairs = append(pairs, level+": "+scalarText(layout))
			}
		}
		fmt.Fprintf(b, "    layout: {%s}\n", strings.Join(pairs, ", "))
	}
	if s.Bitmap != "" {
		fmt.Fprintf(b, "    bitmap: %s\n", s.Bitmap)
	}
	fmt.Fprintf(b, "    initial_sync: %t\n", s.InitialSync)
	filesystem := s.Filesystem
	if filesystem == "" {
		filesystem = "none"
	}
	fmt.Fprintf(b, "    filesystem: %s\n", filesystem)
	for _, o := range []struct {
		key   string
		words []string
	}{{"mkfs_options", s.MkfsOptions}, {"mount_options", s.MountOptions}} {
		if len(o.words) > 0 {
			fmt.Fprintf(b, "    %s: %s\n", o.key, listText(o.words))
		}
	}
}

// listText is a list on one line.
func listText(values []string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = scalarText(v)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// scalarText writes a word plain where no YAML reader could take it for something else.
func scalarText(s string) string {
	for i, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && strings.ContainsRune("._+-", c):
		default:
			return quoted(s)
		}
	}
	if s == "" {
		return quoted(s)
	}
	return s
}

// quoted is a double-quoted YAML scalar, which a JSON string is. JSON's own escapes for HTML are switched off.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string, into memory
	return strings.TrimSuffix(b.String(), "\n")
}
