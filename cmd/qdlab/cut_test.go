package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	p := progress{Boot: 1}
	p.began(0)
	assert.Equal(t, progress{Test: 0, Boot: 1}, p)
	require.NoError(t, p.cut())
	p.began(0)
	assert.Equal(t, progress{Test: 0, Boot: 2}, p, "the same test goes on")
	p.began(1)
	assert.Equal(t, progress{Test: 1, Boot: 1}, p, "the next one has not been cut")

	for range maxCuts {
		require.NoError(t, p.cut())
		p.began(1)
	}
	assert.ErrorContains(t, p.cut(), "32 times for the same test")
}

func TestProgressReachesTheGuest(t *testing.T) {
	p := progress{Test: 3, Boot: 2}
	m := machine{Progress: p}
	line := strings.Join(m.arguments(), " ")
	assert.Contains(t, line, kernelCommandLine()+" qdlab.test=3 qdlab.boot=2")
	assert.Equal(t, p, parseProgress(kernelCommandLine()+" "+p.kernelParameters()))
	assert.Equal(t, progress{Boot: 1}, parseProgress("console=ttyS0 qdlab.boot=x"))
}

func TestEachTest(t *testing.T) {
	list := []guestTests{{ImportPath: "a", Binary: "/a", Tests: []string{"TestLabCutOne", "TestLabCutTwo"}}, {ImportPath: "b", Tests: []string{"TestLabCut"}}}
	assert.Equal(t, []guestTests{
		{ImportPath: "a", Binary: "/a", Tests: []string{"TestLabCutOne"}}, {ImportPath: "a", Binary: "/a", Tests: []string{"TestLabCutTwo"}},
		{ImportPath: "b", Tests: []string{"TestLabCut"}},
	}, eachTest(list))
}

// What one program tells before another is with the host before it.
func TestMessagesReachTheHostInOrder(t *testing.T) {
	address := filepath.Join(t.TempDir(), "messages")
	require.ErrorIs(t, tellHost(address, guestReport{Cut: true}), errNoCuts, "nobody listens")
	listener, err := net.Listen("unix", address)
	require.NoError(t, err)
	host, inGuest := net.Pipe()
	go relay(listener, &frameWriter{w: inGuest})
	t.Cleanup(func() { _ = listener.Close() })
	reports := make(chan guestReport, 3)
	go receive(newFrameReader(host), job{}, func(r guestReport) { reports <- r })
	for _, r := range []guestReport{{Test: &testReport{Test: 4}}, {Test: &testReport{Test: 4, Failed: true}}, {Cut: true}} {
		require.NoError(t, tellHost(address, r))
		assert.Equal(t, r, <-reports)
	}
}
