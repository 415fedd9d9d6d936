// Package tcmu serves a modelled drive to the kernel's SCSI stack: its commands come through target_core_user
// (Documentation/target/tcmu-design.rst), the disk appears by tcm_loop. It knows no model: it brings the wall clock.
package tcmu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/cmd/qdlab/drive"
	"qdsweep/cmd/qdlab/drive/scsi"
)

// Server is one disk that is being served.
type Server struct {
	target *scsi.Target
	speed  float64
	device *os.File // /dev/uioN
	ring   *ring
	wake   *os.File // an eventfd: requests has one
	began  time.Time

	requests chan request
}

// request is something to do between two commands.
type request struct {
	do   func(now time.Duration) ([]*scsi.Task, error)
	done chan error
}

// NewServer takes a uio device of target_core_user and its memory.
func NewServer(device *os.File, memory []byte, target *scsi.Target, speed float64) (*Server, error) {
	r, err := openRing(memory)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", device.Name(), err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &Server{
		target: target, speed: speed, device: device, ring: r, wake: os.NewFile(uintptr(wake), "eventfd"),
		began: time.Now(), requests: make(chan request, 1),
	}, nil
}

// PowerCycle takes the drive's power away and gives it back. What was under way is answered as a drive answers that
// has just been reset, and the kernel sends it again.
func (s *Server) PowerCycle() error {
	return s.ask(func(now time.Duration) ([]*scsi.Task, error) { return s.target.PowerCycle(now) })
}

// Release gives back the commands that never come back, as aborted.
func (s *Server) Release() error {
	return s.ask(func(now time.Duration) ([]*scsi.Task, error) { return s.target.Release(now), nil })
}

func (s *Server) ask(do func(time.Duration) ([]*scsi.Task, error)) error {
	r := request{do: do, done: make(chan error, 1)}
	s.requests <- r
	if _, err := s.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("wake the server: %w", err)
	}
	return <-r.done
}

// now is the drive's time.
func (s *Server) now() time.Duration { return time.Duration(float64(time.Since(s.began)) * s.speed) }

// Serve answers commands until an error; it never returns nil.
func (s *Server) Serve() error {
	// One thread that wakes when it is due: the kernel may be 50 µs late by default, half a command.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer slack: %w", err)
	}
	for {
		if err := s.step(); err != nil {
			return err
		}
		if err := s.sleep(); err != nil {
			return err
		}
	}
}

// step takes in what has come, and answers what is done.
func (s *Server) step() error {
	now := s.now()
	done := s.target.Run(now)
	for {
		task, err := s.ring.next()
		if err != nil {
			return err
		}
		if task == nil {
			break
		}
		s.target.Submit(now, task)
	}
	select {
	case r := <-s.requests:
		dropped, err := r.do(now)
		done = append(done, dropped...)
		r.done <- err
	default:
	}
	done = append(done, s.target.Run(now)...)
	for _, task := range done {
		s.ring.answer(task)
	}
	s.ring.skip()
	if len(done) == 0 {
		return nil
	}
	if _, err := unix.Write(int(s.device.Fd()), []byte{0, 0, 0, 0}); err != nil {
		return fmt.Errorf("tell the kernel by %s: %w", s.device.Name(), err)
	}
	return nil
}

// sleep waits for the next command, the next request, or the next that the drive has to do.
func (s *Server) sleep() error {
	var timeout *unix.Timespec
	if next := s.target.Next(); next != drive.Never {
		wait := max(time.Duration(float64(next)/s.speed)-time.Since(s.began), 0)
		t := unix.NsecToTimespec(wait.Nanoseconds())
		timeout = &t
	}
	fds := []unix.PollFd{{Fd: int32(s.device.Fd()), Events: unix.POLLIN}, {Fd: int32(s.wake.Fd()), Events: unix.POLLIN}}
	if _, err := unix.Ppoll(fds, timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for %s: %w", s.device.Name(), err)
	}
	// Both count what has happened; reading says that it has been seen. A uio device gives 4 bytes, an eventfd 8, and
	// neither anything else.
	for i, size := range []int{4, 8} {
		if fds[i].Revents&unix.POLLIN == 0 {
			continue
		}
		n, err := unix.Read(int(fds[i].Fd), make([]byte, size))
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("read the count of %s: %w", []string{s.device.Name(), "the requests"}[i], err)
		}
	}
	return nil
}
