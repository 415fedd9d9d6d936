package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
)

// hookAfterSignal is what a command gets that comes after a signal: whoever sent it waits, and so does systemd, but what before_sweep has stopped should be
// started again.
const hookAfterSignal = 10 * time.Second

// Hooks are run where nothing of a drive is changed: before a run's snapshot, and when its rows are written. What was begun is ended: after_run follows each
// before_run, and after_sweep follows before_sweep, whatever came of them.

// beforeSweep is the last thing that can refuse a sweep. The folder is there, for what it says; no drive has been touched.
func (s *Sweep) beforeSweep(ctx context.Context) error {
	s.hooked = true
	err := s.hook(ctx, beforeSweep, Run{})
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return &NotHere{[]sysfs.Refusal{{Reason: fmt.Sprintf("hook %v; nothing was touched", err), Fix: "what it said is in " + s.out.path("log.jsonl")}}}
}

// afterSweep comes when everything is put back and let go.
func (s *Sweep) afterSweep(ctx context.Context, o Outcome, code int) {
	if !s.hooked {
		return
	}
	a := s.audit
	err := s.hook(ctx, afterSweep, Run{},
		fact("OK", a.OK), fact("FAILED", a.Failed), fact("SUSPECT", a.Suspect), fact("SKIPPED", a.Skipped), fact("REMAINING", a.Planned-a.Done()),
		fact("EXIT", code), fact("STOPPED", o.Stopped), fact("UNRESTORED", len(o.Unrestored)))
	if err != nil {
		s.note("hook %v", err)
	}
}

// beforeRun comes before the gate, which then judges what the command has left. Where it fails the run does.
func (s *Sweep) beforeRun(ctx context.Context, t *transaction) {
	if !t.measuring() {
		return
	}
	t.hooked = true
	err := s.hook(ctx, beforeRun, t.run)
	switch cause := context.Cause(ctx); {
	case err == nil:
	case cause != nil:
		t.end = cause
	default:
		t.fail(nil, results.HookFailed.With(err.Error()))
	}
}

// afterRun comes when the rows are in the file, or the run is given up.
func (s *Sweep) afterRun(ctx context.Context, t *transaction) {
	if !t.hooked {
		return
	}
	status, reason := t.became, t.why
	if t.end != nil {
		status, reason = "remaining", t.end.Error()
	}
	if err := s.hook(ctx, afterRun, t.run, fact("STATUS", status), fact("REASON", reason)); err != nil {
		s.note("run %s: hook %v", t.run.ID, err)
	}
}

// hook runs one of the profile's commands to its end. The error begins with its name.
func (s *Sweep) hook(ctx context.Context, name string, r Run, facts ...string) error {
	h := s.plan.Profile.Hooks
	command := h.command(name)
	if command == "" {
		return nil
	}
	if !s.opt.Allow["hooks"] {
		return errors.New(name + ": not run: no --allow hooks") // and the sweep was refused before
	}
	patience := h.Timeout
	if ctx.Err() != nil {
		ctx, patience = context.WithoutCancel(ctx), min(patience, hookAfterSignal)
	}
	s.event(Event{Kind: PhaseBegan, Run: r, Phase: name})
	c := hookCall{command: command, dir: s.out.dir, facts: append(s.facts(name, r), facts...), patience: patience}
	c.heard = func(text string) {
		line := s.log.Info().Str("event", "hook").Str("hook", name)
		if r.ID != "" {
			line = line.Str("run", r.ID)
		}
		line.Str("text", text).Send()
	}
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// facts are what a command is told in its environment, beside what this process has in its own.
func (s *Sweep) facts(name string, r Run) []string {
	dir, err := filepath.Abs(s.out.dir)
	if err != nil {
		dir = s.out.dir
	}
	var members []string
	for _, m := range s.plan.Members() {
		members = append(members, m.Name)
	}
	all := []string{fact("HOOK", name), fact("SWEEP", s.id), fact("PROFILE", s.plan.Profile.Name), fact("DIR", dir), fact("PLANNED", s.audit.Planned),
		fact("MEMBERS", strings.Join(members, " "))}
	if r.ID == "" {
		return all
	}
	stack := s.holdOf(r).target.Stack
	all = append(all, fact("RUN", r.ID), fact("INDEX", r.Index), fact("CELL", r.Cell.String()), fact("REPLICATE", r.Replicate), fact("ATTEMPT", r.Attempt), fact("TARGET", stack.Target))
	for _, l := range r.Cell {
		all = append(all, fact("LEVEL_"+strings.ToUpper(l.Axis), l.Value))
	}
	return all
}

// fact is one variable. What a device or a profile says may hold anything but what ends a variable.
func fact(name string, value any) string {
	text := ""
	switch v := value.(type) {
	case int:
		text = strconv.Itoa(v)
	case string:
		text = strings.ReplaceAll(v, "\x00", "")
	}
	return "QDSWEEP_" + name + "=" + text
}

// ownEnvironment is this process's own, without what an outer hook was told: a sweep can be started by one.
func ownEnvironment() (kept []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "QDSWEEP_") {
			kept = append(kept, v)
		}
	}
	return kept
}
