package sysfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Attribute is one attribute as it was, literally: what reads back is what was there, however the
// kernel counts today (a full queue is 31 or 32). Of scheduler the value is the selected name, since
// the list of names grows by itself when a module is loaded.
type Attribute struct {
	Path  string `json:"path"` // below the device's directory: "queue/iosched/read_expire"
	Value string `json:"value"`
}

// Snapshot is all that a sweep could change on a device, as it was.
type Snapshot struct {
	Identity   Identity    `json:"identity"`
	Name       string      `json:"name"`
	Taken      time.Time   `json:"taken"`
	BootID     string      `json:"boot_id"`
	Attributes []Attribute `json:"attributes"` // in the order of restoring

	WriteCache       string `json:"write_cache,omitempty"`        // the drive's state: "on", "off", "" for none or unknown
	WriteCacheReason string `json:"write_cache_reason,omitempty"` // why ""
	CacheType        string `json:"cache_type,omitempty"`         // sd's view, "" for a disk without one
	CacheOverridden  bool   `json:"cache_overridden,omitempty"`   // CacheType was not what the drive says: a "temporary" override
}

// Surviving is the part of a snapshot that outlives a reboot. The rest is the next kernel's and udev's
// to decide, and not ours to overwrite then.
func (s Snapshot) Surviving() Snapshot {
	s.Attributes, s.CacheType, s.CacheOverridden = nil, "", false
	return s
}

// Holds says whether a snapshot has a knob's original. What it has not could not be put back.
func (s Snapshot) Holds(knob string) bool {
	if knob == "write_cache" {
		return s.WriteCache != ""
	}
	k, known := LookupKnob(knob)
	return known && slices.ContainsFunc(s.Attributes, func(a Attribute) bool { return a.Path == k.attribute })
}

// Snapshot reads everything writable that the device has: queue/, queue/iosched/, device/queue_depth
// and queue_ramp_up_period, the drive's write cache and sd's view of it; of an array's md/ the knobs
// and nothing else, since writing the others back would start or stop things. Nothing is written.
// Attributes that cannot be read (write-only ones, and wbt_lat_usec on a kernel without it) are left
// out: they could not be compared. settings are those to be made: a USB bridge is asked about the write
// cache only where that is among them, since the question alone makes some of them hang.
func (d Device) Snapshot(ctx context.Context, settings ...Setting) (Snapshot, error) {
	s := Snapshot{Identity: d.Identity, Name: d.Name, Taken: time.Now().UTC()}
	var err error
	if s.BootID, err = d.host.BootID(); err != nil {
		return s, err
	}
	state, err := d.cacheStateFor(ctx, settings)
	if err != nil {
		// A drive that cannot be asked can still have its queue swept. Its cache is not touched
		// then: the same question is asked before it is.
		if errors.Is(err, ErrStuck) {
			return s, fmt.Errorf("snapshot of %s: %w", d.Name, err)
		}
		state.Reason = err.Error()
	}
	s.WriteCache, s.WriteCacheReason = state.Level, state.Reason
	if at := d.cacheTypePath(); at != "" {
		if s.CacheType, err = d.host.ReadWithin(ctx, at); err != nil {
			return s, fmt.Errorf("snapshot of %s: %w", d.Name, err)
		}
		s.CacheOverridden = d.drive().Overridden(ctx, s.WriteCache)
	}
	for _, p := range d.writableAttributes() {
		value, err := d.attribute(ctx, p)
		if errors.Is(err, ErrStuck) {
			return s, fmt.Errorf("snapshot of %s: %w", d.Name, err)
		}
		if err != nil {
			continue
		}
		s.Attributes = append(s.Attributes, Attribute{Path: p, Value: value})
	}
	return s, nil
}

// Attributes is the part of a snapshot for which nothing is sent to the drive. What does not answer is left out.
func (d Device) Attributes(ctx context.Context) Snapshot {
	s := Snapshot{Identity: d.Identity, Name: d.Name, Taken: time.Now().UTC()}
	for _, p := range d.writableAttributes() {
		value, err := d.attribute(ctx, p)
		if errors.Is(err, ErrStuck) {
			break
		}
		if err == nil {
			s.Attributes = append(s.Attributes, Attribute{Path: p, Value: value})
		}
	}
	return s
}

