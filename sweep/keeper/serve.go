package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"qdsweep/sweep/wire"
	"qdsweep/sysfs"
)

const (
	// defaultWriteTimeout bounds one setting on one member. A write-cache change takes up to 2 s to show.
	defaultWriteTimeout = 20 * time.Second
	// defaultRestoreTimeout is how long a drive may take to answer before it is named and left (design section 4).
	defaultRestoreTimeout = 60 * time.Second
	// jobGrace is for a job to report that its own deadline has passed.
	jobGrace = 2 * time.Second
)

// server is the keeper process's state. All but the worker's number belongs to the op loop.
type server struct {
	h    sysfs.Host
	j    *Journal
	conn *wire.Conn

	boot           string
	main           int
	since          string // main's start, "" where it is this process
	sweep          string
	writeTimeout   time.Duration
	restoreTimeout time.Duration

	members []*member
	folders []*folderHold
	arrays  []*arrayHold

	mu     sync.Mutex
	worker process
}

// op is one request in work.
type op struct {
	request
	ctx    context.Context
	cancel context.CancelFunc
}

// Serve is the keeper's end: it does what main asks over conn, one thing after another, until conn closes, main's
// process ends, ctx ends, or main asks it to close. Before it returns it kills the worker's process group and puts
// back everything that it changed, except where main's last request was Close, which did. The error is a
// *NotRestoredError where something is not as it was.
func Serve(ctx context.Context, conn *wire.Conn, h sysfs.Host, j *Journal) error {
	s := &server{h: h, j: j, conn: conn, main: os.Getpid(), writeTimeout: defaultWriteTimeout, restoreTimeout: defaultRestoreTimeout}
	// alive ends when there is nobody to work for. What main asked for then stops at the next safe point.
	alive, over := context.WithCancel(ctx)
	defer over()
	stopKill := context.AfterFunc(alive, s.killWorker)
	defer stopKill()
	defer s.letGo()

	ops := make(chan op, 64)
	var reading sync.WaitGroup
	reading.Go(func() { s.receive(alive, over, ops) })
	closed, err := s.work(alive, over, ops)
	if closed {
		stopKill() // main lives, and its worker is its own
	}
	over()
	reading.Wait()
	if closed {
		return err
	}
	s.killWorker()
	return s.abandoned()
}

// receive turns messages into ops, and cancels the ones that main gives up. It ends alive when the line does.
func (s *server) receive(alive context.Context, over context.CancelFunc, ops chan<- op) {
	defer over()
	defer close(ops)
	cancels := map[int]context.CancelFunc{}
	for {
		var r request
		files, err := s.conn.ReceiveContext(alive, &r)
		for _, f := range files {
			_ = f.Close()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && alive.Err() == nil {
				fmt.Fprintf(os.Stderr, "qdsweep keeper: %v\n", err)
			}
			return
		}
		if r.Cancel != 0 {
			if cancel := cancels[r.Cancel]; cancel != nil {
				cancel()
			}
			delete(cancels, r.Cancel)
			continue
		}
		ctx, cancel := context.WithCancel(alive)
		// One call is outstanding at a time but for abandoned ones, so this stays small.
		cancels[r.ID] = cancel
		delete(cancels, r.ID-16)
		select {
		case ops <- op{r, ctx, cancel}:
		case <-alive.Done():
			cancel()
			return
		}
	}
}

// work does ops until main is gone, or asked to close: then err is what could not be restored.
func (s *server) work(alive context.Context, over context.CancelFunc, ops <-chan op) (closed bool, err error) {
	for {
		select {
		case <-alive.Done():
			return false, nil
		case o, ok := <-ops:
			if !ok {
				return false, nil
			}
			result, err := s.handle(o.ctx, over, o.request)
			o.cancel()
			answer := response{ID: o.ID, Err: toWire(err)}
			if result != nil {
				b, e := json.Marshal(result)
				if e != nil {
					answer.Err = toWire(errors.Join(err, e))
				}
				answer.Result = b
			}
			sent := s.conn.SendContext(alive, answer)
			if o.Op == opClose && sent == nil {
				return true, err
			}
			if sent != nil {
				return false, nil
			}
		}
	}
}

func (s *server) handle(ctx context.Context, over context.CancelFunc, r request) (any, error) {
	switch r.Op {
	case opHello:
		return with(r, func(a helloArgs) (any, error) { return nil, s.hello(over, a) })
	case opClaim:
		return with(r, func(a claimArgs) (any, error) { return nil, s.claim(ctx, a.Members, a.Wait) })
	case opRelease:
		return with(r, func(names []Member) (any, error) { return nil, s.release(names) })
	case opWorker:
		return with(r, func(pgid int) (any, error) { return nil, s.setWorker(pgid) })
	case opApply:
		return with(r, func(a applyArgs) (any, error) { return s.apply(ctx, a) })
	case opCheck:
		return s.check(ctx)
	case opRestore:
		all := s.restoreAll()
		return all, notRestored(all)
	case opFlush:
		return with(r, func(names []Member) (any, error) { return nil, s.flush(ctx, names) })
	case opFolder:
		return with(r, func(a folderArgs) (any, error) { return nil, s.folder(a.Path, a.Made) })
	case opArray:
		return with(r, func(a arrayArgs) (any, error) { return nil, s.array(a.Array, a.Made) })
	case opRecover:
		return s.recover(ctx)
	case opRestoreJournal:
		return with(r, func(o RestoreOptions) (any, error) { return s.restoreJournal(ctx, o) })
	case opClose:
		return nil, notRestored(s.restoreAll())
	}
	return nil, fmt.Errorf("the keeper does not know %q: main and keeper are of different versions", r.Op)
}

