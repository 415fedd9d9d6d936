package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/sysfs/md"
	"qdsweep/sysfs/systest"
)

// drives are disks of a test's machine.
func drives(names ...string) []systest.Part {
	var parts []systest.Part
	for _, name := range names {
		parts = append(parts, systest.Disk{Name: name, QueueDepth: 32, WriteCache: true})
	}
	return parts
}

// over makes other targets the bench's.
func (b *bench) over(target string) {
	b.profile = strings.Replace(b.profile, "target: {device: sda}", "target: "+target, 1)
}

func statuses(rows []results.Row) map[string]string {
	all := map[string]string{}
	for _, r := range rows {
		all[r.Run] = r.Status
	}
	return all
}

func TestDevicesInTurn(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 4]}", drives("sda", "sdb")...)
	b.over("{devices: [sda, sdb]}")
	before := []map[string]string{b.machine.Settings("sda"), b.machine.Settings("sdb")}
	touched := map[string][]systest.Write{}
	b.observe = func(e Event) {
		if e.Kind == PhaseBegan && e.Phase == "r" {
			touched[e.Run.ID] = b.machine.Writes()
		}
		if e.Kind == RunBegan {
			b.machine.Forget()
		}
	}
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode())
	require.Len(t, rows, 4)
	for _, r := range rows {
		name := map[bool]string{true: "sda", false: "sdb"}[strings.Contains(r.Cell, "naa.5000c50000000001")]
		assert.True(t, strings.HasPrefix(r.Members, name+":"), "%s ran on %s", r.Cell, r.Members)
		assert.Equal(t, name, r.Target)
		assert.Contains(t, r.Axes, "device=wwid:naa.")
		assert.Equal(t, results.OK, r.Status, r.Reason)
		require.NotEmpty(t, touched[r.Run])
		for _, w := range touched[r.Run] {
			assert.Contains(t, w.Path, "/"+name+"/", "%s sets nothing on the other drive", r.Run)
		}
	}
	assert.Equal(t, before, []map[string]string{b.machine.Settings("sda"), b.machine.Settings("sdb")})
	assert.Len(t, o.Settings, 1, "one sentence for both: %v", o.Settings)
}

// A drive that goes ends its own part; the other's runs are done, and what is not done is remaining.
func TestALostDeviceEndsItsPart(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 4, 8]}", drives("sda", "sdb")...)
	b.over("{devices: [sda, sdb]}")
	b.observe = once(func(e Event) bool { return e.Kind == RunEnded && strings.Contains(e.Run.ID, "000001;") }, func() { b.machine.Pull("sda") })
	o, rows := b.run()
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	assert.Equal(t, results.Audit{Planned: 6, OK: 4, Remaining: 2}, o.Audit)
	assert.Len(t, rows, 4)
	assert.Contains(t, o.Stopped, "sda")
	assert.NotContains(t, o.Stopped, "sdb")
}

// A drive that goes while its settings are made is lost; that it took none is what came of it.
func TestALostDeviceWhileItIsSet(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 4, 8]}", drives("sda", "sdb")...)
	b.over("{devices: [sda, sdb]}")
	var pull sync.Once
	b.machine.OnWrite(func(path, _ string) {
		if strings.Contains(path, "/sda/device/queue_depth") {
			pull.Do(func() { b.machine.Pull("sda") })
		}
	})
	o, rows := b.run()
	assert.Equal(t, ExitNotRestored, o.ExitCode())
	assert.Equal(t, results.Audit{Planned: 6, OK: 3, Failed: 1, Remaining: 2}, o.Audit)
	for _, r := range rows {
		if r.Status != results.OK {
			assert.Equal(t, results.DeviceLost, results.CodeOf(r.Reason), r.Reason)
		}
	}
}

// A member that cannot be put back gets no further run; others go on, and the exit says so.
func TestAMemberThatIsNotRestoredEndsItsPart(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 4]}", drives("sda", "sdb")...)
	b.over("{devices: [sda, sdb]}")
	b.observe = once(working(1), func() { b.machine.Fail("/sys/block/sda/device/queue_depth", unix.EIO) })
	o, rows := b.run()
	assert.Equal(t, ExitNotRestored, o.ExitCode())
	assert.Len(t, rows, 3, "one of sda, both of sdb")
	require.Len(t, o.Unrestored, 1)
	assert.Equal(t, "sda", o.Unrestored[0].Name)
	assert.Equal(t, 1, o.Audit.Remaining)
}

