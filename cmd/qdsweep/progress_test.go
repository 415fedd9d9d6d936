package main

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"qdsweep/sweep"
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
