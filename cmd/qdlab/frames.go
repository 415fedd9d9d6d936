package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// One virtio-serial port carries everything between host and guest, in frames: a byte for the stream,
// four for the length (big endian), then the bytes. A frame of length 0 is the end of its stream.
// One port and not three: the exit status then comes after the last byte of output, by construction.
type stream byte

const (
	streamStdin   stream = iota // host → guest
	streamStdout                // guest → host
	streamStderr                // guest → host
	streamControl               // guest → host: JSON guestReport; host → guest: JSON hostRequest
)

const maxFrame = 1 << 20 // a longer one is not ours: refused, never allocated

// frameWriter writes frames; safe for several goroutines.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Send writes p in one frame (or as many as it needs); an empty p ends the stream.
func (f *frameWriter) Send(s stream, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for first := true; first || len(p) > 0; first = false {
		part := p[:min(len(p), maxFrame)]
		p = p[len(part):]
		frame := make([]byte, 5, 5+len(part))
		frame[0] = byte(s)
		binary.BigEndian.PutUint32(frame[1:], uint32(len(part)))
		if _, err := f.w.Write(append(frame, part...)); err != nil {
			return err
		}
	}
	return nil
}

// Stream is an io.Writer onto one stream.
func (f *frameWriter) Stream(s stream) io.Writer { return streamWriter{f, s} }

type streamWriter struct {
	frames *frameWriter
	stream stream
}

func (w streamWriter) Write(p []byte) (int, error) {
	if len(p) == 0 { // would end the stream
		return 0, nil
	}
	if err := w.frames.Send(w.stream, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// frameReader reads frames.
type frameReader struct{ r *bufio.Reader }

func newFrameReader(r io.Reader) *frameReader { return &frameReader{bufio.NewReaderSize(r, 64<<10)} }

// Next is the next frame; io.EOF when the other end is gone between two frames.
func (f *frameReader) Next() (stream, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if head[0] > byte(streamControl) || length > maxFrame {
		return 0, nil, fmt.Errorf("frame from the other end: stream %d, %d bytes: not ours", head[0], length)
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(f.r, payload); err != nil {
		return 0, nil, fmt.Errorf("frame of %d bytes cut short: %w", length, err)
	}
	return stream(head[0]), payload, nil
}
