package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// readBack reads what is in force now: a later setting may have moved an earlier one.
func (s *server) readBack(ctx context.Context, parts []*part) {
	able := going(parts)
	made := map[string][]Applied{}
	for _, p := range parts {
		made[p.m.Key()] = p.rows
	}
	read, errs := each(ctx, membersOf(able), s.writeTimeout+jobGrace, func(m Member) (rows []Applied, err error) {
		defer caught(&err)
		d, err := s.same(m)
		if err != nil {
			return nil, err
		}
		rows = slices.Clone(made[m.Key()])
		for i := range rows {
			if rows[i].Err != "" || ctx.Err() != nil {
				continue
			}
			if rows[i].Effective, err = s.current(ctx, d, rows[i].Knob); err != nil {
				rows[i].Err = err.Error()
			}
		}
		return rows, nil
	})
	for _, p := range parts {
		i := slices.Index(able, p)
		switch {
		case i < 0:
		case errs[i] == nil:
			p.rows = read[i]
		default:
			for k := range p.rows {
				if p.rows[k].Err == "" {
					p.rows[k].Err = errs[i].Error()
				}
			}
		}
	}
}

func (s *server) current(ctx context.Context, d sysfs.Device, knob string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.writeTimeout)
	defer cancel()
	return d.Current(ctx, knob)
}

// check compares the knobs that were applied with what they read now.
func (s *server) check(ctx context.Context) ([]sysfs.Moved, error) {
	var with []*member
	for _, m := range s.members {
		if len(m.applied) > 0 {
			with = append(with, m)
		}
	}
	want := map[string][]applied{}
	for _, m := range with {
		want[m.Key()] = m.applied
	}
	found, errs := each(ctx, with, s.writeTimeout+jobGrace, func(m Member) (moved []sysfs.Moved, err error) {
		defer caught(&err)
		d, err := s.same(m)
		if err != nil {
			return nil, err
		}
		for _, a := range want[m.Key()] {
			now, err := s.current(ctx, d, a.Knob)
			if err != nil {
				return moved, fmt.Errorf("%s of %s: %w", a.Knob, m.Name, err)
			}
			if now != a.effective {
				moved = append(moved, sysfs.Moved{Device: m.Name, Knob: a.Knob, From: a.effective, To: now})
			}
		}
		return moved, nil
	})
	moved := []sysfs.Moved{}
	for i := range found {
		moved = append(moved, found[i]...)
	}
	return moved, errors.Join(errs...)
}

// flush empties the write caches of members, all where none is named. For a drive that has no command for it (NVMe,
// virtio) the kernel does it when the node is synced. An md or dm device has no cache: those below it are flushed.
func (s *server) flush(ctx context.Context, names []Member) error {
	var members []*member
	nodes := map[string]int{}
	for _, m := range s.members {
		if len(names) > 0 && !has(names, m.Key()) {
			continue
		}
		members = append(members, m)
		if m.claim.node != nil {
			nodes[m.Key()] = int(m.claim.node.Fd())
		}
	}
	_, errs := each(ctx, members, s.writeTimeout+jobGrace, func(m Member) (_ struct{}, err error) {
		defer caught(&err)
		d, err := s.same(m)
		if err != nil {
			return struct{}{}, err
		}
		if d.Kind == sysfs.KindMD || d.Kind == sysfs.KindDM {
			return struct{}{}, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.writeTimeout)
		defer cancel()
		if err := d.Flush(ctx); err != nil {
			return struct{}{}, fmt.Errorf("flush %s: %w", m.Name, err)
		}
		if fd, has := nodes[m.Key()]; has && s.h.Live() && d.Transport != "ata" && d.Transport != "sas" {
			if err := unix.Fsync(fd); err != nil {
				return struct{}{}, fmt.Errorf("flush %s: fsync: %w", m.Name, err)
			}
		}
		return struct{}{}, nil
	})
	return errors.Join(errs...)
}
