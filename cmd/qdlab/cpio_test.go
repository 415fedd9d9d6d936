package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cpioEntry is one entry as readCPIO finds it.
type cpioEntry struct {
	Name, Content string
	Mode          uint64
	Major, Minor  uint64
}

// readCPIO follows the format's document, not the writer.
func readCPIO(t *testing.T, archive []byte) []cpioEntry {
	t.Helper()
	var entries []cpioEntry
	field := func(at, n int) uint64 {
		value, err := strconv.ParseUint(string(archive[at+6+8*n:at+14+8*n]), 16, 64)
		require.NoError(t, err)
		return value
	}
	up := func(n int) int { return (n + 3) &^ 3 }
	for at := 0; ; {
		require.Equal(t, "070701", string(archive[at:at+6]))
		size, nameSize := int(field(at, 6)), int(field(at, 11))
		name := string(archive[at+110 : at+110+nameSize])
		require.True(t, strings.HasSuffix(name, "\x00"))
		data := up(at + 110 + nameSize)
		if name == "TRAILER!!!\x00" {
			rest := archive[data:]
			require.Equal(t, bytes.Repeat([]byte{0}, len(rest)), rest)
			return entries
		}
		entries = append(entries, cpioEntry{strings.TrimRight(name, "\x00"), string(archive[data : data+size]), field(at, 1), field(at, 9), field(at, 10)})
		at = up(data + size)
	}
}

func TestCPIO(t *testing.T) {
	host := filepath.Join(t.TempDir(), "tool")
	require.NoError(t, os.WriteFile(host, []byte("tool"), 0o600))
	require.NoError(t, os.Chmod(host, 0o755))
	var out bytes.Buffer
	c := newCPIOWriter(&out)
	c.File("/etc/deep/name", 0o644, []byte("12345"))
	c.Folder("etc", 0o700) // there already
	c.Symlink("bin", "usr/bin")
	c.Char("dev/console", 0o600, 5, 1)
	require.NoError(t, c.HostFile("usr/bin/tool", host))
	c.File("empty", 0o600, nil)
	require.NoError(t, c.Close())
	assert.Zero(t, out.Len()%512, "another archive can follow")
	assert.Equal(t, []cpioEntry{
		{Name: "etc", Mode: 0o040755},
		{Name: "etc/deep", Mode: 0o040755},
		{Name: "etc/deep/name", Content: "12345", Mode: 0o100644},
		{Name: "bin", Content: "usr/bin", Mode: 0o120777},
		{Name: "dev", Mode: 0o040755},
		{Name: "dev/console", Mode: 0o020600, Major: 5, Minor: 1},
		{Name: "usr", Mode: 0o040755},
		{Name: "usr/bin", Mode: 0o040755},
		{Name: "usr/bin/tool", Content: "tool", Mode: 0o100755},
		{Name: "empty", Mode: 0o100600},
	}, readCPIO(t, out.Bytes()))
}

func TestCPIOErrors(t *testing.T) {
	c := newCPIOWriter(&bytes.Buffer{})
	assert.ErrorIs(t, c.HostFile("x", filepath.Join(t.TempDir(), "absent")), os.ErrNotExist)

	full := errors.New("disk full")
	c = newCPIOWriter(writerFunc(func([]byte) (int, error) { return 0, full }))
	c.File("a", 0o644, []byte("a"))
	c.File("b", 0o644, []byte("b"))
	assert.ErrorIs(t, c.Close(), full)
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