// attribute reads one attribute as a snapshot holds it.
func (d Device) attribute(ctx context.Context, relative string) (string, error) {
	text, err := d.host.ReadWithin(ctx, d.dir+"/"+relative)
	if err != nil {
		return "", err
	}
	if relative == "queue/scheduler" {
		_, text = parseScheduler(text)
	}
	return text, nil
}

// writableAttributes lists what root can read and write below the device, in the order of restoring.
func (d Device) writableAttributes() []string {
	var found []string
	for _, dir := range []string{"queue", "queue/iosched"} {
		for _, name := range d.host.names(d.dir + "/" + dir) {
			if d.restorable(dir + "/" + name) {
				found = append(found, dir+"/"+name)
			}
		}
	}
	knobs := Knobs()
	others := []string{"device/queue_depth", "device/queue_ramp_up_period"}
	for _, k := range knobs {
		if k.Scope == OnArrays {
			others = append(others, k.attribute)
		}
	}
	for _, p := range others {
		if d.restorable(p) {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(knobs, a), rank(knobs, b)), cmp.Compare(a, b))
	})
	return found
}

func (d Device) restorable(relative string) bool {
	info, err := os.Stat(d.host.path(d.dir + "/" + relative))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o600 == 0o600
}

// rank is an attribute's place in the order of restoring: the knobs in their order; what follows from
// a knob (iosched/* are made anew by scheduler, async_depth follows nr_requests) after it; the kernel's
// view of the write cache last, because sd sets it again whenever it looks at the drive.
func rank(knobs []Knob, p string) int {
	for i, k := range knobs {
		if k.attribute == p {
			return i
		}
	}
	switch {
	case p == "queue/write_cache":
		return len(knobs) + 2
	case path.Dir(p) == "queue/iosched":
		return len(knobs) + 1
	}
	return len(knobs)
}

// Moved is a setting that is not what it was. From is what it was, To what it is now.
type Moved struct {
	Device string `json:"device"`
	Knob   string `json:"knob"` // a knob's name, else the attribute's path
	From   string `json:"from"`
	To     string `json:"to"`
}

// String is "sdc: write_cache moved: off → on".
func (m Moved) String() string {
	to := m.To
	if to == "" {
		to = "gone"
	}
	return fmt.Sprintf("%s: %s moved: %s → %s", m.Device, m.Knob, m.From, to)
}

// Differences compares the whole snapshot with what is now, in the order of restoring. Nothing is
// written. What could not be read is in err, and the rest compared all the same.
func (d Device) Differences(ctx context.Context, s Snapshot) ([]Moved, error) {
	items, err := d.compare(ctx, s)
	var moved []Moved
	for _, i := range items {
		moved = append(moved, Moved{Device: d.Name, Knob: i.Knob, From: i.Want, To: i.Have})
	}
	return moved, err
}

// compare gives what differs, with the command that would put it back. Where the kernel does not come
// back from one attribute of queue/ it will not from the others either; they are not tried.
func (d Device) compare(ctx context.Context, s Snapshot) ([]NotRestored, error) {
	var items []NotRestored
	var errs []error
	if s.WriteCache != "" {
		switch state, err := d.cacheState(ctx); {
		case err != nil:
			errs = append(errs, err)
		case state.Level != s.WriteCache:
			items = append(items, d.cacheItem(s.WriteCache, state.Level))
		}
	}
	stuck := false
	for _, a := range s.Attributes {
		if stuck && strings.HasPrefix(a.Path, "queue/") {
			continue
		}
		step, cancel := share(ctx)
		now, err := d.attribute(step, a.Path)
		cancel()
		switch {
		case errors.Is(err, ErrStuck):
			stuck = strings.HasPrefix(a.Path, "queue/")
			errs = append(errs, err)
		case errors.Is(err, fs.ErrNotExist):
			items = append(items, d.attributeItem(a, ""))
		case err != nil:
			errs = append(errs, err)
		case now != a.Value:
			items = append(items, d.attributeItem(a, now))
		}
	}
	if s.CacheType != "" {
		switch now, err := d.host.ReadWithin(ctx, d.cacheTypePath()); {
		case err != nil:
			errs = append(errs, err)
		case now != s.CacheType:
			items = append(items, d.cacheTypeItem(s, now))
		}
	}
	return items, errors.Join(errs...)
}

// share is half of the time that a context leaves, so that one step that never ends does not take the
// others' time as well.
func share(ctx context.Context) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, attributeDeadline/2)
	}
	return context.WithTimeout(ctx, time.Until(at)/2)
}
