package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
	"qdsweep/workload"
)

// startKeeper starts the settings process and has it lock every device that the sweep may set. It returns the targets that the sweep goes on with.
func (s *Sweep) startKeeper(ctx context.Context, targets []*Target) ([]*Target, error) {
	var err error
	if s.keeper, err = s.newKeeper(ctx); err != nil {
		return nil, err
	}
	return s.claimWithout(ctx, targets)
}

func (s *Sweep) newKeeper(ctx context.Context) (*keeper.Client, error) {
	if s.opt.StartKeeper != nil {
		return s.opt.StartKeeper(ctx)
	}
	return keeper.Start(ctx, keeper.Options{StateDir: s.opt.StateDir, Sweep: s.id, Log: os.Stderr})
}

// addMembers adds what a stack has that can be set: its members, and the arrays and mappings on them. Each counts once.
func addMembers(all []keeper.Member, stack sysfs.Stack) []keeper.Member {
	for _, d := range stack.Settable() {
		if m := memberOf(d); !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

// orders gives every device of the stack the settings that are made on it. One without any is recorded and compared all the same: a member's limit can
// move the array's.
func orders(stack sysfs.Stack, set []sysfs.Setting) []keeper.Order {
	carried := map[string][]sysfs.Setting{}
	for _, setting := range set {
		knob, _ := sysfs.LookupKnob(setting.Knob)
		for _, d := range stack.Carriers(knob) {
			carried[d.Name] = append(carried[d.Name], setting)
		}
	}
	var out []keeper.Order
	for _, d := range stack.Settable() {
		out = append(out, keeper.Order{Member: memberOf(d), Set: carried[d.Name]})
	}
	return out
}

func memberOf(d sysfs.Device) keeper.Member { return keeper.Member{Name: d.Name, Identity: d.Identity} }

// startWorker starts the worker. The keeper is told of each process before it gets work, also of one that replaces one that died between two runs.
func (s *Sweep) startWorker(ctx context.Context) (err error) {
	s.worker, err = workload.Start(ctx, workload.StartOptions{Stderr: os.Stderr, Started: func(pid int) error {
		ctx, cancel := context.WithTimeout(context.Background(), claimPatience)
		defer cancel()
		return s.keeper.Worker(ctx, pid)
	}, Began: func(phase string) { s.began(phase) }})
	if err != nil {
		s.worker = nil
		return fmt.Errorf("start the worker: %w", err)
	}
	return nil
}

// byWorker has the worker do one thing with a target, within the time of one run. One that had to be killed for it is replaced by the next thing to do.
func (s *Sweep) byWorker(ctx context.Context, h *hold, do func(*workload.Worker, context.Context, workload.Target) error) error {
	if s.worker == nil { // the last one was killed, or died
		if err := s.startWorker(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout(), errTimeout)
	defer cancel()
	return do(s.worker, ctx, workload.Target{File: h.node, Dir: h.dir, Name: h.stack.Target})
}

// dropWorker gives up a worker that was killed or died; the next run's gate starts another.
func (s *Sweep) dropWorker() {
	s.worker.Close()
	s.worker = nil
}

// layOut makes the files of a directory target, once, at the original settings.
func (s *Sweep) layOut(ctx context.Context, h *hold) error {
	if h.dir == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.layOutLimit(), errTimeout)
	defer cancel()
	for _, w := range s.plan.Largest() {
		s.note("laying out the files of %s", w.Name)
		if err := s.worker.Prepare(ctx, w, s.target(h, w), s.plan.Profile.Seed); err != nil {
			if errors.Is(err, workload.ErrStuck) {
				s.stuck(h)
			}
			return fmt.Errorf("lay out the files of %s in %s: %w", w.Name, h.dir.Name(), err)
		}
	}
	return nil
}

// slowDisk is slower than any disk that somebody sweeps, in byte/s.
const slowDisk = 5e6

// layOutLimit bounds the making of a directory's files: a drive that does not answer must not hold up the night.
func (s *Sweep) layOutLimit() time.Duration {
	return s.timeout() + seconds(float64(s.plan.SpaceNeeded())/slowDisk) + time.Duration(s.plan.FilesNeeded())*perFile
}

// target is what the worker is handed.
func (s *Sweep) target(h *hold, w workload.Spec) workload.Target {
	d := h.stack.Device
	return workload.Target{File: h.node, Dir: h.dir, Name: h.stack.Target, Bytes: d.Bytes, LogicalBlock: d.LogicalBlock,
		SG: h.pass.node, Start: h.stack.Offset, MaxTransfer: h.pass.maxTransfer(w)}
}

func (s *Sweep) keeperDead() bool {
	select {
	case <-s.keeper.Died():
		return true
	default:
		return false
	}
}

// reviveKeeper starts another keeper after one died: it puts back what the journal says, and takes the locks again. The error is of the putting back;
// a keeper that did that and cannot go on is orphaned.
func (s *Sweep) reviveKeeper() ([]keeper.Restored, error) {
	ctx, cancel := context.WithTimeout(context.Background(), reviveLimit)
	defer cancel()
	old := s.keeper
	fresh, err := s.newKeeper(ctx)
	if err != nil {
		return nil, fmt.Errorf("start another keeper after one died: %w; what it had changed is in the journal: sudo qdsweep restore", err)
	}
	old.Close()
	s.keeper = fresh
	put, recovered := fresh.Recover(ctx)
	var named *keeper.NotRestoredError
	if recovered != nil && !errors.As(recovered, &named) {
		return put, recovered
	}
	if err := fresh.Claim(ctx, s.claimable(put), claimPatience); err != nil {
		s.orphaned = fmt.Errorf("go on with another keeper after one died: %w", err)
		return put, recovered
	}
	if s.worker != nil { // one that lost us, and not its life, is about to kill our worker: the next run must not have that one
		s.dropWorker()
	}
	return put, recovered
}

// claimable is what another keeper takes over: everything but what could not be put back, which nobody may change again.
func (s *Sweep) claimable(put []keeper.Restored) []keeper.Member {
	var all []keeper.Member
	for _, h := range s.holds {
		all = addMembers(all, h.stack)
	}
	return slices.DeleteFunc(all, func(m keeper.Member) bool {
		return slices.ContainsFunc(put, func(r keeper.Restored) bool { return r.Name == m.Name && r.Err != "" })
	})
}
