package sysfs

import (
	"fmt"
	"slices"
	"strings"
)

// failedArrays says which of the arrays of a stack no run may start on: a degraded one measures something else, a stopped one nothing. A
// resync, and the recovery that every new RAID-5 begins with, are not among them: those are waited for. A recovery that will leave the
// array degraded all the same is.
func (h Host) failedArrays(s Stack) []Refusal {
	var refusals []Refusal
	for _, a := range h.Arrays(s) {
		refuse := func(why, fix string) { refusals = append(refusals, Refusal{a.Name, why, fix}) }
		node, detail := "/dev/"+a.Name, "mdadm --detail /dev/"+a.Name+" says why"
		switch {
		case a.State == "broken": // raid0 and linear, when a member is lost
			refuse(fmt.Sprintf("the array %s is broken: it has lost a member, and its level (%s) keeps nothing twice", a.Name, a.Level), detail)
		case slices.Contains([]string{"inactive", "clear", "suspended"}, a.State):
			refuse("the array "+a.Name+" is "+a.State, detail)
		case a.Degraded > a.recovering():
			why := fmt.Sprintf("the array %s is degraded: %d of its %d members missing", a.Name, a.Degraded, a.Disks)
			if len(a.Faulty) > 0 {
				why += " (faulty: " + strings.Join(a.Faulty, ", ") + ")"
			}
			refuse(why, "mdadm "+node+" --add MEMBER, and wait for the recovery")
		case len(a.Lost) > 0: // md finds out with the next write
			refuse(fmt.Sprintf("the array %s has lost %s: gone from the machine, and md has not noticed", a.Name, strings.Join(a.Lost, ", ")),
				"mdadm "+node+" --fail detached --remove detached, or plug it in again and look: mdadm --detail "+node)
		case a.missing() > 0: // of a level that does not count them
			refuse(fmt.Sprintf("the array %s has %d of its %d members", a.Name, a.Disks-a.missing(), a.Disks), detail)
		case a.JournalLost:
			refuse("the array "+a.Name+" has lost its write journal", fmt.Sprintf("mdadm %s --add-journal DEVICE", node))
		}
	}
	return refusals
}

// recovering is how many missing members the array is about to have again without anybody's help.
func (a Array) recovering() int {
	if a.Sync == "recover" {
		return a.Rebuilding
	}
	return 0
}

// missing is how many members are not there in a level that has no degraded state.
func (a Array) missing() int {
	if (a.Level == "raid0" || a.Level == "linear") && a.Present > 0 {
		return max(a.Disks-a.Present, 0)
	}
	return 0
}

// readOnlyArrays refuses to write to arrays that take no writes, or would begin a resync at the first one: in the state read-auto an
// array that is not clean has put that off.
func (h Host) readOnlyArrays(s Stack) (refusals []Refusal) {
	for _, a := range h.Arrays(s) {
		switch a.State {
		case "readonly":
			refusals = append(refusals, Refusal{a.Name, "the array " + a.Name + " is read-only and the workload writes", "mdadm --readwrite /dev/" + a.Name})
		case "read-auto":
			refusals = append(refusals, Refusal{a.Name, "the array " + a.Name + " is read-only until the first write (read-auto), with which a resync may begin",
				"mdadm --readwrite /dev/" + a.Name + ", and wait for the resync"})
		}
	}
	return refusals
}

// arrayNotes are what somebody should know of the arrays of a stack.
func (h Host) arrayNotes(s Stack) (notes []string) {
	for _, a := range h.Arrays(s) {
		switch {
		case a.Syncing():
			notes = append(notes, fmt.Sprintf("the array %s is busy with a %s, which is waited for", a.Name, a.Sync))
		case a.Sync == "frozen":
			notes = append(notes, fmt.Sprintf("the array %s is frozen (md/sync_action): no resync and no recovery will begin", a.Name))
		}
		for _, name := range a.Faulty {
			notes = append(notes, fmt.Sprintf("%s is a faulty member of %s (F) and holds no data: mdadm /dev/%s --remove /dev/%s takes it out", name, a.Name, a.Name, name))
		}
		if len(a.Spare) > a.Rebuilding {
			notes = append(notes, fmt.Sprintf("%s has spare members (S), which are set too but hold no data: %s", a.Name, strings.Join(a.Spare, ", ")))
		}
	}
	return notes
}
