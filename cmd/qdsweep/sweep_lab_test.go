//go:build lab

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A drive of 10 ms latency with full parallelism gives 100 IOPS times the depth: a known answer for the whole chain.
func TestLabDelayDepthLadder(t *testing.T) {
	l := newLab(t)
	disk := l.delayed(1)
	before := l.settings(disk)
	profile := l.write("ladder.yaml", ladder("[1, 2, 4, 8, 31]", "5s"))
	s := l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	require.Equal(t, 0, s.code)
	assert.Contains(t, s.out, "5 planned = 5 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining")
	iops := map[int]float64{}
	rows := l.rows(l.path("out"))
	require.Len(t, rows, 5)
	for _, r := range rows {
		depth := atoi(t, r.QueueDepth)
		require.Equal(t, r.QueueDepth, r.QueueDepthEffective)
		require.Equal(t, "ok", r.Status)
		iops[depth] = num(t, r.IOPS)
		observed := num(t, r.ObservedDepth)
		if depth <= 8 {
			assert.InEpsilon(t, depth, observed, 0.20, "depth %d", depth)
		} else {
			assert.GreaterOrEqual(t, observed, 15.0)
			// Little's law, for what the device had: IOPS times the time in the device. The workload's own latency also counts the time in
			// the block layer's queue, where 64 − 31 of its requests wait.
			inDevice := iops[depth] * num(t, r.LatMeanUS) / 1e6 * observed / num(t, r.QueuedDepth)
			assert.InEpsilon(t, inDevice, observed, 0.20, "IOPS × latency")
		}
	}
	for _, pair := range [][2]int{{1, 2}, {2, 4}, {4, 8}, {8, 31}} {
		assert.Greater(t, iops[pair[1]], iops[pair[0]]*1.3, "IOPS grow with the depth: %v", iops)
	}
	assert.GreaterOrEqual(t, iops[31], 15*iops[1])
	assert.Equal(t, before, l.settings(disk))
}

// One request in flight for each command the device takes: there the workload's latency is the device's, and IOPS × latency is its depth.
func TestLabDelayLittlesLaw(t *testing.T) {
	l := newLab(t)
	disk := l.delayed(2)
	profile := l.write("little.yaml", strings.Replace(ladder("[31]", "5s"), "iodepth: 32, threads: 2", "iodepth: 31, threads: 1", 1))
	s := l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	require.Equal(t, 0, s.code)
	r := l.rows(l.path("out"))[0]
	assert.InEpsilon(t, num(t, r.IOPS)*num(t, r.LatMeanUS)/1e6, num(t, r.ObservedDepth), 0.20)
	assert.GreaterOrEqual(t, num(t, r.ObservedDepth), 15.0)
}

