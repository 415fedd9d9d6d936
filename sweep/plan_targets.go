package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"qdsweep/sysfs"
)

// byName is how a device without an identity is named among devices: a level must be the same text in every sweep.
const byName = "name:"

// resolveTargets finds the targets on the machine: the one, or one for each level of the axis that picks them. The error is a
// *NotHere with all that cannot be found or cannot be driven. Absent ones are not looked for, and are in their places.
func (p *Profile) resolveTargets(h sysfs.Host, absent []*Target) (targets []*Target, err error) {
	var refusals []sysfs.Refusal
	t := p.Target
	switch {
	case t.Devices != nil:
		targets, refusals = resolveDevices(h, t.Devices, absent)
	case t.Arrays != nil:
		targets, refusals = p.resolveArrays(h, absent)
	case t.Build != nil:
		targets, refusals = p.resolveBuild(h)
	default:
		var stack sysfs.Stack
		stack, refusals = resolveOne(h, t.Device, t.Directory)
		targets = []*Target{{Stack: stack}}
	}
	if len(refusals) > 0 {
		return nil, &NotHere{refusals}
	}
	return targets, nil
}

// resolveOne finds a device, or a directory, and what lies under it.
func resolveOne(h sysfs.Host, device, directory string) (sysfs.Stack, []sysfs.Refusal) {
	const fix = "qdsweep devices     lists what there is"
	if directory != "" {
		stack, err := h.ResolveDirectory(directory)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: there is no such directory", directory)
		}
		if err != nil {
			return stack, []sysfs.Refusal{{Reason: err.Error(), Fix: "give a directory on a disk that can be driven (--directory)"}}
		}
		return stack, nil
	}
	stack, err := h.Resolve(device)
	switch {
	case errors.Is(err, sysfs.ErrNoDevice):
		reason := err.Error()
		if said, more := strings.CutSuffix(reason, ": "+sysfs.ErrNoDevice.Error()); more && strings.Contains(said, "block device") {
			reason = said // "is a directory, not a block device" says it
		}
		return stack, []sysfs.Refusal{{Reason: reason, Fix: fix}}
	case err != nil:
		return stack, []sysfs.Refusal{{Device: device, Reason: err.Error(), Fix: fix}}
	case stack.Device.Bytes <= 0:
		return stack, []sysfs.Refusal{{Reason: fmt.Sprintf("%s has no size: no medium is in it", stack.Device.Name), Fix: "put one in, or choose another device"}}
	}
	return stack, nil
}

// resolveDevices finds devices that are driven in turn. Their level is the identity: names change with the next boot.
func resolveDevices(h sysfs.Host, devices []string, absent []*Target) (targets []*Target, refusals []sysfs.Refusal) {
	typed := map[string]string{} // by the kernel's name
	for _, name := range devices {
		if t := absentAt(absent, Level{deviceAxis, deviceLevel(name)}); t != nil {
			targets = append(targets, t)
			continue
		}
		stack, refused := resolveOne(h, strings.TrimPrefix(name, byName), "")
		refusals = append(refusals, refused...)
		if len(refused) > 0 {
			continue
		}
		d := stack.Device
		if other, twice := typed[d.Name]; twice {
			refusals = append(refusals, sysfs.Refusal{Device: d.Name, Reason: fmt.Sprintf("%s and %s are the same device", other, name), Fix: "take one of them out of devices"})
			continue
		}
		typed[d.Name] = name
		targets = append(targets, &Target{Level: Level{deviceAxis, deviceLevel(identityOrName(d))}, Stack: stack})
	}
	return targets, refusals
}

// identityOrName is what a device is called as a level.
func identityOrName(d sysfs.Device) string {
	if d.Identity != "" {
		return string(d.Identity)
	}
	return byName + d.Name
}

