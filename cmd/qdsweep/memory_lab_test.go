//go:build lab

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLabSataMemory: main stays under 100 MiB and the keeper under 30 MiB with a plan of a million runs (design section 13), and all three processes
// together under 200 MiB. What is looked at is the most that each ever had, so it does not matter when.
func TestLabSataMemory(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	before := l.settings(disk)
	profile := l.write("p.yaml", `version: 1
name: million
matrix:
  queue_depth: {from: 1, to: 31, step: 1}
  max_sectors_kb: {from: 8, to: 128, step: 8}
  read_ahead_kb: {from: 0, to: 124, step: 4}
repeats: 64
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 32, threads: 4, runtime: 20ms}]
`)
	c := l.command("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	var text, errs strings.Builder
	c.Stdout, c.Stderr = &text, &errs
	require.NoError(t, c.Start())
	t.Cleanup(func() { t.Log(errs.String()) })
	l.eventually(120*time.Second*timeScale, "ten rows", func() bool {
		b, _ := os.ReadFile(l.path("out") + "/results.csv")
		return strings.Count(string(b), "\n") > 10
	})
	main, keeper := peakMiB(t, c.Process.Pid), peakMiB(t, l.helper(c.Process.Pid, "keeper"))
	worker := peakMiB(t, l.helper(c.Process.Pid, "worker"))
	t.Logf("main %d MiB, keeper %d MiB, worker %d MiB", main, keeper, worker)
	assert.Less(t, main, 100)
	assert.Less(t, keeper, 30)
	assert.Less(t, main+keeper+worker, 200)
	require.NoError(t, c.Process.Signal(syscall.SIGINT))
	assert.Equal(t, 130, exitCode(c.Wait()), errs.String())
	assert.Equal(t, before, l.settings(disk))
}

// peakMiB is the most memory that a process ever had resident.
func peakMiB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	require.True(t, found)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib >> 10
}
