package sysfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Array is what an md array says of itself (Documentation/admin-guide/md.rst).
type Array struct {
	Name               string // "md0"
	UUID               string // as mdadm writes it, "21514354:7f0ce045:4c8d4722:426fdbbd"; "" unknown
	Level, State, Sync string // "raid5", "clean", "idle"; Sync is "" for levels that have none to do
	ChunkBytes         int64
	Disks, Degraded    int
	Faulty, Spare      []string // members that hold no data; one that is being rebuilt is a spare until that is done
	Lost               []string // members whose disk is gone, whether or not md has noticed

	Present     int     // members that are part of the array now, whole
	Rebuilding  int     // spares that already have a place in the array
	JournalLost bool    // it was made with a write journal, and there is none
	Delayed     bool    // what Sync says has not begun: the array waits for another one on the same disks
	SyncDone    float64 // 0 to 1 of what Sync says, -1 where the kernel does not say
	SyncSpeedKB int64   // KiB/s a member, 0 unknown
	SyncLeft    time.Duration
}

// Syncing tells that the array is busy with itself, also when that is only DELAYED.
func (a Array) Syncing() bool { return a.Sync != "" && a.Sync != "idle" && a.Sync != "frozen" }

// progress reads sync_completed, "512 / 204800" in sectors of 512 bytes, "none" or "delayed", and sync_speed.
func (a *Array) progress(completed string, speedKB int64) {
	a.SyncDone = -1
	if a.Delayed = completed == "delayed"; !a.Syncing() {
		return
	}
	var done, all int64
	if n, err := fmt.Sscanf(completed, "%d / %d", &done, &all); n != 2 || err != nil || all <= 0 || done < 0 || done > all {
		return
	}
	a.SyncDone, a.SyncSpeedKB = float64(done)/float64(all), max(speedKB, 0)
	if a.SyncSpeedKB > 0 {
		a.SyncLeft = time.Duration(float64(all-done) / 2 / float64(a.SyncSpeedKB) * float64(time.Second)).Round(time.Second)
	}
}

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
		UUID:       strings.TrimPrefix(first(d.WWID, h.arrayWWID(d)), "md-uuid-"),
		ChunkBytes: h.number(md + "chunk_size"),
		Disks:      int(h.number(md + "raid_disks")),
		Degraded:   int(h.number(md + "degraded")),
	}
	a.progress(h.text(md+"sync_completed"), h.number(md+"sync_speed"))
	journal := false
	for _, entry := range h.names(d.dir + "/md") {
		name, ok := strings.CutPrefix(entry, "dev-")
		if !ok {
			continue
		}
		if _, err := h.blockDir(name); errors.Is(err, ErrNoDevice) {
			a.Lost = append(a.Lost, name)
		}
		states := strings.Split(h.text(md+entry+"/state"), ",")
		journal = journal || slices.Contains(states, "journal") && !slices.Contains(states, "faulty")
		switch {
		case slices.Contains(states, "in_sync") && !slices.Contains(states, "faulty"):
			a.Present++
		case slices.Contains(states, "faulty"):
			a.Faulty = append(a.Faulty, name)
		case slices.Contains(states, "spare"):
			a.Spare = append(a.Spare, name)
			if digits(h.text(md+entry+"/slot")) > 0 { // else "none"
				a.Rebuilding++
			}
		}
	}
	a.JournalLost = h.text(md+"consistency_policy") == "journal" && !journal
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
	switch {
	case a.Syncing() && a.Delayed:
		parts = append(parts, a.Sync+" delayed")
	case a.Syncing() && a.SyncDone >= 0:
		parts = append(parts, fmt.Sprintf("%s %.0f %%", a.Sync, 100*a.SyncDone))
	case a.Syncing():
		parts = append(parts, a.Sync)
	}
	for _, name := range a.Faulty {
		parts = append(parts, name+" faulty")
	}
	for _, name := range a.Spare {
		parts = append(parts, name+" spare")
	}
	for _, name := range a.Lost {
		parts = append(parts, name+" gone")
	}
	return strings.Join(parts, ", ")
}
