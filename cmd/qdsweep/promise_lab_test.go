//go:build lab

package main

import (
	"os"
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

// TestLabSataWorkerInTheKernel: the target stops to answer, the worker is in D and SIGKILL does not end it. The run fails, the member below is as it was,
// the program ends, and the rest is remaining; the same after a signal.
func TestLabSataWorkerInTheKernel(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	l.shell("dmsetup create hang --table \"0 $(cat /sys/block/%s/size) linear /dev/%s 0\" && dmsetup mknodes", disk, disk)
	defer l.shell("dmsetup remove --retry hang")
	before := l.settings(disk)
	profile := l.write("p.yaml", `version: 1
name: hang
matrix: {queue_depth: [4]}
repeats: 3
settle: 0s
timeout: 20s
workloads: [{name: r, type: io, mode: randread, engine: psync, runtime: 10s}]
`)
	for _, c := range []struct {
		name, reason string
		signal       syscall.Signal
		code         int
	}{{"timeout", "stuck in the kernel", 0, 4}, {"signal", "", syscall.SIGTERM, 143}} {
		out := l.path(c.name)
		cmd := l.command("run", profile, "--device", "/dev/mapper/hang", "--out", out)
		// Files, not pipes: a worker in the kernel would hold a pipe open, and Wait with it.
		text, err := os.Create(l.path(c.name + ".stdout"))
		require.NoError(t, err)
		errs, err := os.Create(l.path(c.name + ".stderr"))
		require.NoError(t, err)
		cmd.Stdout, cmd.Stderr = text, errs
		require.NoError(t, cmd.Start())
		l.eventually(60*time.Second*timeScale, "the run works", func() bool {
			status, _ := os.ReadFile(out + "/status.json")
			return strings.Contains(string(status), `"phase": "r"`)
		})
		l.shell("dmsetup suspend --noflush --nolockfs hang")
		if c.signal != 0 {
			require.NoError(t, cmd.Process.Signal(c.signal))
		}
		code := exitCode(cmd.Wait())
		after := l.settings(disk) // while it still hangs
		l.shell("dmsetup resume hang")
		said := l.shell("cat %s %s", errs.Name(), text.Name())
		assert.Equal(t, c.code, code, said)
		assert.Equal(t, before, after, c.name)
		assert.True(t, l.journalEmpty())
		assert.Contains(t, said, "3 planned")
		if c.reason != "" {
			rows := l.rows(out)
			require.Len(t, rows, 1, "no other run on that target")
			assert.Contains(t, rows[0].Reason, c.reason)
			assert.True(t, rows[0].Restored)
		}
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
