package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"qdsweep/sysfs"
)

// member is one claimed disk. All that touches the disk runs on its own goroutine, one job after another: a thread that
// the kernel does not let go is that goroutine's, and holds up this member and no other. (It is not locked to a thread:
// each attribute is read and written by a further goroutine, and to switch threads for that costs more than the read.)
type member struct {
	Member
	claim *claim
	jobs  chan func()

	partOf string // UUID of the sweep's own array that it is, "" else

	// Of the op loop only. A job gets what it needs as arguments and returns its results.
	entry    *Entry            // its originals, from the snapshot until they are known to be back
	recorded bool              // the entry is durable
	applied  []applied         // since the snapshot
	dead     string            // why it gets no further applies, "" none
	stuck    *Restored         // what the last restore said, where the kernel did not come back from it in time
	pending  []<-chan struct{} // jobs that were left behind
}

type applied struct {
	sysfs.Setting
	effective string
}

func newMember(m Member, c *claim) *member {
	mb := &member{Member: m, claim: c, jobs: make(chan func(), 256)}
	go func() {
		for job := range mb.jobs {
			job()
		}
	}()
	return mb
}

// start queues a job. done is closed when it has run.
func (m *member) start(job func()) (done <-chan struct{}, ok bool) {
	ch := make(chan struct{})
	select {
	case m.jobs <- func() { defer close(ch); job() }:
		return ch, true
	default:
		return nil, false // 256 jobs behind one that does not end
	}
}

// busy says whether a job that was left behind is still in the kernel.
func (m *member) busy() bool {
	left := m.pending[:0]
	for _, p := range m.pending {
		select {
		case <-p:
		default:
			left = append(left, p)
		}
	}
	m.pending = left
	return len(left) > 0
}

func (m *member) release() {
	if m.busy() {
		// Its claim stays until the process ends: the write in the kernel may still take effect.
		return
	}
	close(m.jobs)
	m.claim.release()
}

var errLeftBehind = fmt.Errorf("no answer in time: %w", sysfs.ErrStuck)

// each runs a job on every member at once, and waits for all of them, for at most patience, and no longer than ctx.
// A job's result counts only when it came in time; otherwise it is the error, and the job is left behind.
func each[T any](ctx context.Context, members []*member, patience time.Duration, job func(m Member) (T, error)) ([]T, []error) {
	results, errs := make([]T, len(members)), make([]error, len(members))
	done := make([]<-chan struct{}, len(members))
	var mu sync.Mutex
	type outcome struct {
		result T
		err    error
	}
	outcomes := make([]*outcome, len(members))
	for i, m := range members {
		who := m.Member
		ch, ok := m.start(func() {
			r, err := job(who)
			mu.Lock()
			defer mu.Unlock()
			outcomes[i] = &outcome{r, err}
		})
		if ok {
			done[i] = ch
		}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	over := false
	for i := range members {
		if done[i] == nil || over {
			continue
		}
		select {
		case <-done[i]:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			over = true
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for i, m := range members {
		switch {
		case outcomes[i] != nil:
			results[i], errs[i] = outcomes[i].result, outcomes[i].err
			continue
		case ctx.Err() != nil:
			errs[i] = fmt.Errorf("abandoned: %w", ctx.Err())
		default:
			errs[i] = errLeftBehind
		}
		if done[i] != nil {
			m.pending = append(m.pending, done[i])
		}
	}
	return results, errs
}

// find gives the device that a member is now: under its name, or, replugged, under another one.
func find(h sysfs.Host, m Member) (sysfs.Device, error) {
	d, err := h.Device(m.Name)
	if err == nil && d.Identity == m.Identity {
		return d, nil
	}
	if m.Identity == "" {
		if err == nil {
			return sysfs.Device{}, &ChangedError{Name: m.Name, Want: "a device without identity", Got: string(d.Identity)}
		}
		return sysfs.Device{}, fmt.Errorf("%s: %w", m.Name, err)
	}
	all, err := h.Devices()
	if err != nil {
		return sysfs.Device{}, fmt.Errorf("look for %s: %w", m.Identity, err)
	}
	var found []sysfs.Device
	for _, d := range all {
		if d.Identity == m.Identity {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		return sysfs.Device{}, fmt.Errorf("%s, which was %s, is not there: %w", m.Identity, m.Name, sysfs.ErrNoDevice)
	case 1:
		return found[0], nil
	}
	names := ""
	for _, d := range found {
		names += " " + d.Name
	}
	return sysfs.Device{}, errors.New("several devices are " + string(m.Identity) + ":" + names)
}
