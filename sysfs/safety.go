package sysfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Intent is what somebody wants to do with a target.
type Intent struct {
	Write      bool     // a workload writes to it
	Erase      []string // the --erase arguments, of the command line only
	SharedDisk bool     // --allow shared-disk
	NeedKnobs  bool     // device settings are to be made below it
	OwnPIDs    []int    // processes of ours, whose open files are no foreign use
}

// Refusal is a reason not to touch a device, and what to type so that it can be.
type Refusal struct{ Device, Reason, Fix string }

func (r Refusal) String() string {
	if r.Fix == "" {
		return r.Reason
	}
	return r.Reason + "; " + r.Fix
}

// Judge decides whether a target may be swept, as far as that can be told before it is claimed. Every
// reason is given, not the first one only. Notes are for the user's eye and refuse nothing. An error
// means that it could not be judged, and then nothing may be touched. Nothing is written.
func (h Host) Judge(ctx context.Context, s Stack, in Intent) (refusals []Refusal, notes []string, err error) {
	if h.euid != nil {
		if uid := h.euid(); uid != 0 {
			refusals = append(refusals, Refusal{s.Target, fmt.Sprintf("user id %d may not change device settings; qdsweep needs root", uid), "type: sudo qdsweep …"})
		}
	}
	if s.NoKnobs != "" {
		return append(refusals, h.judgeNoKnobs(s, in)...), nil, nil
	}
	sv, err := h.survey()
	if err != nil {
		return nil, nil, err
	}
	refusals = append(refusals, h.judgeKind(s, in)...)
	refusals = append(refusals, h.judgeState(s)...)
	refusals = append(refusals, h.judgeReadOnly(s, in)...)

	root, err := h.rootDisks()
	if err != nil {
		return nil, nil, err
	}
	onRoot := judgeRoot(s, root)
	refusals = append(refusals, onRoot...)

	used, more := h.judgeUses(sv, s, in)
	refusals, notes = append(refusals, used...), append(notes, more...)

	twins, more, err := h.judgeIdentity(s)
	if err != nil {
		return nil, nil, err
	}
	refusals, notes = append(refusals, twins...), append(notes, more...)

	if len(onRoot) == 0 { // nobody is told how to erase the system
		erased, more := h.judgeErase(ctx, s, in)
		refusals, notes = append(refusals, erased...), append(notes, more...)
	}

	for _, a := range h.Arrays(s) {
		if a.Syncing() {
			notes = append(notes, fmt.Sprintf("the array %s is busy with a %s, which is waited for", a.Name, a.Sync))
		}
	}
	return refusals, notes, nil
}

// Recheck is the gate before each run: the target and its members are still the ones of the stack,
// nobody else has come, and all are healthy. It does not look at contents, which our own runs change.
func (h Host) Recheck(ctx context.Context, s Stack, in Intent) ([]Refusal, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.NoKnobs != "" {
		return h.judgeNoKnobs(s, in), nil
	}
	refusals := h.judgeSame(s)
	if len(refusals) > 0 {
		return refusals, nil // the rest would judge something else
	}
	sv, err := h.survey()
	if err != nil {
		return nil, err
	}
	refusals = append(refusals, h.judgeState(s)...)
	refusals = append(refusals, h.judgeReadOnly(s, in)...)
	used, _ := h.judgeUses(sv, s, in)
	return append(refusals, used...), nil
}

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
func (h Host) judgeKind(s Stack, in Intent) (refusals []Refusal) {
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
	seen := map[string]bool{}
	for _, d := range all {
		if !seen[d.Name] && h.text(d.dir+"/ro") == "1" {
			refusals = append(refusals, Refusal{d.Name, d.Name + " is read-only and the workload writes", "blockdev --setrw " + d.Path + ", or a workload that reads"})
		}
		seen[d.Name] = true
	}
	return refusals
}

// judgeUses sorts out who else is there.
func (h Host) judgeUses(sv *survey, s Stack, in Intent) (refusals []Refusal, notes []string) {
	onTarget, besides := sv.users(s)
	foreign := func(u Use) bool {
		return !u.Own && (u.Kind != UseOpen || !slices.Contains(in.OwnPIDs, u.PID) && u.PID != os.Getpid())
	}
	for _, u := range onTarget {
		if foreign(u) {
			refusals = append(refusals, Refusal{u.Device, u.Text(), h.fixUse(u)})
		}
	}
	for _, u := range besides {
		switch {
		case !foreign(u):
		case u.Kind == UseSwap:
			refusals = append(refusals, Refusal{u.Device, u.Text() + ", on a disk of the target", h.fixUse(u)})
		case !in.SharedDisk:
			refusals = append(refusals, Refusal{u.Device, u.Text() + ", on a disk of the target",
				h.fixUse(u) + ", or --allow shared-disk: settings of the disk change for it too"})
		default:
			notes = append(notes, u.Text()+": it shares the disk, and its settings")
		}
	}
	return refusals, notes
}

