package main

import (
	"bytes"
	"strings"
	"sync"
)

// tail keeps the end of what is written to it; safe for several goroutines.
type tail struct {
	mu   sync.Mutex
	data []byte
	size int
}

func newTail(size int) *tail { return &tail{size: size} }

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if extra := len(t.data) - t.size; extra > 0 {
		t.data = append(t.data[:0:0], t.data[extra:]...)
	}
	return len(p), nil
}

const tailLines = 40

// String is the last lines, without the carriage returns of a serial line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimRight(string(bytes.ReplaceAll(t.data, []byte("\r"), nil)), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
