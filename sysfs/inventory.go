package sysfs

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
)

// inventoryDeadline bounds what one device may take to describe itself. A drive that does not answer must not hide the others.
const inventoryDeadline = 15 * time.Second

// Info is one device as `qdsweep devices` shows it.
type Info struct {
	Name      string               `json:"name"`
	Path      string               `json:"path"`
	Model     string               `json:"model"`
	Serial    string               `json:"serial"`
	WWID      string               `json:"wwid"`
	Driver    string               `json:"driver"`
	Transport string               `json:"transport"`
	SizeBytes int64                `json:"size_bytes"`
	Members   []string             `json:"members"` // whole disks
	Knobs     map[string]KnobState `json:"knobs"`
	Refused   string               `json:"refused"` // why a reading sweep of it would be refused; "" fine

	Device       Device   `json:"-"`
	Shared       bool     `json:"-"` // Refused only because others share its disks, which --allow shared-disk allows
	Detail       string   `json:"-"` // of what is stacked: "raid5, clean, 64 KiB chunk, 4 members, sdd1 faulty"
	UsedBy       []string `json:"-"` // an array that has it as a faulty member or a spare as "md5 (F)", "md5 (S)"
	Disagreement string   `json:"-"` // the drive's write cache and the kernel's view of it differ
}

// KnobState is one knob of one device: its value as read, what it can be set to, and why it cannot.
type KnobState struct {
	Value    string  `json:"value"`
	Allowed  Allowed `json:"allowed"`
	Writable bool    `json:"writable"`
	Reason   string  `json:"reason"`
	Absent   bool    `json:"-"` // the device has no such knob; else an empty value is one that could not be read

	// Of write_cache alone: Value is the drive's own word.
	By     string `json:"by,omitempty"`     // how it is changed: "SET FEATURES", "MODE SELECT", "Set Features 06h", "cache_type"
	Kernel string `json:"kernel,omitempty"` // what the kernel believes: "on", "off", "there is one" (NVMe)
}

// Inventory describes every device that could be a target or a member: all at once, each within a deadline. Nothing is written, and
// no command is sent to a USB bridge, which may not answer for a minute.
func (h Host) Inventory(ctx context.Context) ([]Info, error) {
	devices, err := h.Devices()
	if err != nil {
		return nil, err
	}
	var kept []Device
	for _, d := range devices {
		if d.Bytes > 0 && (d.Kind == KindDisk || d.Kind == KindMD || d.Kind == KindDM || d.Kind == KindLoop) {
			kept = append(kept, d)
		}
	}
	machine, lookErr := h.look()
	infos := make([]Info, len(kept))
	var wg sync.WaitGroup
	for i, d := range kept {
		wg.Add(1)
		go func() {
			defer wg.Done()
			infos[i] = h.describe(ctx, d, machine, lookErr, false)
		}()
	}
	wg.Wait()
	return infos, nil
}

// Describe is one device's entry of the inventory; target as Resolve takes it. Somebody wants to know about this very one,
// so a USB bridge is asked too.
func (h Host) Describe(ctx context.Context, target string) (Info, error) {
	s, err := h.Resolve(target)
	if err != nil {
		return Info{}, err
	}
	machine, err := h.look()
	return h.describe(ctx, s.Device, machine, err, true), nil
}

// describe judges by one look at the machine, or says why there is none. bridges are asked about a write cache or left in peace.
func (h Host) describe(ctx context.Context, d Device, machine look, lookErr error, bridges bool) Info {
	ctx, cancel := context.WithTimeout(ctx, inventoryDeadline)
	defer cancel()
	info := Info{Name: d.Name, Path: d.Path, Model: d.Model, Serial: d.Serial, WWID: d.WWID, Driver: d.Driver, Transport: d.Transport,
		SizeBytes: d.Bytes, Members: []string{}, Knobs: map[string]KnobState{}, Device: d}
	stack, err := h.Resolve(d.Path)
	if err != nil {
		info.Refused = err.Error()
		return info
	}
	for _, m := range stack.Members {
		info.Members = append(info.Members, m.Name)
	}
	for _, k := range Knobs() {
		if k.Name != "write_cache" {
			info.Knobs[k.Name] = d.knobState(ctx, k.Name)
		}
	}
	info.Knobs["write_cache"], info.Disagreement = d.cacheInfo(ctx, bridges)
	if len(stack.Layers) > 0 {
		info.Detail = stack.Layers[0].Detail
		info.byMember()
	}
	if lookErr != nil {
		info.Refused = lookErr.Error()
		return info
	}
	refusals, _ := h.judge(ctx, machine, stack, Intent{})
	info.Refused = reasonsText(refusals)
	if len(refusals) > 0 {
		others, _ := h.judge(ctx, machine, stack, Intent{SharedDisk: true})
		info.Shared = len(others) == 0
	}
	onTarget, _ := machine.users(stack)
	for _, u := range onTarget {
		if by := h.usedBy(u); !u.Own && !slices.Contains(info.UsedBy, by) {
			info.UsedBy = append(info.UsedBy, by)
		}
	}
	return info
}

// reasonsText is the reasons of refusals in one text. What several devices are ("is a member of the array md5") is said of all of them at once.
func reasonsText(refusals []Refusal) string {
	var said []string // what begins with "is" without its device
	devices := map[string][]string{}
	for _, r := range refusals {
		text, is := strings.CutPrefix(r.Reason, r.Device+" is ")
		if !is {
			said = append(said, r.Reason)
			continue
		}
		if text = "is " + text; devices[text] == nil {
			said = append(said, text)
		}
		devices[text] = append(devices[text], r.Device)
	}
	for i, text := range said {
		switch who := devices[text]; len(who) {
		case 0:
		case 1:
			said[i] = who[0] + " " + text
		default:
			said[i] = "each of " + strings.Join(who, ", ") + " " + text
		}
	}
	return strings.Join(said, "; ")
}

func (d Device) knobState(ctx context.Context, knob string) KnobState {
	value, readErr := d.Current(ctx, knob)
	allowed, err := d.Allowed(ctx, knob)
	st := KnobState{Value: value, Allowed: allowed, Writable: err == nil && allowed.Writable, Reason: allowed.Reason,
		Absent: errors.Is(readErr, ErrUnsupported)}
	switch {
	case err != nil:
		st.Reason = err.Error()
	case readErr != nil && st.Reason == "":
		st.Reason = readErr.Error()
	}
	st.Reason = strings.TrimPrefix(st.Reason, knob+" of "+d.Name+": ") // both stand beside it
	return st
}

// cacheInfo is the state of the knob write_cache, and where drive and kernel disagree about it, by one question to the drive: a
// bridge that takes its time must not take it twice.
func (d Device) cacheInfo(ctx context.Context, bridges bool) (KnobState, string) {
	st := KnobState{Kernel: d.cacheBelief(ctx)}
	if d.Transport == "usb" && !bridges {
		st.Reason = "not asked: " + usbReason
		return st, ""
	}
	s, err := d.cacheState(ctx)
	switch {
	case errors.Is(err, errCaptured): // the same words for every drive: they share a note
		st.Reason = "not asked: " + errCaptured.Error()
	case errors.Is(err, fs.ErrPermission):
		st.Reason = "not asked: that needs root"
	case err != nil:
		st.Reason = err.Error()
	}
	if err != nil {
		return st, ""
	}
	st.Value, st.Absent, st.By, st.Writable, st.Reason = s.Level, s.Absent, s.By, s.Switchable, s.Reason
	if s.Switchable {
		st.Allowed = cacheLevels()
	}
	return st, d.cacheDisagreement(ctx, s.Level)
}
