//go:build lab

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLabDelayMediumError: a read error fails its run with the errno, settings come back, the next run goes on, exit 4 (field case 6).
func TestLabDelayMediumError(t *testing.T) {
	l := newLab(t)
	disk := l.delayed(3)
	before := l.settings(disk)
	const opts = "/sys/bus/pseudo/drivers/scsi_debug/opts"
	was, err := os.ReadFile(opts)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(opts, []byte("0x2"), 0o644)) // medium errors at sectors 0x1234 to 0x123d (scsi_debug)
	t.Cleanup(func() { require.NoError(t, os.WriteFile(opts, was, 0o644)) })
	profile := l.write("p.yaml", `version: 1
name: broken
matrix: {queue_depth: [4, 8]}
repeats: 1
settle: 0s
order: sequential
workloads:
  - {name: fine, type: io, mode: read, block_size: 64k, iodepth: 8, size: 1m, runtime: 0s}
  - {name: hit, type: io, mode: read, block_size: 64k, iodepth: 8, size: 4m, runtime: 0s}
  - {name: never, type: io, mode: read, size: 1m, runtime: 0s}
`)
	s := l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	assert.Equal(t, 4, s.code)
	rows := l.rows(l.path("out"))
	require.Len(t, rows, 4)
	for i, r := range rows {
		if i%2 == 0 {
			assert.Equal(t, []string{"fine", "ok"}, []string{r.Workload, r.Status})
			continue
		}
		assert.Equal(t, []string{"hit", "failed"}, []string{r.Workload, r.Status}, "after a failed phase the others are not done")
		assert.Contains(t, r.Reason, "error: ")
		assert.Contains(t, r.Reason, "ENODATA (medium error", "the errno, and what it means of a drive")
		_, has := r.IOPS.Get()
		assert.False(t, has, "no rate of a failed phase")
		assert.True(t, r.Restored)
	}
	assert.Equal(t, before, l.settings(disk))
}

