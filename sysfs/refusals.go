package sysfs

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

func (h Host) judgeNoKnobs(s Stack, in Intent) (refusals []Refusal) {
	if in.NeedKnobs {
		refusals = append(refusals, Refusal{s.Target, "no device setting can be made below " + s.Target + ": " + s.NoKnobs,
			"sweep a directory on a disk's own file system, or parameters of the workload only"})
	}
	if readOnlyMount(s) {
		refusals = append(refusals, Refusal{s.Target, s.MountPoint + " is mounted read-only", "mount -o remount,rw " + quote(s.MountPoint)})
	}
	return refusals
}

// judgeKind refuses what nobody can sweep, and what is reached by several paths.
func (h Host) judgeKind(s Stack) (refusals []Refusal) {
	if s.Device.Bytes == 0 {
		refusals = append(refusals, Refusal{s.Device.Name, s.Device.Name + " has no size: no medium is in it", "put one in, or choose another device"})
	}
	all := append([]Device{s.Device}, s.Members...)
	for _, l := range s.Layers {
		all = append(all, l.Device)
	}
	seen := map[string]bool{}
	for _, d := range all {
		if seen[d.Name] {
			continue
		}
		seen[d.Name] = true
		switch {
		case d.Kind == KindROM:
			refusals = append(refusals, Refusal{d.Name, d.Name + " is an optical drive", "choose a disk: qdsweep devices"})
		case d.Kind == KindOther:
			refusals = append(refusals, Refusal{d.Name, d.Name + " is no disk (it is in memory, or a driver's own)", "choose a disk: qdsweep devices"})
		case d.Kind == KindDM && strings.HasPrefix(h.text(d.dir+"/dm/uuid"), "mpath-"):
			refusals = append(refusals, Refusal{d.Name, d.Name + " is a dm-multipath map: settings of a path below it fail with EIO",
				"multipath -f " + first(h.text(d.dir+"/dm/name"), d.Name) + ", then sweep one path"})
		}
	}
	return refusals
}

// judgeState refuses devices that the kernel has given up, and arrays that are not whole.
func (h Host) judgeState(s Stack) (refusals []Refusal) {
	for _, m := range s.Members {
		if m.stuck {
			refusals = append(refusals, Refusal{m.Name, m.Name + " does not answer: its queue is stuck in the kernel", "look at the kernel's log: dmesg"})
		}
		switch state := h.text(m.dir + "/device/state"); state {
		case "", "running", "live":
		default:
			fix := "look at the kernel's log: dmesg"
			if state == "offline" {
				fix += "; if it is well again: echo running > " + m.dir + "/device/state"
			}
			refusals = append(refusals, Refusal{m.Name, m.Name + " is " + state + " (device/state)", fix})
		}
	}
	return append(refusals, h.failedArrays(s)...)
}

func readOnlyMount(s Stack) bool {
	return s.Directory != "" && slices.Contains(strings.Split(s.MountOptions, ","), "ro")
}

// judgeReadOnly refuses to write where nothing can be written: that would be an error in every row.
// A directory needs it for reading too, since its files are laid out first.
func (h Host) judgeReadOnly(s Stack, in Intent) (refusals []Refusal) {
	if readOnlyMount(s) {
		return []Refusal{{s.Device.Name, s.MountPoint + " is mounted read-only", "mount -o remount,rw " + quote(s.MountPoint)}}
	}
	if !in.Write && s.Directory == "" {
		return nil
	}
	all := append([]Device{s.Device}, s.More...)
	for _, l := range s.Layers {
		all = append(all, l.Device)
	}
	all = append(all, s.Members...)
	refusals = h.readOnlyArrays(s)
	seen := map[string]bool{}
	for _, r := range refusals {
		seen[r.Device] = true // one reason is enough
	}
	for _, d := range all {
		if !seen[d.Name] && h.text(d.dir+"/ro") == "1" {
			refusals = append(refusals, Refusal{d.Name, d.Name + " is read-only and the workload writes", "blockdev --setrw " + d.Path + ", or a workload that reads"})
		}
		seen[d.Name] = true
	}
	return refusals
}

// judgeIdentity refuses members that cannot be told from another drive.
func judgeIdentity(all []Device, s Stack) (refusals []Refusal, notes []string) {
	for _, m := range s.Members {
		if m.Identity == "" {
			notes = append(notes, m.Name+" has no WWID and no serial number: its settings can be put back in this boot only")
			continue
		}
		var twins []Device
		for _, d := range all {
			if d.Identity == m.Identity && d.Name != m.Name {
				twins = append(twins, d)
			}
		}
		if len(twins) > 0 {
			refusals = append(refusals, Refusal{m.Name,
				fmt.Sprintf("%s and %s have the same identity %s: two paths to one drive, or a bridge that gives all its drives one", m.Name, nameList(twins), m.Identity),
				"leave only one of them plugged in, or one path: echo 1 > " + twins[0].dir + "/device/delete"})
		}
	}
	return refusals, notes
}

// judgeErase demands that what the sweep overwrites is named, the better the more is on it.
func (h Host) judgeErase(ctx context.Context, s Stack, in Intent) (refusals []Refusal, notes []string) {
	device := s.Directory == ""
	for _, e := range in.Erase {
		if !device || h.consentOf(s.Device, e) == NotNamed {
			notes = append(notes, UnusedErase(e))
		}
	}
	if !in.Write || !device {
		return nil, notes
	}
	consent := h.Consent(s.Device, in.Erase)
	if consent == ByIdentity {
		return nil, notes
	}
	name := s.Device.Name
	fix := "add --erase " + h.EraseArgument(s.Device) + "     (all that is on it is lost)"
	contents, err := h.Contents(ctx, s.Device)
	switch {
	case err != nil:
		return []Refusal{{name, fmt.Sprintf("the sweep overwrites %s, and what is on it cannot be told: %v", name, err), fix}}, notes
	case consent == ByName && contents.Blank():
		return nil, notes
	case consent == ByName:
		return []Refusal{{name, fmt.Sprintf("%s holds %s, so its name alone does not do for --erase", name, contents.Text()), fix}}, notes
	}
	given := ""
	if len(in.Erase) > 0 {
		given = fmt.Sprintf(" (%s does not)", strings.Join(in.Erase, ", "))
	}
	return []Refusal{{name, fmt.Sprintf("the sweep overwrites %s, which holds %s, and no --erase names it%s", name, contents.Text(), given), fix}}, notes
}
