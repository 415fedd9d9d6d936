package sweep

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"iter"
	"slices"
	"strings"
	"time"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// PlanOptions are the consents of the command line that a plan needs.
type PlanOptions struct {
	Allow map[string]bool // "raise": knobs may go above their originals, write caches that are off may be switched on
	Erase []string        // as given to --erase: the whole disk named there may be raised as well

	absent []*Target // that a sweep which is gone on with does without: they are not looked for
}

// Plan is a profile put to a machine: what is set where, and every run. Nothing has been changed to make it.
type Plan struct {
	Profile     *Profile  // as resolved: seed and timeout are set
	SeedChosen  bool      // the profile named none
	Targets     []*Target // in the order of their levels; one without a level where the profile has one target
	Knobs       []PlannedKnob
	Unsupported []UnsupportedLevel // with unsupported: skip or record
	LeftOut     []string           // why kinds of cells are left out by rule, a text each
	Warnings    []string
	Refused     []sysfs.Refusal // of Judge: why run would not start as things are
	Notes       []string        // of Judge
	EraseNeeded []string        // of Judge: what is to be given to --erase yet, quoted for a shell

	absent         []*Target                  // cells of these are runs of the plan, and are not done
	cells, skipped int                        // skipped: cells planned as skipped
	skip           map[Level]map[Level]string // by the level of the target: why its cells with a level are skipped
	work           work
}

// PlannedKnob is one knob that the sweep sets, on every member, each array, or the target's own device.
type PlannedKnob struct {
	Name    string        `json:"name"`
	Unit    string        `json:"unit,omitempty"`
	Levels  []string      `json:"levels"`
	Members []MemberState `json:"members"`
}

// MemberState is what a knob is, and can be, on one device: a member, an array, or the target's own.
type MemberState struct {
	Member  string        `json:"member"`
	Now     string        `json:"now"` // "" unknown
	Allowed sysfs.Allowed `json:"allowed"`
	Reason  string        `json:"reason,omitempty"` // why it cannot be set, or is not known

	unmade bool // of an array that is not built yet
}

// UnsupportedLevel is a level that a member cannot have.
type UnsupportedLevel struct {
	Device string `json:"device"`
	Knob   string `json:"knob"`
	Level  string `json:"level"`
	Reason string `json:"reason"`
}

// NotHere is a sweep that is right, but not on this machine or not without consent: everything at once, each with what to
// type. Exit code 3.
type NotHere struct{ Refusals []sysfs.Refusal }

// Error is the refusals, one line each, what to type below it.
func (e *NotHere) Error() string { return (&RefusedError{e.Refusals}).Error() }

// NewPlan puts a profile to a machine. It reads and changes nothing. Errors are *ProfileErrors (exit 2), *NotHere (exit 3),
// or a failure to read the machine.
func NewPlan(ctx context.Context, p *Profile, h sysfs.Host, o PlanOptions) (*Plan, error) {
	if err := p.complete(); err != nil {
		return nil, err
	}
	profile := *p
	plan := &Plan{Profile: &profile, skip: map[Level]map[Level]string{}}
	if !profile.SeedGiven {
		profile.Seed, profile.SeedGiven, plan.SeedChosen = chooseSeed(), true, true
	}
	targets, err := p.resolveTargets(h, o.absent)
	if err != nil {
		return nil, err
	}
	plan.Targets, plan.absent = present(targets), o.absent
	if p.Target.Devices != nil {
		profile.nameDevices(targets)
	}
	plan.settleSizes(h)
	refusals := plan.settleEngines(h)
	refusals = append(refusals, plan.planWork()...)
	refusals = append(refusals, plan.planBuild(h)...)
	found, err := plan.planKnobs(ctx, h, o)
	if err != nil {
		return nil, err
	}
	refusals = append(refusals, found...)
	plan.count()
	if plan.cells == 0 && len(refusals) == 0 {
		refusals = append(refusals, sysfs.Refusal{Reason: "no cell is left: " + strings.Join(plan.LeftOut, "; "), Fix: "give the matrix levels that go together"})
	}
	if len(refusals) == 0 && plan.skipped == plan.cells { // the night would be spent on skipping
		refusals = plan.nothingLeft()
	}
	if len(refusals) > 0 {
		return nil, &NotHere{refusals}
	}
	if !profile.TimeoutGiven {
		profile.Timeout = max(30*time.Minute, 3*plan.work.longest).Round(time.Second)
	}
	plan.Warnings = slices.Concat(p.Warnings, plan.Warnings, plan.warn(ctx), plan.warnMemory(h), plan.warnDeadline())
	return plan, nil
}

