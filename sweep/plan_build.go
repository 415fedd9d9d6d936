package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qdsweep/sysfs"
)

// resolveBuild finds what arrays are built from. Each level is built from all the members but none, which is the first alone.
func (p *Profile) resolveBuild(h sysfs.Host) (targets []*Target, refusals []sysfs.Refusal) {
	b := p.Target.Build
	var parts []sysfs.Stack
	for _, name := range b.Members {
		part, refused := resolveOne(h, name, "")
		if len(refused) == 0 {
			refused = notAPart(name, part)
		}
		if len(refused) == 0 {
			refused = overlapping(parts, part)
		}
		refusals = append(refusals, refused...)
		if len(refused) == 0 {
			parts = append(parts, part)
		}
	}
	if len(refusals) > 0 {
		return nil, refusals
	}
	var devices []sysfs.Device
	for _, part := range parts {
		devices = append(devices, part.Device)
	}
	for _, level := range p.Matrix.levelsOf(raidLevel) {
		used := parts
		if level == "none" {
			used = parts[:1]
		}
		stack := sysfs.Stack{Target: builtName(level, b.Filesystem, used), Bytes: b.capacity(level, used)}
		for _, part := range used {
			for _, m := range part.Members {
				if !slices.ContainsFunc(stack.Members, func(d sysfs.Device) bool { return d.Name == m.Name }) {
					stack.Members = append(stack.Members, m)
				}
			}
		}
		targets = append(targets, &Target{Level: Level{raidLevel, level}, Stack: stack, Build: b, Parts: devices})
	}
	return targets, nil
}

// builtName is what a target is called that is not there yet: "raid5 on sdb1 sdc1 sdd1".
func builtName(level, filesystem string, parts []sysfs.Stack) string {
	var names []string
	for _, part := range parts {
		names = append(names, part.Device.Name)
	}
	what := "raid" + level + " on "
	if level == "none" {
		what = ""
	}
	if filesystem != "" {
		what = filesystem + " on " + what
	}
	return what + strings.Join(names, " ")
}

// notAPart refuses what no array of ours is built from: another array, a volume, an optical drive.
func notAPart(name string, s sysfs.Stack) []sysfs.Refusal {
	switch s.Device.Kind {
	case sysfs.KindDisk, sysfs.KindPartition, sysfs.KindLoop:
		return nil
	}
	return []sysfs.Refusal{{Device: s.Device.Name, Reason: fmt.Sprintf("%s is neither a disk nor a partition (%s)", name, s.Device.Kind),
		Fix: "name disks or partitions as members; an array that is there goes into arrays"}}
}

// overlapping refuses a part that is, wholly or in part, another one: an array over it would write its own data away.
func overlapping(parts []sysfs.Stack, part sysfs.Stack) []sysfs.Refusal {
	for _, other := range parts {
		disk, err := part.Device.Whole()
		disk2, err2 := other.Device.Whole()
		if err != nil || err2 != nil || disk.Name != disk2.Name || part.Offset >= other.Offset+other.Bytes || other.Offset >= part.Offset+part.Bytes {
			continue
		}
		reason := fmt.Sprintf("%s and %s lie on the same bytes of %s", other.Target, part.Target, disk.Name)
		if part.Device.Name == other.Device.Name {
			reason = fmt.Sprintf("%s and %s are the same device", other.Target, part.Target)
		}
		return []sysfs.Refusal{{Device: part.Device.Name, Reason: reason, Fix: "take one of them out of members"}}
	}
	return nil
}

// capacity is about what a target that is built can hold, in bytes, a little too low: what md keeps for itself is known when the
// array is made, and the workers are judged by that.
func (b *BuildSpec) capacity(level string, parts []sysfs.Stack) int64 {
	smallest := parts[0].Bytes
	for _, part := range parts {
		smallest = min(smallest, part.Bytes)
	}
	members := int64(len(parts))
	if level != "none" {
		smallest -= min(smallest/512+2<<20, 256<<20) // superblock, bad blocks, bitmap, and the room that mdadm leaves for a reshape
	}
	smallest = max(smallest, 0)
	var bytes int64
	switch level {
	case "none", "1":
		bytes = smallest
	case "0":
		bytes = members * smallest
	case "4", "5":
		bytes = (members - 1) * smallest
	case "6":
		bytes = (members - 2) * smallest
	case "10":
		bytes = members * smallest / b.copies()
	}
	return bytes - bytes%(1<<20)
}

// copies is how many times raid10 holds each block: the number in n2, f2, o3.
func (b *BuildSpec) copies() int64 {
	if layout := b.Layout["10"]; len(layout) > 1 {
		if n, err := strconv.ParseInt(layout[1:], 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return 2
}

// builds says that something is made on the members of a target, and taken down.
func (p *Plan) builds() bool {
	return slices.ContainsFunc(p.Targets, func(t *Target) bool {
		return t.Built() && (t.Level.Value != "none" || t.Build.Filesystem != "")
	})
}
