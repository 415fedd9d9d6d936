//go:build lab

package main

import (
	"fmt"
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

// The experiments of 2007: raid levels over the same four drives, times the depth, the write cache and the request size.

// fourSATA are the guest's SATA disks, in the order of their serials, blank; they are blank again afterwards.
func (l *lab) fourSATA() (disks []string) {
	l.Helper()
	for n := range 4 {
		disks = append(disks, l.sata(n+1))
	}
	l.blank(disks...)
	l.Cleanup(func() { l.blank(disks...) })
	return disks
}

// blank takes from disks whatever says what is on them.
func (l *lab) blank(disks ...string) {
	l.Helper()
	for _, disk := range disks {
		l.shell(`for p in /dev/%[1]s?; do [ -b $p ] && wipefs -aq $p; done; wipefs -aq /dev/%[1]s; sz=$(blockdev --getsz /dev/%[1]s)
			dd if=/dev/zero of=/dev/%[1]s bs=1M count=1 2>/dev/null; dd if=/dev/zero of=/dev/%[1]s seek=$((sz-2048)) bs=512 count=2048 2>/dev/null
			blockdev --rereadpt /dev/%[1]s`, disk)
	}
}

// partition gives each disk partitions of that many MiB.
func (l *lab) partition(disks []string, mib ...int) {
	l.Helper()
	var table string
	for _, size := range mib {
		table += fmt.Sprintf("size=%dM\\n", size)
	}
	for _, disk := range disks {
		l.shell(`printf '%s' | sfdisk -q --label dos /dev/%s 2>&1`, table, disk)
		l.eventually(5*time.Second*timeScale, "the nodes of the partitions of "+disk, func() bool {
			_, err := os.Stat(fmt.Sprintf("/dev/%s%d", disk, len(mib)))
			return err == nil
		})
	}
}

// array makes one as a user would, and takes it down again after the test.
func (l *lab) array(name, level string, parts ...string) {
	l.Helper()
	l.shell("mdadm --create /dev/%s --run --quiet --level=%s --raid-devices=%d --assume-clean --bitmap=none --homehost=any /dev/%s 2>&1",
		name, level, len(parts), strings.Join(parts, " /dev/"))
	l.Cleanup(func() {
		l.shell("mdadm --stop --quiet /dev/%s; mdadm --zero-superblock /dev/%s", name, strings.Join(parts, " /dev/"))
	})
}

// arraySettings is everything of an array that a sweep could leave changed, and what it is.
func (l *lab) arraySettings(name string) map[string]string {
	l.Helper()
	all := map[string]string{}
	for _, attribute := range []string{"level", "uuid", "raid_disks", "degraded", "sync_action", "stripe_cache_size", "group_thread_count", "safe_mode_delay"} {
		if b, err := os.ReadFile("/sys/block/" + name + "/md/" + attribute); err == nil {
			all["md/"+attribute] = string(b)
		}
	}
	files, err := filepath.Glob("/sys/block/" + name + "/queue/*")
	require.NoError(l, err)
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			all["queue/"+filepath.Base(f)] = string(b)
		}
	}
	// Its superblocks, on the disks: the array is not only running, it would start again.
	for part := range strings.FieldsSeq(l.shell("ls /sys/block/%s/slaves", name)) {
		all["superblock of "+part] = l.shell("mdadm --examine /dev/%s | grep -E 'Array UUID|Raid Level|Raid Devices|Device Role'", part)
	}
	return all
}

// clean waits until an array is clean: its superblocks say so a moment after the last write.
func (l *lab) clean(name string) {
	l.Helper()
	l.eventually(10*time.Second*timeScale, name+" is clean", func() bool {
		state := l.get(name, "md/array_state")
		return state == "clean" || state == "active-idle"
	})
}

