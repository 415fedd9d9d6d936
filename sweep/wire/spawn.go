package wire

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child says how a helper is started.
type Child struct {
	Args          []string // after the program's name: the hidden subcommand and its flags
	Env           []string // added to this process's own
	Session       bool     // a session of its own: no terminal, no Ctrl-C
	Group         bool     // a process group of its own, which Kill kills whole
	DieWithParent bool     // SIGKILL when this process dies
	Stderr        *os.File // nil: this process's own
}

// Process is a helper that runs.
type Process struct {
	Conn *Conn // the line to it

	pid    int
	group  bool
	exited chan struct{}

	mu     sync.Mutex
	reaped bool
	err    error
}

// Spawn starts this very program again, with descriptor 3 the other end of Process.Conn, standard input and output
// /dev/null (results go to standard output, and a helper that outlives its parent must not hold a pipe open), and no
// other descriptor.
//
// It executes /proc/self/exe and not a path: the file may have been replaced by a newer version during the night.
func Spawn(c Child) (*Process, error) {
	ours, theirs, err := Pair()
	if err != nil {
		return nil, err
	}
	p := &Process{Conn: ours, group: c.Group || c.Session, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Pdeathsig fires when the *thread* that forked ends, which the Go runtime may do to a thread at any time.
		// So this goroutine keeps its thread until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.run(c, theirs, started)
	}()
	err = <-started
	_ = theirs.Close()
	if err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("start `%s`: %w", program(), err)
	}
	return p, nil
}

func program() string {
	if len(os.Args) > 0 {
		return os.Args[0]
	}
	return "qdsweep"
}

func (p *Process) run(c Child, theirs *Conn, started chan<- error) {
	keepOwn()
	cmd := exec.Command("/proc/self/exe", c.Args...)
	cmd.Args[0] = program()
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stderr = os.Stderr
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	cmd.ExtraFiles = []*os.File{theirs.file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: c.Session, Setpgid: c.Group && !c.Session}
	if c.DieWithParent {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil

	// A dead but unreaped leader keeps its number, so nobody else's group can be hit below.
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	if c.Group {
		_ = unix.Kill(-p.pid, unix.SIGKILL) // what the leader left behind
	}
	p.err = cmd.Wait()
	p.reaped = true
	p.mu.Unlock()
	close(p.exited)
}

// keepOwn marks every descriptor that this process itself was given as close-on-exec (`9>lock` in a shell script):
// Go marks those that it opens, not those it was born with.
func keepOwn() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return // no /proc: the helper cannot be started either
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// PID is the helper's process id; of a Session or Group child also its process group's.
func (p *Process) PID() int { return p.pid }

// Exited is closed when the helper has ended and was waited for.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err is how it ended, an *exec.ExitError where not by exit 0. Valid after Exited is closed.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Kill sends SIGKILL, to the whole group where the helper has one of its own. It does not wait: a process in the
// kernel's uninterruptible sleep stays until the kernel lets go.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if p.group {
		_ = unix.Kill(-p.pid, unix.SIGKILL)
	}
	_ = unix.Kill(p.pid, unix.SIGKILL)
}
