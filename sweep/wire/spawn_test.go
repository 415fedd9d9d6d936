package wire

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain makes this binary its own helper process.
func TestMain(m *testing.M) {
	switch os.Getenv("WIRE_TEST_ROLE") {
	case "":
		os.Exit(m.Run())
	case "helper":
		helper()
	case "parent":
		parent()
	}
}

type facts struct {
	PID, Parent, Group, Session int
	Descriptors                 []string
	Args                        []string
}

// helper says what it is, then echoes until the line ends; "exit" makes it fail, "child" leave a process behind.
func helper() {
	conn, err := Inherited()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	session, _ := unix.Getsid(0)
	f := facts{PID: os.Getpid(), Parent: os.Getppid(), Group: unix.Getpgrp(), Session: session, Args: os.Args[1:]}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			f.Descriptors = append(f.Descriptors, e.Name()+" "+to)
		}
	}
	if err := conn.Send(f); err != nil {
		os.Exit(8)
	}
	for {
		var s string
		if _, err := conn.Receive(&s); err != nil {
			os.Exit(0)
		}
		switch s {
		case "exit":
			os.Exit(7)
		case "child":
			cmd := exec.Command("sleep", "1000")
			if err := cmd.Start(); err != nil {
				os.Exit(6)
			}
			s = strconv.Itoa(cmd.Process.Pid)
		}
		if err := conn.Send(s); err != nil {
			os.Exit(8)
		}
	}
}

// parent starts a helper that shall die with it, says the helper's pid, and waits to be killed.
func parent() {
	p, err := Spawn(Child{Env: []string{"WIRE_TEST_ROLE=helper"}, Group: true, DieWithParent: true})
	if err != nil {
		os.Exit(9)
	}
	fmt.Println(p.PID())
	// Threads come and go here; the helper must not die of it.
	for range 50 {
		done := make(chan struct{})
		go func() { defer close(done); unix.Getpid() }()
		<-done
	}
	var f facts
	if _, err := p.Conn.Receive(&f); err != nil {
		os.Exit(8)
	}
	fmt.Println("up")
	select {}
}

func spawn(t *testing.T, c Child) (*Process, facts) {
	t.Helper()
	c.Env = append(c.Env, "WIRE_TEST_ROLE=helper")
	p, err := Spawn(c)
	require.NoError(t, err)
	t.Cleanup(func() { p.Kill(); <-p.Exited(); _ = p.Conn.Close() })
	var f facts
	_, err = p.Conn.Receive(&f)
	require.NoError(t, err)
	require.Equal(t, p.PID(), f.PID)
	return p, f
}

func TestSpawn(t *testing.T) {
	t.Run("line, arguments, ends with the line", func(t *testing.T) {
		p, f := spawn(t, Child{Args: []string{"keeper", "--state-dir", "/x"}})
		assert.Equal(t, []string{"keeper", "--state-dir", "/x"}, f.Args)
		assert.Equal(t, unix.Getpgrp(), f.Group)
		require.NoError(t, p.Conn.Send("hello"))
		var s string
		_, err := p.Conn.Receive(&s)
		require.NoError(t, err)
		assert.Equal(t, "hello", s)
		require.NoError(t, p.Conn.Close())
		<-p.Exited()
		assert.NoError(t, p.Err())
	})
	t.Run("session", func(t *testing.T) {
		p, f := spawn(t, Child{Session: true})
		assert.Equal(t, p.PID(), f.Session)
		assert.Equal(t, p.PID(), f.Group)
	})
	t.Run("group", func(t *testing.T) {
		p, f := spawn(t, Child{Group: true})
		assert.Equal(t, p.PID(), f.Group)
		assert.NotEqual(t, p.PID(), f.Session)
	})
	t.Run("exit status", func(t *testing.T) {
		p, _ := spawn(t, Child{})
		require.NoError(t, p.Conn.Send("exit"))
		<-p.Exited()
		var exit *exec.ExitError
		require.ErrorAs(t, p.Err(), &exit)
		assert.Equal(t, 7, exit.ExitCode())
		_, err := p.Conn.Receive(new(string))
		assert.Equal(t, io.EOF, err)
		p.Kill() // harmless
	})
	t.Run("no descriptor but its own", func(t *testing.T) {
		// As if a shell had given us one: not close-on-exec.
		fd, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		_, f := spawn(t, Child{})
		for _, d := range f.Descriptors {
			assert.NotContains(t, d, "/dev/zero")
		}
		assert.Contains(t, f.Descriptors, "0 /dev/null")
		assert.Contains(t, f.Descriptors, "1 /dev/null")
	})
	t.Run("what it leaves behind in its group goes with it", func(t *testing.T) {
		p, _ := spawn(t, Child{Group: true})
		require.NoError(t, p.Conn.Send("child"))
		var s string
		_, err := p.Conn.Receive(&s)
		require.NoError(t, err)
		pid, err := strconv.Atoi(s)
		require.NoError(t, err)
		require.NoError(t, unix.Kill(p.PID(), unix.SIGKILL)) // the leader alone
		<-p.Exited()
		assert.Eventually(t, func() bool { return gone(pid) }, 10*time.Second, time.Millisecond)
	})
}

func TestDieWithParent(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "WIRE_TEST_ROLE=parent")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	pid, err := strconv.Atoi(lines.Text())
	require.NoError(t, err)
	require.True(t, lines.Scan())
	require.Equal(t, "up", lines.Text())
	assert.False(t, gone(pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	assert.Eventually(t, func() bool { return gone(pid) }, 10*time.Second, time.Millisecond)
}

// gone says whether a process has ended; an unreaped one has (in a container there may be nobody to reap it).
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	var state string
	_, _ = fmt.Sscanf(string(b[len(b)-len(afterName(b)):]), "%s", &state)
	return state == "Z" || state == "X"
}

func afterName(stat []byte) []byte {
	for i := len(stat) - 1; i >= 0; i-- {
		if stat[i] == ')' {
			return stat[i+1:]
		}
	}
	return nil
}

func TestInheritedByHand(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "WIRE_TEST_ROLE=helper")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "started by qdsweep itself")
}