// Existing arrays on the same disks: each run drives one, sets every member, and the arrays' own settings stay.
func TestArraysOnTheSameDisks(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8, 64]}", drives("sda", "sdb", "sdc", "sdd")...)
	var lower, upper []string
	for _, d := range []string{"sda", "sdb", "sdc", "sdd"} {
		lower = append(lower, b.machine.Partition(d, 1, 1<<20, 24<<20))
		upper = append(upper, b.machine.Partition(d, 2, 25<<20, 24<<20))
	}
	b.machine.MD("md5", "raid5", lower...)
	b.machine.MD("md10", "raid10", upper...)
	b.over("{arrays: {5: /dev/md5, 10: /dev/md10}}")
	before := map[string]map[string]string{}
	for _, name := range []string{"sda", "sdb", "sdc", "sdd", "md5", "md10"} {
		before[name] = b.machine.Settings(name)
	}
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	require.Len(t, rows, 4)
	for _, r := range rows {
		assert.Equal(t, 4, strings.Count(r.Members, ";")+1)
		assert.Equal(t, "/dev/md"+r.RAIDLevel, r.Target)
		assert.Equal(t, r.MaxSectorsKB, r.MaxSectorsKBEffective)
	}
	for name, settings := range before {
		assert.Equal(t, settings, b.machine.Settings(name), name)
	}
	assert.Empty(t, b.left())
}

// Field case 34: another array on another partition of the members is allowed where the profile names it, else refused with the flag that allows it.
func TestAnotherArrayOnTheMembers(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8]}", drives("sda", "sdb")...)
	b.machine.MD("md1", "raid1", b.machine.Partition("sda", 1, 1<<20, 24<<20), b.machine.Partition("sdb", 1, 1<<20, 24<<20))
	b.machine.MD("md0", "raid0", b.machine.Partition("sda", 2, 25<<20, 24<<20), b.machine.Partition("sdb", 2, 25<<20, 24<<20))
	b.over("{arrays: {1: /dev/md1}}")
	_, err := b.execute(context.Background())
	require.Error(t, err)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.Contains(t, err.Error(), "--allow shared-disk")
	assert.Empty(t, b.machine.Writes())
	b.allow["shared-disk"] = true
	o, _ := b.run()
	assert.Equal(t, ExitOK, o.ExitCode())
}

// Field case 5: an array that loses a member in a run fails that run and gets no further one; the array beside it goes on.
func TestAnArrayDegrades(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8, 64]}", drives("sda", "sdb", "sdc", "sdd")...)
	b.machine.MD("md1", "raid1", "sda", "sdb")
	b.machine.MD("md0", "raid0", "sdc", "sdd")
	b.over("{arrays: {1: /dev/md1, 0: /dev/md0}}")
	before := []map[string]string{b.machine.Settings("sda"), b.machine.Settings("sdb")}
	b.observe = once(func(e Event) bool {
		return e.Kind == PhaseBegan && e.Phase == "r" && strings.HasPrefix(e.Run.ID, "raid_level=1")
	}, func() { b.machine.Kick("md1", "sdb") })
	o, rows := b.run()
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	assert.Equal(t, results.Audit{Planned: 4, OK: 2, Failed: 1, Remaining: 1}, o.Audit)
	i := slices.IndexFunc(rows, func(r results.Row) bool { return r.RAIDLevel == "1" })
	assert.Contains(t, rows[i].Reason, "degraded: md1 has lost 1 of its 2 members")
	assert.Equal(t, before, []map[string]string{b.machine.Settings("sda"), b.machine.Settings("sdb")})
}

