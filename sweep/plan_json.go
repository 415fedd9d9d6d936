package sweep

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"

	"qdsweep/sysfs"
)

// planHead is the plan's JSON without its runs.
type planHead struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Target      string        `json:"target"`
	Device      string        `json:"device"`
	Directory   string        `json:"directory,omitempty"`
	Writes      bool          `json:"writes"`
	Targets     []planTarget  `json:"targets"`
	Members     []planMember  `json:"members"`
	Axes        []Axis        `json:"axes"`
	Knobs       []PlannedKnob `json:"knobs"`
	Cells       int           `json:"cells"`
	Repeats     int           `json:"repeats"`
	Planned     int           `json:"planned"`
	Skipped     int           `json:"skipped"`
	Order       string        `json:"order"`
	Seed        uint64        `json:"seed"`
	EstimateS   float64       `json:"estimate_s"`
	RunS        float64       `json:"run_s"`
	planTime
	Builds      int                `json:"builds"`
	BuildS      float64            `json:"build_s"`
	TimeoutS    float64            `json:"timeout_s"`
	Unsupported []UnsupportedLevel `json:"unsupported"`
	LeftOut     []string           `json:"left_out"`
	Warnings    []string           `json:"warnings"`
	Refused     []planRefusal      `json:"refused"`
	Notes       []string           `json:"notes"`
	Scale       string             `json:"scale"`  // full or small
	Scaled      []string           `json:"scaled"` // what is otherwise at small scale
	Hooks       *planHooks         `json:"hooks"`
}

type planMember struct {
	Name     string         `json:"name"`
	Identity sysfs.Identity `json:"identity"`
	Model    string         `json:"model"`
	Serial   string         `json:"serial"`
	Driver   string         `json:"driver"`
}

// planTarget is one thing that is driven, and what picks it.
type planTarget struct {
	Level     *Level     `json:"level"` // of raid_level or device; null where there is one target
	Target    string     `json:"target"`
	Device    string     `json:"device"` // "" of one that is not built yet
	Directory string     `json:"directory,omitempty"`
	Bytes     int64      `json:"size_bytes"` // of one that is built: about
	Members   []string   `json:"members"`
	Build     *planBuild `json:"build,omitempty"`
}

// planBuild is how a target is made; "" and 0 where mdadm chooses.
type planBuild struct {
	Parts        []string `json:"parts"`
	ChunkKB      int      `json:"chunk_kb"`
	Layout       string   `json:"layout"`
	Bitmap       string   `json:"bitmap"`
	InitialSync  bool     `json:"initial_sync"`
	Filesystem   string   `json:"filesystem"`
	MkfsOptions  []string `json:"mkfs_options"`
	MountOptions []string `json:"mount_options"`
}

func (t *Target) json() planTarget {
	all := planTarget{Target: t.Stack.Target, Device: t.Stack.Device.Name, Directory: t.Stack.Directory, Bytes: t.Stack.Bytes, Members: []string{}}
	if level := t.Level; level != (Level{}) {
		level.Value = deviceOf(level.Value)
		all.Level = &level
	}
	for _, m := range t.Stack.Members {
		all.Members = append(all.Members, m.Name)
	}
	if !t.Built() {
		return all
	}
	s := t.spec()
	all.Build = &planBuild{Parts: []string{}, ChunkKB: s.ChunkKB, Layout: s.Layout, Bitmap: s.Bitmap, InitialSync: s.InitialSync, Filesystem: s.Filesystem,
		MkfsOptions: orEmpty(s.MkfsOptions), MountOptions: orEmpty(s.MountOptions)}
	for _, d := range s.Members {
		all.Build.Parts = append(all.Build.Parts, d.Name)
	}
	return all
}

// planRefusal is why run would not start, and what to type.
type planRefusal struct {
	Device string `json:"device"`
	Reason string `json:"reason"`
	Fix    string `json:"fix"`
}

// planRun is one run of the plan's JSON.
type planRun struct {
	Run
	CellText string            `json:"cell"`
	Levels   map[string]string `json:"levels"`
}

// JSON writes the plan as one object. Its runs are written one at a time, a line each: a million of them need no memory.
func (p *Plan) JSON(w io.Writer) error {
	out := bufio.NewWriter(w)
	whole, run := p.Estimate()
	builds, building := p.buildCost()
	head := planHead{
		Name: p.Profile.Name, Description: p.Profile.Description, Writes: p.Writes(), Targets: []planTarget{}, Members: []planMember{}, Axes: orEmpty(p.Profile.Matrix.Axes),
		Knobs: orEmpty(p.Knobs), Cells: p.cells, Repeats: p.Profile.Repeats, Planned: p.Count(), Skipped: p.skipped * p.Profile.Repeats,
		Order: p.Profile.Order, Seed: p.Profile.Seed, EstimateS: whole.Seconds(), RunS: run.Seconds(), planTime: p.timeJSON(), TimeoutS: p.Profile.Timeout.Seconds(),
		Builds: builds * p.Profile.Repeats, BuildS: building.Seconds(),
		Unsupported: orEmpty(p.Unsupported), LeftOut: orEmpty(p.LeftOut), Warnings: orEmpty(p.Warnings),
		Refused: []planRefusal{}, Notes: orEmpty(p.Notes),
		Scale: "full", Scaled: orEmpty(p.Profile.Scaled), Hooks: p.Profile.Hooks.json(),
	}
	if p.Profile.Scaled != nil {
		head.Scale = SmallScale
	}
	var names, devices []string
	for _, t := range p.Targets {
		head.Targets = append(head.Targets, t.json())
		names = append(names, t.Stack.Target)
		if name := t.Stack.Device.Name; name != "" {
			devices = append(devices, name)
		}
	}
	head.Target, head.Device = strings.Join(names, ", "), strings.Join(devices, ", ")
	if len(p.Targets) == 1 {
		head.Directory = p.Targets[0].Stack.Directory
	}
	for _, r := range p.Refused {
		head.Refused = append(head.Refused, planRefusal(r))
	}
	for _, m := range p.Members() {
		head.Members = append(head.Members, planMember{m.Name, m.Identity, m.Model, m.Serial, m.Driver})
	}
	text, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return err
	}
	out.Write(text[:len(text)-2]) // without "\n}"; errors of a bufio.Writer stay until Flush
	out.WriteString(",\n  \"runs\": [")
	for r := range p.Runs() {
		if r.Index > 1 {
			out.WriteByte(',')
		}
		levels := make(map[string]string, len(r.Cell))
		for _, l := range r.Cell {
			levels[l.Axis] = l.Value
		}
		line, err := json.Marshal(planRun{r, r.Cell.String(), levels})
		if err != nil {
			return err
		}
		out.WriteString("\n    ")
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	out.WriteString("\n  ]\n}\n")
	return out.Flush()
}

// orEmpty makes a list that is empty an empty list in JSON, not null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
