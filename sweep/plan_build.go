package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"qdsweep/sysfs"
	"qdsweep/sysfs/md"
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
		slices.SortFunc(stack.Members, sysfs.Natural)
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

// spec is how the target is built. UUID and mount point are for the run to choose. What a level does not know is left out.
func (t *Target) spec() md.Spec {
	b, level := t.Build, t.Level.Value
	s := md.Spec{Level: level, Members: t.Parts, Layout: b.Layout[level], InitialSync: b.InitialSync,
		Filesystem: b.Filesystem, MkfsOptions: b.MkfsOptions, MountOptions: b.MountOptions}
	if md.HasChunk(level) {
		s.ChunkKB = b.ChunkKB
	}
	if md.HasBitmap(level) {
		s.Bitmap = b.Bitmap
	}
	if level == md.LevelNone {
		s.Members = t.Parts[:1]
	}
	return s
}

// made says that there is something to build for the target: a device alone, without a file system, is there already.
func (t *Target) made() bool {
	return t.Built() && (t.Level.Value != md.LevelNone || t.Build.Filesystem != "")
}

// builds says that something is made on the members of a target, and taken down.
func (p *Plan) builds() bool { return slices.ContainsFunc(p.Targets, (*Target).made) }

// planBuild refuses what cannot be built on this machine.
func (p *Plan) planBuild(h sysfs.Host) (refusals []sysfs.Refusal) {
	need := p.SpaceNeeded()
	var specs []md.Spec
	for _, t := range p.Targets {
		if !t.Built() {
			continue
		}
		specs = append(specs, t.spec())
		if t.files() && need > t.Stack.Bytes {
			refusals = append(refusals, sysfs.Refusal{Device: t.Stack.Target, Reason: fmt.Sprintf("the files need %s, and it will hold about %s", bytesText(need), bytesText(t.Stack.Bytes)),
				Fix: "give the workloads a smaller size, or build from larger members"})
		}
	}
	if h.Live() { // of a captured machine the programs are not known
		refusals = append(refusals, notInstalled(md.Missing(specs))...)
	}
	return refusals
}

// notInstalled refuses a sweep whose programs are not there; each as md names it: "mdadm (apt install mdadm)".
func notInstalled(missing []string) (refusals []sysfs.Refusal) {
	for _, program := range missing {
		name, install, _ := strings.Cut(strings.TrimSuffix(program, ")"), " (")
		refusals = append(refusals, sysfs.Refusal{Reason: fmt.Sprintf("%s is not installed, and the sweep needs it to build its targets", name), Fix: "sudo " + install})
	}
	return refusals
}

// warnBuild says what may go wrong when a target is built.
func (p *Plan) warnBuild() (all []string) {
	need, tight := p.SpaceNeeded(), []string(nil)
	for _, t := range p.Targets {
		room := t.Stack.Bytes - t.Stack.Bytes/10 - 64<<20 // inodes, log, and what is reserved for root
		if t.Built() && t.files() && need > room {
			tight = append(tight, t.Level.Value)
		}
	}
	if len(tight) > 0 {
		all = append(all, fmt.Sprintf("%s %s: the files need %s, which fills the file system nearly: whether it fits shows when it is made", raidLevel, strings.Join(tight, ", "), bytesText(need)))
	}
	if !p.builds() {
		return all
	}
	parts, disks := map[string][]string{}, []string(nil)
	for _, d := range p.Targets[0].Parts {
		disk, err := d.Whole()
		if err != nil {
			continue
		}
		if parts[disk.Name] == nil {
			disks = append(disks, disk.Name)
		}
		parts[disk.Name] = append(parts[disk.Name], d.Name)
	}
	for _, disk := range disks {
		if shared := parts[disk]; len(shared) > 1 {
			all = append(all, fmt.Sprintf("%s are on one disk, %s, which does the work of all of them", strings.Join(shared, " and "), disk))
		}
	}
	return all
}

// Guesses of what building costs (a drive of 100 MB/s): making an array and taking it down, and writing the inode tables of ext4,
// which has 256 bytes for each 16 KiB; xfs makes its inodes when they are needed.
const (
	buildGuess   = 3 * time.Second
	syncRate     = 100e6
	inodesOfExt4 = 64
)

// buildTime is a first guess of what building the target once takes.
func (t *Target) buildTime() time.Duration {
	if !t.made() {
		return 0
	}
	var bytes int64
	if t.Build.Filesystem == "ext4" {
		bytes += t.Stack.Bytes / inodesOfExt4
	}
	if t.Build.InitialSync && md.HasBitmap(t.Level.Value) { // the levels that have something to make the same
		smallest := t.Parts[0].Bytes
		for _, d := range t.Parts {
			smallest = min(smallest, d.Bytes)
		}
		bytes += smallest // all members at once
	}
	return buildGuess + time.Duration(float64(bytes)/syncRate*float64(time.Second))
}

// buildCost is how often something is built in the sweep, and about how long all of that takes.
func (p *Plan) buildCost() (builds int, all time.Duration) {
	for _, t := range p.Targets {
		if t.made() {
			builds++
			all += t.buildTime()
		}
	}
	return builds, all * time.Duration(p.Profile.Repeats)
}
