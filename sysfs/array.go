package sysfs

import (
	"fmt"
	"slices"
	"strings"
)

// Array is what an md array says of itself (Documentation/admin-guide/md.rst).
type Array struct {
	Name               string // "md0"
	Level, State, Sync string // "raid5", "clean", "idle"; Sync is "" for levels that have none to do
	ChunkBytes         int64
	Disks, Degraded    int
	Faulty, Spare      []string // members
}

// Syncing tells that the array is busy with itself, also when that is only DELAYED.
func (a Array) Syncing() bool { return a.Sync != "" && a.Sync != "idle" && a.Sync != "frozen" }

// Arrays reads the state of every md array of a stack as it is now.
func (h Host) Arrays(s Stack) []Array {
	var arrays []Array
	for _, l := range s.Layers {
		if l.Device.Kind == KindMD {
			arrays = append(arrays, h.array(l.Device))
		}
	}
	return arrays
}

func (h Host) array(d Device) Array {
	md := d.dir + "/md/"
	a := Array{
		Name:       d.Name,
		Level:      h.text(md + "level"),
		State:      h.text(md + "array_state"),
		Sync:       h.text(md + "sync_action"),
		ChunkBytes: h.number(md + "chunk_size"),
		Disks:      int(h.number(md + "raid_disks")),
		Degraded:   int(h.number(md + "degraded")),
	}
	for _, entry := range h.names(d.dir + "/md") {
		name, ok := strings.CutPrefix(entry, "dev-")
		if !ok {
			continue
		}
		states := strings.Split(h.text(md+entry+"/state"), ",")
		switch {
		case slices.Contains(states, "faulty"):
			a.Faulty = append(a.Faulty, name)
		case slices.Contains(states, "spare"):
			a.Spare = append(a.Spare, name)
		}
	}
	return a
}

// arrayDetail is "raid5, clean, 64 KiB chunk, 4 members, sdd1 faulty".
func (h Host) arrayDetail(d Device) string {
	a := h.array(d)
	parts := []string{first(a.Level, "md"), first(a.State, "state unknown")}
	if a.ChunkBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d KiB chunk", a.ChunkBytes/1024))
	}
	parts = append(parts, fmt.Sprintf("%d members", a.Disks))
	if a.Degraded > 0 {
		parts = append(parts, fmt.Sprintf("%d missing", a.Degraded))
	}
	if a.Syncing() {
		parts = append(parts, a.Sync)
	}
	for _, name := range a.Faulty {
		parts = append(parts, name+" faulty")
	}
	for _, name := range a.Spare {
		parts = append(parts, name+" spare")
	}
	return strings.Join(parts, ", ")
}

// failedArrays says which of the arrays of a stack no run may start on: a degraded one measures
// something else, a stopped one nothing. A resync, and the recovery that every new RAID-5 begins
// with, are not among them: those are waited for.
func (h Host) failedArrays(s Stack) []Refusal {
	var refusals []Refusal
	for _, a := range h.Arrays(s) {
		node := "/dev/" + a.Name
		switch {
		case a.State == "inactive" || a.State == "clear" || a.State == "suspended" || a.State == "broken":
			refusals = append(refusals, Refusal{a.Name, "the array " + a.Name + " is " + a.State,
				"mdadm --detail " + node + " says why"})
		case a.Degraded > 0 && !a.Syncing():
			why := fmt.Sprintf("the array %s is degraded: %d of its %d members missing", a.Name, a.Degraded, a.Disks)
			if len(a.Faulty) > 0 {
				why += " (faulty: " + strings.Join(a.Faulty, ", ") + ")"
			}
			refusals = append(refusals, Refusal{a.Name, why, "mdadm " + node + " --add MEMBER, and wait for the recovery"})
		}
	}
	return refusals
}
