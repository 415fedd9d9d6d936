package sysfs

import (
	"context"
	"fmt"
	"strings"
)

// Setting is one level of one knob, in canonical text: {"queue_depth", "4"}.
type Setting struct {
	Knob  string `json:"knob"`
	Level string `json:"level"`
}

func (s Setting) String() string { return s.Knob + "=" + s.Level }

// Scope says on which devices of a stack a knob is set.
type Scope int

// The scopes.
const (
	OnMembers Scope = iota // each whole disk under the target
	OnArrays               // each md array of the target: it is the array's own, and its disks have no such thing
	OnTop                  // the whole device that the target is or lies on, which the page cache is filled from
)

// Knob is one setting of a device: which levels there are on any machine, which on this device, how it
// is read and written. A new knob is a new entry of Knobs.
type Knob struct {
	Name  string
	Unit  string // "KiB", "µs", "" for counts and words
	Scope Scope

	canonical func(level string) (string, error)
	allowed   func(ctx context.Context, d Device) (Allowed, error)
	current   func(ctx context.Context, d Device) (string, error)
	set       func(ctx context.Context, d Device, level string) error
	attribute string // below the device's directory; "" of a knob that is no attribute

	onArray func(level string) (Allowed, error) // what an md array of a level, as "5", will let it be set to; nil of a knob of members
}

// Knobs is every knob, in the order in which they are applied and restored: a write-cache change makes
// sd look at the drive again, a scheduler write resets nr_requests, max_sectors_kb lifts read_ahead_kb.
//
// See Documentation/block/queue-sysfs.rst, Documentation/ABI/stable/sysfs-block and, of the arrays' own,
// Documentation/admin-guide/md.rst.
func Knobs() []Knob {
	return []Knob{
		writeCacheKnob(),
		schedulerKnob(),
		number("nr_requests", "", 4, nrRequestsRange),
		queueDepthKnob(),
		number("max_sectors_kb", "KiB", 4, maxSectorsRange),
		onTop(number("read_ahead_kb", "KiB", 0, upTo(mostReadAheadKB))),
		words("nomerges", "0", "1", "2"),
		words("rq_affinity", "0", "1", "2"),
		number("wbt_lat_usec", "µs", 0, upTo(10_000_000)),
		words("add_random", "0", "1"),
		words("rotational", "0", "1"),
		stripeCacheKnob(),
		groupThreadKnob(),
	}
}

// LookupKnob finds a knob by name.
func LookupKnob(name string) (Knob, bool) {
	for _, k := range Knobs() {
		if k.Name == name {
			return k, true
		}
	}
	return Knob{}, false
}

func knobNames() string {
	var names []string
	for _, k := range Knobs() {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

func lookup(name string) (Knob, error) {
	k, ok := LookupKnob(name)
	if !ok {
		return k, fmt.Errorf("no knob %q: there are %s", name, knobNames())
	}
	return k, nil
}

// Canonical is the one way to write a level, the same on every machine. What no machine could have,
// and what the kernel would read otherwise than it looks ("010" is 8, "31abc" is 31), is an error.
func (k Knob) Canonical(level string) (string, error) {
	c, err := k.canonical(level)
	if err != nil {
		return "", fmt.Errorf("%s %q: %w", k.Name, level, err)
	}
	return c, nil
}

// Allowed is what a knob can be set to on this device. An error that is ErrUnsupported says why the
// device has not got the knob, or not for writing.
func (d Device) Allowed(ctx context.Context, knob string) (Allowed, error) {
	k, err := lookup(knob)
	if err != nil {
		return Allowed{}, err
	}
	a, err := k.allowed(ctx, d)
	if err != nil {
		return a, fmt.Errorf("%s of %s: %w", k.Name, d.Name, err)
	}
	return a, nil
}

// Current is a knob's level now, in canonical text; of the write cache the drive's own state.
func (d Device) Current(ctx context.Context, knob string) (string, error) {
	k, err := lookup(knob)
	if err != nil {
		return "", err
	}
	level, err := k.current(ctx, d)
	if err != nil {
		return "", fmt.Errorf("read %s of %s: %w", k.Name, d.Name, err)
	}
	return level, nil
}
