package sysfs

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// NotRestored is one thing that is not as it was, and what to type.
type NotRestored struct {
	Knob   string `json:"knob"` // a knob's name, else the attribute's path
	Want   string `json:"want"`
	Have   string `json:"have"` // "" for gone or unknown
	Err    string `json:"err,omitempty"`
	ByHand string `json:"by_hand"` // a shell command for root
}

// RestoreError says what of a device could not be put back.
type RestoreError struct {
	Device string
	Items  []NotRestored
	Errs   []error // of reads and writes that failed
}

func (e *RestoreError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "NOT RESTORED on %s:", e.Device)
	for _, i := range e.Items {
		have := i.Have
		if have == "" {
			have = "unknown"
		}
		fmt.Fprintf(&b, " %s is %s, was %s (by hand: %s)", i.Knob, have, i.Want, i.ByHand)
		if i.Err != "" {
			fmt.Fprintf(&b, ": %s", i.Err)
		}
		b.WriteByte(';')
	}
	if len(e.Items) == 0 {
		for _, err := range e.Errs {
			fmt.Fprintf(&b, " %v;", err)
		}
	}
	return strings.TrimSuffix(b.String(), ";")
}

// Unwrap gives the errors of the reads and writes, so that errors.Is finds ErrStuck among them.
func (e *RestoreError) Unwrap() []error { return e.Errs }

// ByHand lists the commands that put the rest back.
func (e *RestoreError) ByHand() []string {
	var all []string
	for _, i := range e.Items {
		all = append(all, i.ByHand)
	}
	return all
}

// passes is how often Restore goes through what still differs: sd looks at the drive again some time
// after a write-cache change, and on old kernels resets a limit that was already back.
const passes = 3

