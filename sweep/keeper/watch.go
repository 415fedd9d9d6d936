package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process tells a process from a later one with its number.
type process struct {
	pid   int
	start string // field 22 of /proc/PID/stat, clock ticks since boot
}

// identify looks a running process up.
func identify(pid int) (process, error) {
	fields, err := stat(pid)
	if err != nil {
		return process{}, err
	}
	return process{pid: pid, start: fields[19]}, nil
}

// Since tells a process from a later one with its number: when it was started, in clock ticks since the boot.
func Since(pid int) (string, error) {
	p, err := identify(pid)
	return p.start, err
}

// Lives says whether the process with that number, started then, still does anything: one that was killed and waits for the kernel does not.
// Of somebody else's, where /proc hides those, only the number is known.
func Lives(pid int, since string) bool {
	if _, err := stat(pid); errors.Is(err, os.ErrNotExist) && errors.Is(unix.Kill(pid, 0), unix.EPERM) {
		return true
	}
	return !dying(process{pid, since})
}

// stat is /proc/PID/stat from field 3 (state) on; the name before it may hold blanks and parentheses.
func stat(pid int) ([]string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	return fields, nil
}

func (s *server) setWorker(pgid int) error {
	var p process
	if pgid != 0 {
		var err error
		if p, err = identify(pgid); err != nil {
			return fmt.Errorf("worker %d: %w", pgid, err)
		}
		group, err := unix.Getpgid(pgid)
		if err != nil {
			return fmt.Errorf("worker %d: its process group: %w", pgid, err)
		}
		if group != pgid || pgid == unix.Getpgrp() {
			return fmt.Errorf("worker %d leads no process group of its own, it is in %d", pgid, group)
		}
	}
	s.mu.Lock()
	s.worker = p
	s.mu.Unlock()
	return nil
}

// killWorker kills the worker's group: what it still writes must not be written under restored settings. The leader
// may be gone already, by its parent-death signal, with children left. Its number cannot have become a stranger's
// while they live; where a stranger has it, the group is empty.
//
// Two goroutines call it when main dies, and the process may end right after the second: that one waits here for the first one's kill.
func (s *server) killWorker() {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.worker
	s.worker = process{}
	if w.pid == 0 {
		return
	}
	if now, err := identify(w.pid); err == nil && now.start != w.start {
		return
	}
	_ = unix.Kill(-w.pid, unix.SIGKILL)
}

const (
	// dyingPoll finds a main that was killed while one of its threads is in the kernel: neither its socket nor its
	// pidfd says so then, for the process is not gone. Reading one file of /proc four times a second costs nothing
	// that a measurement could show.
	dyingPoll = 250 * time.Millisecond
	sigkill   = 1 << (uint(unix.SIGKILL) - 1)
)

// watch calls over when a process ends, or has begun to. It goes on until then.
func watch(pid int, over context.CancelFunc) error {
	p, err := identify(pid)
	if err != nil {
		return err
	}
	go func() {
		for range time.Tick(dyingPoll) {
			if dying(p) {
				over()
				return
			}
		}
	}()
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil // before Linux 5.10: the socket and the poll have to do
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil
	}
	go func() {
		defer file.Close()
		polled := false
		if err := raw.Read(func(fd uintptr) bool {
			if polled {
				return true
			}
			polled = true
			return readable(int(fd))
		}); err == nil {
			over()
		}
	}()
	return nil
}

func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// dying says whether a process is gone, a zombie, or has SIGKILL pending (which it takes when the kernel lets go).
func dying(p process) bool {
	fields, err := stat(p.pid)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ESRCH):
		return true
	case err != nil:
		return false
	case fields[19] != p.start, fields[0] == "Z", fields[0] == "X":
		return true
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(b), "\n") {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64); err == nil && mask&sigkill != 0 {
			return true
		}
	}
	return false
}
