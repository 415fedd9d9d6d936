package sysfs

import "slices"

// Use is somebody who uses a block device.
type Use struct {
	Device string // kernel name of what is used
	Kind   string // UseMounted, …
	By     string // "/mnt/x", "md0", "pid 431 (qemu-system-x86)"
	Own    bool   // belongs to the target's own stack: its mount, its arrays
	PID    int    // of UseOpen
}

// The kinds of use.
const (
	UseMounted = "mounted"
	UseSwap    = "swap"
	UseMD      = "md"      // an array has it as a member, also an idle one
	UseDM      = "dm"      // LVM, crypt, multipath: a mapping lies on it
	UseHolder  = "holder"  // bcache or another driver lies on it, or a loop device
	UseOpen    = "open-rw" // a process holds it open for writing
)

// Text is the use as a refusal says it: "sdb1 is mounted on /mnt/x".
func (u Use) Text() string {
	switch u.Kind {
	case UseMounted:
		return u.Device + " is mounted on " + u.By
	case UseSwap:
		return u.Device + " holds swap (" + u.By + ")"
	case UseMD:
		return u.Device + " is a member of the array " + u.By
	case UseDM:
		return u.Device + " is under the mapping " + u.By
	case UseOpen:
		return u.Device + " is open for writing in " + u.By
	}
	return u.Device + " is used by " + u.By
}

// Users tells who uses a target: on the target's own range of its disks, and besides, on other ranges
// of the same disks. It goes by device numbers and by what lies on what, never by names. This
// process's own descriptors are left out.
func (h Host) Users(s Stack) (onTarget, besides []Use, err error) {
	sv, err := h.survey()
	if err != nil {
		return nil, nil, err
	}
	onTarget, besides = sv.users(s)
	return onTarget, besides, nil
}

// down is a device and everything under it.
func (sv *survey) down(names ...string) map[string]bool {
	seen := map[string]bool{}
	var walk func(string)
	walk = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		if n := sv.nodes[name]; n != nil {
			for _, l := range n.lower {
				walk(l)
			}
		}
	}
	for _, n := range names {
		walk(n)
	}
	return seen
}

// segment is a piece of a disk, and the device through which it is reached.
type segment struct {
	disk, node string
	from, to   int64
}

// segments gives the pieces of whole disks a device's data is on. Below md and dm every byte of what
// they lie on counts: their tables are not in sysfs.
func (sv *survey) segments(name string) []segment {
	var all []segment
	seen := map[string]bool{}
	var walk func(string)
	walk = func(name string) {
		n := sv.nodes[name]
		if n == nil || seen[name] {
			return
		}
		seen[name] = true
		switch {
		case n.disk != "" && sv.nodes[n.disk] != nil && len(sv.nodes[n.disk].lower) == 0:
			all = append(all, segment{n.disk, name, n.start, n.start + n.size})
		case len(n.lower) == 0:
			all = append(all, segment{name, name, 0, n.size})
		default:
			for _, l := range n.lower {
				walk(l)
			}
		}
	}
	walk(name)
	return all
}

// The ways a used device can lie to a target.
const (
	apart   = iota // no disk in common
	sharing        // the same disk, another range
	upon           // the same bytes
)

// relation says how the device used lies to one device of the target. Two mappings on one physical
// volume share it; that one is on the other's bytes cannot be seen and is not assumed.
func (sv *survey) relation(target, used string) int {
	if sv.down(used)[target] || sv.down(target)[used] {
		return upon
	}
	how := apart
	for _, a := range sv.segments(target) {
		for _, b := range sv.segments(used) {
			switch {
			case a.disk != b.disk:
			case a.from < b.to && b.from < a.to && !(a.node == b.node && a.node != target && a.node != used):
				return upon
			default:
				how = sharing
			}
		}
	}
	return how
}

// family is what belongs to one target: its devices, all that they lie on, and of a directory the mount.
type family struct {
	targets []string
	own     map[string]bool
	mounted bool
}

func (sv *survey) familyOf(s Stack) family {
	f := family{targets: []string{s.Device.Name}, mounted: s.Directory != ""}
	for _, d := range s.More {
		f.targets = append(f.targets, d.Name)
	}
	f.own = sv.down(f.targets...)
	for name := range f.own {
		if n := sv.nodes[name]; n != nil && n.container != "" {
			f.own[n.container] = true
		}
	}
	return f
}

// has tells a use by the family itself.
func (f family) has(sv *survey, u Use) bool {
	holder := sv.via[u]
	return holder != "" && f.own[holder] || u.Kind == UseMounted && f.mounted && slices.Contains(f.targets, u.Device)
}

// families are several targets.
type families []family

func (sv *survey) families(stacks []Stack) (all families) {
	for _, s := range stacks {
		if s.Device.Name != "" {
			all = append(all, sv.familyOf(s))
		}
	}
	return all
}

func (all families) have(sv *survey, u Use) bool {
	return slices.ContainsFunc(all, func(f family) bool { return f.has(sv, u) })
}

// users sorts the uses by what they are to the target.
func (sv *survey) users(s Stack) (onTarget, besides []Use) {
	if s.Device.Name == "" {
		return nil, nil
	}
	f := sv.familyOf(s)
	targets, own := f.targets, f.own
	for _, u := range sv.uses {
		how := apart
		for _, target := range targets {
			how = max(how, sv.relation(target, u.Device))
		}
		holder := sv.via[u]
		switch {
		case f.has(sv, u):
			if u.Own = true; holder != "" {
				how = upon
			}
		case holder != "" && how == upon && sv.sibling(own, targets, u.Device):
			how = sharing
		}
		switch how {
		case upon:
			onTarget = append(onTarget, u)
		case sharing:
			besides = append(besides, u)
		}
	}
	return onTarget, besides
}

// sibling tells that a device below the target is under it by a stacking driver, which shares it
// with others: a second logical volume on a physical volume is no user of the first one.
func (sv *survey) sibling(own map[string]bool, targets []string, used string) bool {
	if slices.Contains(targets, used) {
		return false
	}
	for name := range own {
		if n := sv.nodes[name]; n != nil && n.disk == "" && slices.Contains(n.lower, used) {
			return true
		}
	}
	return false
}
