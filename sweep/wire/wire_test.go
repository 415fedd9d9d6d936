package wire

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func pair(t *testing.T) (ours, theirs *Conn) {
	t.Helper()
	ours, theirs, err := Pair()
	require.NoError(t, err)
	t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	return ours, theirs
}

func TestMessages(t *testing.T) {
	for _, tt := range []struct {
		name string
		size int
	}{
		{"empty", 0},
		{"small", 10},
		{"one packet, to the byte", packet - 2}, // two quotes
		{"one byte more", packet - 1},
		{"two parts, to the byte", 2*(packet-1) - 2},
		{"larger than any socket buffer", 5 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := pair(t)
			want := strings.Repeat("x", tt.size)
			sent := make(chan error, 1)
			go func() { sent <- ours.Send(want); sent <- ours.Send("after") }()
			var got, after string
			_, err := theirs.Receive(&got)
			require.NoError(t, err)
			assert.True(t, want == got, "the text came through")
			_, err = theirs.Receive(&after)
			require.NoError(t, err)
			assert.Equal(t, "after", after)
			require.NoError(t, <-sent)
			require.NoError(t, <-sent)
		})
	}
}

func TestDescriptors(t *testing.T) {
	ours, theirs := pair(t)
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte("content"), 0o600))
	var files []*os.File
	for range 3 {
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		files = append(files, f)
	}
	long := strings.Repeat("x", 3*packet) // they come with the first part, and are handed out with the whole
	require.NoError(t, ours.Send(long, files...))
	require.NoError(t, ours.Send("none"))
	var got string
	received, err := theirs.Receive(&got)
	require.NoError(t, err)
	require.Len(t, received, 3)
	for _, f := range received {
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.NotZero(t, flags&unix.FD_CLOEXEC)
		require.NoError(t, f.Close())
	}
	received, err = theirs.Receive(&got)
	require.NoError(t, err)
	assert.Empty(t, received)
	for _, f := range files {
		_, err := f.Stat()
		assert.NoError(t, err, "the sender keeps its own")
	}
}

func TestTheOtherEndIsGone(t *testing.T) {
	t.Run("receive, after what was sent before", func(t *testing.T) {
		ours, theirs := pair(t)
		require.NoError(t, ours.Send("last words"))
		require.NoError(t, theirs.Send("never read")) // makes the kernel say ECONNRESET
		require.NoError(t, ours.Close())
		var got string
		_, err := theirs.Receive(&got)
		require.NoError(t, err)
		assert.Equal(t, "last words", got)
		_, err = theirs.Receive(&got)
		assert.Equal(t, io.EOF, err)
	})
	t.Run("send", func(t *testing.T) {
		ours, theirs := pair(t)
		require.NoError(t, ours.Close())
		assert.ErrorIs(t, theirs.Send("anybody?"), io.EOF)
	})
	t.Run("our own Close wakes a Receive", func(t *testing.T) {
		ours, _ := pair(t)
		done := make(chan error)
		go func() { _, err := ours.Receive(new(string)); done <- err }()
		require.NoError(t, ours.Close())
		assert.ErrorIs(t, <-done, os.ErrClosed)
	})
}

func TestCancel(t *testing.T) {
	t.Run("receive", func(t *testing.T) {
		ours, theirs := pair(t)
		for range 100 { // cancelled before, while and after it waits: the line stays good
			ctx, cancel := context.WithCancel(context.Background())
			go cancel()
			_, err := theirs.ReceiveContext(ctx, new(string))
			require.ErrorIs(t, err, context.Canceled)
			require.NoError(t, ours.Send("still there"))
			var got string
			_, err = theirs.Receive(&got)
			require.NoError(t, err)
			require.Equal(t, "still there", got)
		}
	})
	t.Run("send to somebody who does not read", func(t *testing.T) {
		ours, theirs := pair(t)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { // once half of it is on the way
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(theirs.file.Fd()), Events: unix.POLLIN}}, -1)
			cancel()
		}()
		err := ours.SendContext(ctx, strings.Repeat("x", 8<<20))
		require.ErrorIs(t, err, context.Canceled)
		_, err = theirs.Receive(new(string))
		assert.Equal(t, io.EOF, err, "half a message is never delivered")
	})
}

func TestNotJSON(t *testing.T) {
	ours, theirs := pair(t)
	require.NoError(t, ours.Send("text"))
	_, err := theirs.Receive(new(int))
	require.ErrorContains(t, err, "receive: json")
	assert.False(t, errors.Is(err, io.EOF))
}
