package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"qdsweep/sweep/wire"
	"qdsweep/sysfs"
)

const (
	// startPatience is how long the new process may take to answer: a fork and exec in an emulated guest takes 50 ms.
	startPatience = 30 * time.Second
	// lastWords is for reading what a keeper said before it ended.
	lastWords = 2 * time.Second
	// closeGrace is what Close waits longer than the keeper itself gives to drives.
	closeGrace = 10 * time.Second
)

// Options say how a keeper is started. The zero value of each is its default.
type Options struct {
	StateDir       string        // required for Start
	Args           []string      // the hidden subcommand; default "keeper". "--state-dir DIR" is added
	Env            []string      // added to the environment, for tests
	Log            io.Writer     // where the keeper's own words go; default this process's standard error
	Sweep          string        // the sweep's id, for the journal
	WriteTimeout   time.Duration // one setting on one member; default 20 s
	RestoreTimeout time.Duration // until a drive that does not answer is named and left; default 60 s
}

// Client is main's end of the line to the keeper. Its methods are for one goroutine at a time but for Died and PID.
// Each returns ErrKeeperDied, wrapped, when the keeper is gone.
type Client struct {
	conn    *wire.Conn
	process *wire.Process   // nil in tests that serve in their own process
	ending  <-chan struct{} // the process has ended, or was killed and ends as soon as the kernel lets it
	died    chan struct{}
	closing time.Duration

	calling sync.Mutex
	mu      sync.Mutex
	last    int
	waiting map[int]chan response
}

// Start starts a keeper. It runs until Close, or until this process ends, and then for as long as restoring takes.
func Start(ctx context.Context, o Options) (*Client, error) {
	if o.StateDir == "" {
		return nil, errors.New("start the keeper: no state folder given")
	}
	dir, err := filepath.Abs(o.StateDir)
	if err != nil {
		return nil, fmt.Errorf("start the keeper: %w", err)
	}
	args := o.Args
	if args == nil {
		args = []string{"keeper"}
	}
	child := wire.Child{Args: append(append([]string{}, args...), "--state-dir", dir), Env: o.Env, Session: true}
	pipe, theirs, err := logTo(o.Log)
	if err != nil {
		return nil, fmt.Errorf("start the keeper: %w", err)
	}
	child.Stderr = theirs
	p, err := wire.Spawn(child)
	if pipe != nil {
		_ = theirs.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("start the keeper: %w", err)
	}
	c := newClient(p.Conn, o)
	c.process = p
	ending, ended := context.WithCancel(context.Background())
	c.ending = ending.Done()
	go func() { <-p.Exited(); ended() }()
	// A keeper that was killed with a thread in the kernel is not gone, and its line does not end: it is a zombie whose last
	// thread still holds the descriptors, and the locks. No pidfd tells of that; /proc does.
	_ = watch(p.PID(), ended)
	go func() {
		select {
		case <-c.ending:
		case <-c.died:
			return
		}
		// Its last answer may still be on the line; after that the line ends by itself, unless somebody else holds it.
		select {
		case <-time.After(lastWords):
			_ = p.Conn.Close()
		case <-c.died:
		}
	}()
	if err := c.hello(ctx, o); err != nil {
		p.Kill() // it has touched nothing yet
		_ = p.Conn.Close()
		return nil, fmt.Errorf("start the keeper: %w", err)
	}
	return c, nil
}

// Connect is Start for a keeper that is already at the other end of conn: Serve in a goroutine of a test.
func Connect(ctx context.Context, conn *wire.Conn, o Options) (*Client, error) {
	c := newClient(conn, o)
	if err := c.hello(ctx, o); err != nil {
		return nil, fmt.Errorf("connect to the keeper: %w", err)
	}
	return c, nil
}

func newClient(conn *wire.Conn, o Options) *Client {
	c := &Client{conn: conn, died: make(chan struct{}), waiting: map[int]chan response{}, closing: o.RestoreTimeout}
	if c.closing == 0 {
		c.closing = defaultRestoreTimeout
	}
	c.closing += jobGrace + closeGrace
	go c.receive()
	return c
}

// logTo gives the keeper's standard error. A file is handed over as it is, so that it is still there when this
// process is not; anything else is fed through a pipe.
func logTo(w io.Writer) (pipe, theirs *os.File, err error) {
	switch f := w.(type) {
	case nil:
		return nil, nil, nil
	case *os.File:
		return nil, f, nil
	}
	pipe, theirs, err = os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	go func() {
		_, _ = io.Copy(w, pipe)
		_ = pipe.Close()
	}()
	return pipe, theirs, nil
}

func (c *Client) receive() {
	defer close(c.died)
	for {
		var r response
		if _, err := c.conn.Receive(&r); err != nil {
			return
		}
		c.mu.Lock()
		ch := c.waiting[r.ID]
		delete(c.waiting, r.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- r
		}
	}
}

// call asks, and waits for the answer, ctx's end or the keeper's. An abandoned request stops at its next safe point.
func (c *Client) call(ctx context.Context, op string, args, result any) error {
	c.calling.Lock()
	defer c.calling.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	b, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	ch := make(chan response, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waiting[id] = ch
	c.mu.Unlock()
	if err := c.conn.SendContext(ctx, request{ID: id, Op: op, Args: b}); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", op, ctx.Err())
		}
		return fmt.Errorf("%s: %w (%w)", op, ErrKeeperDied, err)
	}
	select {
	case r := <-ch:
		return answered(op, r, result)
	case <-c.died:
		select {
		case r := <-ch: // its last word
			return answered(op, r, result)
		default:
		}
		return fmt.Errorf("%s: %w", op, ErrKeeperDied)
	case <-ctx.Done():
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.conn.SendContext(short, request{Cancel: id})
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
}