// nothingLeft refuses a plan of which every run would be skipped, with each reason once.
func (p *Plan) nothingLeft() (refusals []sysfs.Refusal) {
	levels := map[UnsupportedLevel]int{} // without its level → index of its refusal
	for _, u := range p.Unsupported {
		key := u
		key.Level = ""
		i, seen := levels[key]
		if !seen {
			i = len(refusals)
			levels[key] = i
			refusals = append(refusals, sysfs.Refusal{Device: u.Device, Reason: u.Reason + "; levels", Fix: "no run is left: choose levels, or a profile, that it can have"})
		}
		refusals[i].Reason += " " + u.Level
	}
	return refusals
}

// complete says what a profile lacks that flags could have given.
func (p *Profile) complete() error {
	e := &ProfileErrors{File: p.File}
	add := func(key, allowed string, places ...string) {
		place := position{1, 1}
		for _, name := range places {
			if found, ok := p.places[name]; ok {
				place = found
				break
			}
		}
		e.Errors = append(e.Errors, ProfileError{Line: place.line, Column: place.column, Key: key, Allowed: allowed})
	}
	if p.Target.Empty() {
		add("target", "this profile names no target: add --device DEVICE (`qdsweep devices` lists them) or --directory DIR", "target", "name")
	}
	if p.Target.inDirectory() {
		for _, s := range p.Workloads {
			if s.Size == 0 && s.Has("size") && s.Type != "bonnie" { // which has a default of its own
				add("workload "+s.Name, "in a directory it needs a size, such as size: 1g", "workload "+s.Name)
			}
		}
	}
	if len(e.Errors) == 0 {
		return nil
	}
	e.sort()
	return e
}

// chooseSeed is a seed that is easy to type again.
func chooseSeed() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])%999_999 + 1
}

// count walks the cells once: how many there are, how many are planned as skipped.
func (p *Plan) count() {
	p.cells, p.skipped = 0, 0
	w := p.Profile.Matrix.walk()
	skips := p.skipper()
	for i := range w.size() {
		if w.excluded(i) {
			continue
		}
		p.cells++
		if skips != nil && skips(w, i) != "" {
			p.skipped++
		}
	}
}

// skipper says why a cell is planned as skipped; nil when none is.
func (p *Plan) skipper() func(w *walk, i int) string {
	if p.Profile.Unsupported != Skip || len(p.skip) == 0 {
		return nil
	}
	m := p.Profile.Matrix
	axes := m.Axes
	byNumber := map[string][][]string{} // by the level of the target
	for _, t := range slices.Concat(p.Targets, p.absent) {
		reasons := make([][]string, len(axes))
		for a, axis := range axes {
			for _, level := range axis.Levels {
				reasons[a] = append(reasons[a], p.skip[t.Level][Level{axis.Name, level}])
			}
		}
		byNumber[t.Level.Value] = reasons
	}
	picks := slices.IndexFunc(axes, func(a Axis) bool { return picksTarget(a.Name) })
	return func(w *walk, i int) string {
		if i >= w.product {
			cell := w.matrix.Include[i-w.product]
			for _, l := range cell {
				if reason := p.skip[cell.picks()][l]; reason != "" {
					return reason
				}
			}
			return ""
		}
		var target string
		if picks >= 0 {
			target = axes[picks].Levels[w.level(i, picks)]
		}
		reasons := byNumber[target]
		for a := range axes {
			if reason := reasons[a][w.level(i, a)]; reason != "" {
				return reason
			}
		}
		return ""
	}
}

// Runs are the runs of the sweep in their order. A million of them take four bytes a cell.
func (p *Plan) Runs() iter.Seq[Run] {
	return order(p.Profile.Matrix, p.Profile.Seed, p.Profile.Order == Interleaved, p.Profile.Repeats, p.skipper())
}

// Count is the number of runs, those planned as skipped included.
func (p *Plan) Count() int { return p.cells * p.Profile.Repeats }

// Cells is the number of cells.
func (p *Plan) Cells() int { return p.cells }

// Writes says whether anything is written to a target: by a workload of any cell, or by building it.
func (p *Plan) Writes() bool {
	return p.builds() || slices.ContainsFunc(p.work.loads, func(l load) bool { return l.writes })
}

// NeedsKnobs says whether settings of devices are changed.
func (p *Plan) NeedsKnobs() bool { return len(p.Knobs) > 0 }

// SpaceNeeded is what the files of all workloads take in a directory, in bytes, in the cell where each takes most.
func (p *Plan) SpaceNeeded() int64 {
	var sum int64
	for _, l := range p.work.loads {
		sum += l.space
	}
	return sum
}

// FilesNeeded is how many files and folders all workloads make in a directory, each in the cell where it makes most.
func (p *Plan) FilesNeeded() int64 {
	var sum int64
	for _, l := range p.work.loads {
		sum += l.files
	}
	return sum
}

// Largest are the workloads as they take most room: what files have to be laid out for.
func (p *Plan) Largest() []workload.Spec {
	all := make([]workload.Spec, len(p.work.loads))
	for i, l := range p.work.loads {
		all[i] = l.largest
	}
	return all
}