// left is what the journal still has.
func (b *bench) left() []string {
	entries, err := os.ReadDir(filepath.Join(b.state, "journal"))
	require.NoError(b, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// played makes arrays of a systest machine: what mdadm does, without a kernel.
type played struct {
	b        *bench
	did      []string
	stands   string
	failing  string // a level that cannot be built
	stays    bool   // nothing can be taken down
	depths   []string
	points   []string // mount points
	building func()
	down     func() // when it is taken down
}

func (p *played) Build(ctx context.Context, h sysfs.Host, s md.Spec, progress func(md.Progress)) (md.Built, error) {
	p.did = append(p.did, "build "+s.Level)
	p.depths = append(p.depths, p.b.machine.Get("/sys/block/sda/device/queue_depth"))
	recorded := p.b.left()
	assert.True(p.b, slices.ContainsFunc(recorded, func(name string) bool { return strings.HasPrefix(name, "array-") }), "journalled first: %v", recorded)
	assert.Empty(p.b, p.stands, "nothing stands when another is built")
	p.points = append(p.points, s.MountPoint)
	if p.building != nil {
		p.building()
	}
	if ctx.Err() != nil {
		return md.Built{}, ctx.Err()
	}
	if s.Level == p.failing {
		return md.Built{}, errors.New("mdadm --create: no")
	}
	var names []string
	for _, m := range s.Members {
		names = append(names, m.Name)
	}
	p.stands = "md127"
	p.b.machine.MD(p.stands, "raid"+s.Level, names...)
	p.b.machine.Set("/sys/block/"+p.stands+"/md/uuid", s.UUID)
	return md.Built{Device: p.b.machine.Device(p.stands)}, nil
}

func (p *played) TakeDown(ctx context.Context, h sysfs.Host, r md.Record) ([]string, error) {
	p.did = append(p.did, "take down "+r.Level)
	if p.stays {
		return nil, errors.New("mdadm --stop: busy")
	}
	if p.stands != "" {
		p.b.machine.Stop(p.stands)
	}
	p.stands = ""
	if p.down != nil {
		p.down()
	}
	return nil, nil
}

func newBuild(t *testing.T, matrix string) (*bench, *played) {
	b := newBench(t, matrix, drives("sda", "sdb", "sdc", "sdd")...)
	b.over("{build: {members: [sda, sdb, sdc, sdd], chunk_kb: 64}}")
	for _, d := range []string{"sda", "sdb", "sdc", "sdd"} {
		b.erase = append(b.erase, fmt.Sprintf("wwid:naa.5000c5000000000%d", d[2]-'a'+1))
	}
	p := &played{b: b}
	b.maker = p
	return b, p
}

func TestEachLevelIsBuiltOnceAReplicate(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [0, 5], queue_depth: [1, 4]}")
	b.profile = strings.NewReplacer("repeats: 1", "repeats: 2", "sequential", "interleaved").Replace(b.profile)
	before := b.machine.Settings("sda")
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	assert.Len(t, rows, 8)
	require.Len(t, p.did, 8, "%v", p.did)
	for i, what := range p.did {
		assert.Equal(t, i%2 == 0, strings.HasPrefix(what, "build"), "%v", p.did)
	}
	assert.Equal(t, []string{"32", "32", "32", "32"}, p.depths, "members have their originals while an array is made of them")
	for _, r := range rows {
		assert.Equal(t, "raid"+r.RAIDLevel+" on sda sdb sdc sdd", r.Target)
		assert.Equal(t, 4, strings.Count(r.Members, ";")+1)
	}
	assert.Equal(t, before, b.machine.Settings("sda"))
	assert.Empty(t, b.left(), "nothing is left in the journal")
	locks, err := filepath.Glob(filepath.Join(b.state, "lock", "array-*"))
	require.NoError(t, err)
	assert.Empty(t, locks, "each sweep would leave some")
}

func TestALevelThatCannotBeBuilt(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [5, 0], queue_depth: [1, 4]}")
	p.failing = "5"
	o, rows := b.run()
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	assert.Equal(t, results.Audit{Planned: 4, OK: 2, Failed: 1, Remaining: 1}, o.Audit)
	assert.Contains(t, rows[0].Reason, "not built: mdadm --create: no")
	assert.Empty(t, b.left())
	assert.Equal(t, []string{"build 5", "take down 5", "build 0", "take down 0"}, p.did)
}

func TestInterruptedWhileBuilding(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [5], queue_depth: [1, 4]}")
	ctx, cancel := context.WithCancelCause(context.Background())
	p.building = func() { cancel(&SignalError{unix.SIGTERM}) }
	o, err := b.execute(ctx)
	require.NoError(t, err)
	assert.Equal(t, 143, o.ExitCode())
	assert.Equal(t, 2, o.Audit.Remaining)
	assert.Empty(t, b.left())
}

func TestInterruptedWhileItStands(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [5], queue_depth: [1, 4]}")
	ctx, cancel := context.WithCancelCause(context.Background())
	b.observe = once(working(1), func() { cancel(&SignalError{unix.SIGINT}) })
	before := b.machine.Settings("sda")
	o, err := b.execute(ctx)
	require.NoError(t, err)
	assert.Equal(t, 130, o.ExitCode())
	assert.Equal(t, []string{"build 5", "take down 5"}, p.did)
	assert.Empty(t, b.left())
	assert.Equal(t, before, b.machine.Settings("sda"))
}

// What cannot be taken down is said, with what to type, stays in the journal, and nothing further is built on it.
func TestWhatCannotBeTakenDown(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [5, 0], queue_depth: [1]}")
	p.stays = true
	o, rows := b.run()
	assert.Equal(t, ExitNotRestored, o.ExitCode())
	assert.Equal(t, map[string]string{"raid_level=5;queue_depth=1#1": "ok"}, statuses(rows))
	require.Len(t, o.Unrestored, 1)
	assert.Contains(t, o.Unrestored[0].Err, "could not be taken down: mdadm --stop: busy")
	assert.Contains(t, o.Unrestored[0].Key(), "array-")
	left := b.left()
	require.Len(t, left, 1)
	assert.True(t, strings.HasPrefix(left[0], "array-"))

	// The gate would say how to stop somebody's array; this one is ours.
	b.out += "2"
	_, err := b.execute(context.Background())
	assert.ErrorContains(t, err, "qdsweep restore")
	assert.NotContains(t, err.Error(), "mdadm --stop")
}

