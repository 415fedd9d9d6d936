package sweep

import (
	"io"
	"sync"
	"time"
)

const (
	lateLines = 4096            // kept for a file that does not take them
	lateClose = 2 * time.Second // for the rest, at the end
)

// lateWriter writes in a goroutine of its own, so that a disk that hangs holds up the log and not the sweep: between its lines settings are
// changed and put back. What comes while lateLines wait is dropped.
type lateWriter struct {
	w    io.WriteCloser
	done chan struct{}

	mu     sync.Mutex
	closed bool
	lines  chan []byte
}

func newLateWriter(w io.WriteCloser) *lateWriter {
	l := &lateWriter{w: w, done: make(chan struct{}), lines: make(chan []byte, lateLines)}
	go func() {
		defer close(l.done)
		for line := range l.lines {
			_, _ = l.w.Write(line) // a full disk is said by the rows, which matter more
		}
		_ = l.w.Close()
	}()
	return l
}

// Write takes a line. It never waits, and never fails.
func (l *lateWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		select {
		case l.lines <- append([]byte(nil), line...):
		default:
		}
	}
	return len(line), nil
}

// Close writes what waits and closes the file, or leaves it to itself after lateClose.
func (l *lateWriter) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.lines)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(lateClose):
	}
}
