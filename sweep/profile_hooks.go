package sweep

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"qdsweep/sysfs"
)

// The names of the hooks, in a profile and for the command itself (QDSWEEP_HOOK).
const (
	beforeSweep = "before_sweep"
	beforeRun   = "before_run"
	afterRun    = "after_run"
	afterSweep  = "after_sweep"
)

const (
	defaultHookTimeout = time.Minute
	maxHook            = 16 << 10 // bytes; a longer one is a script, and has a file of its own
)

// Hooks are commands of the user's around the sweep and around each run, for sh -c; "" for none. A profile that has one is refused without --allow hooks:
// whoever wrote the profile would run commands as root.
type Hooks struct {
	BeforeSweep, BeforeRun, AfterRun, AfterSweep string

	Timeout time.Duration // of each; 0 where there is none
}

// hook is one of them.
type hook struct{ name, command string }

// list has those that there are, in the order in which they are run.
func (h Hooks) list() (all []hook) {
	for _, one := range []hook{{beforeSweep, h.BeforeSweep}, {beforeRun, h.BeforeRun}, {afterRun, h.AfterRun}, {afterSweep, h.AfterSweep}} {
		if one.command != "" {
			all = append(all, one)
		}
	}
	return all
}

// command is the hook of a name, "" for none.
func (h Hooks) command(name string) string {
	for _, one := range h.list() {
		if one.name == name {
			return one.command
		}
	}
	return ""
}

func (r *profileReader) hooks(n *yaml.Node) {
	const allowed = "commands for sh, such as {before_run: /usr/local/bin/quiet, timeout: 1m}"
	fields, ok := r.fields(n, "hooks", allowed)
	if !ok {
		return
	}
	h := Hooks{Timeout: defaultHookTimeout}
	place := map[string]*string{beforeSweep: &h.BeforeSweep, beforeRun: &h.BeforeRun, afterRun: &h.AfterRun, afterSweep: &h.AfterSweep}
	for _, f := range fields {
		switch command, known := place[f.name]; {
		case known:
			*command = r.command(f)
		case f.name == "timeout":
			h.Timeout = r.duration(f.value, "timeout", time.Second, 24*time.Hour)
		default:
			r.unknown(f, "in hooks", []string{beforeSweep, beforeRun, afterRun, afterSweep, "timeout"})
		}
	}
	if len(h.list()) == 0 {
		r.fail(at(n), "hooks", "no command is named; %s", allowed)
		return
	}
	r.p.Hooks = h
}

// command is the text of one hook.
func (r *profileReader) command(f field) string {
	const allowed = "a command for sh, such as /usr/local/bin/quiet"
	text, ok := r.scalar(f.value, f.name, allowed)
	switch {
	case !ok:
	case strings.TrimSpace(text) == "":
		r.wrong(at(f.value), f.name, text, "%s; leave the key out for none", allowed)
	case !printable(strings.NewReplacer("\n", "", "\t", "").Replace(text)): // the plan shows them on a terminal
		r.wrong(at(f.value), f.name, text, "a command without control characters")
	case len(text) > maxHook:
		r.fail(at(f.value), f.name, "longer than %d bytes; put it into a file, and name that", maxHook)
	}
	return text
}

func (h Hooks) yaml(b *bytes.Buffer) {
	if len(h.list()) == 0 {
		return
	}
	b.WriteString("hooks:\n")
	for _, one := range h.list() {
		fmt.Fprintf(b, "  %s: %s\n", one.name, quoted(one.command))
	}
	fmt.Fprintf(b, "  timeout: %s\n", span(h.Timeout))
}

// refuseHooks refuses commands that nobody on the command line has agreed to. Nothing about the machine can be wrong with them.
func (p *Plan) refuseHooks(allow map[string]bool) []sysfs.Refusal {
	all := p.Profile.Hooks.list()
	if len(all) == 0 || allow["hooks"] {
		return nil
	}
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.name
	}
	return []sysfs.Refusal{{Reason: fmt.Sprintf("the profile has commands that would be run as root (hooks: %s)", strings.Join(names, ", ")),
		Fix: "`qdsweep plan` shows them; where they are what you want, add --allow hooks"}}
}

// textHooks shows every command in full: whoever allows them should have seen them.
func (p *Plan) textHooks(out *planText) {
	h := p.Profile.Hooks
	for i, one := range h.list() {
		lines := strings.Split(strings.TrimRight(one.command, "\n"), "\n")
		out.field(first(i, "hooks"), pad(one.name, len(beforeSweep))+"  "+lines[0])
		for _, line := range lines[1:] {
			out.field("", pad("", len(beforeSweep))+"  "+line)
		}
	}
	if len(h.list()) > 0 {
		out.field("", fmt.Sprintf("as root, each ended after %s; what they take is not in the estimate", timeText(h.Timeout)))
	}
}

// planHooks are the hooks in a plan's JSON.
type planHooks struct {
	BeforeSweep string  `json:"before_sweep,omitempty"`
	BeforeRun   string  `json:"before_run,omitempty"`
	AfterRun    string  `json:"after_run,omitempty"`
	AfterSweep  string  `json:"after_sweep,omitempty"`
	TimeoutS    float64 `json:"timeout_s"`
}

// json is null where there are none.
func (h Hooks) json() *planHooks {
	if len(h.list()) == 0 {
		return nil
	}
	return &planHooks{h.BeforeSweep, h.BeforeRun, h.AfterRun, h.AfterSweep, h.Timeout.Seconds()}
}
