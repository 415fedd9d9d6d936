package sysfs

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Intent is what somebody wants to do with a target.
type Intent struct {
	Write      bool     // a workload writes to it
	Erase      []string // the --erase arguments, of the command line only
	SharedDisk bool     // --allow shared-disk
	NeedKnobs  bool     // device settings are to be made below it
	OwnPIDs    []int    // processes of ours, whose open files are no foreign use
	Siblings   []Stack  // further targets of the same sweep, which may share disks with this one
}

// FurtherTarget ends the note of a use that is no stranger's: the sweep drives that, too, and whoever lists its targets has said so.
const FurtherTarget = "a further target of this sweep, on the same disk"

// Refusal is a reason not to touch a device, and what to type so that it can be.
type Refusal struct{ Device, Reason, Fix string }

func (r Refusal) String() string {
	if r.Fix == "" {
		return r.Reason
	}
	return r.Reason + "; " + r.Fix
}

// look is what judging a target needs to know of the whole machine; several targets share one.
type look struct {
	*survey
	devices []Device
	root    map[string]string
}

func (h Host) look() (look, error) {
	var l look
	var err error
	if l.survey, err = h.survey(); err != nil {
		return l, err
	}
	if l.devices, err = h.Devices(); err != nil {
		return l, err
	}
	l.root, err = h.rootDisks()
	return l, err
}

// Judge decides whether a target may be swept, as far as that can be told before it is claimed. Every
// reason is given, not the first one only. Notes are for the user's eye and refuse nothing. An error
// means that it could not be judged, and then nothing may be touched. Nothing is written.
func (h Host) Judge(ctx context.Context, s Stack, in Intent) (refusals []Refusal, notes []string, err error) {
	l, err := h.look()
	if err != nil {
		return nil, nil, err
	}
	if l.survey, err = h.awaitClosed(ctx, l.survey, s, in); err != nil {
		return nil, nil, err
	}
	refusals, notes = h.judge(ctx, l, s, in)
	return refusals, notes, nil
}

// judge is Judge by one look at the machine.
func (h Host) judge(ctx context.Context, l look, s Stack, in Intent) (refusals []Refusal, notes []string) {
	add := func(r []Refusal, n []string) { refusals, notes = append(refusals, r...), append(notes, n...) }
	if h.euid != nil {
		if uid := h.euid(); uid != 0 {
			add([]Refusal{{s.Target, fmt.Sprintf("user id %d may not change device settings; qdsweep needs root", uid), "type: sudo qdsweep …"}}, nil)
		}
	}
	if s.NoKnobs != "" {
		add(h.judgeNoKnobs(s, in), nil)
		return refusals, notes
	}
	add(h.judgeKind(s), nil)
	add(h.judgeState(s), nil)
	add(h.judgeReadOnly(s, in), nil)
	onRoot := judgeRoot(s, l.root)
	add(onRoot, nil)
	add(h.judgeUses(l.survey, s, in))
	add(judgeIdentity(l.devices, s))
	if len(onRoot) == 0 { // nobody is told how to erase the system
		add(h.judgeErase(ctx, s, in))
	}
	add(nil, h.arrayNotes(s))
	return refusals, notes
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
	if err == nil {
		sv, err = h.awaitClosed(ctx, sv, s, in)
	}
	if err != nil {
		return nil, err
	}
	refusals = append(refusals, h.judgeState(s)...)
	refusals = append(refusals, h.judgeReadOnly(s, in)...)
	used, _ := h.judgeUses(sv, s, in)
	return append(refusals, used...), nil
}

// foreign tells a use by somebody else.
func (in Intent) foreign(u Use) bool {
	return !u.Own && (u.Kind != UseOpen || !slices.Contains(in.OwnPIDs, u.PID) && u.PID != os.Getpid())
}

// awaitClosed looks again for a moment when a process has a disk of the target open for writing:
// monitoring daemons and udev open disks for milliseconds, and a night must not end for that.
func (h Host) awaitClosed(ctx context.Context, sv *survey, s Stack, in Intent) (*survey, error) {
	for end := time.Now().Add(h.patience); h.Live() && time.Now().Before(end); {
		onTarget, besides := sv.users(s)
		if !slices.ContainsFunc(append(onTarget, besides...), func(u Use) bool { return u.Kind == UseOpen && in.foreign(u) }) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		var err error
		if sv, err = h.survey(); err != nil {
			return nil, err
		}
	}
	return sv, nil
}

// judgeUses sorts out who else is there.
func (h Host) judgeUses(sv *survey, s Stack, in Intent) (refusals []Refusal, notes []string) {
	onTarget, besides := sv.users(s)
	siblings := sv.families(in.Siblings)
	for _, u := range onTarget {
		if in.foreign(u) {
			refusals = append(refusals, Refusal{u.Device, u.Text(), h.fixUse(u)})
		}
	}
	for _, u := range besides {
		switch {
		case !in.foreign(u):
		case u.Kind == UseSwap:
			refusals = append(refusals, Refusal{u.Device, u.Text() + ", on a disk of the target", h.fixUse(u)})
		case siblings.have(sv, u):
			notes = append(notes, u.Text()+": "+FurtherTarget)
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
