package sweep

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// Field case 3: the kernel gives up NCQ in a run. queue_depth reads as before, the row is suspect, and no other depth is written to that disk but the restore;
// its part of the sweep ends. The other drive's goes on.
func TestNCQIsSwitchedOff(t *testing.T) {
	b := newBench(t, "{queue_depth: [31, 4, 1]}", drives("sda", "sdb")...)
	b.over("{devices: [sda, sdb]}")
	b.observe = once(func(e Event) bool {
		return e.Kind == PhaseBegan && e.Phase == "r" && strings.Contains(e.Run.ID, "000001;")
	}, func() {
		b.machine.Forget()
		b.machine.GiveUpNCQ("sda")
	})
	o, rows := b.run()
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	assert.Equal(t, results.Audit{Planned: 6, OK: 3, Suspect: 1, Remaining: 2}, o.Audit)
	require.Equal(t, results.Suspect, rows[0].Status)
	reasons := results.SplitReasons(rows[0].Reason)
	assert.Equal(t, results.NCQSwitchedOff, results.CodeOf(reasons[0]), rows[0].Reason)
	assert.Contains(t, reasons[0], "sda: ata1.00: NCQ disabled due to excessive errors")
	assert.Equal(t, "31", rows[0].QueueDepthEffective)
	assert.Equal(t, []string{"32"}, b.machine.WritesTo("sda/device/queue_depth"), "nothing but the restore")
	assert.Contains(t, o.Stopped, "NCQ")
}

// What the kernel does to other drives, and what a program writes into its log, is nobody's reason here.
func TestOthersTroubleIsNoReason(t *testing.T) {
	b := newBench(t, "{queue_depth: [4]}", drives("sda", "sdb")...)
	b.observe = once(working(1), func() {
		b.machine.GiveUpNCQ("sdb")
		b.machine.ProgramSays("ata1.00: NCQ disabled due to excessive errors")
	})
	_, rows := b.run()
	assert.Equal(t, results.OK, rows[0].Status, rows[0].Reason)
}

func TestErrorsAndSlowerLinks(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*systest.Machine)
		code    results.Code
	}{
		"error handling": {func(m *systest.Machine) { m.CommandFailed("sda") }, results.ErrorHandling},
		"slower link":    {func(m *systest.Machine) { m.SlowDown("sda") }, results.Throttled},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "{queue_depth: [4, 8]}", drives("sda")...)
			b.observe = once(working(1), func() { c.happens(b.machine) })
			o, rows := b.run()
			assert.Equal(t, results.Suspect, rows[0].Status)
			assert.Equal(t, c.code, results.CodeOf(rows[0].Reason), rows[0].Reason)
			assert.Equal(t, results.OK, rows[1].Status, "the next run has no part in it: %s", rows[1].Reason)
			assert.Equal(t, 1, o.Audit.Suspect)
		})
	}
}

// A drive that went away while the workload did without it, as of a mirror, is the row's reason; the gate lets no further run begin.
func TestADriveIsGoneThatTheWorkloadDidNotMeet(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8, 16]}", drives("sda", "sdb")...)
	b.machine.MD("md0", "raid1", "sda", "sdb")
	b.on("md0")
	b.observe = once(working(1), func() { b.machine.Set("/sys/block/sdb/device/state", "offline\n") })
	o, rows := b.run()
	require.Len(t, rows, 1)
	assert.Equal(t, []string{"suspect", "device lost: sdb: device/state: running → offline"}, []string{rows[0].Status, rows[0].Reason})
	assert.Equal(t, results.Audit{Planned: 2, Suspect: 1, Remaining: 1}, o.Audit)
}

// A setting that is no axis, and that somebody changes in a run, is as much a reason as one that is.
func TestASettingMovesThatIsNoAxis(t *testing.T) {
	b := newBench(t, "{queue_depth: [4, 8]}", drives("sda")...)
	b.observe = once(working(1), func() {
		require.NoError(t, b.machine.Write("/sys/block/sda/queue/max_sectors_kb", "64"))
	})
	_, rows := b.run()
	require.Len(t, rows, 2)
	assert.Equal(t, results.Suspect, rows[0].Status)
	assert.Regexp(t, `^moved: sda: max_sectors_kb moved: \d+ → 64$`, rows[0].Reason)
	assert.Equal(t, results.OK, rows[1].Status, rows[1].Reason)
}

// A spare does nothing, and so has no part in the mean of what the members had outstanding.
func TestASpareIsNotObserved(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8]}", drives("sda", "sdb", "sdc")...)
	b.machine.MD("md0", "raid1", "sda", "sdb")
	b.machine.Join("md0", "sdc")
	stack, err := b.host.Resolve("md0")
	require.NoError(t, err)
	require.Len(t, stack.Members, 3)
	h := &hold{stack: stack}
	require.NoError(t, h.watchMembers(b.host))
	defer closeProbes(h.probes)
	assert.Equal(t, []string{"sda", "sdb"}, h.names)
}

