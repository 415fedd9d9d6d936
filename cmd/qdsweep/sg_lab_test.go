//go:build lab

package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Records by regions by threads, written and read, as sgpdd-survey does it, on a partition: a record that the device does not take is a finding, and not
// a byte beside the partition changes.
func TestLabSataSGSurvey(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	l.shell("head -c 1048576 /dev/zero | tr '\\0' G > /tmp/guard; for at in 15 48; do dd if=/tmp/guard of=/dev/%s bs=1M seek=$at conv=fsync 2>/dev/null; done; echo '32768,65536' | sfdisk -q /dev/%s",
		disk, disk) // the partition is 16 to 48 MiB
	defer l.shell("sfdisk -q --delete /dev/%s; dd if=/dev/zero of=/dev/%s bs=1M count=50 conv=fsync 2>/dev/null", disk, disk)
	l.eventually(10*time.Second*timeScale, "the partition has a node", func() bool { _, err := os.Stat("/dev/" + disk + "1"); return err == nil })
	outside := func() string {
		return l.shell("echo 3 > /proc/sys/vm/drop_caches; (dd if=/dev/%s bs=1M skip=15 count=1; dd if=/dev/%s bs=1M skip=48 count=1) 2>/dev/null | md5sum", disk, disk)
	}
	guarded := outside()
	before := l.settings(disk)
	profile := l.write("survey.yaml", `version: 1
name: survey
matrix:
  block_size: [64k, 256k]
  regions: [1, 2]
  threads: [1, 2]
repeats: 1
settle: 50ms
workloads:
  - {name: w, type: io, mode: write, engine: sg, runtime: 300ms}
  - {name: r, type: io, mode: read, engine: sg, runtime: 300ms}
`)
	target := "/dev/" + disk + "1"
	s := l.run("run", profile, "--device", target, "--out", l.path("no"))
	require.Equal(t, 3, s.code, "writing past all guards needs the same consent")
	const erase = "wwid:naa.5000c5000abc0002-part1"
	s = l.run("run", profile, "--device", target, "--erase", erase, "--out", l.path("out"))
	require.Equal(t, 0, s.code)
	rows := l.rows(l.path("out"))
	require.Len(t, rows, 2*2*3, "one thread in two regions is left out")
	for _, r := range rows {
		assert.Equal(t, "ok", r.Status, r.Reason)
		assert.Equal(t, "sg", r.Engine)
		assert.Empty(t, r.QueuedDepth.String())
		if r.BlockSize.String() == "262144" {
			assert.Equal(t, "over the limit: EIO: a record of 256k, and the device takes 128k in a command", r.Reason)
			assert.Empty(t, r.MBPerS.String()+r.IOPS.String()+r.Bytes.String()+r.ObservedRequestKB.String(), "no rate")
			continue
		}
		assert.Empty(t, r.Reason)
		assert.Positive(t, num(t, r.MBPerS))
		assert.Equal(t, 64.0, num(t, r.ObservedRequestKB))
	}
	assert.Equal(t, guarded, outside(), "what lies beside the partition")
	assert.Equal(t, before, l.settings(disk))

	// dd by the same way, each write through the drive's cache or the cache written at the end, and read back.
	profile = l.write("dd.yaml", `version: 1
name: sgp-dd
matrix: {block_size: [128k]}
repeats: 1
settle: 0s
workloads:
  - {name: flushed, type: dd, mode: write-read, engine: sg, direct: true, size: 8m, processes: 2}
  - {name: through, type: dd, mode: write, engine: sg, direct: true, size: 1m, sync: dsync}
`)
	s = l.run("run", profile, "--device", target, "--erase", erase, "--out", l.path("dd"))
	require.Equal(t, 0, s.code)
	assert.Equal(t, guarded, outside())
}

// Queued commands are in the drive, as deep as its queue and the workload go, though the kernel counts none of them; what it counts is somebody else's.
func TestLabDelaySGDepth(t *testing.T) {
	l := newLab(t)
	disk := l.delayed(1)
	profile := l.write("depth.yaml", `version: 1
name: depth
matrix: {queue_depth: [2, 8]}
repeats: 1
settle: 50ms
workloads:
  - {name: r, type: io, mode: randread, engine: sg, iodepth: 24, runtime: 2s}
`)
	s := l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	require.Equal(t, 0, s.code)
	for _, r := range l.rows(l.path("out")) {
		depth := atoi(t, r.QueueDepth)
		assert.Equal(t, "ok", r.Status, r.Reason)
		assert.InEpsilon(t, depth, num(t, r.ObservedDepth), 0.20)
		assert.EqualValues(t, depth, num(t, r.ObservedDepthMax))
		assert.Equal(t, 4.0, num(t, r.ObservedRequestKB))
		assert.Empty(t, r.QueuedDepth.String())
		assert.LessOrEqual(t, num(t, r.IOPS), 105*float64(depth))
		assert.Greater(t, num(t, r.IOPS), 50*float64(depth))
	}

	profile = l.write("foreign.yaml", `version: 1
name: foreign
matrix: {iodepth: [8]}
repeats: 1
settle: 50ms
workloads:
  - {name: r, type: io, mode: randread, engine: sg, runtime: 3s}
`)
	c := l.command("run", profile, "--device", "/dev/"+disk, "--out", l.path("foreign"))
	require.NoError(t, c.Start())
	l.eventually(20*time.Second*timeScale, "commands are in the drive", func() bool { return l.get(disk, "device/device_busy") != "0" })
	l.shell("dd if=/dev/%s of=/dev/null bs=4k count=50 iflag=direct 2>/dev/null", disk)
	require.Equal(t, 4, exitCode(c.Wait()))
	rows := l.rows(l.path("foreign"))
	require.Len(t, rows, 1)
	assert.Equal(t, "suspect", rows[0].Status)
	assert.Regexp(t, `^foreign I/O: `+disk+` completed [1-9][0-9] requests of others, and \d+ commands of the workload$`, rows[0].Reason)
}
