package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"qdsweep/sysfs"
	"qdsweep/sysfs/md"
)

// planKnobs reads what each knob of the matrix is and can be on each device of each target, and judges every level: what a
// device cannot have, and what needs --allow raise. All of it is said at once.
func (p *Plan) planKnobs(ctx context.Context, h sysfs.Host, o PlanOptions) ([]sysfs.Refusal, error) {
	var axes []string
	for _, a := range p.Profile.Matrix.Axes {
		if _, knob := sysfs.LookupKnob(a.Name); knob {
			axes = append(axes, a.Name)
		}
	}
	if refusals := p.withoutKnobs(axes); len(refusals) > 0 {
		return refusals, nil
	}
	var found grouped
	for _, axis := range axes {
		knob, _ := sysfs.LookupKnob(axis)
		planned := PlannedKnob{Name: axis, Unit: knob.Unit, Levels: p.Profile.Matrix.levelsOf(axis)}
		known := map[string]MemberState{}
		for _, t := range p.Targets {
			states, err := t.states(ctx, h, knob, known)
			if err != nil {
				return nil, err
			}
			for _, state := range states {
				if _, seen := known[state.Member]; !seen {
					known[state.Member] = state
					planned.Members = append(planned.Members, state)
				}
				p.judge(&found, t, planned.Levels, axis, state)
			}
		}
		p.Knobs = append(p.Knobs, planned)
	}
	for _, k := range p.Knobs {
		for _, m := range k.Members {
			if !p.mayRaise(h, o, m.Member) {
				p.raises(&found, k, m)
			}
		}
	}
	return found.refusals, nil
}

// withoutKnobs refuses axes of settings where no setting reaches the target.
func (p *Plan) withoutKnobs(axes []string) (refusals []sysfs.Refusal) {
	for _, t := range p.Targets {
		if len(axes) > 0 && t.Stack.NoKnobs != "" {
			refusals = append(refusals, sysfs.Refusal{Device: t.Stack.Target, Reason: fmt.Sprintf("%s cannot be set below it: %s", strings.Join(axes, ", "), t.Stack.NoKnobs),
				Fix: "take these axes out of the matrix, or give another target" + p.otherTarget()})
		}
	}
	return refusals
}

// states are a knob on each device of the target on which it is set: its members, its arrays, or its own. What is known of a
// device already is not asked again.
func (t *Target) states(ctx context.Context, h sysfs.Host, k sysfs.Knob, known map[string]MemberState) (all []MemberState, err error) {
	stack := t.Stack
	switch {
	case !t.Built() || k.Scope == sysfs.OnMembers:
	case t.Level.Value != md.LevelNone:
		return []MemberState{t.whenBuilt(k)}, nil
	default:
		if stack, err = h.Resolve(t.Parts[0].Path); err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
	}
	for _, d := range stack.Carriers(k) {
		state, seen := known[d.Name]
		if !seen {
			if state, err = stateOf(ctx, d, k.Name); err != nil {
				return nil, err
			}
		}
		all = append(all, state)
	}
	return all, nil
}

// whenBuilt is a knob of an array that is not there yet.
func (t *Target) whenBuilt(k sysfs.Knob) MemberState {
	state := MemberState{Member: "raid" + t.Level.Value, unmade: true}
	allowed, err := k.AllowedOnArray(t.Level.Value)
	if state.Allowed = allowed; err != nil {
		state.Reason = innerReason(err)
	}
	return state
}

// stateOf is one knob of one member. What the device has not got is data; only a failure to look is an error.
func stateOf(ctx context.Context, member sysfs.Device, knob string) (MemberState, error) {
	state := MemberState{Member: member.Name}
	allowed, err := member.Allowed(ctx, knob)
	switch {
	case errors.Is(err, sysfs.ErrUnsupported):
		state.Reason = innerReason(err)
		return state, nil
	case unreadable(member, err):
		state.Reason = "not checked: " + innerReason(err)
		state.Allowed.Writable = true
		return state, nil
	case err != nil:
		return state, fmt.Errorf("plan: %w", err)
	}
	state.Allowed = allowed
	if !allowed.Writable {
		state.Reason = allowed.Reason
		if state.Reason == "" {
			state.Reason = "fixed by the driver"
		}
		return state, nil
	}
	now, err := member.Current(ctx, knob)
	switch {
	case err == nil:
		state.Now = now
	case errors.Is(err, sysfs.ErrUnsupported):
		state.Allowed.Writable, state.Reason = false, "it cannot be read, so it could not be put back: "+innerReason(err)
	case unreadable(member, err):
		state.Reason = "not checked: " + innerReason(err)
	default:
		return state, fmt.Errorf("plan: %w", err)
	}
	return state, nil
}

// unreadable says that this plan cannot ask the drive, though run could: it is made without root, or of a captured tree.
func unreadable(member sysfs.Device, err error) bool {
	return err != nil && (!member.Host().Live() || errors.Is(err, fs.ErrPermission))
}

// innerReason is the reason within sysfs' errors, whose beginning names the knob and the device that we name ourselves.
func innerReason(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return err.Error()
}