// Restore puts everything back that differs, in the order of applying: write cache, scheduler,
// nr_requests, queue_depth, max_sectors_kb, the rest, iosched/*, the kernel's view of the write cache.
// It tries everything, compares the whole snapshot at the end, and returns nil only when all of it
// reads back; else a *RestoreError. What is right already is not written.
func (d Device) Restore(ctx context.Context, s Snapshot) error {
	if s.Identity != d.Identity {
		return fmt.Errorf("restore %s: the snapshot is of %q, this is %q", d.Name, s.Identity, d.Identity)
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	failed := map[string]error{} // the last error of each, by knob
	var items []NotRestored
	var unread error
	for range passes {
		d.restoreOnce(ctx, s, failed)
		if items, unread = d.compare(ctx, s); len(items) == 0 || unread != nil || anyStuck(failed) {
			break
		}
	}
	if len(items) == 0 && unread == nil {
		return nil
	}
	e := &RestoreError{Device: d.Name}
	if unread != nil {
		e.Errs = append(e.Errs, unread)
		items = d.everythingNotSeen(items, s, failed)
	}
	for _, i := range items {
		if err := failed[i.Knob]; err != nil {
			i.Err = err.Error()
			e.Errs = append(e.Errs, err)
		}
		e.Items = append(e.Items, i)
	}
	return e
}

// anyStuck: another pass would only wait behind the same command.
func anyStuck(failed map[string]error) bool {
	for _, err := range failed {
		if errors.Is(err, ErrStuck) {
			return true
		}
	}
	return false
}

// everythingNotSeen adds what failed and could not be compared either.
func (d Device) everythingNotSeen(items []NotRestored, s Snapshot, failed map[string]error) []NotRestored {
	seen := map[string]bool{}
	for _, i := range items {
		seen[i.Knob] = true
	}
	add := func(i NotRestored) {
		if failed[i.Knob] != nil && !seen[i.Knob] {
			items = append(items, i)
		}
	}
	if s.WriteCache != "" {
		add(d.cacheItem(s.WriteCache, ""))
	}
	for _, a := range s.Attributes {
		add(d.attributeItem(a, ""))
	}
	if s.CacheType != "" {
		add(d.cacheTypeItem(s, ""))
	}
	return items
}

// restoreOnce goes through the snapshot and writes what differs.
func (d Device) restoreOnce(ctx context.Context, s Snapshot, failed map[string]error) {
	note := func(knob string, err error) {
		if err != nil {
			failed[knob] = err
		} else {
			delete(failed, knob)
		}
	}
	note("write_cache", d.restoreCache(ctx, s))
	stuck := error(nil)
	view := []Attribute{}
	for _, a := range s.Attributes {
		if a.Path == "queue/write_cache" {
			view = append(view, a) // after cache_type, which sets it
			continue
		}
		if stuck != nil && strings.HasPrefix(a.Path, "queue/") {
			note(knobOf(a.Path), stuck)
			continue
		}
		step, cancel := share(ctx)
		err := d.restoreAttribute(step, a)
		cancel()
		note(knobOf(a.Path), err)
		if errors.Is(err, ErrStuck) && strings.HasPrefix(a.Path, "queue/") {
			stuck = err
		}
	}
	if s.CacheType != "" {
		note("cache_type", d.restoreCacheType(ctx, s))
	}
	for _, a := range view {
		if stuck != nil {
			note(knobOf(a.Path), stuck)
			continue
		}
		note(knobOf(a.Path), d.restoreAttribute(ctx, a))
	}
}

func (d Device) restoreCache(ctx context.Context, s Snapshot) error {
	if s.WriteCache == "" {
		return nil
	}
	step, cancel := share(ctx)
	defer cancel()
	state, err := d.cacheState(step)
	if err != nil || state.Level == s.WriteCache {
		return err
	}
	now, err := d.setCache(step, s.WriteCache)
	if err == nil && now != s.WriteCache {
		err = fmt.Errorf("the drive took the command and still says %s", now)
	}
	return err
}

// restoreCacheType puts an override back as one. Anything else is sd's own idea, which follows the drive
// as soon as sd looks at it again.
func (d Device) restoreCacheType(ctx context.Context, s Snapshot) error {
	now, err := d.host.ReadWithin(ctx, d.cacheTypePath())
	switch w := d.drive(); {
	case err != nil || now == s.CacheType:
		return err
	case s.CacheOverridden:
		return w.RestoreView(ctx, s.CacheType)
	case w.Rescan != "":
		return d.host.Write(ctx, w.Rescan, "1")
	}
	return nil
}

// restoreAttribute writes one attribute where it differs.
func (d Device) restoreAttribute(ctx context.Context, a Attribute) error {
	now, err := d.attribute(ctx, a.Path)
	if err != nil || now == a.Value {
		return err
	}
	at := d.dir + "/" + a.Path
	if a.Path == "queue/max_sectors_kb" {
		// 0 is "the kernel's own default" since 6.3, and EINVAL before. Where that is the original,
		// the limit goes on following the hardware's as it did; a limit that was the user's own is
		// written as it was.
		if err := d.host.Write(ctx, at, "0"); err == nil {
			if now, err := d.attribute(ctx, a.Path); err == nil && now == a.Value {
				return nil
			}
		} else if errors.Is(err, ErrStuck) {
			return err
		}
	}
	return d.host.Write(ctx, at, a.Value)
}

// knobOf is the name under which an attribute is spoken of: a knob's, else its own path.
func knobOf(p string) string {
	for _, k := range Knobs() {
		if k.attribute == p {
			return k.Name
		}
	}
	return p
}

func (d Device) attributeItem(a Attribute, now string) NotRestored {
	return NotRestored{Knob: knobOf(a.Path), Want: a.Value, Have: now,
		ByHand: fmt.Sprintf("echo %s > %s/%s", quote(a.Value), quote(d.dir), a.Path)}
}

func (d Device) cacheItem(want, now string) NotRestored {
	return NotRestored{Knob: "write_cache", Want: want, Have: now, ByHand: d.cacheByHand(want)}
}

func (d Device) cacheTypeItem(s Snapshot, now string) NotRestored {
	i := NotRestored{Knob: "cache_type", Want: s.CacheType, Have: now}
	if s.CacheOverridden {
		i.ByHand = fmt.Sprintf("echo %s > %s", quote("temporary "+s.CacheType), quote(d.cacheTypePath()))
	} else {
		i.ByHand = fmt.Sprintf("echo 1 > %s/device/rescan", quote(d.dir))
	}
	return i
}

// quote makes a word for a shell of anything.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:+", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
