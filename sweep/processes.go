package sweep

import (
	"context"
	"fmt"
	"os"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
	"qdsweep/workload"
)

// startKeeper starts the settings process and has it lock the members.
func (s *Sweep) startKeeper(ctx context.Context, stack sysfs.Stack) error {
	var err error
	if s.keeper, err = s.newKeeper(ctx); err != nil {
		return err
	}
	return s.keeper.Claim(ctx, members(stack), s.opt.Wait)
}

func (s *Sweep) newKeeper(ctx context.Context) (*keeper.Client, error) {
	if s.opt.StartKeeper != nil {
		return s.opt.StartKeeper(ctx)
	}
	return keeper.Start(ctx, keeper.Options{StateDir: s.opt.StateDir, Sweep: s.id, Log: os.Stderr})
}

func members(stack sysfs.Stack) []keeper.Member {
	var out []keeper.Member
	for _, m := range stack.Members {
		out = append(out, keeper.Member{Name: m.Name, Identity: m.Identity})
	}
	return out
}

// orders gives every member the same settings.
func orders(stack sysfs.Stack, set []sysfs.Setting) []keeper.Order {
	var out []keeper.Order
	for _, m := range members(stack) {
		out = append(out, keeper.Order{Member: m, Set: set})
	}
	return out
}

// startWorker starts the worker. The keeper is told of each process before it gets work, also of one that replaces one that died between two runs.
func (s *Sweep) startWorker(ctx context.Context) (err error) {
	s.worker, err = workload.Start(ctx, workload.StartOptions{Stderr: os.Stderr, Started: func(pid int) error {
		ctx, cancel := context.WithTimeout(context.Background(), claimPatience)
		defer cancel()
		return s.keeper.Worker(ctx, pid)
	}})
	if err != nil {
		s.worker = nil
		return fmt.Errorf("start the worker: %w", err)
	}
	return nil
}

// dropWorker gives up a worker that was killed or died; the next run's gate starts another.
func (s *Sweep) dropWorker() {
	s.worker.Close()
	s.worker = nil
}

// layOut makes the files of a directory target, once, at the original settings.
func (s *Sweep) layOut(ctx context.Context) error {
	if s.claim.dir == nil {
		return nil
	}
	for _, w := range s.plan.Largest() {
		s.note("laying out the files of %s", w.Name)
		if err := s.worker.Prepare(ctx, w, s.target(), s.plan.Profile.Seed); err != nil {
			return fmt.Errorf("lay out the files of %s in %s: %w", w.Name, s.claim.dir.Name(), err)
		}
	}
	return nil
}

// target is what the worker is handed.
func (s *Sweep) target() workload.Target {
	d := s.plan.Targets[0].Stack.Device
	return workload.Target{File: s.claim.node, Dir: s.claim.dir, Name: s.plan.Targets[0].Stack.Target, Bytes: d.Bytes, LogicalBlock: d.LogicalBlock}
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
	put, err := fresh.Recover(ctx)
	if err != nil {
		return put, err
	}
	if err := fresh.Claim(ctx, members(s.plan.Targets[0].Stack), claimPatience); err != nil {
		s.orphaned = fmt.Errorf("go on with another keeper after one died: %w", err)
		return put, nil
	}
	if s.worker != nil && fresh.Worker(ctx, s.worker.PID()) != nil {
		s.dropWorker() // whatever killed the keeper took it, too
	}
	return put, nil
}
