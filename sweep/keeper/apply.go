package keeper

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sort"
	"time"

	"qdsweep/sysfs"
)

func sortMembers(members []Member) {
	sort.Slice(members, func(a, b int) bool { return members[a].Key() < members[b].Key() })
}

// inOrder sorts settings as Knobs are, the order in which one does not undo another.
func inOrder(set []sysfs.Setting) ([]sysfs.Setting, error) {
	var ordered []sysfs.Setting
	known := map[string]bool{}
	for _, k := range sysfs.Knobs() {
		known[k.Name] = true
		for _, s := range set {
			if s.Knob == k.Name {
				ordered = append(ordered, s)
			}
		}
	}
	for _, s := range set {
		if !known[s.Knob] {
			return nil, fmt.Errorf("apply: there is no knob %q", s.Knob)
		}
	}
	return ordered, nil
}

// part is what one member is to have in one apply, and what became of it.
type part struct {
	m       *member
	set     []sysfs.Setting // in the order of Knobs
	rows    []Applied
	stopped string // why it gets no further settings, "" none
}

// parts finds the claimed members that orders name.
func (s *server) parts(orders []Order) ([]*part, error) {
	if len(orders) == 0 {
		return nil, errors.New("apply: no member is named")
	}
	all := make([]*part, len(orders))
	seen := map[string]bool{}
	for i, o := range orders {
		at := slices.IndexFunc(s.members, func(m *member) bool { return m.Key() == o.Member.Key() })
		switch {
		case at < 0:
			return nil, fmt.Errorf("apply: %s (%s) is not claimed", o.Member.Name, o.Member.Key())
		case seen[o.Member.Key()]:
			return nil, fmt.Errorf("apply: %s (%s) is named twice", o.Member.Name, o.Member.Key())
		}
		seen[o.Member.Key()] = true
		set, err := inOrder(o.Set)
		if err != nil {
			return nil, err
		}
		all[i] = &part{m: s.members[at], set: set}
	}
	return all, nil
}

// untried says of settings that they were not made, and why.
func (p *part) untried(set []sysfs.Setting) {
	for _, want := range set {
		p.rows = append(p.rows, Applied{Member: p.m.Identity, Name: p.m.Name, Setting: want, Err: p.stopped, NotTried: true})
	}
}

// apply: snapshot, journal, apply, read back. With an error nothing was changed by this call.
//
// When whole is asked for, the members go setting by setting, together: as soon as one of them could not be set, nothing
// further is set on any. The write cache comes first, so a RAID adapter that refuses it is known before a queue is touched.
func (s *server) apply(ctx context.Context, a applyArgs) ([]Applied, error) {
	parts, err := s.parts(a.Orders)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if p.m.dead == "" && p.m.busy() {
			p.m.dead = "an earlier command is still in the kernel"
		}
		if p.m.dead != "" {
			p.stopped = "left alone: " + p.m.dead
		}
	}
	if err := s.journal(ctx, going(parts)); err != nil {
		return nil, err
	}
	for _, stage := range stages(parts, a.Whole) {
		s.applyStage(ctx, parts, stage, a.Whole)
	}
	s.readBack(ctx, parts)
	var rows []Applied
	for _, p := range parts {
		if p.m.dead == "" {
			p.m.applied = nil
		}
		for _, a := range p.rows {
			if a.Err == "" {
				p.m.applied = append(p.m.applied, applied{a.Setting, a.Effective})
			}
		}
		rows = append(rows, p.rows...)
	}
	return rows, nil
}

// going are the parts that nothing has stopped.
func going(parts []*part) []*part {
	return slices.DeleteFunc(slices.Clone(parts), func(p *part) bool { return p.stopped != "" })
}

func membersOf(parts []*part) []*member {
	all := make([]*member, len(parts))
	for i, p := range parts {
		all[i] = p.m
	}
	return all
}

// stage is what is set at once: of each member's part, by its key, some settings.
type stage map[string][]sysfs.Setting

// stages are all settings at once, or, whole, knob by knob.
func stages(parts []*part, whole bool) []stage {
	at := func(choose func(sysfs.Setting) bool) stage {
		now := stage{}
		for _, p := range parts {
			for _, want := range p.set {
				if choose(want) {
					now[p.m.Key()] = append(now[p.m.Key()], want)
				}
			}
		}
		return now
	}
	var all []stage
	if !whole {
		all = append(all, at(func(sysfs.Setting) bool { return true }))
	} else {
		for _, k := range sysfs.Knobs() {
			all = append(all, at(func(s sysfs.Setting) bool { return s.Knob == k.Name }))
		}
	}
	return slices.DeleteFunc(all, func(s stage) bool { return len(s) == 0 })
}

