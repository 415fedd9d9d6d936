package main

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFramesRoundTrip(t *testing.T) {
	var wire bytes.Buffer
	w := &frameWriter{w: &wire}
	long := bytes.Repeat([]byte("x"), maxFrame+1)
	require.NoError(t, w.Send(streamStdout, []byte("out")))
	_, err := w.Stream(streamStderr).Write(nil) // must not end the stream
	require.NoError(t, err)
	require.NoError(t, w.Send(streamStderr, long))
	require.NoError(t, w.Send(streamStdin, nil))
	r := newFrameReader(&wire)
	for _, want := range []struct {
		stream stream
		bytes  int
	}{{streamStdout, 3}, {streamStderr, maxFrame}, {streamStderr, 1}, {streamStdin, 0}} {
		s, payload, err := r.Next()
		require.NoError(t, err)
		assert.Equal(t, want.stream, s)
		assert.Len(t, payload, want.bytes)
	}
	_, _, err = r.Next()
	assert.ErrorIs(t, err, io.EOF)
}

func TestFramesRefused(t *testing.T) {
	for name, wire := range map[string]string{
		"unknown stream": "\x09\x00\x00\x00\x00", "too long": "\x01\xff\xff\xff\xff", "cut short": "\x01\x00\x00\x00\x05abc", "half a head": "\x01\x00",
	} {
		_, _, err := newFrameReader(bytes.NewReader([]byte(wire))).Next()
		require.Error(t, err, name)
		assert.False(t, errors.Is(err, io.EOF) && name != "half a head", name)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x02ab\x03\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := newFrameReader(bytes.NewReader(wire))
		for total := 0; ; {
			_, payload, err := r.Next()
			if err != nil {
				return
			}
			total += 5 + len(payload)
			require.LessOrEqual(t, total, len(wire))
		}
	})
}
