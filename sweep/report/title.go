package report

import (
	"fmt"
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
	parts := []string{name + " on " + f.Target}
	var names []string
	for _, m := range results.ParseMembers(f.Members) {
		names = append(names, m.Name)
	}
	if list := MemberNames(names); list != "" && list != f.Target && "/dev/"+list != f.Target {
		parts[0] += " (" + list + ")"
	}
	if f.Kernel != "" {
		parts = append(parts, "Linux "+f.Kernel)
	}
	if !f.Started.IsZero() {
		parts = append(parts, span(f.Started, f.Ended))
	}
	return strings.Join(parts, ", ")
}

// MemberNames is a short list of disks: sda-sdf for six in a row.
func MemberNames(names []string) string {
	var parts []string
	for i := 0; i < len(names); {
		last := i
		for last+1 < len(names) && follows(names[last], names[last+1]) {
			last++
		}
		if last-i >= 2 {
			parts = append(parts, names[i]+"-"+names[last])
		} else {
			parts = append(parts, names[i:last+1]...)
		}
		i = last + 1
	}
	return strings.Join(parts, " ")
}

// follows says whether b is a with its last letter one further: sda, sdb.
func follows(a, b string) bool {
	n := len(a)
	return n > 2 && n == len(b) && a[:n-1] == b[:n-1] && a[:2] == "sd" && a[n-1]+1 == b[n-1]
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