func with[A any](r request, f func(A) (any, error)) (any, error) {
	var a A
	if err := json.Unmarshal(r.Args, &a); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Op, err)
	}
	return f(a)
}

func (s *server) hello(over context.CancelFunc, a helloArgs) error {
	boot, err := s.h.BootID()
	if err != nil {
		return err
	}
	s.boot, s.sweep = boot, a.Sweep
	if a.WriteTimeout > 0 {
		s.writeTimeout = a.WriteTimeout
	}
	if a.RestoreTimeout > 0 {
		s.restoreTimeout = a.RestoreTimeout
	}
	if a.PID > 0 {
		s.main = a.PID
	}
	if s.main != os.Getpid() {
		if p, err := identify(s.main); err == nil {
			s.since = p.start
		}
		if err := watch(s.main, over); err != nil {
			return fmt.Errorf("watch main, pid %d: %w", s.main, err)
		}
	}
	return nil
}

// claim takes all members or none of them, in the order of their identities, so that two sweeps that wait for each
// other's cannot wait for ever.
func (s *server) claim(ctx context.Context, members []Member, wait time.Duration) error {
	if s.boot == "" {
		return errors.New("claim before hello")
	}
	wanted, err := s.distinct(members)
	if err != nil {
		return err
	}
	var taken []*member
	giveUp := func(err error) error {
		for _, m := range taken {
			m.release()
		}
		return err
	}
	deadline := time.Now().Add(wait)
	for _, w := range wanted {
		d, err := s.same(w)
		if err != nil {
			return giveUp(err)
		}
		c, err := take(ctx, s.h, s.j, d, s.main, time.Until(deadline))
		if err != nil {
			return giveUp(err)
		}
		m := newMember(w, c)
		m.partOf = s.partOf(d)
		taken = append(taken, m)
		// Looked at under the lock: its last holder may just have written one. And the drive once more, for the
		// name may have moved between looking and opening.
		if _, err := s.same(w); err != nil {
			return giveUp(err)
		}
		if e, ok := s.j.load(Entry{Identity: w.Identity, Name: w.Name}.file()); ok {
			return giveUp(&UnrestoredError{Key: w.Key(), Name: w.Name, Path: s.j.Path(e), Taken: e.Taken, Damage: e.Damage})
		}
	}
	if len(taken) == 0 {
		return nil
	}
	if err := s.freeOfArrays(taken); err != nil {
		return giveUp(err)
	}
	if err := s.j.Try(); err != nil {
		return giveUp(err)
	}
	s.members = append(s.members, taken...)
	return nil
}

// distinct leaves out what is claimed already, or named twice, and puts the rest in order.
func (s *server) distinct(members []Member) ([]Member, error) {
	names := map[string]string{}
	for _, m := range s.members {
		names[m.Key()] = m.Name
	}
	var wanted []Member
	for _, m := range members {
		name, has := names[m.Key()]
		switch {
		case has && name != m.Name:
			return nil, fmt.Errorf("%s and %s are the same drive, %s: two paths to one drive cannot be swept", name, m.Name, m.Key())
		case has:
			continue
		}
		names[m.Key()] = m.Name
		wanted = append(wanted, m)
	}
	sortMembers(wanted)
	return wanted, nil
}

// entry is one of this sweep, of now.
func (s *server) entry() Entry {
	return Entry{BootID: s.boot, Sweep: s.sweep, PID: s.main, Since: s.since, Taken: time.Now().UTC()}
}

// same gives a member's device, and an error when its name is now another one, or none.
func (s *server) same(m Member) (sysfs.Device, error) {
	d, err := s.h.Device(m.Name)
	switch {
	case errors.Is(err, sysfs.ErrNoDevice):
		return d, fmt.Errorf("%w: %w", &ChangedError{Name: m.Name, Want: m.Key()}, err)
	case err != nil:
		return d, fmt.Errorf("%s: %w", m.Name, err)
	case d.Identity != m.Identity:
		return d, &ChangedError{Name: m.Name, Want: m.Key(), Got: memberKey(d.Identity, d.Name)}
	}
	return d, nil
}

func has(members []Member, key string) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.Key() == key })
}

// release lets go of members, all where none is named. They must be as they were, but for an array of this sweep: what
// could not be put back there goes with it.
func (s *server) release(names []Member) error {
	var going, staying []*member
	var ending []Entry
	for _, m := range s.members {
		switch named := len(names) == 0 || has(names, m.Key()); {
		case !named:
			staying = append(staying, m)
		case m.entry != nil && m.partOf == "":
			return fmt.Errorf("%s is not restored: its claim is kept", m.Name)
		case m.busy():
			return fmt.Errorf("%s: an earlier command is still in the kernel, its claim is kept: %w", m.Name, sysfs.ErrStuck)
		default:
			going = append(going, m)
			if m.entry != nil {
				ending = append(ending, *m.entry)
			}
		}
	}
	if err := s.j.Clear(ending...); err != nil {
		return err
	}
	for _, m := range going {
		m.release()
	}
	s.members = staying
	return nil
}

// letGo drops all claims, which the end of the process would do too.
func (s *server) letGo() {
	for _, m := range s.members {
		m.release()
	}
	for _, f := range s.folders {
		_ = f.lock.Close()
	}
	for _, a := range s.arrays {
		_ = a.lock.Close()
	}
}

// abandoned is what the keeper does on its own when main is gone.
func (s *server) abandoned() error {
	all := s.restoreAll()
	for _, r := range all {
		if r.Err == "" {
			fmt.Fprintf(os.Stderr, "qdsweep keeper: main is gone; %s is as it was\n", r.Name)
		}
	}
	err := notRestored(all)
	if err != nil {
		fmt.Fprintf(os.Stderr, "qdsweep keeper: main is gone; %v\n", err)
	}
	s.removeFolders()
	s.leftArrays()
	return err
}