// judge says which levels a member of a target cannot have. By the profile's unsupported they refuse the plan, are skipped in
// the cells of that target, or are tried all the same.
func (p *Plan) judge(found *grouped, t *Target, levels []string, axis string, m MemberState) {
	for _, level := range levels {
		reason := p.cannot(axis, level, m)
		if reason == "" {
			continue
		}
		if p.Profile.Unsupported == Refuse {
			fix := "take the level out of the profile, or write unsupported: skip"
			if !m.Allowed.Writable {
				fix = p.withoutAxis(axis)
			}
			found.add(m.Member, reason, fix)
			continue
		}
		if u := (UnsupportedLevel{m.Member, axis, level, reason}); !slices.Contains(p.Unsupported, u) {
			p.Unsupported = append(p.Unsupported, u)
		}
		if p.skip[t.Level] == nil {
			p.skip[t.Level] = map[Level]string{}
		}
		if key := (Level{axis, level}); p.skip[t.Level][key] == "" {
			p.skip[t.Level][key] = reason
		}
	}
}

// withoutAxis is what to do about an axis that a target has not got at all.
func (p *Plan) withoutAxis(axis string) string {
	if p.Profile.Target.several() {
		return fmt.Sprintf("take the axis out of the profile, or write unsupported: skip, which leaves %s to the targets that have it", axis)
	}
	return "take the axis out of the profile, or give another target (--device)"
}

// cannot says why a member cannot have a level; "" when it can, as far as one can see without trying.
func (p *Plan) cannot(axis, level string, m MemberState) string {
	a := m.Allowed
	switch {
	case !a.Writable:
		return fmt.Sprintf("%s cannot be set: %s", axis, m.Reason)
	case a.Levels != nil:
		if !slices.Contains(a.Levels, level) {
			return fmt.Sprintf("%s %s is none of %s", axis, level, strings.Join(a.Levels, ", "))
		}
		return ""
	case strings.HasPrefix(m.Reason, "not checked"):
		return ""
	}
	n, err := strconv.Atoi(level)
	switch {
	case err != nil:
		return fmt.Sprintf("%s %s is no number", axis, level)
	case n < a.Min && axis == "max_sectors_kb":
		return fmt.Sprintf("%s %d is below the page size (%d)", axis, n, a.Min)
	case n > a.Max && axis == "max_sectors_kb":
		return fmt.Sprintf("%s %d is above max_hw_sectors_kb %d", axis, n, a.Max)
	case n < a.Min:
		return withReason(fmt.Sprintf("%s %d is below the lowest level, %d", axis, n, a.Min), a.Reason)
	case n > a.Max:
		return withReason(fmt.Sprintf("%s %d is above the highest level, %d", axis, n, a.Max), a.Reason)
	}
	return ""
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + " (" + reason + ")"
}

// raises refuses levels above what a member has now: somebody may have lowered it because the drive, its cable or its
// port multiplier locks up otherwise, and a write cache that is off may be off so that a power cut loses nothing.
// Levels that the member cannot have anyway are not among them.
func (p *Plan) raises(found *grouped, k PlannedKnob, m MemberState) {
	if !m.Allowed.Writable || m.Now == "" {
		return
	}
	now, err := strconv.Atoi(m.Now)
	number := err == nil && m.Allowed.Levels == nil
	var above []string
	for _, level := range k.Levels {
		if p.cannot(k.Name, level, m) != "" {
			continue
		}
		if n, err := strconv.Atoi(level); number && err == nil && n > now {
			above = append(above, level)
		}
		if k.Name == "write_cache" && level == "on" && m.Now == "off" {
			found.add(m.Member, "write_cache on: it is off now, and while it is on a power cut can lose data", "add --allow raise if that is meant")
		}
	}
	if len(above) > 0 {
		found.add(m.Member, fmt.Sprintf("%s %s is above what it is now, %d; somebody may have lowered it for a reason", k.Name, strings.Join(above, ", "), now),
			"add --allow raise if that is meant")
	}
}

// mayRaise says that raising a member is consented to: by --allow raise, or by --erase of that very disk, where the disk as a
// whole is a target or a part of one that is built.
func (p *Plan) mayRaise(h sysfs.Host, o PlanOptions, member string) bool {
	if o.Allow["raise"] {
		return true
	}
	whole := func(d sysfs.Device) bool {
		return d.Name == member && d.Kind == sysfs.KindDisk && h.Consent(d, o.Erase) != sysfs.NotNamed
	}
	for _, t := range p.Targets {
		if t.Stack.Directory == "" && whole(t.Stack.Device) || slices.ContainsFunc(t.Parts, whole) {
			return true
		}
	}
	return false
}

// grouped collects refusals; those of one reason are one, with all its devices.
type grouped struct {
	refusals []sysfs.Refusal
}

func (g *grouped) add(device, reason, fix string) {
	for i, r := range g.refusals {
		if r.Reason == reason && r.Fix == fix {
			if !slices.Contains(strings.Split(r.Device, ", "), device) {
				g.refusals[i].Device += ", " + device
			}
			return
		}
	}
	g.refusals = append(g.refusals, sysfs.Refusal{Device: device, Reason: reason, Fix: fix})
}
