//go:build lab

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep"
)

// TestLabSataWorkerInTheKernel: a target stops to answer, the worker is in D and SIGKILL does not end it: while it works, while what it wrote is synced, and
// when somebody wants it to end. The run fails and is told apart, the member below is as it was, the other drive gets its runs, the program ends while the
// target still hangs, and the rest is remaining.
func TestLabSataWorkerInTheKernel(t *testing.T) {
	l := newLab(t)
	disk, other := l.sata(2), l.sata(1)
	l.shell("dmsetup create hang --uuid QDLAB-HANG --table \"0 $(cat /sys/block/%s/size) linear /dev/%s 0\" && dmsetup mknodes", disk, disk)
	defer l.shell("dmsetup remove --retry hang")
	before := []map[string]string{l.settings(disk), l.settings(other)}
	profile := func(workload string) string {
		return fmt.Sprintf(`version: 1
name: hang
target: {devices: [/dev/mapper/hang, /dev/%s]}
matrix: {queue_depth: [4]}
repeats: 2
order: sequential
settle: 0s
timeout: 4s
workloads: [{name: r, type: io, engine: psync, runtime: 2s, %s}]
`, other, workload)
	}
	for _, c := range []struct {
		name, workload, reason string
		args                   []string
		signal                 syscall.Signal
		code, rows             int
	}{
		{"work", "mode: randread", "stuck in the kernel: work: ", nil, 0, 4, 3},
		{"drain", "mode: write, direct: false, size: 8m", "stuck in the kernel: drain: ", []string{"--erase", "/dev/mapper/hang", "--erase", "/dev/" + other}, 0, 4, 4},
		{"signal", "mode: randread", "", nil, syscall.SIGTERM, 143, -1},
	} {
		u := l.start(c.name, profile(c.workload), c.args...)
		u.working(1)
		l.shell("dmsetup suspend --noflush --nolockfs hang")
		if c.signal != 0 {
			require.NoError(t, syscall.Kill(u.pid, c.signal))
		}
		<-u.ended
		after := []map[string]string{l.settings(disk), l.settings(other)} // while it still hangs
		s := l.run("status", u.out, "--format", "json")
		l.shell("dmsetup resume hang")
		rows := u.end(c.code)
		assert.Equal(t, before, after, c.name)
		assert.True(t, l.journalEmpty())
		var status sweep.SweepStatus
		require.NoError(t, json.Unmarshal([]byte(s.out), &status))
		assert.Equal(t, []any{sweep.Ended, c.code, 4}, []any{status.State, *status.Exit, status.Planned})
		if c.rows < 0 {
			continue
		}
		require.Len(t, rows, c.rows, "of one run on the target that hangs, and of two on the other drive")
		hung, fine := rows[c.rows-3], rows[c.rows-2:]
		assert.Equal(t, "failed", hung.Status)
		assert.Contains(t, hung.Reason, c.reason)
		assert.True(t, hung.Restored)
		for _, r := range fine {
			assert.Equal(t, []string{"ok", "/dev/" + other}, []string{r.Status, r.Target}, r.Reason)
		}
		assert.Contains(t, u.text(), "4 planned = 2 ok + 1 failed + 0 suspect + 0 skipped + 1 remaining")
	}
}

// TestLabSataOutputDiskHangs: the disk of the output folder stops to answer, with ext4 on it. The measured drive has its settings, and somebody who ends the
// sweep gets it: what was measured is saved in the state folder, and the audit is said. The process itself is gone when the disk lets its threads go, and
// resume does the rest, each run once, whether the disk had taken the rows in the end or not.
func TestLabSataOutputDiskHangs(t *testing.T) {
	l := newLab(t)
	disk, output := l.sata(2), l.sata(1)
	before := l.settings(disk)
	l.shell("dmsetup create output --uuid QDLAB-OUTPUT --table \"0 $(cat /sys/block/%s/size) linear /dev/%s 0\" && dmsetup mknodes", output, output)
	t.Cleanup(func() { l.shell("dmsetup remove --retry output") })
	dir := l.path("disk")
	l.ext4("mapper/output", dir)
	resume := func() { l.shell("dmsetup resume output") }
	profile := strings.Replace(endless("{queue_depth: [1, 4]}"), "repeats: 1000", "repeats: 5", 1)
	u := l.begin("u", dir+"/out", "run", l.write("p.yaml", profile), "--device", "/dev/"+disk, "--out", dir+"/out")
	t.Cleanup(resume)
	u.until("a few rows", func() bool {
		text, _ := os.ReadFile(u.out + "/results.csv")
		return strings.Count(string(text), "\n") > 3
	})
	l.shell("dmsetup suspend --noflush --nolockfs output")
	var since time.Time
	u.until("it waits for the disk", func() bool { // between two runs, for longer than one takes
		if l.get(disk, "device/queue_depth") != strings.TrimSpace(before["device/queue_depth"]) {
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) > 3*time.Second
	})
	require.NoError(t, syscall.Kill(u.pid, syscall.SIGTERM))
	l.eventually(60*time.Second*timeScale, "the audit", func() bool { return strings.Contains(u.text(), "10 planned = ") })
	assert.Contains(t, u.text(), "the disk of "+u.out+" does not answer; when it does again: qdsweep report")
	assert.Equal(t, before, l.settings(disk), "while it hangs yet")
	assert.True(t, l.journalEmpty())
	rescued, err := filepath.Glob(l.state() + "/rescued/*.csv")
	require.NoError(t, err)
	assert.Len(t, rescued, 1)
	resume()
	u.end(143)
	s := l.run("resume", u.out)
	assert.Equal(t, 0, s.code)
	assert.Contains(t, s.out, "10 planned = 10 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining")
	runs := map[string]int{}
	for _, r := range l.rows(u.out) {
		runs[r.Run]++
	}
	assert.Len(t, runs, 10)
	for run, n := range runs {
		assert.Equal(t, 1, n, run)
	}
}

// TestLabSataRunTimeout: a drive that answers, but late: a run is ended at its timeout and fails, the worker goes as soon as the drive lets it, and the
// next run has its turn.
func TestLabSataRunTimeout(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	before := l.settings(disk)
	l.shell("modprobe dm_delay && dmsetup create late --uuid QDLAB-LATE --table \"0 $(cat /sys/block/%s/size) delay /dev/%s 0 1500\" && dmsetup mknodes", disk, disk)
	defer l.shell("dmsetup remove --retry late")
	u := l.start("late", `version: 1
name: late
matrix: {queue_depth: [4, 8]}
repeats: 1
settle: 0s
timeout: 2s
workloads: [{name: r, type: io, mode: read, engine: psync, runtime: 0s}]
`, "--device", "/dev/mapper/late")
	rows := u.end(4)
	require.Len(t, rows, 2)
	for _, r := range rows {
		assert.Equal(t, []string{"failed", "timeout: the run took longer than 2s"}, []string{r.Status, r.Reason})
		_, has := r.MBPerS.Get()
		assert.False(t, has, "no rate of half a phase")
		assert.True(t, r.Restored)
	}
	assert.Equal(t, before, l.settings(disk))
}
