package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guestReport is what the guest says on the control stream.
type guestReport struct {
	Ready bool    `json:",omitempty"` // booted, the command starts now
	Boot  float64 `json:",omitempty"` // seconds since the kernel started
	Done  bool    `json:",omitempty"`
	Exit  int     `json:",omitempty"`
	Error string  `json:",omitempty"` // the command could not be started

	Cut  bool        `json:",omitempty"` // kill the machine now and boot it again
	Test *testReport `json:",omitempty"`
}

// testReport is how far the tests are, in guests whose power can be cut.
type testReport struct {
	Test   int // begins, or has ended where
	Failed bool
}

const (
	exitNotFound = 127 // as in sh: no such command
	exitCannot   = 126 // as in sh: found, but cannot be executed
	exitSignal   = 128 // + the signal's number
)

// openPort finds the port by its name; there is no udev to make /dev/virtio-ports.
func openPort() (*os.File, error) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err == nil && strings.TrimSpace(string(text)) == portName {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(name)), os.O_RDWR, 0)
			}
		}
	}
	return nil, fmt.Errorf("the port %s did not come up", portName)
}

// serveCommand runs the command, carries its streams and reports how it ended.
func serveCommand(config bootConfig, port io.ReadWriter) error {
	frames := &frameWriter{w: port}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	if err := report(frames, guestReport{Ready: true, Boot: float64(now.Nano()) / 1e9}); err != nil {
		return err
	}
	if config.Cuts {
		listener, err := net.Listen("unix", messages)
		if err != nil {
			return fmt.Errorf("listen for requests to cut the power: %w", err)
		}
		defer func() { _ = listener.Close() }()
		go relay(listener, frames)
	}
	done := runCommand(config, frames, port)
	unix.Sync() // shares and the scratch disk, before the host ends the machine
	return report(frames, done)
}

func report(frames *frameWriter, r guestReport) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return frames.Send(streamControl, text)
}

// runCommand starts the command of the configuration and waits for it.
func runCommand(config bootConfig, frames *frameWriter, port io.Reader) guestReport {
	cmd := exec.Command(config.Args[0], config.Args[1:]...)
	cmd.Env, cmd.Dir = config.Env, config.Dir
	cmd.WaitDelay = 2 * time.Second // a daemon it left behind may hold the streams
	var stdin io.WriteCloser
	var err error
	if config.TTY {
		stdin, err = startOnTerminal(cmd, config, frames)
	} else {
		cmd.Stdout, cmd.Stderr = frames.Stream(streamStdout), frames.Stream(streamStderr)
		if config.Stdin {
			stdin, err = cmd.StdinPipe()
		}
		if err == nil {
			err = cmd.Start()
		}
	}
	if err != nil {
		return guestReport{Done: true, Exit: startFailure(err), Error: err.Error()}
	}
	if stdin != nil {
		go feedStdin(stdin, port)
	}
	err = cmd.Wait()
	if config.TTY {
		_ = stdin.Close()
	}
	return guestReport{Done: true, Exit: exitStatus(cmd.ProcessState, err)}
}

// feedStdin copies the host's standard input until its end.
func feedStdin(stdin io.WriteCloser, port io.Reader) {
	reader := newFrameReader(port)
	for {
		s, payload, err := reader.Next()
		if err != nil {
			return
		}
		if s != streamStdin {
			continue
		}
		if len(payload) == 0 {
			_ = stdin.Close()
			return
		}
		if _, err := stdin.Write(payload); err != nil {
			return
		}
	}
}

func startFailure(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitCannot
}

// exitStatus is the status as a shell gives it: a signal is 128 + its number.
func exitStatus(state *os.ProcessState, err error) int {
	if state == nil {
		return exitCannot
	}
	if status, is := state.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return state.ExitCode()
}
