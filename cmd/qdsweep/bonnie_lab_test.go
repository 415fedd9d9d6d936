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

	"qdsweep/sweep/results"
	"qdsweep/workload"
)

// TestLabSataBonnie: all twelve phases on a file system on a drive, each a row that is ok, with a figure; what read, read from the drive. Whoever dies
// among thousands of files, they go.
func TestLabSataBonnie(t *testing.T) {
	l := newLab(t)
	disk := l.sata(3)
	const dir = "/tmp/bonnie"
	l.ext4(disk, dir)
	before := l.settings(disk)
	profile := l.write("b.yaml", `version: 1
name: bonnie
matrix: {queue_depth: [4]}
repeats: 1
settle: 100ms
workloads: [{name: b, type: bonnie, size: 4m, chunk: 8k, seeks: 100, seekers: 4, files: 1, file_size_max: 2000, directories: 4}]
`)
	out := l.path("out")
	s := l.run("run", profile, "--directory", dir, "--out", out)
	require.Equal(t, 0, s.code)
	assert.NotContains(t, s.out, "+++")
	assert.Equal(t, before, l.settings(disk))
	rows := l.rows(out)
	require.Len(t, rows, 12)
	for i, r := range rows {
		assert.Equal(t, workload.BonniePhases()[i], r.Phase)
		assert.Equal(t, results.OK, r.Status, "%s: %s", r.Phase, r.Reason)
		assert.Positive(t, num(t, r.IOPS), r.Phase)
		assert.Positive(t, num(t, r.CPUSysS)+num(t, r.CPUUserS), r.Phase)
		if i < 5 {
			assert.Positive(t, num(t, r.MBPerS), r.Phase)
			assert.NotContains(t, r.Reason, "cached", r.Phase)
		}
		if depth, seen := r.ObservedDepthMax.Get(); seen {
			assert.LessOrEqual(t, depth, 4.0, r.Phase)
		}
	}
	l.nothingIn(dir)

	log, err := os.ReadFile(filepath.Join(out, "log.jsonl"))
	require.NoError(t, err)
	assert.Contains(t, string(log), `"phase":"b: ran_delete"`, "which phase it is in is told")

	many := l.write("m.yaml", `version: 1
name: many
matrix: {queue_depth: [4]}
repeats: 1
settle: 0s
workloads: [{name: b, type: bonnie, phases: [seq_create, ran_create], size: 1m, files: 4, file_size_max: 16, directories: 16}]
`)
	for _, c := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGKILL, 137}, {syscall.SIGINT, 130}} {
		cmd := l.command("run", many, "--directory", dir, "--out", l.path(c.signal.String()))
		var errs strings.Builder
		cmd.Stderr = &errs
		require.NoError(t, cmd.Start())
		l.eventually(60*time.Second*timeScale, "many files", func() bool {
			files, _ := filepath.Glob(dir + "/qdsweep-*/b.1/000003/*")
			return len(files) > 100
		})
		require.NoError(t, cmd.Process.Signal(c.signal))
		assert.Equal(t, c.code, exitCode(cmd.Wait()), errs.String())
		l.eventually(60*time.Second*timeScale, "put back", l.journalEmpty)
		assert.Equal(t, before, l.settings(disk))
		l.nothingIn(dir)
	}
}

// nothingIn asserts that of our own folder nothing is left.
func (l *lab) nothingIn(dir string) {
	l.Helper()
	left, err := filepath.Glob(dir + "/qdsweep-*")
	require.NoError(l, err)
	assert.Empty(l, left)
}