// noArray asserts that nothing of ours is left: no array runs but the given ones, and no superblock is on the parts.
func (l *lab) noArray(parts []string, but ...string) {
	l.Helper()
	stat, err := os.ReadFile("/proc/mdstat")
	require.NoError(l, err)
	for line := range strings.Lines(string(stat)) {
		if name, _, running := strings.Cut(line, " : "); running && strings.HasPrefix(name, "md") {
			assert.Contains(l, but, name, "%s", stat)
		}
	}
	for _, part := range parts {
		out, err := exec.Command("mdadm", "--examine", "/dev/"+part).CombinedOutput()
		assert.Error(l, err, "no superblock on %s: %s", part, out)
		signatures, err := exec.Command("wipefs", "/dev/"+part).CombinedOutput()
		assert.NoError(l, err)
		assert.Empty(l, string(signatures), part)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(l, err)
	assert.NotContains(l, string(mounts), l.state(), "nothing of ours is mounted")
}

// allSettings are those of several disks.
func (l *lab) allSettings(disks []string) map[string]map[string]string {
	l.Helper()
	all := map[string]map[string]string{}
	for _, disk := range disks {
		all[disk] = l.settings(disk)
	}
	return all
}

func erase(serials ...int) (args []string) {
	for _, n := range serials {
		args = append(args, "--erase", fmt.Sprintf("serial:QDLAB-SATA-%d", n))
	}
	return args
}

// requestsFollowTheSetting asserts what max_sectors_kb did at the members: a write of 1 MiB arrives in pieces of at most 8 KiB, or in much larger ones.
func requestsFollowTheSetting(t *testing.T, rows []results.Row) {
	t.Helper()
	for _, r := range rows {
		assert.Equal(t, results.OK, r.Status, "%s: %s", r.Run, r.Reason)
		assert.True(t, r.Restored, r.Run)
		assert.Equal(t, []string{r.QueueDepth, r.WriteCache, r.MaxSectorsKB}, []string{r.QueueDepthEffective, r.WriteCacheEffective, r.MaxSectorsKBEffective}, r.Run)
		kb := num(t, r.ObservedRequestKB)
		t.Logf("%s: %.1f KiB, %.1f MB/s", r.Run, kb, num(t, r.MBPerS))
		if r.MaxSectorsKB == "8" {
			assert.LessOrEqual(t, kb, 8.0, r.Run)
		} else {
			assert.Greater(t, kb, 24.0, r.Run)
		}
	}
}

// The whole chain over arrays that the sweep makes and takes down: 24 runs, all ok, and nothing is left.
func TestLabSataBuildsEveryLevel(t *testing.T) {
	l := newLab(t)
	disks := l.fourSATA()
	before := l.allSettings(disks)
	profile := l.write("p.yaml", `version: 1
name: levels
target:
  build: {members: [/dev/`+strings.Join(disks, ", /dev/")+`], chunk_kb: 64}
matrix:
  raid_level: [0, 5, 10]
  queue_depth: [1, 31]
  write_cache: [off, on]
  max_sectors_kb: [8, 128]
repeats: 1
settle: 0s
workloads:
  - {name: w, type: dd, mode: write, block_size: 1m, size: 4m, sync: fsync}
`)
	began := time.Now()
	s := l.run(append([]string{"run", profile, "--out", l.path("out")}, erase(1, 2, 3, 4)...)...)
	require.Equal(t, 0, s.code)
	t.Logf("24 runs took %v", time.Since(began).Round(time.Second))
	assert.Contains(t, s.out, "24 planned = 24 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining")
	rows := l.rows(l.path("out"))
	require.Len(t, rows, 24)
	requestsFollowTheSetting(t, rows)
	levels := map[string]int{}
	for i, r := range rows {
		levels[r.RAIDLevel]++
		assert.Len(t, results.ParseMembers(r.Members), 4, r.Run)
		if i > 0 && i%8 != 0 {
			assert.Equal(t, rows[i-1].RAIDLevel, r.RAIDLevel, "each level is built once")
		}
	}
	assert.Equal(t, map[string]int{"0": 8, "5": 8, "10": 8}, levels)
	assert.Equal(t, before, l.allSettings(disks))
	l.noArray(disks)
	assert.True(t, l.journalEmpty())
}

// The same on partitions, two arrays on the same four disks that were there before, one driven as a device and one by a directory on it: they are there
// afterwards as they were (field case 34).
func TestLabSataTwoArraysOnTheSameDisks(t *testing.T) {
	l := newLab(t)
	disks := l.fourSATA()
	l.partition(disks, 32, 32)
	var first, second []string
	for _, disk := range disks {
		first, second = append(first, disk+"1"), append(second, disk+"2")
	}
	l.array("md5", "5", first...)
	l.array("md10", "10", second...)
	const mounted = "/tmp/r10"
	l.shell("mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard /dev/md10 && mkdir -p %s && mount /dev/md10 %s", mounted, mounted)
	t.Cleanup(func() { l.shell("umount %s && wipefs -aq /dev/md10", mounted) })
	for _, array := range []string{"md5", "md10"} {
		l.clean(array)
	}
	before := l.allSettings(disks)
	before["md5"], before["md10"] = l.arraySettings("md5"), l.arraySettings("md10")
	after := func() map[string]map[string]string {
		now := l.allSettings(disks)
		now["md5"], now["md10"] = l.arraySettings("md5"), l.arraySettings("md10")
		return now
	}
	const matrix = `
  queue_depth: [1, 31]
  write_cache: [off, on]
  max_sectors_kb: [8, 128]
repeats: 1
settle: 0s
workloads:
  - {name: w, type: dd, mode: write, block_size: 1m, size: 4m, sync: fsync}
`
	alone := l.write("alone.yaml", "version: 1\nname: alone\ntarget: {arrays: {5: /dev/md5}}\nmatrix:\n  raid_level: [5]"+matrix)
	s := l.run("run", alone, "--out", l.path("no"), "--erase", "/dev/md5")
	assert.Equal(t, 3, s.code)
	for _, words := range []string{"md10", "--allow shared-disk"} {
		assert.Contains(t, s.err, words)
	}
	assert.NoDirExists(t, l.path("no"))
	assert.Equal(t, before, after())

	both := l.write("both.yaml", "version: 1\nname: both\ntarget: {arrays: {5: /dev/md5, 10: "+mounted+"}}\nmatrix:\n  raid_level: [5, 10]"+matrix)
	s = l.run("run", both, "--out", l.path("out"), "--erase", "/dev/md5")
	require.Equal(t, 0, s.code)
	assert.Contains(t, s.out, "16 planned = 16 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining")
	assert.Contains(t, s.out, "both on md5, "+mounted+" (")
	rows := l.rows(l.path("out"))
	require.Len(t, rows, 16)
	requestsFollowTheSetting(t, rows)
	for _, r := range rows {
		assert.Equal(t, map[string]string{"5": "/dev/md5", "10": mounted}[r.RAIDLevel], r.Target)
		assert.Len(t, results.ParseMembers(r.Members), 4, "the disks, not the partitions")
	}
	for _, array := range []string{"md5", "md10"} {
		l.clean(array)
	}
	assert.Equal(t, before, after())
	left, err := filepath.Glob(mounted + "/qdsweep-*")
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.True(t, l.journalEmpty())
}

// Two partitions of one disk under one array are one member: set once, put back once (field case 21).
func TestLabSataTwoPartitionsAreOneMember(t *testing.T) {
	l := newLab(t)
	disk := l.sata(4)
	l.blank(disk)
	t.Cleanup(func() { l.blank(disk) })
	l.partition([]string{disk}, 32, 32)
	l.array("md21", "1", disk+"1", disk+"2")
	l.clean("md21")
	before, array := l.settings(disk), l.arraySettings("md21")
	profile := l.write("p.yaml", `version: 1
name: one-member
target: {device: /dev/md21}
matrix: {queue_depth: [4], max_sectors_kb: [8]}
repeats: 1
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 8, runtime: 2s}]
`)
	c := l.command("run", profile, "--out", l.path("out"))
	var said strings.Builder
	c.Stdout, c.Stderr = &said, &said
	require.NoError(t, c.Start())
	l.eventually(30*time.Second*timeScale, "the run works", func() bool { return l.get(disk, "device/queue_depth") == "4" })
	entries, err := filepath.Glob(l.state() + "/journal/*SATA-4*.json")
	require.NoError(t, err)
	assert.Len(t, entries, 1, "one snapshot of the disk")
	assert.Equal(t, 0, exitCode(c.Wait()), said.String())
	members := results.ParseMembers(l.rows(l.path("out"))[0].Members)
	require.Len(t, members, 1)
	assert.Equal(t, disk, members[0].Name)
	assert.Equal(t, before, l.settings(disk))
	assert.Equal(t, array, l.arraySettings("md21"))
}
