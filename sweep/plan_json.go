package sweep

import (
	"bufio"
	"encoding/json"
	"io"

	"qdsweep/sysfs"
)

// planHead is the plan's JSON without its runs.
type planHead struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Target      string             `json:"target"`
	Device      string             `json:"device"`
	Directory   string             `json:"directory,omitempty"`
	Writes      bool               `json:"writes"`
	Members     []planMember       `json:"members"`
	Axes        []Axis             `json:"axes"`
	Knobs       []PlannedKnob      `json:"knobs"`
	Cells       int                `json:"cells"`
	Repeats     int                `json:"repeats"`
	Planned     int                `json:"planned"`
	Skipped     int                `json:"skipped"`
	Order       string             `json:"order"`
	Seed        uint64             `json:"seed"`
	EstimateS   float64            `json:"estimate_s"`
	RunS        float64            `json:"run_s"`
	TimeoutS    float64            `json:"timeout_s"`
	Unsupported []UnsupportedLevel `json:"unsupported"`
	LeftOut     []string           `json:"left_out"`
	Warnings    []string           `json:"warnings"`
	Refused     []planRefusal      `json:"refused"`
	Notes       []string           `json:"notes"`
}

type planMember struct {
	Name     string         `json:"name"`
	Identity sysfs.Identity `json:"identity"`
	Model    string         `json:"model"`
	Serial   string         `json:"serial"`
	Driver   string         `json:"driver"`
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
	head := planHead{
		Name: p.Profile.Name, Description: p.Profile.Description, Target: p.Targets[0].Stack.Target, Device: p.Targets[0].Stack.Device.Name,
		Directory: p.Targets[0].Stack.Directory, Writes: p.Writes(), Members: []planMember{}, Axes: orEmpty(p.Profile.Matrix.Axes),
		Knobs: orEmpty(p.Knobs), Cells: p.cells, Repeats: p.Profile.Repeats, Planned: p.Count(), Skipped: p.skipped * p.Profile.Repeats,
		Order: p.Profile.Order, Seed: p.Profile.Seed, EstimateS: whole.Seconds(), RunS: run.Seconds(), TimeoutS: p.Profile.Timeout.Seconds(),
		Unsupported: orEmpty(p.Unsupported), LeftOut: orEmpty(p.LeftOut), Warnings: orEmpty(p.Warnings),
		Refused: []planRefusal{}, Notes: orEmpty(p.Notes),
	}
	for _, r := range p.Refused {
		head.Refused = append(head.Refused, planRefusal(r))
	}
	for _, m := range p.Targets[0].Stack.Members {
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
