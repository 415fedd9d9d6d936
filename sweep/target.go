package sweep

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"qdsweep/sysfs"
)

// Target is one thing that the workloads of a sweep drive, and the level that picks it where there are several.
type Target struct {
	Level Level       // {"raid_level", "5"} or {"device", IDENTITY}; zero where the profile has one target
	Stack sysfs.Stack // what is driven, and all that lies under it; of one that is built: until then its members alone

	// Of one that the sweep builds and takes down again: how, and from what; nil of one that is there.
	Build *BuildSpec
	Parts []sysfs.Device // the disks or partitions it is built from, in the profile's order

	absent string // why a sweep that is gone on with does without it; "" where it does not
}

// Built says that the target is made by the sweep, and taken down.
func (t *Target) Built() bool { return t.Build != nil }

// TargetOf is the target that a cell drives.
func (p *Plan) TargetOf(c Cell) *Target { return p.targetAt(c.picks()) }

// Members are the disks under all targets, each once, in natural order.
func (p *Plan) Members() []sysfs.Device {
	var all []sysfs.Device
	for _, t := range p.Targets {
		for _, m := range t.Stack.Members {
			if !slices.ContainsFunc(all, func(d sysfs.Device) bool { return d.Name == m.Name }) {
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, sysfs.Natural)
	return all
}

// together is one stack of all targets, for what describes the whole machine.
func (p *Plan) together() sysfs.Stack {
	whole := p.Targets[0].Stack
	whole.Members = p.Members()
	for _, t := range p.Targets[1:] {
		whole.Target += ", " + t.Stack.Target
		for _, l := range t.Stack.Layers {
			if !slices.ContainsFunc(whole.Layers, func(have sysfs.Layer) bool { return have.Device.Name == l.Device.Name }) {
				whole.Layers = append(slices.Clip(whole.Layers), l)
			}
		}
	}
	return whole
}

// overwritten are the devices whose contents the sweep destroys.
func (p *Plan) overwritten() []sysfs.Device {
	var all []sysfs.Device
	for _, t := range p.Targets {
		switch {
		case t.Built():
			all = append(all, t.Parts...)
		case p.Writes() && t.Stack.Directory == "":
			all = append(all, t.Stack.Device)
		}
	}
	slices.SortFunc(all, sysfs.Natural)
	return slices.CompactFunc(all, func(a, b sysfs.Device) bool { return a.Name == b.Name })
}

// name tells a target from the sweep's others, in notes and refusals: "raid_level=5 (/dev/md5)".
func (t *Target) name() string {
	if t.Level == (Level{}) {
		return t.Stack.Target
	}
	name := t.Level.Axis + "=" + t.Level.Value
	if t.Stack.Target != "" && t.Stack.Target != t.Level.Value {
		name += " (" + t.Stack.Target + ")"
	}
	return name
}

func joinLines(all []string) string { return strings.Join(all, "\n  ") }

// judgeTargets asks the safety gate about every target of the plan: each beside the others, and of one that is built every part it is built from.
func (p *Plan) judgeTargets(ctx context.Context, h sysfs.Host, in sysfs.Intent) (refusals []sysfs.Refusal, notes []string, err error) {
	used := map[string]bool{} // notes of what is named nowhere, that it is
	judge := func(stack sysfs.Stack, in sysfs.Intent) error {
		for _, e := range in.Erase {
			if stack.Directory == "" && h.Consent(stack.Device, []string{e}) != sysfs.NotNamed {
				used[sysfs.UnusedErase(e)] = true
			}
		}
		refused, said, err := h.Judge(ctx, stack, in)
		if err != nil {
			return fmt.Errorf("judge whether %s may be swept: %w", stack.Target, err)
		}
		for _, r := range refused {
			if !slices.Contains(refusals, r) {
				refusals = append(refusals, r)
			}
		}
		for _, n := range said {
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
		return nil
	}
	parts := map[string]bool{}
	for _, t := range p.Targets {
		if !t.Built() {
			in := in
			in.Siblings = p.siblings(t)
			if err := judge(t.Stack, in); err != nil {
				return nil, nil, err
			}
			continue
		}
		for _, d := range t.Parts {
			if parts[d.Name] {
				continue
			}
			parts[d.Name] = true
			stack, err := h.Resolve(d.Path)
			if err != nil {
				return nil, nil, err
			}
			if err := judge(stack, in); err != nil { // which says that building writes
				return nil, nil, err
			}
		}
	}
	notes = slices.DeleteFunc(notes, func(n string) bool { return used[n] })
	return refusals, notes, nil
}

// siblings are the stacks of the other targets.
func (p *Plan) siblings(of *Target) []sysfs.Stack {
	var all []sysfs.Stack
	for _, t := range p.Targets {
		if t != of && !t.Built() {
			all = append(all, t.Stack)
		}
	}
	return all
}
