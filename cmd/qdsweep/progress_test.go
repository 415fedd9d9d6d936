package main

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"qdsweep/sweep"
	"qdsweep/sweep/results"
)

// stopped is a terminal after Ctrl-S: a write returns when somebody types Ctrl-Q.
type stopped struct {
	hold chan struct{}
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *stopped) Write(p []byte) (int, error) {
	<-s.hold
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// Runs that are repeated are yet to come, though they have rows: a display that was full from the first would say nothing.
func TestProgressOfRepeatedRuns(t *testing.T) {
	p := newProgress(&bytes.Buffer{}, false, true)
	defer p.stop()
	audit := results.Audit{Planned: 5, OK: 3, Failed: 2}
	p.take(sweep.Event{Kind: sweep.Began, Audit: audit, Again: 2})
	assert.Equal(t, []int{3, 5}, []int{p.done, p.total})
	var said []string
	for again := 1; again >= 0; again-- {
		audit.OK, audit.Failed = audit.OK+1, audit.Failed-1
		said = append(said, p.take(sweep.Event{Kind: sweep.RunEnded, Run: sweep.Run{ID: "a"}, Rows: []results.Row{{Status: "ok"}}, Audit: audit, Again: again, Left: -1}))
	}
	assert.Equal(t, []string{"run 4 of 5  a  ok, 0s", "run 5 of 5  a  ok, 0s"}, said)
}

// A terminal that is stopped must not stop the sweep: between two events settings are changed.
func TestAStoppedTerminalStopsNothing(t *testing.T) {
	s := &stopped{hold: make(chan struct{})}
	p := newProgress(s, false, false)
	for range 2 * eventsKept {
		p.observe(sweep.Event{Kind: sweep.Note, Text: "one"})
	}
	close(s.hold)
	p.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.GreaterOrEqual(t, bytes.Count(s.text.Bytes(), []byte("one\n")), eventsKept)
}
