//go:build lab

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// underway is a sweep that goes on while the test does something to it.
type underway struct {
	*lab
	out   string
	pid   int
	said  string // the file with all that it says: what it started may outlive it, and would hold a pipe open
	ended chan struct{}
	code  int // once it has ended
}

// start starts a sweep.
func (l *lab) start(name, profile string, args ...string) *underway {
	l.Helper()
	return l.begin(name, l.path(name), append([]string{"run", l.write(name+".yaml", profile), "--out", l.path(name)}, args...)...)
}

// begin starts a command that sweeps with that output folder. It is gone after the test, whatever the test came to.
func (l *lab) begin(name, out string, args ...string) *underway {
	l.Helper()
	u := &underway{lab: l, out: out, said: l.path(name + ".txt"), ended: make(chan struct{})}
	c := l.command(args...)
	said, err := os.Create(u.said)
	require.NoError(l, err)
	defer said.Close()
	c.Stdout, c.Stderr = said, said
	require.NoError(l, c.Start())
	u.pid = c.Process.Pid
	go func() {
		u.code = exitCode(c.Wait())
		close(u.ended)
	}()
	l.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		<-u.ended
	})
	return u
}

// until waits for something that the sweep comes to.
func (u *underway) until(what string, f func() bool) {
	u.Helper()
	deadline := time.Now().Add(60 * time.Second * timeScale)
	for !f() {
		select {
		case <-u.ended:
			u.Fatalf("the sweep has ended before: %s\n%s", what, u.text())
		default:
		}
		if time.Now().After(deadline) {
			status, _ := os.ReadFile(u.out + "/status.json")
			u.Fatalf("the sweep did not come to: %s\n%s\n%s", what, u.text(), status)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// working waits until the workload of the n-th run, from 1, is measured.
func (u *underway) working(n int) {
	u.Helper()
	u.until(fmt.Sprintf("run %d works", n), func() bool {
		status, _ := os.ReadFile(u.out + "/status.json") // of one moment, a second ago at most
		return strings.Contains(string(status), fmt.Sprintf(`"index": %d,`, n)) && strings.Contains(string(status), `"phase": "r"`)
	})
}

func (u *underway) text() string {
	text, _ := os.ReadFile(u.said)
	return string(text)
}

// end waits for the sweep, which exits with that code, and gives its rows.
func (u *underway) end(code int) []results.Row {
	u.Helper()
	<-u.ended
	u.Logf("exit %d\n%s", u.code, u.text())
	assert.Equal(u, code, u.code)
	return u.rows(u.out)
}

// kill kills processes of the sweep, itself the last, and waits for its end.
func (u *underway) kill(first ...int) {
	u.Helper()
	for _, pid := range append(first, u.pid) {
		require.NoError(u, syscall.Kill(pid, syscall.SIGKILL))
	}
	<-u.ended
}