// Somebody who was at the members before one workload says nothing of the others.
func TestNotAtRestBeforeOneOfTheWorkloads(t *testing.T) {
	b := newBench(t, "{queue_depth: [4]}", drives("sda")...)
	b.profile += "  - {name: r2, type: io, mode: randread, engine: psync, runtime: 150ms, size: 1m}\n" +
		"  - {name: r3, type: io, mode: randread, engine: psync, runtime: 150ms, size: 1m}\n"
	b.restless = time.Millisecond
	stat := func(inFlight int) {
		b.machine.Set("/sys/block/sda/stat", fmt.Sprintf("0 0 0 0 0 0 0 0 %d 0 0\n", inFlight))
	}
	b.observe = func(e Event) {
		switch {
		case e.Kind == PhaseBegan && e.Phase == "r":
			stat(1)
		case e.Kind == PhaseBegan && e.Phase == "r2":
			stat(0)
		}
	}
	_, rows := b.run()
	require.Len(t, rows, 3)
	for i, want := range []string{results.OK, results.Suspect, results.OK} {
		assert.Equal(t, want, rows[i].Status, "%s: %s", rows[i].Workload, rows[i].Reason)
	}
	assert.Equal(t, "not at rest", rows[1].Reason)
}

func TestTemperature(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8]}", drives("sda", "sdb")...)
	b.machine.MD("md0", "raid0", "sda", "sdb")
	b.on("md0")
	_, rows := b.run()
	_, has := rows[0].TemperatureC.Get()
	assert.False(t, has, "no member says one")
	b.out += "2"
	b.machine.Warm("sda", 31)
	b.machine.Warm("sdb", 44.5)
	_, rows = b.run()
	c, has := rows[0].TemperatureC.Get()
	assert.True(t, has)
	assert.Equal(t, 44.5, c, "the hottest member's")
}

// fixed is a probe whose counters stand as they are set.
type fixed struct {
	probe
	st *sysfs.DiskStat
}

func (f fixed) Stat() (sysfs.DiskStat, error) { return *f.st, nil }

// Another partition of a member that is worked on meanwhile: told from the target's own by the disk minus its partition.
func TestForeignIO(t *testing.T) {
	for name, c := range map[string]struct {
		own, others uint64
		suspect     bool
	}{
		"none":               {1000, 0, false},
		"a daemon's":         {1000, 10, false},
		"a little of a lot":  {100_000, 900, false},
		"more than a little": {100_000, 1100, true},
		"as much":            {50, 50, true},
	} {
		t.Run(name, func(t *testing.T) {
			var disk, own sysfs.DiskStat
			shares := []share{{name: "sda", disk: fixed{st: &disk}, own: []probe{fixed{st: &own}}}}
			disk.ReadIOs, own.WriteIOs = 7000, 5000
			before := tallies(shares, true)
			own.ReadIOs += c.own
			disk.WriteIOs += c.own + c.others
			reasons := foreign(shares, before, tallies(shares, false))
			assert.Equal(t, c.suspect, len(reasons) == 1, "%v", reasons)
			if c.suspect {
				assert.Equal(t, results.ForeignIO, results.CodeOf(reasons[0]))
			}
		})
	}
}

// A member that the target has as a whole has no share: there more I/O than the workload did is md's own, and no reason.
func TestSharesAreOfPartitions(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8]}", drives("sda", "sdb")...)
	one := b.machine.Partition("sda", 1, 1<<20, 16<<20)
	b.machine.MD("md0", "raid0", one, "sdb")
	stack, err := b.host.Resolve("md0")
	require.NoError(t, err)
	shares, err := openShares(stack)
	require.NoError(t, err)
	defer closeShares(shares)
	require.Len(t, shares, 1)
	assert.Equal(t, "sda", shares[0].name)
}

// What happens in one workload is no reason of those before it, and of those after it only where it lasts.
func TestASignIsOfItsWorkload(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*systest.Machine)
		want    []string
	}{
		"passes": {func(m *systest.Machine) { m.CommandFailed("sda") }, []string{"ok", "suspect", "ok"}},
		"lasts":  {func(m *systest.Machine) { m.GiveUpNCQ("sda") }, []string{"ok", "suspect", "suspect"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "{queue_depth: [4]}", drives("sda")...)
			line := "  - {name: r, type: io, mode: randread, engine: psync, runtime: 150ms, size: 1m}\n"
			b.profile = strings.Replace(b.profile, line, strings.Replace(line, "name: r", "name: a", 1)+line+strings.Replace(line, "name: r", "name: z", 1), 1)
			b.observe = once(working(1), func() { c.happens(b.machine) })
			_, rows := b.run()
			require.Len(t, rows, 3)
			for i, r := range rows {
				assert.Equal(t, c.want[i], r.Status, "%s: %s", r.Workload, r.Reason)
			}
		})
	}
}
