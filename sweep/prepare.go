package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// restStep is how often the wait for rest looks at the members' counters.
const restStep = 20 * time.Millisecond

// syncTarget makes the target's own dirty pages durable. The worker does it: a sync that the drive does not answer holds whoever asked for it in the kernel,
// and main must be able to leave it behind.
func (s *Sweep) syncTarget(ctx context.Context, h *hold) error {
	return s.byWorker(ctx, h, (*workload.Worker).Sync)
}

// dropCache drops the target's clean pages, so that a buffered read reads the drive.
func (s *Sweep) dropCache(ctx context.Context, h *hold) error {
	return s.byWorker(ctx, h, (*workload.Worker).Drop)
}

// quiesce brings the target and its members to rest: sync, FLUSH in the drives, nothing in flight.
func (s *Sweep) quiesce(ctx context.Context, h *hold) error {
	if err := s.syncTarget(ctx, h); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.keeperPatience())
	defer cancel()
	if err := s.keeper.Flush(ctx, addMembers(nil, h.stack)...); err != nil {
		return fmt.Errorf("flush the drives' caches: %w", err)
	}
	return nil
}

// rest waits until no member has had anything in flight, nor completed anything, for settle. It gives up after 10 × settle + 10 s
// (design section 4): a machine that never rests still gets its night, with rows that say so.
func (s *Sweep) rest(ctx context.Context, h *hold, settle time.Duration) (atRest bool, err error) {
	limit := time.Now().Add(10*settle + cmp.Or(s.opt.restless, 10*time.Second))
	quiet := time.Now()
	last := h.counters()
	for {
		if err := ctx.Err(); err != nil {
			return false, context.Cause(ctx)
		}
		now := h.counters()
		if now.inFlight != 0 || now.completed != last.completed {
			quiet, last = time.Now(), now
		} else if time.Since(quiet) >= settle {
			return true, nil
		}
		if time.Now().After(limit) {
			return false, nil
		}
		if err := pause(ctx, min(restStep, max(settle/4, time.Millisecond))); err != nil {
			return false, err
		}
	}
}

type counters struct {
	inFlight  int
	completed uint64
}

func (h *hold) counters() (c counters) {
	for _, p := range h.probes {
		if st, err := p.Stat(); err == nil {
			busy, _ := p.Busy() // pass-through commands are in the device, and not in its statistics
			c.inFlight += max(st.InFlight, busy)
			c.completed += st.ReadIOs + st.WriteIOs
		}
	}
	return c
}

// drained waits until nothing is in flight on any member, at most limit.
func (s *Sweep) drained(ctx context.Context, h *hold, limit time.Duration) error {
	until := time.Now().Add(limit)
	for h.counters().inFlight != 0 {
		if time.Now().After(until) {
			return fmt.Errorf("%d requests still in flight after %v: %w", h.counters().inFlight, limit, sysfs.ErrStuck)
		}
		if err := pause(ctx, restStep); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

var errDeadline = errors.New("did not return")

// bounded runs f in a goroutine of its own and stops waiting for it at the limit, or when ctx ends: a call that is stuck in the kernel
// cannot be interrupted, only left behind.
func bounded(ctx context.Context, limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return fmt.Errorf("%w within %v", errDeadline, limit)
	}
}