// The keeper dies while an array stands: another one puts the settings back, and the sweep goes on with the array.
func TestKeeperDiesWhileAnArrayStands(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [5], queue_depth: [1, 4]}")
	l := &lines{b: b}
	b.start = l.start
	b.observe = once(working(1), l.kill)
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	assert.Len(t, rows, 2)
	assert.Equal(t, []string{"build 5", "take down 5"}, p.did)
	assert.Empty(t, b.left())
}

// It dies while an array is taken down, which takes seconds: another one removes the record, and the next level is built.
func TestKeeperDiesWhileAnArrayIsTakenDown(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [5, 0], queue_depth: [4]}")
	l := &lines{b: b}
	b.start = l.start
	p.down = func() { p.down = nil; l.kill() }
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	assert.Len(t, rows, 2)
	assert.Empty(t, o.Unrestored)
	assert.Empty(t, b.left())
}

// While a level has only the first of the members, the sweep keeps its claim on the others: what somebody puts on them meanwhile the next level would overwrite.
func TestMembersThatALevelDoesNotUseStayClaimed(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [none, 5], queue_depth: [4]}")
	held := map[string]map[string]int{}
	b.observe = func(e Event) {
		if e.Kind == PhaseBegan && e.Phase == "r" {
			held[e.Run.Cell.String()] = openNodes(t, b.machine.Root())
		}
	}
	o, _ := b.run()
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	assert.Equal(t, []string{"build 5", "take down 5"}, p.did)
	for _, name := range []string{"sdb", "sdc", "sdd"} {
		assert.Equal(t, 2, held["raid_level=none;queue_depth=4"][name], "%s: the keeper's and the claim", name)
		assert.Equal(t, 1, held["raid_level=5;queue_depth=4"][name], "%s: md has the claim", name)
	}
}

// openNodes counts how often this process has each device node open.
func openNodes(t *testing.T, root string) map[string]int {
	t.Helper()
	count := map[string]int{}
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && filepath.Dir(to) == filepath.Join(root, "dev") {
			count[filepath.Base(to)]++
		}
	}
	return count
}

// What cannot be claimed again is somebody else's now: nothing is built on it.
func TestMembersThatSomebodyElseTook(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [5, 0], queue_depth: [4]}")
	p.down = func() { _ = os.Remove(filepath.Join(b.machine.Root(), "dev/sdb")) } // as good as claimed
	o, rows := b.run()
	assert.Equal(t, []string{"build 5", "take down 5"}, p.did)
	assert.Len(t, rows, 1)
	assert.Equal(t, results.Audit{Planned: 2, OK: 1, Remaining: 1}, o.Audit)
	assert.Contains(t, o.Stopped, "could not be claimed again")
	assert.Empty(t, b.left())
}

// A setting of the array itself that cannot be put back goes with the array: nothing is left to restore.
func TestWhatIsNotRestoredGoesWithTheArray(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [5], stripe_cache_size: [512]}") // another array of that name would clear it
	const knob = "/sys/block/md127/md/stripe_cache_size"
	fail := once(func(e Event) bool { return e.Kind == PhaseBegan && e.Phase == "r" }, func() { b.machine.Fail(knob, unix.EIO) })
	b.observe = func(e Event) {
		if fail(e); e.Kind == PhaseBegan && e.Phase == "take down" {
			b.machine.Fail(knob, 0) // the next array is another one
		}
	}
	o, rows := b.run()
	assert.Len(t, p.did, 2, "%v", p.did)
	assert.False(t, rows[0].Restored)
	assert.Empty(t, o.Unrestored)
	assert.Empty(t, b.left())
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
}

// A state folder may be named from where one is; what is mounted in it is recorded and found by its whole path.
func TestMountPointIsAbsolute(t *testing.T) {
	b, p := newBuild(t, "{raid_level: [5], queue_depth: [4]}")
	b.profile = strings.Replace(b.profile, "members: [sda, sdb, sdc, sdd], chunk_kb: 64", "members: [sda, sdb, sdc, sdd], filesystem: ext4", 1)
	p.failing = "5"
	t.Chdir(filepath.Dir(b.state))
	b.state = filepath.Base(b.state)
	o, rows := b.run()
	require.Len(t, rows, 1, "%+v", o)
	assert.Contains(t, rows[0].Reason, "mdadm --create: no")
	require.Len(t, p.points, 1)
	assert.True(t, filepath.IsAbs(p.points[0]), p.points[0])
	assert.Empty(t, b.left())
}
