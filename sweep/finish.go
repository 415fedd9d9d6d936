package sweep

import (
	"context"
	"slices"
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
	for _, m := range s.settled() {
		if bad[m.Name] || s.isStuck(m) { // one that does not answer is not asked again; the keeper has compared it, or it is a bad one
			devices = append(devices, left{name: m.Name, back: !bad[m.Name]})
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

// isStuck says whether a device is below a target that does not answer.
func (s *Sweep) isStuck(d sysfs.Device) bool {
	return slices.ContainsFunc(s.holds, func(h *hold) bool {
		return h.stuck && slices.ContainsFunc(h.stack.Settable(), func(own sysfs.Device) bool { return own.Name == d.Name })
	})
}

// settled are the devices whose settings the sweep has changed and put back: members, and arrays and mappings that were there before.
func (s *Sweep) settled() []sysfs.Device {
	all := s.plan.Members()
	for _, t := range s.plan.Targets {
		if t.Built() {
			continue
		}
		for _, d := range t.Stack.Settable() {
			if !slices.ContainsFunc(all, func(have sysfs.Device) bool { return have.Name == d.Name }) {
				all = append(all, d)
			}
		}
	}
	return all
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
	state, dir := stateFlag(o.StateDir), ShellQuote(o.Dir)
	switch {
	case len(o.Unrestored) > 0:
		return "sudo qdsweep restore" + state
	case o.Audit.Remaining > 0 && !o.Sufficient:
		first := ""
		if o.restoreFirst {
			first = "sudo qdsweep restore" + state + " && "
		}
		return first + "sudo qdsweep resume" + state + o.again + " " + dir
	case o.elsewhere:
		return "sudo qdsweep resume" + state + o.again + " " + dir
	case o.Audit.Failed+o.Audit.Suspect > 0:
		return "sudo qdsweep resume --retry-failed" + state + o.again + " " + dir
	}
	return "qdsweep report " + dir
}

// stateFlag is what to type for a state folder, "" for the one that needs nothing.
func stateFlag(dir string) string {
	if dir == "" || dir == DefaultStateDir {
		return ""
	}
	return " --state-dir " + ShellQuote(dir)
}

// flagsAgain are the flags that the folder does not keep.
func (s *Sweep) flagsAgain() (flags string) {
	if len(s.profile.Hooks.list()) > 0 {
		flags += " --allow hooks"
	}
	if s.opt.CSV != "" {
		flags += " --csv " + ShellQuote(s.opt.CSV)
	}
	return flags
}
