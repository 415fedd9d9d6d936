package sweep

import (
	"slices"

	"qdsweep/sysfs"
)

// Target is one thing that the workloads of a sweep drive, and the level that picks it where there are several.
type Target struct {
	Level Level       // {"raid_level", "5"} or {"device", IDENTITY}; zero where the profile has one target
	Stack sysfs.Stack // what is driven, and all that lies under it; of one that is built: until then its members alone

	// Of one that the sweep builds and takes down again: how, and from what; nil of one that is there.
	Build *BuildSpec
	Parts []sysfs.Device // the disks or partitions it is built from, in the profile's order
}

// Built says that the target is made by the sweep, and taken down.
func (t *Target) Built() bool { return t.Build != nil }

// TargetOf is the target that a cell drives.
func (p *Plan) TargetOf(c Cell) *Target {
	for _, t := range p.Targets {
		if level, picks := c.Get(t.Level.Axis); t.Level == (Level{}) || picks && level == t.Level.Value {
			return t
		}
	}
	return nil
}

// Members are the disks under all targets, each once.
func (p *Plan) Members() []sysfs.Device {
	var all []sysfs.Device
	for _, t := range p.Targets {
		for _, m := range t.Stack.Members {
			if !slices.ContainsFunc(all, func(d sysfs.Device) bool { return d.Name == m.Name }) {
				all = append(all, m)
			}
		}
	}
	return all
}
