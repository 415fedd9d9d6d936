//go:build lab

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// What the kernel, a drive, or somebody else does behind a sweep's back is in the row.

// TestLabSataSettingsMoved: somebody writes a knob back, and the write cache, while a run goes on: these runs are suspect, and the next one has its own
// settings again (field cases 4, 13).
func TestLabSataSettingsMoved(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	before := l.settings(disk)
	m := l.start("moved", `version: 1
name: moved
matrix: {max_sectors_kb: [8, 16, 32], write_cache: [off]}
repeats: 1
order: sequential
settle: 0s
workloads: [{name: r, type: io, mode: randread, runtime: 3s}]
`, "--device", "/dev/"+disk)
	m.working(1)
	l.set(disk, "queue/max_sectors_kb", "128")
	m.working(2)
	l.shell("hdparm -W1 /dev/%s", disk)
	rows := m.end(4)
	require.Len(t, rows, 3)
	assert.Equal(t, []string{"suspect", "suspect", "ok"}, []string{rows[0].Status, rows[1].Status, rows[2].Status})
	assert.Contains(t, rows[0].Reason, "moved: "+disk+": max_sectors_kb moved: 8 → 128")
	assert.Contains(t, rows[1].Reason, "moved: "+disk+": write_cache moved: off → on")
	for _, r := range rows {
		assert.Equal(t, []string{r.MaxSectorsKB, "off"}, []string{r.MaxSectorsKBEffective, r.WriteCacheEffective}, "each run sets its own again")
		assert.True(t, r.Restored)
	}
	assert.Equal(t, before, l.settings(disk))
}

// TestLabSataNCQGivenUp: libata switches NCQ off because of errors that the workload never sees. The row says so, no other depth is written to that disk
// but the restore, and its part of the sweep ends (field case 3).
func TestLabSataNCQGivenUp(t *testing.T) {
	l := newLab(t)
	disk, other := l.bySerial("QDLAB-SATA-BAD"), l.sata(1)
	before, others := l.settings(disk), l.settings(other)
	m := l.start("ncq", `version: 1
name: ncq
target: {devices: [/dev/`+disk+`, /dev/`+other+`]}
matrix: {queue_depth: [31, 4]}
repeats: 1
order: sequential
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 4, size: 16m, runtime: 4s}]
`)
	m.working(1)
	depths := m.watch(disk, "device/queue_depth")
	// The first sector of a bad zone of that drive: it is read at the fifth attempt (cmd/qdlab/faults.go).
	l.shell("dd if=/dev/%s of=/dev/null iflag=direct bs=4k count=1 skip=%d 2>&1", disk, (64<<20+5<<20)>>12)
	rows := m.end(4)
	require.Len(t, rows, 3, "one run of the disk, both of the other")
	assert.Equal(t, "suspect", rows[0].Status)
	assert.Contains(t, rows[0].Reason, "NCQ switched off: "+disk+": ")
	assert.Equal(t, "31", rows[0].QueueDepthEffective, "which still reads as set")
	for _, r := range rows[1:] {
		assert.Equal(t, "ok", r.Status, r.Reason)
		assert.Contains(t, r.Members, "QDLAB-SATA-1")
	}
	assert.Equal(t, []string{"31", "32"}, depths(), "set once, and put back")
	assert.Equal(t, before, l.settings(disk))
	assert.Equal(t, others, l.settings(other))
	assert.Contains(t, m.text(), "4 planned = 2 ok + 0 failed + 1 suspect + 0 skipped + 1 remaining")
}