func (s *server) applyStage(ctx context.Context, parts []*part, now stage, whole bool) {
	concerned := slices.DeleteFunc(slices.Clone(parts), func(p *part) bool { return len(now[p.m.Key()]) == 0 })
	able := going(concerned)
	recorded := map[string]sysfs.Snapshot{}
	most := 0
	for _, p := range able {
		recorded[p.m.Key()] = *p.m.entry.Snapshot
		most = max(most, len(now[p.m.Key()]))
	}
	done, errs := each(ctx, membersOf(able), time.Duration(most)*s.writeTimeout+jobGrace, func(m Member) ([]Applied, error) {
		return s.applyTo(ctx, m, now[m.Key()], recorded[m.Key()])
	})
	missing := "" // what one of them has not got, in a sweep that wants it on all
	for _, p := range concerned {
		i := slices.Index(able, p)
		switch {
		case i < 0:
			p.untried(now[p.m.Key()])
		case errs[i] != nil:
			p.stopped = errs[i].Error()
			p.untried(now[p.m.Key()])
			for k := range p.rows {
				p.rows[k].NotTried = false // some may be made
			}
		default:
			p.rows = append(p.rows, done[i]...)
			for _, row := range done[i] {
				if row.Err != "" && !row.Unsupported {
					p.stopped = "not tried after " + row.Knob
					break
				}
			}
		}
		if failed := slices.IndexFunc(p.rows, func(a Applied) bool { return a.Err != "" }); failed >= 0 && missing == "" {
			missing = fmt.Sprintf("not tried, for %s of %s was not set", p.rows[failed].Knob, p.m.Name)
		}
	}
	if !whole || missing == "" {
		return
	}
	for _, p := range parts {
		if p.stopped == "" {
			p.stopped = missing
		}
	}
}

// journal snapshots the members whose originals are not known yet, and records all that are not durably recorded. A
// member with an entry is changed or may be: what it has now is not original.
func (s *server) journal(ctx context.Context, parts []*part) error {
	var fresh, unsaved []*member
	sets := map[string][]sysfs.Setting{}
	for _, p := range parts {
		sets[p.m.Key()] = p.set
		if p.m.entry == nil {
			fresh = append(fresh, p.m)
		}
		if !p.m.recorded {
			unsaved = append(unsaved, p.m)
		}
	}
	snapshots, errs := each(ctx, fresh, s.writeTimeout+jobGrace, func(m Member) (sysfs.Snapshot, error) {
		return s.snapshot(ctx, m, sets[m.Key()])
	})
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("snapshot of %s: %w", fresh[i].Name, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, m := range fresh {
		e := s.entry()
		e.Identity, e.Name, e.PartOf = m.Identity, m.Name, m.partOf
		e.Taken, e.Snapshot, e.Settings = snapshots[i].Taken, &snapshots[i], sets[m.Key()]
		m.entry = &e
	}
	if len(unsaved) == 0 {
		return nil
	}
	entries := make([]Entry, len(unsaved))
	for i, m := range unsaved {
		entries[i] = *m.entry
	}
	if err := s.j.Save(entries...); err != nil {
		return err // some may be on disk: restoring compares, and removes them
	}
	for _, m := range unsaved {
		m.recorded = true
	}
	return nil
}

func (s *server) snapshot(ctx context.Context, m Member, set []sysfs.Setting) (snapshot sysfs.Snapshot, err error) {
	defer caught(&err)
	d, err := s.same(m)
	if err != nil {
		return sysfs.Snapshot{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.writeTimeout)
	defer cancel()
	return d.Snapshot(ctx, set...)
}

// applyTo makes the settings on one member, on its thread. It stops at the first that fails otherwise than by not
// being supported: what follows would be on a drive in an unknown state.
func (s *server) applyTo(ctx context.Context, m Member, set []sysfs.Setting, originals sysfs.Snapshot) (rows []Applied, err error) {
	defer caught(&err)
	d, err := s.same(m)
	if err != nil {
		return nil, err
	}
	stopped := ""
	for _, want := range set {
		row := Applied{Member: m.Identity, Name: m.Name, Setting: want}
		switch {
		case stopped != "":
			row.Err, row.NotTried = "not tried after "+stopped, true
		case ctx.Err() != nil:
			row.Err, row.NotTried = "abandoned", true
		default:
			row.Effective, row.Unsupported, row.Err = s.applyOne(ctx, d, want, originals)
			if row.Err != "" && !row.Unsupported {
				stopped = want.Knob
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// applyOne cannot be abandoned half way, only run out of its own time: a write given up on could still take effect
// after the restore.
func (s *server) applyOne(ctx context.Context, d sysfs.Device, want sysfs.Setting, originals sysfs.Snapshot) (effective string, unsupported bool, text string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.writeTimeout)
	defer cancel()
	if !originals.Holds(want.Knob) {
		// A drive that cannot be asked for its state, an attribute that cannot be read: it could not be put back.
		why := "its original could not be read, so it is not touched"
		if want.Knob == "write_cache" && originals.WriteCacheReason != "" {
			why += ": " + originals.WriteCacheReason
		}
		if _, err := d.Allowed(ctx, want.Knob); errors.Is(err, sysfs.ErrUnsupported) {
			return "", true, err.Error()
		}
		return "", false, fmt.Sprintf("%s of %s: %s", want.Knob, d.Name, why)
	}
	effective, err := d.Apply(ctx, want)
	if err != nil {
		return effective, errors.Is(err, sysfs.ErrUnsupported), err.Error()
	}
	return effective, false, ""
}

// caught turns a panic in one member's job into its error: the others must still be restored.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
	}
}