// fixUse is what ends a use.
func (h Host) fixUse(u Use) string {
	switch u.Kind {
	case UseMounted:
		point, elsewhere, _ := strings.Cut(u.By, " in the mount namespace of ")
		if elsewhere != "" {
			return "end " + elsewhere
		}
		if point == "/" {
			return "choose another disk, or a directory on it: --directory DIR"
		}
		return "umount " + quote(point) + ", or sweep a directory on it: --directory " + quote(point)
	case UseSwap:
		return "swapoff " + quote(u.By)
	case UseMD:
		return "mdadm --stop /dev/" + u.By + ", or sweep /dev/" + u.By
	case UseDM:
		name, label, _ := strings.Cut(u.By, " (")
		label = first(strings.TrimSuffix(label, ")"), name)
		if strings.HasPrefix(h.text("/sys/block/"+name+"/dm/uuid"), "LVM-") {
			return "lvchange -an /dev/mapper/" + quote(label) + ", or sweep /dev/mapper/" + quote(label)
		}
		return "dmsetup remove " + quote(label) + ", or sweep /dev/mapper/" + quote(label)
	case UseOpen:
		return fmt.Sprintf("end it: kill %d", u.PID)
	}
	return "take " + u.By + " down"
}

// judgeSame refuses when a name no longer means the device it meant: after a re-plug a letter may
// belong to another drive.
func (h Host) judgeSame(s Stack) (refusals []Refusal) {
	lost := func(name, why string) {
		refusals = append(refusals, Refusal{name, why, "qdsweep devices shows what is there now"})
	}
	was := append([]Device{s.Device}, s.More...)
	was = append(was, s.Members...)
	seen := map[string]bool{}
	for _, d := range was {
		if seen[d.Name] {
			continue
		}
		seen[d.Name] = true
		now, err := h.Device(d.Name)
		switch {
		case errors.Is(err, ErrNoDevice), errors.Is(err, fs.ErrNotExist):
			lost(d.Name, d.Name+" is gone (device lost)")
		case err != nil:
			lost(d.Name, fmt.Sprintf("%s cannot be looked at: %v", d.Name, err))
		case now.Identity != d.Identity:
			lost(d.Name, fmt.Sprintf("%s is now %q, not %q", d.Name, now.Identity, d.Identity))
		case now.Major != d.Major || now.Minor != d.Minor:
			lost(d.Name, fmt.Sprintf("%s is now %s, not %s: it was plugged in again", d.Name, now.Number(), d.Number()))
		case now.Bytes != d.Bytes:
			lost(d.Name, fmt.Sprintf("%s now has %d bytes, not %d", d.Name, now.Bytes, d.Bytes))
		case now.start() != s.Offset && d.Name == s.Device.Name:
			lost(d.Name, fmt.Sprintf("%s now starts at byte %d, not %d", d.Name, now.start(), s.Offset))
		}
	}
	if len(refusals) > 0 {
		return refusals
	}
	now := Stack{Device: s.Device, More: s.More}
	if s.Directory != "" {
		again, err := h.ResolveDirectory(s.Directory)
		if err != nil || again.Device.Name != s.Device.Name {
			lost(s.Device.Name, s.Directory+" no longer lies on "+s.Device.Name)
			return refusals
		}
		now = again
	} else if err := h.descend(&now); err != nil {
		lost(s.Device.Name, fmt.Sprintf("what lies under %s cannot be looked at: %v", s.Device.Name, err))
		return refusals
	}
	if a, b := nameList(s.Members), nameList(now.Members); a != b {
		lost(s.Device.Name, fmt.Sprintf("%s now lies on %s, not on %s", s.Device.Name, b, a))
	}
	return refusals
}

// judgeIdentity refuses members that cannot be told from another drive.
func (h Host) judgeIdentity(s Stack) (refusals []Refusal, notes []string, err error) {
	all, err := h.Devices()
	if err != nil {
		return nil, nil, err
	}
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
	return refusals, notes, nil
}

// judgeErase demands that what a workload overwrites is named, the better the more is on it.
func (h Host) judgeErase(ctx context.Context, s Stack, in Intent) (refusals []Refusal, notes []string) {
	device := s.Directory == ""
	for _, e := range in.Erase {
		if !device || h.consentOf(s.Device, e) == NotNamed {
			notes = append(notes, fmt.Sprintf("--erase %s names nothing that this sweep uses", quote(e)))
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
	fix := "--erase " + h.EraseArgument(s.Device)
	contents, err := h.Contents(ctx, s.Device)
	switch {
	case err != nil:
		return []Refusal{{name, fmt.Sprintf("a workload overwrites %s, and what is on it cannot be told: %v", name, err), fix}}, notes
	case consent == ByName && contents.Blank():
		return nil, notes
	case consent == ByName:
		return []Refusal{{name, fmt.Sprintf("%s holds %s, so its name alone does not do for --erase", name, contents.Text()), fix}}, notes
	}
	return []Refusal{{name, fmt.Sprintf("a workload overwrites %s, which holds %s, and no --erase names it", name, contents.Text()), fix}}, notes
}