// nameDevices puts the devices' levels into the matrix, where until then they stand as they were typed.
func (p *Profile) nameDevices(targets []*Target) {
	names := map[string]string{}
	typed := p.Target.Devices
	p.Target.Devices = nil
	for i, t := range targets {
		names[deviceLevel(typed[i])] = t.Level.Value
		p.Target.Devices = append(p.Target.Devices, deviceOf(t.Level.Value))
	}
	rename := func(levels []Level) []Level {
		levels = slices.Clone(levels)
		for i, l := range levels {
			if l.Axis == deviceAxis {
				levels[i].Value = names[l.Value]
			}
		}
		return levels
	}
	m := &p.Matrix
	m.Axes, m.Exclude, m.Include = slices.Clone(m.Axes), slices.Clone(m.Exclude), slices.Clone(m.Include)
	for i, a := range m.Axes {
		if a.Name == deviceAxis {
			m.Axes[i].Levels = nil
			for _, l := range a.Levels {
				m.Axes[i].Levels = append(m.Axes[i].Levels, names[l])
			}
		}
	}
	for i, e := range m.Exclude {
		m.Exclude[i] = rename(e)
	}
	for i, c := range m.Include {
		m.Include[i] = rename(c)
	}
}

// resolveArrays finds the array, or directory on one, of each raid_level, and refuses one that is of another level.
func (p *Profile) resolveArrays(h sysfs.Host, absent []*Target) (targets []*Target, refusals []sysfs.Refusal) {
	for _, level := range p.Matrix.levelsOf(raidLevel) {
		if t := absentAt(absent, Level{raidLevel, level}); t != nil {
			targets = append(targets, t)
			continue
		}
		a, ok := p.Target.array(level)
		if !ok { // refused with the profile's errors
			continue
		}
		stack, refused := resolveOne(h, a.Device, a.Directory)
		if a.Directory != "" {
			for i := range refused { // no flag can give another one
				refused[i].Fix = "name a directory in arrays on the array of that level, mounted"
			}
		}
		if len(refused) == 0 {
			refused = notOfLevel(h, stack, level)
		}
		refusals = append(refusals, refused...)
		targets = append(targets, &Target{Level: Level{raidLevel, level}, Stack: stack})
	}
	return targets, refusals
}

// notOfLevel refuses a target that is not what its raid_level says: the rows of a whole night would be called wrongly.
func notOfLevel(h sysfs.Host, s sysfs.Stack, level string) []sysfs.Refusal {
	is, what := "none", s.Target+" is on no md array"
	if arrays := h.Arrays(s); len(arrays) > 0 { // the uppermost first
		is = strings.TrimPrefix(arrays[0].Level, "raid")
		what = fmt.Sprintf("%s is %s", arrays[0].Name, arrays[0].Level)
	}
	if is == level {
		return nil
	}
	fix := "name another array, or take the level out of arrays"
	if slices.Contains(raidLevels(), is) {
		fix = fmt.Sprintf("write it as %s in arrays, or name another array", is)
	}
	if s.NoKnobs != "" {
		what = fmt.Sprintf("what is below %s cannot be told (%s)", s.Target, s.NoKnobs)
		fix = "mount the array's file system there, or name another array"
	}
	return []sysfs.Refusal{{Device: s.Target, Reason: fmt.Sprintf("%s, not %s", what, level), Fix: fix}}
}

// targetAt is the target that a level picks.
func (p *Plan) targetAt(l Level) *Target {
	for _, t := range p.Targets {
		if t.Level == l {
			return t
		}
	}
	if t := absentAt(p.absent, l); t != nil {
		return t
	}
	return p.Targets[0]
}

// files says that the workloads drive files in a directory, not the device.
func (t *Target) files() bool {
	return t.Stack.Directory != "" || t.Built() && t.Build.Filesystem != ""
}

// bytes is the size of what is driven; 0 of a directory, where the workloads have sizes of their own.
func (t *Target) bytes() int64 {
	if t.files() {
		return 0
	}
	return t.Stack.Bytes
}

// logicalBlock is what direct I/O to the target is a multiple of.
func (t *Target) logicalBlock() int {
	block := t.Stack.Device.LogicalBlock
	if t.Built() {
		for _, d := range t.Parts {
			block = max(block, d.LogicalBlock)
		}
	}
	return block
}
