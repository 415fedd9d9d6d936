package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// qdlab runs a command line and gives what it prints.
func qdlab(args ...string) (string, error) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.Execute()
	return out.String(), err
}

func TestModels(t *testing.T) {
	out, err := qdlab("models")
	require.NoError(t, err)
	assert.Contains(t, out, "wcache-tagging-1999\n    shows  1999, freebsd-hardware")
	assert.Contains(t, out, "    quirks tags defeat the write cache\n")
	assert.Contains(t, out, "    quirks none\n")

	// What is printed is a file that simulate takes.
	text, err := qdlab("models", "ncq-2007")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(text, "rpm: 7200", "rpm: 15000", 1)), 0o644))
	args := []string{"--mode", "randread,randwrite", "--depth", "1,31", "--write-cache", "off", "--length", "5s", "--warmup", "0s"}
	slow, err := qdlab(append([]string{"simulate", "ncq-2007"}, args...)...)
	require.NoError(t, err)
	fast, err := qdlab(append([]string{"simulate", file}, args...)...)
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^ +randread +- +1 +8\d\.\d `, slow)
	assert.Regexp(t, `(?m)^ +randwrite +off +31 +\d+\.\d `, slow)
	assert.Regexp(t, `(?m)^ +randread +- +1 +1[0-2]\d\.\d `, fast, "half of the turn saved is 2 ms")

	for _, c := range []struct{ args, wrong string }{
		{"simulate nosuch", `no model is called "nosuch": there are`},
		{"models nosuch", `no model is called "nosuch"`},
		{"simulate ncq-2007 --mode seeks", `--mode "seeks" must be`},
		{"simulate ncq-2007 --mode write --write-cache maybe", `--write-cache "maybe" must be on or off`},
		{"simulate ncq-2007 --mode read --depth 0", "depth 0"},
	} {
		_, err := qdlab(strings.Fields(c.args)...)
		assert.ErrorContains(t, err, c.wrong, c.args)
	}
}
