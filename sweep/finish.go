package sweep

import (
	"context"
	"strings"
	"time"

	"qdsweep/sysfs"
)

// finished says, last of all, how every member was left: read from the devices, not remembered.
func (s *Sweep) finished(out *Outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	bad := map[string]bool{}
	for _, u := range s.unrestored {
		bad[u.Name] = true
	}
	var devices []left
	for _, m := range s.plan.Targets[0].Stack.Members {
		if bad[m.Name] {
			devices = append(devices, left{name: m.Name})
			continue
		}
		var now []string
		for _, k := range s.settingNames() {
			if v, err := m.Current(ctx, k); err == nil {
				now = append(now, k+" "+v)
			}
		}
		if len(now) > 0 {
			devices = append(devices, left{m.Name, true, strings.Join(now, ", ")})
		}
	}
	out.Settings = leftSentences(devices)
}

// settingNames are the knobs that the sweep's axes set, in the order of applying.
func (s *Sweep) settingNames() []string {
	var names []string
	for _, k := range sysfs.Knobs() {
		for _, a := range s.plan.Profile.Matrix.Axes {
			if a.Name == k.Name {
				names = append(names, k.Name)
			}
		}
	}
	return names
}

// Next is what to type after the sweep, "" when there is nothing left to do.
func (o Outcome) Next() string {
	switch {
	case len(o.Unrestored) > 0:
		return "sudo qdsweep restore"
	case o.Audit.OK == o.Audit.Planned:
		return "qdsweep report " + ShellQuote(o.Dir)
	}
	return ""
}
