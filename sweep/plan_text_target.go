package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qdsweep/sysfs"
	"qdsweep/sysfs/md"
)

// textTarget says what is driven and on which disks it lies.
func (p *Plan) textTarget(out *planText) {
	if p.Profile.Target.several() {
		p.textTargets(out)
	} else {
		out.field("target", p.Targets[0].text()+"; "+p.writesText())
	}
	members := p.Members()
	if len(members) == 0 {
		out.field("members", "none known: "+p.Targets[0].Stack.NoKnobs)
		return
	}
	var drivers []string
	for _, m := range members {
		if m.Driver != "" && !slices.Contains(drivers, m.Driver) {
			drivers = append(drivers, m.Driver)
		}
	}
	text := namesText(members) + "    " + strings.Join(append([]string{plural(len(members), "disk")}, drivers...), ", ")
	if len(p.Targets) > 1 && p.onAll(members) {
		all := fmt.Sprintf("all %d targets", len(p.Targets))
		if len(p.Targets) == 2 {
			all = "both targets"
		}
		text += "; " + all + " are on " + map[bool]string{true: "it", false: "all of them"}[len(members) == 1]
	}
	out.field("members", text)
	if p.builds() {
		out.field("build", p.buildText())
	}
}

func (p *Plan) writesText() string {
	if p.Writes() {
		return "written to"
	}
	return "only read"
}

func namesText(devices []sysfs.Device) string {
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.Name
	}
	return strings.Join(names, " ")
}

// onAll says that every target lies on all the members.
func (p *Plan) onAll(members []sysfs.Device) bool {
	return !slices.ContainsFunc(p.Targets, func(t *Target) bool { return len(t.Stack.Members) != len(members) })
}

// text is a target that is there: what it is called, and what it is.
func (t *Target) text() string {
	s := t.Stack
	words := []string{s.Target}
	if s.Directory != "" {
		words = append(words, "files on "+s.FileSystem)
		if s.Device.Name != "" {
			words = append(words, s.Device.Name)
		}
	} else if s.Device.Name != "" && !strings.HasSuffix(s.Target, s.Device.Name) {
		words = append(words, s.Device.Name)
	}
	return strings.Join(words, "  ") + "  " + strings.Join(t.facts(), "; ")
}

// facts are what is to be known of a target that is there.
func (t *Target) facts() (facts []string) {
	s := t.Stack
	if s.Device.Model != "" {
		facts = append(facts, s.Device.Model)
	}
	if s.Bytes > 0 {
		facts = append(facts, bytesText(s.Bytes))
	}
	var partitions []sysfs.Device
	for i, l := range s.Layers {
		if l.Device.Kind == sysfs.KindPartition && i > 0 { // not what is driven itself
			partitions = append(partitions, l.Device)
			continue
		}
		facts = append(facts, strings.TrimSpace(l.Device.Name+" "+l.Detail))
	}
	if len(partitions) > 0 {
		facts = append(facts, "on "+namesText(partitions))
	}
	return facts
}

// textTargets is a line for each target: the level that picks it, what it is called, what it is. Levels that are identities are long, and come last.
func (p *Plan) textTargets(out *planText) {
	shared := p.onAll(p.Members())
	var rows [][]string
	for _, t := range p.Targets {
		level := deviceOf(t.Level.Value)
		if t.Level.Axis == raidLevel {
			level = raidLevel + " " + level
		}
		row := []string{level}
		switch s := t.Stack; {
		case t.Built():
			row = append(row, "built from "+namesText(t.spec().Members), strings.Join(t.builtFacts(), ", "))
		case s.Directory != "":
			facts := append([]string{s.FileSystem}, t.facts()...)
			if len(s.Layers) == 0 {
				facts[0] += " on " + s.Device.Name
			}
			row = append(row, s.Target, strings.Join(facts, "; "))
		default:
			row = append(row, s.Target, strings.Join(t.facts(), "; "))
		}
		if !shared && !t.Built() && len(t.Stack.Layers) > 0 && !strings.Contains(row[2], "; on ") {
			row[2] += "; on " + namesText(t.Stack.Members)
		}
		if t.Level.Axis == deviceAxis {
			row = []string{t.Stack.Device.Name, row[2], level}
		}
		rows = append(rows, row)
	}
	out.tableFrom(pad("target", 9), "         ", rows)
	how := "all " + strconv.Itoa(len(p.Targets)) + " are "
	switch len(p.Targets) {
	case 1:
		how = ""
	case 2:
		how = "both are "
	}
	out.field("", how+p.writesText()+p.eraseText())
}

// eraseText says what becomes of what is on the members.
func (p *Plan) eraseText() string {
	if p.builds() {
		return ": all that is on the members is lost"
	}
	return ""
}

// builtFacts are what is to be known of a target that is built.
func (t *Target) builtFacts() (facts []string) {
	s := t.spec()
	if s.Level == md.LevelNone {
		facts = append(facts, "no array")
	}
	facts = append(facts, "about "+bytesText(t.Stack.Bytes))
	if md.HasChunk(s.Level) {
		chunk := "mdadm's own chunk"
		if s.ChunkKB > 0 {
			chunk = strconv.Itoa(s.ChunkKB) + " KiB chunk"
		}
		facts = append(facts, chunk)
	}
	if s.Layout != "" {
		facts = append(facts, s.Layout)
	}
	if s.Bitmap == "internal" {
		facts = append(facts, "internal bitmap")
	}
	fs := s.Filesystem
	if fs == "" {
		fs = "no file system"
	}
	return append(facts, fs)
}

// buildText says how often something is built, and what that costs.
func (p *Plan) buildText() string {
	builds, all := p.buildCost()
	sync := "--assume-clean"
	if p.Targets[0].Build.InitialSync {
		sync = "a full initial sync each"
	}
	replicates := plural(p.Profile.Repeats, "replicate")
	if p.Profile.Adaptive() {
		replicates = fmt.Sprintf("%d to %s", p.Profile.RepeatsMin, replicates)
	}
	return fmt.Sprintf("%s × %s, about %s in all (%s); each is taken down after its cells",
		plural(builds, "target"), replicates, timeText(all), sync)
}
