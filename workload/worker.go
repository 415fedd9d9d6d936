package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"qdsweep/sweep/wire"
)

var (
	// ErrKilled: the worker was killed because the context ended, or the workload's own timeout.
	ErrKilled = errors.New("worker killed")
	// ErrStuck: killed, and still there 10 s later: a thread of it waits in the kernel for the device.
	ErrStuck = errors.New("stuck in the kernel")
	// ErrDied: the worker ended by itself in the middle of something.
	ErrDied = errors.New("worker died")
)

// patience is how long a killed worker may take to go away. A process that waits for a drive
// uninterruptibly goes when the drive answers, whoever kills it.
const patience = 10 * time.Second

// StartOptions say how a worker process is started.
type StartOptions struct {
	Args   []string // the hidden subcommand, default "worker"
	Env    []string // added to this process's own
	Stderr *os.File // default: this process's own
	// Started is told of each process, before it is given work: also of those that replace one that
	// died, so that whoever guards the worker's group knows the new one. pid is the group's id too.
	Started func(pid int) error
	// Began is told of each phase of a workload of several, as it begins, by the goroutine that called Run.
	Began func(phase string)
}

// Worker is main's end of the worker process. One call at a time. A process that died, or was killed, is
// replaced by the next call.
type Worker struct {
	o        StartOptions
	patience time.Duration
	kill     func(*wire.Process) // tests stand in for a kernel that does not let go

	mu      sync.Mutex
	process *wire.Process
	pid     int
}

// Start starts a worker process: this program again, in a process group of its own, killed when this
// process dies. Its threads keep their P in the kernel, so the runtime shall not send them signals to
// take it away.
func Start(ctx context.Context, o StartOptions) (*Worker, error) {
	if o.Args == nil {
		o.Args = []string{"worker"}
	}
	w := &Worker{o: o, patience: patience, kill: (*wire.Process).Kill}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	if err := w.start(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Worker) start() error {
	p, err := wire.Spawn(wire.Child{
		Args: w.o.Args, Env: append([]string{"GODEBUG=asyncpreemptoff=1"}, w.o.Env...), Group: true, DieWithParent: true, Stderr: w.o.Stderr,
	})
	if err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	if w.o.Started != nil {
		if err := w.o.Started(p.PID()); err != nil {
			p.Kill()
			_ = p.Conn.Close()
			return fmt.Errorf("start the worker: %w", err)
		}
	}
	w.process, w.pid = p, p.PID()
	return nil
}

// PID is the process, and its group, that was started last.
func (w *Worker) PID() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pid
}

// Prepare lays out what the workload finds in a directory, synced. Of a device it does nothing.
func (w *Worker) Prepare(ctx context.Context, s Spec, t Target, seed uint64) error {
	if t.Dir == nil {
		return nil
	}
	r, err := w.call(ctx, "prepare", s, t, seed)
	if err != nil {
		return err
	}
	if err := r.error(); err != nil {
		return fmt.Errorf("prepare %s: %w", s.Name, err)
	}
	return nil
}

// Sync makes the target's dirty pages durable, and no other disk's. It is the worker's to do: whoever syncs a drive that does not answer cannot
// end before it does, and main must.
func (w *Worker) Sync(ctx context.Context, t Target) error { return w.simple(ctx, "sync", t) }

// Drop drops the target's clean pages from the page cache.
func (w *Worker) Drop(ctx context.Context, t Target) error { return w.simple(ctx, "drop", t) }

func (w *Worker) simple(ctx context.Context, do string, t Target) error {
	r, err := w.call(ctx, do, Spec{}, t, 0)
	if err != nil {
		return err
	}
	return r.error()
}

// error is what the worker process says of what it could not do.
func (r reply) error() error {
	switch {
	case r.Errno != 0:
		return told{syscall.Errno(r.Errno), r.Err}
	case r.Err != "":
		return errors.New(r.Err)
	}
	return nil
}

// told is an errno of the worker process with the worker's text.
type told struct {
	errno syscall.Errno
	text  string
}

func (e told) Error() string { return e.text }
func (e told) Unwrap() error { return e.errno }

// Run does the workload and gives a Result a phase, in order; after a failed phase the others are not
// done. Errors of the I/O are in the results. The error is for a worker that did not answer: ErrKilled
// when ctx or the workload's timeout ended it, ErrStuck when it could not be killed, ErrDied.
func (w *Worker) Run(ctx context.Context, s Spec, t Target, seed uint64) ([]Result, error) {
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("timeout of %s: %w", FormatDuration(s.Timeout), context.DeadlineExceeded))
		defer cancel()
	}
	r, err := w.call(ctx, "run", s, t, seed)
	if err != nil {
		return nil, err
	}
	if r.Err != "" {
		return nil, fmt.Errorf("run %s: %s", s.Name, r.Err)
	}
	return r.Results, nil
}

func (w *Worker) call(ctx context.Context, do string, s Spec, t Target, seed uint64) (reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return reply{}, fmt.Errorf("%s: not begun: %w: %w", strings.TrimSpace(do+" "+s.Name), ErrKilled, context.Cause(ctx))
	}
	if w.process != nil {
		select {
		case <-w.process.Exited():
			w.forget()
		default:
		}
	}
	if w.process == nil {
		if err := w.start(); err != nil {
			return reply{}, err
		}
	}
	q := request{Do: do, Spec: s, Directory: t.Dir != nil, Name: t.Name, Bytes: t.Bytes, LogicalBlock: t.LogicalBlock, Start: t.Start, MaxTransfer: t.MaxTransfer, Seed: seed}
	var files []*os.File
	switch {
	case t.Dir != nil:
		files = []*os.File{t.Dir}
	case t.File != nil:
		files = []*os.File{t.File}
		if s.SGQueued() && t.SG != nil {
			files = append(files, t.SG)
		}
	}
	err := w.process.Conn.SendContext(ctx, q, files...)
	for err == nil {
		var r reply
		if _, err = w.process.Conn.ReceiveContext(ctx, &r); err != nil {
			break
		}
		if r.Began == "" {
			return r, nil
		}
		if w.o.Began != nil {
			w.o.Began(r.Began)
		}
	}
	return reply{}, fmt.Errorf("%s on %s: %w", strings.TrimSpace(do+" "+s.Name), t.Name, w.end(ctx, err))
}

// end gets rid of a process that does not answer, and says how it ended.
func (w *Worker) end(ctx context.Context, err error) error {
	p := w.process
	defer w.forget()
	if ctx.Err() == nil { // it closed the line: it is dying, or confused
		select {
		case <-p.Exited():
			return fmt.Errorf("%w: %s: %w", ErrDied, howEnded(p), err)
		case <-time.After(time.Second):
		}
	}
	w.kill(p)
	select {
	case <-p.Exited():
	case <-time.After(w.patience):
		return fmt.Errorf("pid %d is there %s after SIGKILL: %w", w.pid, FormatDuration(w.patience), ErrStuck)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrKilled, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w", ErrDied, err)
}

func howEnded(p *wire.Process) string {
	if err := p.Err(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}

func (w *Worker) forget() {
	if w.process != nil {
		_ = w.process.Conn.Close()
		w.process = nil
	}
}

// Close ends the worker process.
func (w *Worker) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.process
	if p == nil {
		return nil
	}
	w.forget() // the end of the line is the end of its work
	select {
	case <-p.Exited():
		return nil
	case <-time.After(time.Second):
	}
	w.kill(p)
	select {
	case <-p.Exited():
		return nil
	case <-time.After(w.patience):
		return fmt.Errorf("end the worker: pid %d: %w", p.PID(), ErrStuck)
	}
}
