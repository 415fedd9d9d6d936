package sweep

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"qdsweep/sysfs/md"
)

// raidLevels are the levels of raid_level, as they are written from the profile to the CSV.
func raidLevels() []string { return md.Levels() }

// canonicalRAID is a level of raid_level: the bare number, so that the cells of two machines compare.
func canonicalRAID(text string) (string, error) {
	levels := raidLevels()
	if slices.Contains(levels, text) {
		return text, nil
	}
	bare := strings.TrimLeft(strings.TrimPrefix(strings.ToLower(text), "raid"), "-_ ")
	if slices.Contains(levels, bare) {
		return "", fmt.Errorf("one of %s; write %s", strings.Join(levels, ", "), bare)
	}
	return "", fmt.Errorf("one of %s", strings.Join(levels, ", "))
}

// canonicalDevice is a level of the axis device: one of the devices as they are typed in the target.
func (r *profileReader) canonicalDevice(text string) (string, error) {
	devices := r.p.Target.Devices
	if slices.Contains(devices, text) {
		return deviceLevel(text), nil
	}
	return "", fmt.Errorf("one of the devices of the target, as it is written there: %s", strings.Join(devices, ", "))
}

// targetAxis puts the axis that picks the target into the matrix, or judges the one that is there.
func (r *profileReader) targetAxis() {
	t, m := r.p.Target, &r.p.Matrix
	raid, inMatrix := m.Axis(raidLevel)
	place := r.p.places["axis "+raidLevel]
	switch {
	case t.Build != nil && !inMatrix:
		r.fail(r.p.places["target.build"], "build", "for which levels? Write them in the matrix, such as raid_level: [0, 5]")
	case t.Arrays != nil && !inMatrix:
		raid = Axis{Name: raidLevel}
		for _, a := range t.Arrays {
			raid.Levels = append(raid.Levels, a.Level)
		}
		m.Axes = append(m.Axes, raid)
	case t.Build == nil && t.Arrays == nil && inMatrix:
		r.fail(place, raidLevel, "says which array is driven: write target: {arrays: {5: /dev/md5, 10: /mnt/r10}} for existing ones, or target: {build: {members: […]}}")
	}
	if t.Build != nil {
		m.hard = raidLevel
	}
	if t.Devices != nil {
		devices := Axis{Name: deviceAxis}
		for _, d := range t.Devices {
			devices.Levels = append(devices.Levels, deviceLevel(d))
			r.p.places["level "+deviceAxis+"="+deviceLevel(d)] = r.p.places["level devices="+d]
		}
		m.Axes = append(m.Axes, devices)
	}
}

// targetLevels judges the levels of raid_level, those of included cells too, by what the target has for them.
func (r *profileReader) targetLevels() {
	t := r.p.Target
	used := r.p.Matrix.levelsOf(raidLevel)
	if t.Arrays != nil {
		for _, level := range used {
			if _, ok := t.array(level); !ok {
				r.wrong(r.p.places["level "+raidLevel+"="+level], raidLevel, level, "arrays has no entry for it; add one, or take the level out")
			}
		}
		for _, a := range t.Arrays {
			if !slices.Contains(used, a.Level) {
				r.p.Warnings = append(r.p.Warnings, fmt.Sprintf("%s:%d: arrays: no raid_level of the matrix is %s: its entry is not driven", r.p.File, r.p.places["level arrays="+a.Level].line, a.Level))
			}
		}
	}
	if t.Build != nil {
		r.buildLevels(used)
	}
}

// axes reads the axes of a matrix that may be nil; the first may come from the target.
func (r *profileReader) axes(fields []field) (exclude, include *yaml.Node) {
	m := &r.p.Matrix
	for _, f := range fields {
		switch f.name {
		case "exclude":
			exclude = f.value
		case "include":
			include = f.value
		case deviceAxis:
			r.fail(at(f.key), f.name, "comes from the target: write target: {devices: [/dev/sdb, /dev/sdc]}, and leave it out of the matrix")
		default:
			if r.isAxis(f) {
				r.p.places["axis "+f.name] = at(f.key)
				m.Axes = append(m.Axes, Axis{f.name, r.levels(f)})
			}
		}
	}
	r.targetAxis()
	slices.SortFunc(m.Axes, func(a, b Axis) int { return compareAxes(a.Name, b.Name) })
	return exclude, include
}
