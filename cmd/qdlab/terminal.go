package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startOnTerminal starts cmd on a new pseudo terminal (pty(7)) and sends what it prints as stdout.
func startOnTerminal(cmd *exec.Cmd, config bootConfig, frames *frameWriter) (io.WriteCloser, error) {
	master, err := os.OpenFile("/dev/pts/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlock a terminal: %w", err)
	}
	_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: config.Rows, Col: config.Columns})
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	defer func() { _ = slave.Close() }()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	printed := make(chan struct{})
	go func() {
		_, _ = io.Copy(frames.Stream(streamStdout), master)
		close(printed)
	}()
	return terminalInput{master, printed}, nil
}

// terminalInput is the host's end of the terminal. Close comes after the command's end, and waits a
// moment for what it printed last.
type terminalInput struct {
	*os.File
	printed <-chan struct{}
}

func (t terminalInput) Close() error {
	select {
	case <-t.printed: // EIO: nobody has the terminal open any more
	case <-time.After(time.Second): // something in the background still has
	}
	return t.File.Close()
}

// rawTerminal lets every key through to the guest; the function it returns puts the terminal back.
// It does nothing where f is no terminal.
func rawTerminal(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}, nil // not a terminal: nothing to change
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("set the terminal to raw: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil
}

// terminalSize is the window's size; 24 × 80 where f is no terminal.
func terminalSize(f *os.File) (rows, columns uint16) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 {
		return 24, 80
	}
	return size.Row, size.Col
}
