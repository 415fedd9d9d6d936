//go:build lab

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hasOurs says whether a folder of ours, with something in it, is in a directory.
func hasOurs(dir string) bool {
	found, _ := filepath.Glob(dir + "/qdsweep-*/*")
	return len(found) > 0
}

// TestLabSataFolderIsGone: whoever dies, and whenever, our folder in a directory target goes, and the settings come back.
func TestLabSataFolderIsGone(t *testing.T) {
	l := newLab(t)
	disk := l.sata(3)
	const dir = "/tmp/promise"
	l.ext4(disk, dir)
	before := l.settings(disk)
	profile := l.write("p.yaml", `version: 1
name: files
matrix: {queue_depth: [4]}
repeats: 100
settle: 0s
workloads: [{name: w, type: io, mode: randwrite, size: 16m, runtime: 500ms}]
`)
	laidOut := func() bool { return hasOurs(dir) }
	working := func() bool { return l.get(disk, "device/queue_depth") == "4" }
	for _, c := range []struct {
		name string
		when func() bool
		do   func(main int)
		code int // of main
		then []string
	}{
		{"main while the files are laid out", laidOut, func(main int) { syscall.Kill(main, syscall.SIGKILL) }, 137, nil},
		{"main at work", working, func(main int) { syscall.Kill(main, syscall.SIGKILL) }, 137, nil},
		{"a signal while the files are laid out", laidOut, func(main int) { syscall.Kill(main, syscall.SIGINT) }, 130, nil},
		{"the keeper, and then a signal", working, func(main int) {
			was := l.helper(main, "keeper")
			syscall.Kill(was, syscall.SIGKILL)
			l.eventually(30*time.Second*timeScale, "another keeper at work", func() bool { return l.helper(main, "keeper") != was && working() })
			syscall.Kill(main, syscall.SIGTERM)
		}, 143, nil},
		{"both", working, func(main int) {
			syscall.Kill(l.helper(main, "keeper"), syscall.SIGKILL)
			syscall.Kill(main, syscall.SIGKILL)
		}, 137, []string{"restore"}},
	} {
		cmd := l.command("run", profile, "--directory", dir, "--out", l.path(strings.ReplaceAll(c.name, " ", "-")))
		var errs strings.Builder
		cmd.Stderr = &errs
		require.NoError(t, cmd.Start())
		l.eventually(60*time.Second*timeScale, c.name, c.when)
		c.do(cmd.Process.Pid)
		assert.Equal(t, c.code, exitCode(cmd.Wait()), "%s\n%s", c.name, errs.String())
		if c.then != nil {
			assert.Equal(t, 0, l.run(c.then...).code)
		}
		l.eventually(10*time.Second*timeScale, c.name+": put back", l.journalEmpty)
		assert.Equal(t, before, l.settings(disk), c.name)
		left, err := filepath.Glob(dir + "/qdsweep-*")
		require.NoError(t, err)
		assert.Empty(t, left, c.name)
	}
}

// TestLabSataTwoPartitions: two sweeps on two partitions of one disk would set the same drive: the second waits or is refused, and Ctrl-C while it waits is 130.
func TestLabSataTwoPartitions(t *testing.T) {
	l := newLab(t)
	disk := l.sata(3)
	l.shell("printf 'size=16M\\nsize=16M\\n' | sfdisk -q --label dos /dev/%s 2>&1; for i in 1 2 3; do [ -b /dev/%s2 ] || sleep 1; done", disk, disk)
	defer l.shell("wipefs -qa /dev/%s; blockdev --rereadpt /dev/%s 2>/dev/null || partprobe /dev/%s 2>/dev/null || true", disk, disk, disk)
	before := l.settings(disk)
	profile := l.write("p.yaml", endless("{queue_depth: [4]}"))
	first := l.command("run", profile, "--device", "/dev/"+disk+"1", "--out", l.path("first"))
	require.NoError(t, first.Start())
	l.eventually(60*time.Second*timeScale, "the first works", func() bool { return l.get(disk, "device/queue_depth") == "4" })
	s := l.run("run", profile, "--device", "/dev/"+disk+"2", "--out", l.path("second"), "--allow", "shared-disk")
	assert.Equal(t, 3, s.code)
	assert.Contains(t, s.err, disk)
	waiting := l.command("run", profile, "--device", "/dev/"+disk+"2", "--out", l.path("second"), "--allow", "shared-disk", "--wait", "10m")
	require.NoError(t, waiting.Start())
	l.helper(waiting.Process.Pid, "keeper")
	require.NoError(t, waiting.Process.Signal(syscall.SIGINT))
	assert.Equal(t, 130, exitCode(waiting.Wait()))
	assert.NoDirExists(t, l.path("second"))
	require.NoError(t, first.Process.Signal(syscall.SIGINT))
	assert.Equal(t, 130, exitCode(first.Wait()))
	assert.Equal(t, before, l.settings(disk))
}
