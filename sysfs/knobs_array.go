package sysfs

import (
	"context"
	"fmt"
	"slices"
)

// The knobs of md's arrays with parity (Documentation/admin-guide/md.rst, "raid4/5/6 stripe cache"). Of md/ nothing else is ever
// written: most of what is there starts, stops or reshapes an array.

// stripeCacheKnob is how many stripes md keeps in memory, each a page a member. The kernel grows the cache by itself under load, but
// shows the least, which is what is set: the attribute stays where it was put. EINVAL below 17 and above 32768 (raid5_set_cache_size).
func stripeCacheKnob() Knob {
	return ofArray("stripe_cache_size", "stripes", "md/stripe_cache_size", 17, 32768)
}

// groupThreadKnob is how many worker threads of each NUMA node handle stripes, 0 for none but the array's own thread. The kernel calls
// the attribute group_thread_cnt. EINVAL above 8192 (raid5_store_group_thread_cnt).
func groupThreadKnob() Knob {
	return ofArray("group_thread_count", "", "md/group_thread_cnt", 0, 8192)
}

// ofArray is a knob that is a number in the md/ of an array with parity.
func ofArray(name, unit, attribute string, lowest, highest int) Knob {
	k := Knob{Name: name, Unit: unit, Scope: OnArrays, attribute: attribute, canonical: decimal(lowest)}
	absent := func(d Device) error {
		if exists, _, err := d.writableAttribute(attribute); err != nil || exists {
			return err
		}
		what := describeKind(d)
		if level := d.host.text(d.dir + "/md/level"); level != "" {
			what = "a " + level + " array"
		}
		return notSupported("%s has no %s, only an md array of level 4, 5 or 6 has", what, name)
	}
	k.allowed = func(ctx context.Context, d Device) (Allowed, error) {
		if err := absent(d); err != nil {
			return Allowed{Reason: err.Error()}, err
		}
		if a, err := k.present(ctx, d); err != nil {
			return a, err
		}
		return Allowed{Min: lowest, Max: highest, Writable: true}, nil
	}
	k.onArray = func(level string) (Allowed, error) {
		if !slices.Contains([]string{"4", "5", "6"}, level) {
			err := notSupported("a raid%s array has no %s, only an md array of level 4, 5 or 6 has", level, name)
			return Allowed{Reason: err.Error()}, err
		}
		return Allowed{Min: lowest, Max: highest, Writable: true}, nil
	}
	k.current = func(ctx context.Context, d Device) (string, error) {
		if err := absent(d); err != nil {
			return "", err
		}
		return k.readAttribute(ctx, d)
	}
	k.set = k.writeAttribute
	return k
}

const mostReadAheadKB = 1 << 20

// onTop is a knob of the target's own device, whatever lies below it.
func onTop(k Knob) Knob {
	k.Scope = OnTop
	k.onArray = func(string) (Allowed, error) { return Allowed{Max: mostReadAheadKB, Writable: true}, nil }
	return k
}

// AllowedOnArray is what a knob of arrays, or of the target's own device, will have on an md array of a level ("5") that is not there yet.
func (k Knob) AllowedOnArray(level string) (Allowed, error) {
	if k.onArray == nil {
		return Allowed{}, notSupported("%s is a setting of an array's disks", k.Name)
	}
	a, err := k.onArray(level)
	if err != nil {
		return a, fmt.Errorf("%s of a raid%s array: %w", k.Name, level, err)
	}
	return a, nil
}

// Carriers gives the devices of the stack on which a knob is set. Where no device has it, it is the one whose Allowed says why not, so
// that there is always one, but for a target below which no device setting can be made.
func (s Stack) Carriers(k Knob) []Device {
	switch k.Scope {
	case OnTop:
		return s.tops()
	case OnArrays:
		var arrays, having []Device
		for _, d := range s.upper() {
			if d.Kind != KindMD {
				continue
			}
			arrays = append(arrays, d)
			if exists, _, err := d.writableAttribute(k.attribute); err == nil && exists {
				having = append(having, d)
			}
		}
		switch {
		case having != nil: // the others, as the mirrors below a raid5, have no part in it
			return having
		case arrays != nil:
			return arrays
		}
		return s.tops()
	}
	return slices.Clone(s.Members)
}

// Settable gives every device of the stack that a setting can be made on: the members in natural order, then what is stacked on them
// (md, dm, …) from the bottom up. That is also the order of restoring: what is above takes its limits from below.
func (s Stack) Settable() []Device { return append(slices.Clone(s.Members), s.upper()...) }

// upper gives the whole devices of the stack that lie on others, from the bottom up.
func (s Stack) upper() []Device {
	var layers []Layer
	for _, l := range s.Layers {
		if l.Device.Kind != KindPartition {
			layers = append(layers, l)
		}
	}
	slices.SortStableFunc(layers, func(a, b Layer) int {
		if a.height != b.height {
			return a.height - b.height
		}
		return natural(a.Device.Name, b.Device.Name)
	})
	devices := make([]Device, 0, len(layers))
	for _, l := range layers {
		devices = append(devices, l.Device)
	}
	return devices
}

// tops gives the whole devices that the target is, or that carry its file system.
func (s Stack) tops() []Device {
	if s.NoKnobs != "" || s.Device.Name == "" {
		return nil
	}
	var whole []Device
	for _, d := range append([]Device{s.Device}, s.More...) {
		if d.Kind == KindPartition {
			d = s.diskOf(d)
		}
		if !slices.ContainsFunc(whole, func(w Device) bool { return w.Name == d.Name }) {
			whole = append(whole, d)
		}
	}
	return whole
}

// diskOf finds the device that a partition of the stack is on, which is in the stack too.
func (s Stack) diskOf(p Device) Device {
	for _, l := range s.Layers {
		if l.Device.Name != p.Name || len(l.under) != 1 {
			continue
		}
		for _, d := range s.Settable() {
			if d.Name == l.under[0] {
				return d
			}
		}
	}
	return p
}

// OwnPartitions tells through which partitions the stack reaches a member, in natural order: what else happens on the disk is
// somebody else's. Nil where the stack has the whole disk.
func (s Stack) OwnPartitions(member Device) []Device {
	for _, d := range append([]Device{s.Device}, s.More...) {
		if d.Name == member.Name {
			return nil
		}
	}
	var parts []Device
	for _, l := range s.Layers {
		switch {
		case !slices.Contains(l.under, member.Name):
		case l.Device.Kind != KindPartition:
			return nil
		default:
			parts = append(parts, l.Device)
		}
	}
	slices.SortFunc(parts, func(a, b Device) int { return natural(a.Name, b.Name) })
	return parts
}

// String is a scope in words.
func (s Scope) String() string {
	switch s {
	case OnMembers:
		return "each member"
	case OnArrays:
		return "each md array"
	case OnTop:
		return "the target's own device"
	}
	return fmt.Sprintf("Scope(%d)", int(s))
}