// TestLabSataClockStepped: the wall clock set back by an hour during a run changes no duration, and the row says so (field case 29).
func TestLabSataClockStepped(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	profile := l.write("p.yaml", strings.Replace(ladder("[4]", "4s"), "repeats: 1", "repeats: 1\ntimeout: 10m", 1))
	c := l.command("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	require.NoError(t, c.Start())
	l.eventually(30*time.Second*timeScale, "the run works", func() bool { return l.get(disk, "device/queue_depth") == "4" })
	l.shell("date -s @$(( $(date +%%s) - 3600 ))")
	defer l.shell("date -s @$(( $(date +%%s) + 3600 ))")
	require.NoError(t, c.Wait())
	r := l.rows(l.path("out"))[0]
	assert.Equal(t, "ok", r.Status)
	assert.Contains(t, r.Reason, "clock stepped")
	assert.InDelta(t, 4, num(t, r.Seconds), 2)
}

// TestLabSataOutputDiskFull: what was written stays, what was measured is saved, the rest is remaining (field case 30).
func TestLabSataOutputDiskFull(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	before := l.settings(disk)
	l.shell("mkdir -p /tmp/full && mount -t tmpfs -o size=256k none /tmp/full")
	defer l.shell("umount /tmp/full")
	profile := l.write("p.yaml", strings.Replace(endless("{queue_depth: [1, 4]}"), "runtime: 300ms", "runtime: 100ms", 1))
	c := l.command("run", profile, "--device", "/dev/"+disk, "--out", "/tmp/full/out", "--allow", "volatile-state")
	var text, errs strings.Builder
	c.Stdout, c.Stderr = &text, &errs
	require.NoError(t, c.Start())
	l.eventually(60*time.Second*timeScale, "a few rows", func() bool {
		b, _ := os.ReadFile("/tmp/full/out/results.csv")
		return strings.Count(string(b), "\n") > 3
	})
	l.shell("dd if=/dev/zero of=/tmp/full/filler bs=4k 2>/dev/null || true")
	assert.Equal(t, 4, exitCode(c.Wait()), errs.String())
	assert.Contains(t, errs.String(), "no space left")
	rescued, err := filepath.Glob(l.state() + "/rescued/*.csv")
	require.NoError(t, err)
	require.Len(t, rescued, 1)
	assert.Contains(t, errs.String(), rescued[0])
	for _, r := range l.rows("/tmp/full/out") {
		assert.Equal(t, "ok", r.Status, "%s %s: %s", r.Run, r.Seconds, r.Reason)
	}
	assert.Equal(t, before, l.settings(disk))
	assert.True(t, l.journalEmpty())
}

// TestLabSataScheduler: an axis that moves nr_requests and iosched/* along; all of it is as before afterwards (field case 32).
func TestLabSataScheduler(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	l.shell("echo mq-deadline > /sys/block/%s/queue/scheduler; echo 24 > /sys/block/%s/queue/nr_requests; echo 336 > /sys/block/%s/queue/iosched/read_expire", disk, disk, disk)
	before := l.settings(disk)
	require.Equal(t, "24\n", before["queue/nr_requests"])
	profile := l.write("p.yaml", `version: 1
name: scheduler
matrix: {scheduler: [none, mq-deadline], queue_depth: [4]}
repeats: 1
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 8, runtime: 300ms}]
`)
	s := l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	assert.Equal(t, 0, s.code)
	assert.Equal(t, before, l.settings(disk))
	assert.Contains(t, l.rows(l.path("out"))[0].AxesEffective, "scheduler=")
}

// TestLabAllPulled: the disk goes away in the middle of a run: failed, device lost, no bogus rate; the array's other member is restored (field case 19).
func TestLabAllPulled(t *testing.T) {
	l := newLab(t)
	lost, other := l.delayed(3), l.delayed(4)
	l.shell("mdadm --create /dev/md8 --run --level=0 --raid-devices=2 /dev/%s /dev/%s 2>&1", lost, other)
	before := l.settings(other)
	place, err := filepath.EvalSymlinks("/sys/block/" + lost + "/device") // …/hostN/targetN:0:0/N:0:0:0
	require.NoError(t, err)
	host := filepath.Base(filepath.Dir(filepath.Dir(place)))
	profile := l.write("p.yaml", `version: 1
name: pulled
matrix: {queue_depth: [4, 8]}
repeats: 1
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 8, runtime: 20s}]
`)
	c := l.command("run", profile, "--device", "/dev/md8", "--out", l.path("out"))
	var text, errs strings.Builder
	c.Stdout, c.Stderr = &text, &errs
	require.NoError(t, c.Start())
	l.eventually(30*time.Second*timeScale, "the run works", func() bool {
		return l.get(other, "device/queue_depth") != "64" && l.get(lost, "device/queue_depth") != "64"
	})
	l.shell("sleep 1; echo 1 > /sys/block/%s/device/delete", lost)
	code := exitCode(c.Wait())
	t.Logf("exit %d\n%s%s", code, errs.String(), text.String())
	assert.Equal(t, 5, code, "the lost drive's settings are not back")
	rows := l.rows(l.path("out"))
	require.Len(t, rows, 1, "no second run on that target")
	assert.Equal(t, "failed", rows[0].Status)
	_, has := rows[0].IOPS.Get()
	assert.False(t, has)
	assert.Equal(t, before, l.settings(other))
	assert.Equal(t, 1, strings.Count(errs.String(), "NOT RESTORED"), "said once")
	assert.Contains(t, errs.String(), "NOT RESTORED: "+lost)
	assert.Contains(t, errs.String(), "restore --forget")
	l.shell("mdadm --stop /dev/md8 2>&1 || true")

	// Put back, it is found by its identity, whatever its name is now, and nothing is left to do.
	s := l.run("restore")
	assert.Equal(t, 4, s.code, "not there yet")
	l.shell("echo '- - -' > /sys/class/scsi_host/%s/scan", host)
	l.eventually(10*time.Second*timeScale, "the drive is back", func() bool {
		disks, _ := filepath.Glob(place + "/block/sd*")
		return len(disks) == 1
	})
	s = l.run("restore")
	assert.Equal(t, 0, s.code)
	assert.True(t, l.journalEmpty())
}

// TestLabAllDevices: every device is listed with what it can be set to, and the plan of a queue_depth axis on NVMe names the profile to take instead.
func TestLabAllDevices(t *testing.T) {
	l := newLab(t)
	s := l.run("devices")
	assert.Equal(t, 0, s.code)
	for _, want := range []string{"nvme0n1", "32 of 1-32", "64 of 1-64"} {
		assert.Contains(t, s.out, want)
	}
	assert.Contains(t, l.run("devices", "--format", "json").out, `"QDLAB-SATA-1"`, "the table leaves serials out where it is too narrow")
	s = l.run("plan", "depth-ladder", "--device", "/dev/nvme0n1")
	assert.Equal(t, 3, s.code)
	assert.Contains(t, s.err, "iodepth-ladder")
	for _, name := range []string{"quick", "iodepth-ladder"} { // the profiles that NVMe drives can run
		s = l.run("plan", name, "--device", "/dev/nvme0n1")
		assert.Equal(t, 0, s.code)
	}
}
