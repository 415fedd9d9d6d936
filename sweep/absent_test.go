package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

func disk(name, wwid string) systest.Disk {
	return systest.Disk{Name: name, QueueDepth: 32, WWID: wwid}
}

// onTwo is a sweep of two drives that was interrupted in its nth run; in sequential order the runs of the first drive come first.
func onTwo(t *testing.T, n int) *bench {
	b := newBench(t, "{queue_depth: [1, 2]}", disk("sda", "naa.one"), disk("sdb", "naa.two"))
	b.over("{devices: [sda, sdb]}")
	b.interrupted(n)
	return b
}

// moved puts the bench's sweep on another machine.
func (b *bench) moved(parts ...systest.Part) {
	b.machine = systest.New(b.T, parts...)
	b.host = b.machine.Host()
}

// One drive of several is not there: the others go on under their new names, its runs are left remaining, and everything says so. When it is back the rest is done.
func TestResumeWithoutADrive(t *testing.T) {
	b := onTwo(t, 2)
	one, two := disk("sdb", "naa.one"), disk("sdc", "naa.two")
	b.moved(two) // the one that has only begun is away
	said := b.notes()
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitIncomplete, o.ExitCode(), "%+v", o)
	assert.Equal(t, results.Audit{Planned: 4, OK: 3, Remaining: 1}, o.Audit)
	const why = "device=wwid:naa.one (sda): its runs are left remaining: the sweep's sda (wwid:naa.one) is not there, under whatever name"
	assert.Contains(t, *said, why)
	assert.Equal(t, "device=wwid:naa.one (sda): the sweep's sda (wwid:naa.one) is not there, under whatever name", o.Stopped)
	assert.Equal(t, []any{o.Stopped, 1, Ended}, []any{b.status().Stopped, b.status().Remaining, b.status().State})
	assert.Equal(t, "sudo qdsweep resume --state-dir "+b.state+" "+b.out, o.Next())
	assert.Equal(t, []string{"sdc is as it was: queue_depth 32"}, o.Settings)
	for _, r := range rows[1:] {
		assert.Contains(t, r.Cell, "naa.two")
		assert.Contains(t, r.Members, "sdc:")
	}

	_, err := b.again(nil) // what is left is all on the one that is away
	require.ErrorContains(t, err, "the sweep's sda (wwid:naa.one) is not there, under whatever name\n  put it back in")
	assert.Equal(t, ExitNotHere, ExitCode(err))

	b.moved(one, two)
	o, rows = b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	b.exactlyOnce(rows, 4)
	assert.Contains(t, rows[3].Members, "sdb:")
	var starts []start
	text, err := os.ReadFile(filepath.Join(b.out, "environment.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &starts))
	require.Len(t, starts, 3)
	for i, s := range starts {
		require.Len(t, s.Targets, 2)
		assert.Equal(t, sysfs.Identity("wwid:naa.one"), s.Targets[0].Members[0].Identity, "start %d", i)
	}
	assert.Equal(t, "sda", starts[1].Targets[0].Members[0].Name, "as it was when it was there")
}

// A drive of that identity that is another one in size is none of the sweep's.
func TestResumeWithoutADriveThatIsAnotherNow(t *testing.T) {
	b := onTwo(t, 2)
	other := disk("sda", "naa.one")
	other.Bytes = 32 << 20
	b.moved(other, disk("sdb", "naa.two"))
	o, rows := b.resumed(nil)
	assert.Equal(t, results.Audit{Planned: 4, OK: 3, Remaining: 1}, o.Audit)
	assert.Len(t, rows, 3)
	assert.Contains(t, o.Stopped, "(sda): it has 33554432 bytes now, and had ")
	assert.Empty(t, b.machine.WritesTo("sda/device/queue_depth"))
}

func TestResumeWithoutAnyDrive(t *testing.T) {
	b := onTwo(t, 2)
	b.moved(disk("sda", "naa.three"))
	_, err := b.again(nil)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.ErrorContains(t, err, "the sweep's sda (wwid:naa.one) is not there")
	assert.ErrorContains(t, err, "the sweep's sdb (wwid:naa.two) is not there")
}

// A drive that still has a start's settings is not touched before they are put back; the others go on, and what to type first is said.
func TestResumeWithoutADriveThatIsNotRestored(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", disk("sda", "naa.one"), disk("sdb", "naa.two"))
	b.over("{devices: [sda, sdb]}")
	const knob = "/sys/block/sda/device/queue_depth"
	b.observe = once(working(1), func() { b.machine.Fail(knob, unix.EIO) })
	o, _ := b.run()
	require.Equal(t, ExitNotRestored, o.ExitCode())
	require.Equal(t, results.Audit{Planned: 4, OK: 3, Remaining: 1}, o.Audit)

	_, err := b.again(nil) // what is left is all on that drive
	require.ErrorContains(t, err, "first: qdsweep restore")
	assert.Equal(t, ExitNotHere, ExitCode(err))

	b.edit(results.FileName, b.lastLine(), "") // as if the other had not come to its end
	said := b.notes()
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitIncomplete, o.ExitCode(), "%+v", o)
	assert.Equal(t, results.Audit{Planned: 4, OK: 3, Remaining: 1}, o.Audit)
	b.exactlyOnce(rows, 3)
	assert.Contains(t, strings.Join(*said, "\n"), "device=wwid:naa.one (sda): its runs are left remaining: sda (wwid:naa.one) still has settings of a sweep of ")
	assert.Equal(t, "sudo qdsweep restore --state-dir "+b.state+" && sudo qdsweep resume --state-dir "+b.state+" "+b.out, o.Next())
	assert.Equal(t, "1", b.machine.Get(knob), "nothing was done to it")
	left, err := filepath.Glob(filepath.Join(b.state, "journal", "*.json"))
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

func (b *bench) lastLine() string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.out, results.FileName))
	require.NoError(b, err)
	lines := strings.SplitAfter(string(text), "\n")
	return lines[len(lines)-2]
}

