package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve plays the guest in this process, at the other end of a pipe, and gives what the host sees.
func serve(t *testing.T, config bootConfig, stdin io.Reader) (stdout, stderr string, last guestReport) {
	t.Helper()
	host, inGuest := net.Pipe()
	config.Env = append(config.Env, "PATH="+os.Getenv("PATH"))
	served := make(chan error, 1)
	go func() {
		served <- serveCommand(config, inGuest)
		_ = inGuest.Close()
	}()
	if stdin != nil {
		go sendStdin(&frameWriter{w: host}, stdin)
	}
	var out, errOut strings.Builder
	reports := make(chan guestReport, 2)
	receive(newFrameReader(host), job{Stdout: &out, Stderr: &errOut}, func(r guestReport) { reports <- r })
	require.NoError(t, <-served)
	require.True(t, (<-reports).Ready)
	return out.String(), errOut.String(), <-reports
}

func TestServeCommand(t *testing.T) {
	for _, c := range []struct {
		name           string
		args           []string
		stdin          string
		stdout, stderr string
		exit           int
		fails          bool
	}{
		{name: "ok", args: []string{"sh", "-c", "echo out; echo err >&2"}, stdout: "out\n", stderr: "err\n"},
		{name: "status", args: []string{"sh", "-c", "exit 7"}, exit: 7},
		{name: "status 5", args: []string{"sh", "-c", "exit 5"}, exit: 5},
		{name: "signal", args: []string{"sh", "-c", "kill -TERM $$"}, exit: 143},
		{name: "not found", args: []string{"qdlab-no-such-command"}, exit: 127, fails: true},
		{name: "not executable", args: []string{"/etc/passwd"}, exit: 126, fails: true},
		{name: "stdin", args: []string{"cat"}, stdin: strings.Repeat("line\n", 100_000), stdout: strings.Repeat("line\n", 100_000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := bootConfig{Args: c.args}
			var stdin io.Reader
			if c.stdin != "" {
				config.Stdin, stdin = true, strings.NewReader(c.stdin)
			}
			stdout, stderr, last := serve(t, config, stdin)
			assert.Equal(t, c.stdout, stdout)
			assert.Equal(t, c.stderr, stderr)
			assert.True(t, last.Done)
			assert.Equal(t, c.exit, last.Exit)
			assert.Equal(t, c.fails, last.Error != "", last.Error)
		})
	}
}

func TestServeCommandOnATerminal(t *testing.T) {
	stdout, _, last := serve(t, bootConfig{Args: []string{"sh", "-c", "[ -t 0 ] && stty size && exit 3"}, TTY: true, Rows: 50, Columns: 123}, nil)
	assert.Equal(t, "50 123\r\n", stdout)
	assert.Equal(t, 3, last.Exit, last.Error)
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err         error
		interrupted bool
		code        int
	}{
		{nil, false, 0},
		{commandExit(3), false, 3},
		{fmt.Errorf("wrapped: %w", commandExit(134)), false, 134},
		{context.Canceled, true, 130},
		{&guestError{Reason: fmt.Sprintf("was not done after %v", time.Minute)}, false, exitTimeout},
		{&guestError{Reason: "went down"}, false, exitLab},
		{errTests, false, exitTests},
		{errors.New("anything"), false, exitLab},
	} {
		assert.Equal(t, c.code, exitCode(c.err, c.interrupted), "%v", c.err)
	}
}

func TestTail(t *testing.T) {
	console := newTail(16)
	_, _ = console.Write([]byte("the beginning\r\n"))
	_, _ = console.Write([]byte("one\r\ntwo\r\n"))
	assert.Equal(t, "ning\none\ntwo", console.String())
	console = newTail(1 << 10)
	_, _ = console.Write([]byte(strings.Repeat("l\n", 100)))
	assert.Equal(t, strings.TrimRight(strings.Repeat("l\n", tailLines), "\n"), console.String())
}
