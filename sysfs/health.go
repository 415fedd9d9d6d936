package sysfs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Health is what shows that the kernel has changed its ways with a drive: two of them are compared, before and after a run. A text is
// "" where the drive or the kernel has no such thing. ioerr_cnt is not among them: it counts every pass-through command of a monitoring
// daemon, and stands at 7 on a fresh disk.
type Health struct {
	Errors     string // libata's error record of the drive (ering), all of it
	SpeedDowns string // how often libata slowed it down (spdn_cnt)
	LinkSpeed  string // "6.0 Gbps"
	State      string // device/state: "running", of NVMe "live"
}

// Health reads a drive's health. What does not answer in time is "".
func (d Device) Health(ctx context.Context) Health {
	read := func(path string) string {
		text, err := d.host.ReadWithin(ctx, path)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(text)
	}
	at := d.host.devicePath(d)
	if d.Transport == "nvme" {
		at = d.host.nvmeController(d, at)
	}
	h := Health{State: read(d.dir + "/device/state"), LinkSpeed: d.host.linkSpeed(d, at)}
	if dir := d.ataDevice(); dir != "" {
		h.Errors, h.SpeedDowns = read(dir+"/ering"), read(dir+"/spdn_cnt")
	}
	return h
}

// SignKind is what a sign means.
type SignKind string

// The kinds of sign, from the gravest.
const (
	Gone          SignKind = "gone"           // the drive is offline or no longer there
	NCQOff        SignKind = "ncq off"        // NCQ was switched off because of errors, whatever queue_depth reads
	SlowedDown    SignKind = "slowed down"    // the link is slower than it was
	ErrorHandling SignKind = "error handling" // commands failed or were lost, and were repeated after a reset
	QueueFull     SignKind = "queue full"     // the drive refused commands because its queue was full
)

// Sign is something that happened to a drive during a run and that makes its figures doubtful.
type Sign struct {
	Device string // kernel name
	Kind   SignKind
	Text   string // the kernel's words, or what changed
}

// Signs compares a drive's health before and after a run, and looks for it in what the kernel logged meanwhile: one sign of each kind at
// most, the gravest first. Messages about other drives are not its.
func (h Host) Signs(d Device, before, after Health, log []string) []Sign {
	found := map[SignKind][]string{}
	a := h.addresses(d)
	for _, message := range log {
		if kind := kindOfMessage(message); kind != "" && a.meant(message) {
			found[kind] = append(found[kind], message)
		}
	}
	for kind, text := range before.changes(after) {
		found[kind] = append(found[kind], text)
	}
	var signs []Sign
	for _, kind := range []SignKind{Gone, NCQOff, SlowedDown, ErrorHandling, QueueFull} {
		if texts := found[kind]; len(texts) > 0 {
			text := texts[0]
			if len(texts) > 1 {
				text += fmt.Sprintf(" (and %d more)", len(texts)-1)
			}
			signs = append(signs, Sign{Device: d.Name, Kind: kind, Text: text})
		}
	}
	return signs
}

// changes tells what became worse. What cannot be read afterwards has not changed, but for the state, which every drive of the bus has.
func (h Health) changes(after Health) map[SignKind]string {
	changes := map[SignKind]string{}
	switch {
	case h.State == after.State:
	case after.State == "":
		changes[Gone] = "device/state is gone"
	case after.State != "running" && after.State != "live":
		changes[Gone] = "device/state: " + h.State + " → " + after.State
	}
	switch slower := speed(after.LinkSpeed) < speed(h.LinkSpeed); {
	case after.LinkSpeed != "" && slower:
		changes[SlowedDown] = "link speed: " + h.LinkSpeed + " → " + after.LinkSpeed
	case after.SpeedDowns != "" && after.SpeedDowns != h.SpeedDowns:
		changes[SlowedDown] = "spdn_cnt: " + first(h.SpeedDowns, "none") + " → " + after.SpeedDowns
	}
	if after.Errors != "" && after.Errors != h.Errors {
		newest, _, _ := strings.Cut(after.Errors, "\n") // the kernel lists the newest first
		changes[ErrorHandling] = "the drive's error record changed (ering): " + newest
	}
	return changes
}

// speed is the number at the beginning of a link speed: the unit never changes on one link.
func speed(text string) float64 {
	number, _, _ := strings.Cut(text, " ")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	return n
}