// The consent to overwrite a drive that is away is kept for when it is back, and is no reason to say that it names nothing.
func TestResumeKeepsTheConsentOfADriveThatIsAway(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", disk("sda", "naa.one"), disk("sdb", "naa.two"))
	b.over("{devices: [sda, sdb]}")
	b.writing("wwid:naa.one", "wwid:naa.two")
	b.interrupted(1)
	b.moved(disk("sdb", "naa.two"))
	said := b.notes()
	o, _ := b.resumed(nil)
	assert.Equal(t, results.Audit{Planned: 4, OK: 2, Remaining: 2}, o.Audit)
	assert.NotContains(t, strings.Join(*said, "\n"), "names nothing")
	b.moved(disk("sda", "naa.one"), disk("sdb", "naa.two"))
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	b.exactlyOnce(rows, 4)
}

// An array that is not assembled is left out as a drive is; one that shares its disks goes on.
func TestResumeWithoutAnArray(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8, 64]}", drives("sda", "sdb")...)
	lower := []string{b.machine.Partition("sda", 1, 1<<20, 24<<20), b.machine.Partition("sdb", 1, 1<<20, 24<<20)}
	upper := []string{b.machine.Partition("sda", 2, 25<<20, 24<<20), b.machine.Partition("sdb", 2, 25<<20, 24<<20)}
	b.machine.MD("md0", "raid0", upper...)
	b.machine.MD("md1", "raid1", lower...)
	b.over("{arrays: {1: /dev/md1, 0: /dev/md0}}")
	b.interrupted(2)
	b.moved(drives("sda", "sdb")...)
	for _, d := range []string{"sda", "sdb"} {
		b.machine.Partition(d, 1, 1<<20, 24<<20)
		b.machine.Partition(d, 2, 25<<20, 24<<20)
	}
	b.machine.MD("md0", "raid0", upper...)
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitIncomplete, o.ExitCode(), "%+v", o)
	assert.Equal(t, results.Audit{Planned: 4, OK: 3, Remaining: 1}, o.Audit)
	assert.Len(t, rows, 3)
	assert.Contains(t, o.Stopped, "raid_level=1 (/dev/md1): ")
	b.machine.MD("md1", "raid1", lower...)
	o, rows = b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	b.exactlyOnce(rows, 4)
}

// Which cells there are does not depend on who is there: what the smallest target is too small for is left out while it is away, too.
func TestResumeWithoutTheSmallestTarget(t *testing.T) {
	small := disk("sda", "naa.one")
	small.Bytes = 8 << 20
	b := newBench(t, "{regions: [1, 16], threads: [16], block_size: [1m]}", small, disk("sdb", "naa.two"))
	b.over("{devices: [sda, sdb]}")
	b.profile = strings.Replace(b.profile, "mode: randread, engine: psync, runtime: 150ms, size: 1m", "mode: read, engine: psync, runtime: 150ms", 1)
	b.interrupted(1)
	planned := b.status().Planned
	require.Equal(t, 2, planned, "16 regions of 8 MiB are smaller than a block")
	b.moved(disk("sdb", "naa.two"))
	o, _ := b.resumed(nil)
	assert.Equal(t, results.Audit{Planned: 2, OK: 1, Remaining: 1}, o.Audit)
}

// A drive without an identity that was done without after a reboot is no better known in the next start of the same boot: its name is another's, perhaps, and
// was allowed to be overwritten.
func TestResumeWithoutADriveOfAnotherBoot(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", disk("sda", "naa.one"), systest.Disk{Name: "sdb", QueueDepth: 32, WWID: "none", Serial: "0"})
	b.over("{devices: [sda, sdb]}")
	d := b.machine.Device("sdb")
	b.writing("wwid:naa.one", b.host.EraseArgument(d))
	b.interrupted(2)
	b.edit("environment.json", `"boot_id": "`, `"boot_id": "1`)
	o, _ := b.resumed(nil)
	require.Equal(t, results.Audit{Planned: 4, OK: 2, Remaining: 2}, o.Audit)
	before, err := os.ReadFile(b.machine.Root() + "/dev/sdb")
	require.NoError(t, err)
	for range 2 {
		_, err = b.again(nil)
		require.ErrorContains(t, err, "after a reboot it cannot be told whether it is the one")
		assert.Equal(t, ExitNotHere, ExitCode(err))
	}
	after, err := os.ReadFile(b.machine.Root() + "/dev/sdb")
	require.NoError(t, err)
	assert.Equal(t, before, after)
}