// Write cache off is off in the drive while the run goes on, as another program sees it; requests are as small as the setting says; afterwards
// everything is as it was.
func TestLabSataSettingsAreInForceAndPutBack(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	l.set(disk, "queue/read_ahead_kb", "16") // field case 22
	before := l.settings(disk)
	require.Contains(t, before["hdparm -W"], "1 (on)")
	profile := l.write("p.yaml", `version: 1
name: in-force
matrix:
  write_cache: [off]
  max_sectors_kb: [8]
  queue_depth: [1]
repeats: 1
settle: 100ms
workloads:
  - {name: seq, type: io, mode: read, block_size: 1m, iodepth: 4, runtime: 6s}
`)
	c := l.command("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	require.NoError(t, c.Start())
	l.eventually(30*time.Second*timeScale, "hdparm says off while the run goes on", func() bool {
		out, err := exec.Command("hdparm", "-W", "/dev/"+disk).CombinedOutput()
		return err == nil && strings.Contains(string(out), "0 (off)") && l.get(disk, "queue/max_sectors_kb") == "8" && l.get(disk, "device/queue_depth") == "1"
	})
	require.NoError(t, c.Wait())
	rows := l.rows(l.path("out"))
	require.Len(t, rows, 1)
	r := rows[0]
	assert.Equal(t, []string{"1", "off", "8"}, []string{r.QueueDepthEffective, r.WriteCacheEffective, r.MaxSectorsKBEffective})
	assert.LessOrEqual(t, num(t, r.ObservedRequestKB), 8.0)
	assert.Greater(t, num(t, r.ObservedRequestKB), 4.0)
	assert.Equal(t, "ok", r.Status, r.Reason)
	assert.True(t, r.Restored)
	assert.Equal(t, before, l.settings(disk))

	var env []map[string]any
	b, err := os.ReadFile(l.path("out/environment.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &env))
	assert.Contains(t, string(b), "QDLAB-SATA-1")
	assert.Contains(t, string(b), "ahci")
}

// A write cache that was off may not be switched on without --allow raise, and with it comes back off.
func TestLabSataRaise(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	l.set(disk, "device/queue_depth", "1") // field case 2: somebody set it so after lock-ups
	l.shell("hdparm -W0 /dev/%s", disk)
	t.Cleanup(func() { l.set(disk, "device/queue_depth", "32"); l.shell("hdparm -W1 /dev/%s", disk) })
	before := l.settings(disk)
	profile := l.write("p.yaml", `version: 1
name: raise
matrix: {queue_depth: [31], write_cache: [on]}
repeats: 1
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 4, runtime: 1s}]
`)
	s := l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	assert.Equal(t, 3, s.code)
	assert.Contains(t, s.err, "--allow raise")
	assert.Equal(t, before, l.settings(disk))
	assert.NoDirExists(t, l.path("out"))

	s = l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"), "--allow", "raise")
	assert.Equal(t, 0, s.code)
	assert.Equal(t, "31", l.rows(l.path("out"))[0].QueueDepthEffective)
	assert.Equal(t, "on", l.rows(l.path("out"))[0].WriteCacheEffective)
	assert.Equal(t, before, l.settings(disk))
}

// Writing needs --erase; files in a directory need none, and are gone afterwards.
func TestLabSataWritingAndDirectories(t *testing.T) {
	l := newLab(t)
	disk := l.sata(3)
	l.shell("dd if=/dev/zero of=/dev/%s bs=1M count=8 2>/dev/null; sz=$(blockdev --getsz /dev/%s); dd if=/dev/zero of=/dev/%s seek=$((sz-2048)) bs=512 count=2048 2>/dev/null", disk, disk, disk)
	profile := l.write("w.yaml", `version: 1
name: writes
matrix: {write_cache: [off, on], max_sectors_kb: [8, 128]}
repeats: 1
settle: 100ms
workloads:
  - {name: w, type: dd, mode: write, block_size: 1m, size: 32m, sync: fsync}
`)
	s := l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("no"))
	assert.Equal(t, 3, s.code)
	assert.Contains(t, s.err, "--erase")
	before := l.settings(disk)
	s = l.run("run", profile, "--device", "/dev/"+disk, "--erase", "/dev/"+disk, "--out", l.path("raw"))
	require.Equal(t, 0, s.code)
	assert.Equal(t, before, l.settings(disk))
	for _, r := range l.rows(l.path("raw")) { // raw: the drive alone, no file system
		limit := float64(atoi(t, r.MaxSectorsKB))
		assert.LessOrEqual(t, num(t, r.ObservedRequestKB), limit, r.Run)
	}

	l.shell("mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/%s && mkdir -p /tmp/m && mount /dev/%s /tmp/m", disk, disk)
	defer l.shell("umount /tmp/m; wipefs -aq /dev/%s 2>/dev/null || dd if=/dev/zero of=/dev/%s bs=1M count=2 2>/dev/null", disk, disk)
	s = l.run("run", profile, "--device", "/dev/"+disk, "--erase", "/dev/"+disk, "--out", l.path("mounted"))
	assert.Equal(t, 3, s.code)
	before = l.settings(disk)
	s = l.run("run", profile, "--directory", "/tmp/m", "--out", l.path("files"))
	require.Equal(t, 0, s.code)
	assert.Equal(t, before, l.settings(disk))
	left, err := os.ReadDir("/tmp/m")
	require.NoError(t, err)
	for _, e := range left {
		assert.Equal(t, "lost+found", e.Name(), "only our own folder was made, and it is gone")
	}
}