// watch notes the values that an attribute goes through, until the sweep has ended.
func (u *underway) watch(disk, attribute string) func() []string {
	done := make(chan []string)
	go func() {
		var seen []string
		for last := false; ; {
			b, _ := os.ReadFile("/sys/block/" + disk + "/" + attribute)
			if value := strings.TrimSpace(string(b)); len(seen) == 0 || seen[len(seen)-1] != value {
				seen = append(seen, value)
			}
			if last {
				done <- seen
				return
			}
			select {
			case <-u.ended:
				last = true
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() []string { return <-done }
}

// bySerial finds a drive of whatever kind.
func (l *lab) bySerial(serial string) string {
	l.Helper()
	for _, pattern := range []string{"/sys/block/sd*/device/vpd_pg80", "/sys/block/vd*/serial"} {
		files, err := filepath.Glob(pattern)
		require.NoError(l, err)
		for _, name := range files {
			if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), serial) {
				return strings.Split(name, "/")[3]
			}
		}
	}
	l.Fatalf("no drive with serial %s", serial)
	return ""
}

// TestLabSataMemberFails: an array loses a member in a run: the row fails, the array's part of the sweep ends, the other array goes on, and every disk is
// as it was, the lost one too (field case 5).
func TestLabSataMemberFails(t *testing.T) {
	l := newLab(t)
	disks := l.fourSATA()[:3]
	l.partition(disks, 32, 32)
	l.array("md1", "1", disks[0]+"1", disks[1]+"1")
	l.array("md5", "5", disks[0]+"2", disks[1]+"2", disks[2]+"2")
	l.clean("md1")
	l.clean("md5")
	before := l.allSettings(disks)
	m := l.start("fails", `version: 1
name: fails
target: {arrays: {1: /dev/md1, 5: /dev/md5}}
matrix: {raid_level: [1, 5], queue_depth: [4, 8]}
repeats: 1
order: sequential
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 4, runtime: 3s}]
`)
	m.working(1)
	l.shell("mdadm --fail --quiet /dev/md1 /dev/%s1", disks[1])
	rows := m.end(4)
	require.Len(t, rows, 3)
	assert.Equal(t, []string{"1", "failed"}, []string{rows[0].RAIDLevel, rows[0].Status})
	assert.Contains(t, rows[0].Reason, "degraded: md1 has lost 1 of its 2 members")
	_, has := rows[0].IOPS.Get()
	assert.False(t, has, "no rate of a failed row")
	for _, r := range rows[1:] {
		assert.Equal(t, []string{"5", "ok"}, []string{r.RAIDLevel, r.Status}, r.Reason)
	}
	assert.Contains(t, m.text(), "4 planned = 2 ok + 1 failed + 0 suspect + 0 skipped + 1 remaining")
	assert.Equal(t, before, l.allSettings(disks))

	// Degraded from the start is refused.
	s := l.run("run", l.path("fails.yaml"), "--out", l.path("no"))
	assert.Equal(t, 3, s.code)
	assert.Contains(t, s.err, "md1")
	assert.Contains(t, s.err, "degraded")
	assert.NoDirExists(t, l.path("no"))
}

// TestLabSataForeignIO: somebody reads another partition of the same disk while a run goes on.
func TestLabSataForeignIO(t *testing.T) {
	l := newLab(t)
	disk := l.sata(3)
	l.blank(disk)
	t.Cleanup(func() { l.blank(disk) })
	l.partition([]string{disk}, 32, 32)
	before := l.settings(disk)
	m := l.start("foreign", `version: 1
name: foreign
matrix: {queue_depth: [4, 8]}
repeats: 1
order: sequential
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 4, runtime: 6s}]
`, "--device", "/dev/"+disk+"1")
	m.working(1)
	// For a time, not a number of reads: what is much beside the run's own on a slow machine is nothing on a fast one.
	l.shell("end=$(($(date +%%s) + 2)); while [ $(date +%%s) -lt $end ]; do dd if=/dev/%s2 of=/dev/null iflag=direct bs=4k count=500 2>&1; done", disk)
	rows := m.end(4)
	require.Len(t, rows, 2)
	assert.Equal(t, []string{"suspect", "ok"}, []string{rows[0].Status, rows[1].Status}, "%s; %s", rows[0].Reason, rows[1].Reason)
	assert.Contains(t, rows[0].Reason, "foreign I/O: "+disk)
	assert.Equal(t, before, l.settings(disk))
}

// TestLabAllQueueFull: the drive says that its queue is full, and the SCSI layer lowers the depth in the middle of a run: suspect, and put back to what
// it was before the sweep (field case 23).
func TestLabAllQueueFull(t *testing.T) {
	l := newLab(t)
	disk := l.bySerial("QDLAB-SCSI-FULL")
	before := l.settings(disk)
	require.Equal(t, "128", l.get(disk, "device/queue_depth"))
	m := l.start("full", `version: 1
name: full
matrix: {queue_depth: [128]}
repeats: 1
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 4, size: 32m, runtime: 8s}]
`, "--device", "/dev/"+disk)
	m.working(1)
	for n := 0; l.get(disk, "device/queue_depth") == "128"; n++ {
		require.Less(t, n, 64)
		l.shell("dd if=/dev/%s of=/dev/null iflag=direct bs=4k count=1 skip=%d 2>&1; sleep 0.1", disk, 64<<20>>12+n) // see docs/lab.md, trouble at will
	}
	rows := m.end(4)
	require.Len(t, rows, 1)
	assert.Equal(t, "suspect", rows[0].Status)
	assert.Regexp(t, `queue_depth moved: 128 → 12\d`, rows[0].Reason)
	assert.Equal(t, "128", rows[0].QueueDepthEffective)
	assert.Equal(t, before, l.settings(disk))
}

// TestLabDelayForgotten: a drive died with a journal entry. Others can be swept, and the message says how to forget it; put back, it is blocked no more
// (field case 36).
func TestLabDelayForgotten(t *testing.T) {
	l := newLab(t)
	disk, other := l.delayed(1), l.delayed(2)
	before := l.settings(other)
	wwid := l.get(disk, "device/wwid")
	place, err := filepath.EvalSymlinks("/sys/block/" + disk + "/device")
	require.NoError(t, err)
	host := filepath.Base(filepath.Dir(filepath.Dir(place)))
	m := l.start("dies", endless("{queue_depth: [4, 8]}"), "--device", "/dev/"+disk)
	m.until("the run works", func() bool { return l.get(disk, "device/queue_depth") != "64" })
	m.kill(l.helper(m.pid, "keeper"))
	l.shell("echo 1 > /sys/block/%s/device/delete", disk)

	short := l.write("short.yaml", strings.Replace(endless("{queue_depth: [4]}"), "repeats: 1000", "repeats: 1", 1))
	assert.Equal(t, 0, l.run("run", short, "--device", "/dev/"+other, "--out", l.path("other")).code, "another drive can be swept")
	assert.Equal(t, before, l.settings(other))
	s := l.run("restore")
	assert.Equal(t, 4, s.code)
	assert.Contains(t, s.out+s.err, "restore --forget 'wwid:"+wwid+"'")
	s = l.run("restore", "--forget", "wwid:"+wwid)
	assert.Equal(t, 0, s.code)
	assert.True(t, l.journalEmpty())

	l.shell("echo '- - -' > /sys/class/scsi_host/%s/scan", host)
	l.eventually(10*time.Second*timeScale, "the drive is back", func() bool {
		found, _ := filepath.Glob(place + "/block/sd*")
		return len(found) == 1
	})
	found, err := filepath.Glob(place + "/block/sd*")
	require.NoError(t, err)
	assert.Equal(t, 0, l.run("run", short, "--device", "/dev/"+filepath.Base(found[0]), "--out", l.path("back")).code)
}

// outside is what other programs say of drives' write caches: on or off, whatever qdsweep and the kernel believe.
func outside(t *testing.T, command string, on, off string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
	switch {
	case strings.Contains(string(out), on):
		return "on"
	case strings.Contains(string(out), off):
		return "off"
	}
	t.Fatalf("%s says neither %q nor %q: %s", command, on, off, out)
	return ""
}

// TestLabAllWriteCachesFromOutside: of every kind of drive the cache is off, and on, in the drive itself while a run goes on, as other programs see it.
func TestLabAllWriteCachesFromOutside(t *testing.T) {
	l := newLab(t)
	sata, scsi := l.sata(1), l.delayed(1)
	virtio := l.bySerial("QDLAB-VIRTIO-1")
	drives := []struct{ name, tool, on, off string }{
		{sata, "hdparm -W /dev/" + sata, "1 (on)", "0 (off)"},
		{scsi, "sdparm --quiet --get=WCE=1 /dev/" + scsi, "WCE           1", "WCE           0"},
		{"nvme0n1", "nvme get-feature /dev/nvme0 -f 6", "value:0x00000001", "value:0"},
		{virtio, "cat /sys/block/" + virtio + "/cache_type", "write back", "write through"},
	}
	names, before := make([]string, len(drives)), map[string]map[string]string{}
	for i, d := range drives {
		names[i], before[d.name] = "/dev/"+d.name, l.settings(d.name)
		require.Equal(t, "on", outside(t, d.tool, d.on, d.off), d.name)
	}
	m := l.start("caches", `version: 1
name: caches
target: {devices: [`+strings.Join(names, ", ")+`]}
matrix: {write_cache: [off, on]}
repeats: 1
order: sequential
settle: 0s
workloads: [{name: r, type: io, mode: randread, runtime: 2s}]
`)
	for i, d := range drives {
		for j, want := range []string{"off", "on"} {
			m.working(2*i + j + 1)
			assert.Equal(t, want, outside(t, d.tool, d.on, d.off), d.name)
		}
	}
	rows := m.end(0)
	require.Len(t, rows, 2*len(drives))
	for i, r := range rows {
		assert.Equal(t, "ok", r.Status, r.Reason)
		assert.Equal(t, r.WriteCache, r.WriteCacheEffective)
		assert.Equal(t, drives[i/2].name, results.ParseMembers(r.Members)[0].Name)
		assert.True(t, strings.HasPrefix(r.Axes, "device="), r.Axes)
	}
	for _, d := range drives {
		assert.Equal(t, "on", outside(t, d.tool, d.on, d.off), d.name)
		assert.Equal(t, before[d.name], l.settings(d.name))
	}
}
