package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"qdsweep/sweep/results"
)

// title is the first line: what ran, on what, under which kernel, and when.
func title(d Data, s *summary) string {
	if d.Title != "" {
		return d.Title
	}
	if len(s.sweeps) == 0 {
		return strings.TrimSpace(d.Name + " has no rows yet")
	}
	if len(s.sweeps) > 1 {
		return fmt.Sprintf("%s in %s", count(len(s.sweeps), "sweep"), count(len(d.resultFiles()), "file"))
	}
	name := d.Name
	if name == "" {
		name = s.sweeps[0].Sweep
	}
	return s.sweeps[0].title(name)
}

// title says of one sweep on what it ran, under which kernel, and when.
func (f *sweepFacts) title(name string) string {
	on, members := f.Target, memberNames(f.Members)
	if len(f.Targets) > 1 {
		var names []string
		for _, t := range f.Targets {
			if short := t.short(); !slices.Contains(names, short) {
				names = append(names, short)
			}
		}
		if on = strings.Join(names, ", "); results.ShortNames(names) == members { // the members, one after another
			on = members
		}
	}
	parts := []string{name + " on " + on}
	if members != "" && members != on && "/dev/"+members != on {
		parts[0] += " (" + members + ")"
	}
	if f.Kernel != "" {
		parts = append(parts, "Linux "+f.Kernel)
	}
	if !f.Started.IsZero() {
		parts = append(parts, span(f.Started, f.Ended))
	}
	return strings.Join(parts, ", ")
}

// span is "2025-03-14 22:04 to 03:26 (5 h 22 min)".
func span(from, to time.Time) string {
	text := from.Format("2006-01-02 15:04")
	if to.Before(from) {
		return text
	}
	return text + " to " + to.In(from.Location()).Format("15:04") + " (" + duration(to.Sub(from)) + ")"
}

func duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	}
	minutes := int(d.Round(time.Minute).Minutes())
	return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
}
