package sweep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	hookGrace = 2 * time.Second        // between SIGTERM and SIGKILL
	hookStuck = 10 * time.Second       // after SIGKILL: a command in the kernel does not end
	hookTail  = 500 * time.Millisecond // for the end of its output, once it has ended: what it left in the background may keep the pipe
	hookLines = 1000                   // of one command in the log; a loop must not fill the disk
)

// hookCall is one command of the user's: sh -c in a process group of its own, so that no Ctrl-C of ours reaches it and all of it can be ended. It dies with
// this process. What it leaves in the background when it ends by itself is left alone.
type hookCall struct {
	command  string
	dir      string   // where it is run
	facts    []string // added to this process's environment
	patience time.Duration
	heard    func(line string) // of standard output and standard error; after the end, too
}

// run runs it to its end, or ends it when patience or ctx are over. The error says how it ended, with the last line that it wrote.
func (c hookCall) run(ctx context.Context) error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", c.command)
	cmd.Dir, cmd.Env = c.dir, append(ownEnvironment(), c.facts...)
	cmd.Stdout, cmd.Stderr = in, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, gone, reap, ended := make(chan error, 1), make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Pdeathsig is the death of the thread that forked
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for { // a dead leader that is not reaped keeps its number: nobody else's group is hit below
			var info unix.Siginfo
			if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		close(gone)
		<-reap
		ended <- cmd.Wait()
	}()
	err = <-started
	in.Close()
	if err != nil {
		out.Close()
		return err
	}
	l := &listener{heard: c.heard, over: make(chan struct{})}
	go l.listen(out)
	cut := c.wait(ctx, gone)
	if cut != "" {
		end(cmd.Process.Pid, gone)
	}
	close(reap)
	select {
	case err = <-ended:
	case <-time.After(hookStuck):
		return fmt.Errorf("%s, and still there %s after SIGKILL: it waits in the kernel", cut, span(hookStuck))
	}
	select {
	case <-l.over:
	case <-time.After(hookTail):
	}
	switch {
	case cut != "":
		return errors.New(cut + l.lastWords())
	case err != nil:
		return errors.New(exitText(err) + l.lastWords())
	}
	return nil
}

// wait says why the command has to be ended, "" when it ended by itself.
func (c hookCall) wait(ctx context.Context, gone <-chan struct{}) string {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-gone:
		return ""
	case <-ctx.Done():
		return fmt.Sprintf("ended (%v)", context.Cause(ctx))
	case <-timer.C:
		return "ended after " + span(c.patience) + ", its timeout"
	}
}

// end ends a process group whose leader is not reaped yet: politely first, for a script may have something to tidy up.
func end(pid int, gone <-chan struct{}) {
	_ = unix.Kill(-pid, unix.SIGTERM)
	select {
	case <-gone:
	case <-time.After(hookGrace):
	}
	_ = unix.Kill(-pid, unix.SIGKILL) // what the leader left, too
}

// exitText is "exit 3", or the signal.
func exitText(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err.Error()
	}
	if exit.Exited() {
		return "exit " + strconv.Itoa(exit.ExitCode())
	}
	return exit.String()
}

// listener hands on what a command writes, line by line.
type listener struct {
	heard func(line string)
	over  chan struct{} // closed when nobody has the pipe any more

	mu   sync.Mutex
	last string
}

func (l *listener) listen(out *os.File) {
	defer close(l.over)
	defer out.Close()
	lines := 0
	in := bufio.NewReaderSize(out, 1024)
	for {
		text, more, err := in.ReadLine()
		if err != nil {
			return
		}
		line := shown(string(text))
		for more && err == nil { // the rest of a long one
			_, more, err = in.ReadLine()
		}
		if lines++; lines == hookLines {
			l.heard("(what it writes from here on is not kept)")
		}
		if lines >= hookLines {
			_, _ = io.Copy(io.Discard, in) // else it would wait for us
			return
		}
		l.heard(line)
		if line != "" {
			l.mu.Lock()
			l.last = line
			l.mu.Unlock()
		}
	}
}

// lastWords is the last line that was written, after a colon; "" for none.
func (l *listener) lastWords() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		return ""
	}
	return ": " + l.last
}

// shown is a line without what would move a terminal's cursor.
func shown(line string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		switch {
		case strconv.IsPrint(c):
			return c
		case c == '\t':
			return ' '
		}
		return -1
	}, line))
}