func answered(op string, r response, result any) error {
	if result != nil && len(r.Result) > 0 {
		if err := json.Unmarshal(r.Result, result); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
	if r.Err != nil {
		return r.Err
	}
	return nil
}

func (c *Client) hello(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return c.call(ctx, opHello, helloArgs{os.Getpid(), o.Sweep, o.WriteTimeout, o.RestoreTimeout}, nil)
}

// Claim takes hold of members, all or none, waiting at most wait for another sweep that has one. The error is a
// *BusyError, an *UnrestoredError or a *ChangedError where it is one of these.
func (c *Client) Claim(ctx context.Context, members []Member, wait time.Duration) error {
	return c.call(ctx, opClaim, claimArgs{members, wait}, nil)
}

// Release lets go of members, all where none is named. Each must be restored. Afterwards nothing of the keeper's holds
// the device open, so an array can be stopped. One that is not claimed is no error.
func (c *Client) Release(ctx context.Context, members ...Member) error {
	return c.call(ctx, opRelease, members, nil)
}

// Worker says whose process group is to be killed when this process dies; 0 for none.
func (c *Client) Worker(ctx context.Context, pgid int) error {
	return c.call(ctx, opWorker, pgid, nil)
}

// Apply snapshots and journals the members that the orders name, makes the settings on all of them at once, and reads
// them back. They must be claimed; other claimed ones are left alone. What a member could not do is in its Applied; an
// error means that nothing was changed, unless it is ctx's or ErrKeeperDied. In any case Restore comes next.
func (c *Client) Apply(ctx context.Context, orders []Order) ([]Applied, error) {
	var rows []Applied
	err := c.call(ctx, opApply, applyArgs{Orders: orders}, &rows)
	return rows, err
}

// ApplyWhole is Apply for somebody who wants all of it on every member or none: the settings are made in the order of
// sysfs.Knobs, each on all members that are to have it; as soon as one could not be made, nothing further is set on any.
func (c *Client) ApplyWhole(ctx context.Context, orders []Order) ([]Applied, error) {
	var rows []Applied
	err := c.call(ctx, opApply, applyArgs{Orders: orders, Whole: true}, &rows)
	return rows, err
}

// Check says what has moved since Apply, of the knobs that were applied.
func (c *Client) Check(ctx context.Context) ([]sysfs.Moved, error) {
	var moved []sysfs.Moved
	err := c.call(ctx, opCheck, nil, &moved)
	return moved, err
}

// Restore puts back what Apply changed on every member, and compares each with its whole snapshot. The error is a
// *NotRestoredError when one is not as it was; such a member gets no settings any more. ctx's end ends the waiting,
// not the restoring.
func (c *Client) Restore(ctx context.Context) ([]Restored, error) {
	var all []Restored
	err := c.call(ctx, opRestore, nil, &all)
	return all, err
}

// Flush makes members write their caches out, all where none is named. An md or dm device has none of its own: syncing
// the target reaches what is below it.
func (c *Client) Flush(ctx context.Context, members ...Member) error {
	return c.call(ctx, opFlush, members, nil)
}

// Folder records a folder that was just made (made), or that it is gone again. A recorded folder is removed, with all
// in it, by the keeper when this process dies, and by RestoreJournal.
func (c *Client) Folder(ctx context.Context, dir string, made bool) error {
	return c.call(ctx, opFolder, folderArgs{dir, made}, nil)
}

// Array records an array that is about to be made, durably, before anything of it is (made), or that it is taken down.
// Recorded again, it is kept as it is known then. A recorded array outlives this process and a power cut: the keeper never
// takes one down, but RestoreJournal tells of it, and no claim is given on its members to another sweep.
func (c *Client) Array(ctx context.Context, a Array, made bool) error {
	return c.call(ctx, opArray, arrayArgs{a, made}, nil)
}

// Recover is for a new keeper after ErrKeeperDied, before Claim: it restores what the dead one left changed for this
// process, and takes over its folders and arrays. The error is a *NotRestoredError when something is not as it was; Claim
// refuses that member then.
func (c *Client) Recover(ctx context.Context) ([]Restored, error) {
	var all []Restored
	err := c.call(ctx, opRecover, nil, &all)
	return all, err
}

// RestoreJournal puts back what dead sweeps left changed: what `qdsweep restore` does. An array that is to be taken down
// (StateTakeDown) is the caller's to take down, and to say so by Array; till then nobody else gets hold of it.
func (c *Client) RestoreJournal(ctx context.Context, o RestoreOptions) ([]EntryOutcome, error) {
	var all []EntryOutcome
	err := c.call(ctx, opRestoreJournal, o, &all)
	return all, err
}

// Close restores what is not restored yet, and ends the keeper. It does not wait for a keeper that the kernel does
// not let go: after the drives' time (Options.RestoreTimeout) and 10 s it returns sysfs.ErrStuck, wrapped. One that has
// answered, or was killed, has nothing more to do, and is waited for no longer than 2 s.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.closing)
	defer cancel()
	err := c.call(ctx, opClose, nil, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("close: the keeper does not answer: %w", sysfs.ErrStuck)
	}
	_ = c.conn.Close()
	if c.process != nil {
		select {
		case <-c.process.Exited():
		case <-ctx.Done():
		case <-c.ending:
			select {
			case <-c.process.Exited():
			case <-time.After(lastWords):
			}
		}
	}
	return err
}

// PID is the keeper's process id, 0 of one in this process.
func (c *Client) PID() int {
	if c.process == nil {
		return 0
	}
	return c.process.PID()
}

// Died is closed when the keeper is gone, after Close too.
func (c *Client) Died() <-chan struct{} { return c.died }
