package sweep

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

type heldWriter struct {
	bytes.Buffer
	hold chan struct{}
}

func (h *heldWriter) Write(p []byte) (int, error) { <-h.hold; return h.Buffer.Write(p) }
func (h *heldWriter) Close() error                { return nil }

// A log on a disk that hangs holds nobody up; when the disk answers the lines are there, in order.
func TestLateWriter(t *testing.T) {
	h := &heldWriter{hold: make(chan struct{})}
	l := newLateWriter(h)
	line := make([]byte, 8)
	for i := range 3 * lateLines { // more than are kept
		copy(line, fmt.Sprintf("%07d\n", i))
		n, err := l.Write(line)
		assert.Equal(t, 8, n)
		assert.NoError(t, err)
	}
	close(h.hold)
	l.Close()
	l.Close()
	_, err := l.Write(line)
	assert.NoError(t, err, "after the end it is dropped")
	lines := bytes.Split(bytes.TrimSpace(h.Bytes()), []byte("\n"))
	assert.InDelta(t, lateLines, len(lines), 1)
	assert.Equal(t, "0000000", string(lines[0]))
	assert.Equal(t, fmt.Sprintf("%07d", lateLines-1), string(lines[lateLines-1]))
}
