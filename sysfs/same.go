package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
)

// judgeSame refuses when a name no longer means the device it meant: after a re-plug a letter may
// belong to another drive.
func (h Host) judgeSame(s Stack) (refusals []Refusal) {
	lost := func(name, why string) {
		refusals = append(refusals, Refusal{name, why, "qdsweep devices shows what is there now"})
	}
	was := append([]Device{s.Device}, s.More...)
	was = append(was, s.Settable()...)
	seen := map[string]bool{}
	for _, d := range was {
		if seen[d.Name] {
			continue
		}
		seen[d.Name] = true
		now, err := h.Device(d.Name)
		switch {
		case errors.Is(err, ErrNoDevice), errors.Is(err, fs.ErrNotExist):
			lost(d.Name, d.Name+" is gone (device lost)")
		case err != nil:
			lost(d.Name, fmt.Sprintf("%s cannot be looked at: %v", d.Name, err))
		case now.Identity != d.Identity:
			lost(d.Name, fmt.Sprintf("%s is now %q, not %q", d.Name, now.Identity, d.Identity))
		case now.Major != d.Major || now.Minor != d.Minor:
			lost(d.Name, fmt.Sprintf("%s is now %s, not %s: it was plugged in again", d.Name, now.Number(), d.Number()))
		case now.Bytes != d.Bytes:
			lost(d.Name, fmt.Sprintf("%s now has %d bytes, not %d", d.Name, now.Bytes, d.Bytes))
		case now.start() != s.Offset && d.Name == s.Device.Name:
			lost(d.Name, fmt.Sprintf("%s now starts at byte %d, not %d", d.Name, now.start(), s.Offset))
		}
	}
	if len(refusals) > 0 {
		return refusals
	}
	now := Stack{Device: s.Device, More: s.More}
	if s.Directory != "" {
		again, err := h.ResolveDirectory(s.Directory)
		if err != nil || again.Device.Name != s.Device.Name {
			lost(s.Device.Name, s.Directory+" no longer lies on "+s.Device.Name)
			return refusals
		}
		now = again
	} else if err := h.descend(&now); err != nil {
		lost(s.Device.Name, fmt.Sprintf("what lies under %s cannot be looked at: %v", s.Device.Name, err))
		return refusals
	}
	if a, b := nameList(s.Members), nameList(now.Members); a != b {
		lost(s.Device.Name, fmt.Sprintf("%s now lies on %s, not on %s", s.Device.Name, b, a))
	}
	return refusals
}
