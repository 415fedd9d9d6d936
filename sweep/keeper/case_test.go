package keeper

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// machine is a played machine with a keeper that holds all its disks.
func machine(t *testing.T, o Options, parts ...systest.Part) (*systest.Machine, *keeper, string) {
	t.Helper()
	m, state := systest.New(t, parts...), stateDir(t)
	k := serve(t, m.Host(), openJournal(t, state), o)
	require.NoError(t, k.Claim(context.Background(), members(t, m), 0))
	return m, k, state
}

func members(t *testing.T, m *systest.Machine) []Member {
	t.Helper()
	devices, err := m.Host().Devices()
	require.NoError(t, err)
	var all []Member
	for _, d := range devices {
		all = append(all, Member{Name: d.Name, Identity: d.Identity})
	}
	return all
}

func disk(name string) systest.Disk { return systest.Disk{Name: name, WriteCache: true} }

var everything = []sysfs.Setting{
	{Knob: "max_sectors_kb", Level: "8"}, {Knob: "queue_depth", Level: "4"}, {Knob: "scheduler", Level: "none"},
	{Knob: "nr_requests", Level: "16"}, {Knob: "write_cache", Level: "off"}, {Knob: "read_ahead_kb", Level: "64"},
}

// Field case 1.
func TestCase01OneDepth(t *testing.T) {
	m, k, state := machine(t, Options{}, disk("sda"))
	rows := k.apply(t, depth("1"))
	id := m.Device("sda").Identity
	assert.Equal(t, []Applied{{Member: id, Name: "sda", Setting: depth("1")[0], Effective: "1"}}, rows)
	assert.Equal(t, []string{"1"}, m.WritesTo("device/queue_depth"))
	assert.Equal(t, "1", m.Get("/sys/block/sda/device/queue_depth"))
	assert.Equal(t, []string{string(id)}, entries(t, state))
	all, err := k.Restore(context.Background())
	require.NoError(t, err)
	assert.Equal(t, []Restored{{Member: id, Name: "sda"}}, all)
	assert.Equal(t, []string{"1", "32"}, m.WritesTo("device/queue_depth"))
	assert.Empty(t, entries(t, state))
}

// Field case 2: an original of 1 is an original.
func TestCase02OriginalDepthOne(t *testing.T) {
	m, k, _ := machine(t, Options{}, systest.Disk{Name: "sda", QueueDepth: 1})
	k.apply(t, depth("4"))
	_, err := k.Restore(context.Background())
	require.NoError(t, err)
	assert.Equal(t, "1", m.Get("/sys/block/sda/device/queue_depth"))
}

// Everything at once, on all members at once, on both kinds of kernel, in the order of Knobs; nothing differs afterwards.
func TestAllKnobsOnAllMembers(t *testing.T) {
	for name, kernel := range map[string]systest.Kernel{"old": systest.OldKernel, "new": systest.NewKernel} {
		t.Run(name, func(t *testing.T) {
			m, k, state := machine(t, Options{}, kernel,
				systest.Disk{Name: "sda", WriteCache: true, NrRequests: 24, ReadAheadKB: 16},
				systest.Disk{Name: "sdb", WriteCache: false, MaxSectorsKB: 512},
				systest.Disk{Name: "sdc", Transport: "sas", WriteCache: true, QueueDepth: 7})
			before := map[string]map[string]string{}
			for _, d := range []string{"sda", "sdb", "sdc"} {
				before[d] = m.Settings(d)
			}
			for range 2 {
				m.Forget()
				rows := k.apply(t, everything)
				require.Len(t, rows, 3*len(everything))
				for i, r := range rows {
					assert.Empty(t, r.Err)
					assert.Equal(t, r.Level, r.Effective, r.Knob)
					assert.Equal(t, []string{"write_cache", "scheduler", "nr_requests", "queue_depth", "max_sectors_kb", "read_ahead_kb"}[i%6], r.Knob)
				}
				for _, d := range []string{"sda", "sdb", "sdc"} {
					assert.False(t, m.DriveCache(d))
				}
				moved, err := k.Check(context.Background())
				require.NoError(t, err)
				assert.Empty(t, moved)
				_, err = k.Restore(context.Background())
				require.NoError(t, err)
				for d, was := range before {
					assert.Equal(t, was, m.Settings(d), d)
				}
				assert.Empty(t, entries(t, state))
			}
		})
	}
}

// Field case 4, the keeper's part: the drive's cache comes back by itself.
func TestCase04CheckSaysWhatMoved(t *testing.T) {
	m, k, _ := machine(t, Options{}, disk("sda"), disk("sdb"))
	k.apply(t, []sysfs.Setting{{Knob: "write_cache", Level: "off"}, {Knob: "queue_depth", Level: "8"}})
	m.SetDriveCache("sdb", true)
	moved, err := k.Check(context.Background())
	require.NoError(t, err)
	require.Len(t, moved, 1)
	assert.Equal(t, "sdb: write_cache moved: off → on", moved[0].String())
}

// Field case 7: what is in force is what is reported.
func TestCase07Clamped(t *testing.T) {
	_, k, _ := machine(t, Options{}, systest.Disk{Name: "sda", NoNCQ: true})
	rows := k.apply(t, depth("31"))
	assert.Equal(t, "1", rows[0].Effective)
	assert.Empty(t, rows[0].Err)
}

// Field case 11: an NVMe drive that says success to Set Features and does nothing. It is never said to be off; and where it is not as
// it was and cannot be put back, it stays recorded.
func TestCase11SuccessWithoutAMove(t *testing.T) {
	ctx := context.Background()
	m, k, state := machine(t, Options{}, systest.Disk{Name: "nvme0n1", WriteCache: true, CacheForced: true}, disk("sda"))
	rows := k.apply(t, set("write_cache", "off"))
	for _, r := range rows {
		assert.Equal(t, map[string]string{"nvme0n1": "on", "sda": "off"}[r.Name], r.Effective, "%+v", r)
	}
	assert.True(t, m.DriveCache("nvme0n1"))
	m.SetDriveCache("nvme0n1", false) // by itself
	moved, err := k.Check(ctx)
	require.NoError(t, err)
	assert.Len(t, moved, 1)
	id := string(m.Device("nvme0n1").Identity)
	var not *NotRestoredError
	require.ErrorAs(t, k.Close(), &not)
	require.Len(t, not.Members, 1)
	assert.Equal(t, id, not.Members[0].Key())
	assert.ErrorContains(t, not, "NOT RESTORED")
	require.Len(t, not.Members[0].ByHand, 1)
	assert.Contains(t, not.Members[0].ByHand[0], "nvme set-feature")
	require.ErrorAs(t, <-k.served, &not)
	assert.True(t, m.DriveCache("sda"))
	for range 2 {
		all := restore(t, m.Host(), state, RestoreOptions{})
		assert.Equal(t, 5, RestoreExit(all))
		assert.Equal(t, []string{id}, entries(t, state))
	}
}

func TestUnsupportedIsNoFailure(t *testing.T) {
	m, k, _ := machine(t, Options{}, systest.Disk{Name: "nvme0n1", WriteCache: true}, disk("sda"))
	rows := k.apply(t, []sysfs.Setting{{Knob: "queue_depth", Level: "4"}, {Knob: "max_sectors_kb", Level: "8"}})
	for _, r := range rows {
		if r.Name == "nvme0n1" && r.Knob == "queue_depth" {
			assert.True(t, r.Unsupported)
			assert.Contains(t, r.Err, "iodepth")
			continue
		}
		assert.Empty(t, r.Err, "the rest is made all the same")
		assert.False(t, r.Unsupported)
	}
	assert.Equal(t, "8", m.Get("/sys/block/nvme0n1/queue/max_sectors_kb"))
	_, err := k.Apply(context.Background(), k.orders([]sysfs.Setting{{Knob: "queue_deep", Level: "4"}}))
	require.ErrorContains(t, err, "queue_deep")
}

// What could not be put back is not touched: a drive that does not say what its cache is.
func TestAnUnknownOriginalIsNotTouched(t *testing.T) {
	m, k, _ := machine(t, Options{}, systest.Disk{Name: "sda", Transport: "sas", SilentSG: true, WriteCache: true})
	rows := k.apply(t, []sysfs.Setting{{Knob: "write_cache", Level: "off"}})
	assert.NotEmpty(t, rows[0].Err)
	for _, c := range m.Commands() {
		assert.NotContains(t, c, "SELECT")
		assert.NotContains(t, c, "SET FEATURES")
	}
}

// Field case 16: a write that never returns. The others are restored, the entry stays, the process can end.
func TestCase16AWriteThatNeverReturns(t *testing.T) {
	m, k, state := machine(t, Options{WriteTimeout: 3 * time.Second, RestoreTimeout: 6 * time.Second}, disk("sda"), disk("sdb"), disk("sdc"))
	before := map[string]map[string]string{"sda": m.Settings("sda"), "sdc": m.Settings("sdc")}
	m.Hang("/sys/block/sdb/queue/max_sectors_kb")
	rows := k.apply(t, []sysfs.Setting{{Knob: "queue_depth", Level: "1"}, {Knob: "max_sectors_kb", Level: "8"}})
	for _, r := range rows {
		if r.Name == "sdb" && r.Knob == "max_sectors_kb" {
			assert.Contains(t, r.Err, "stuck in the kernel")
			continue
		}
		assert.Empty(t, r.Err)
	}
	m.Hang("/sys/block/sdb/device/queue_depth")
	_ = k.conn.Close() // main gives up, and is not waited for either
	err := k.mainDies(t)
	var not *NotRestoredError
	require.ErrorAs(t, err, &not)
	require.Len(t, not.Members, 1)
	assert.Equal(t, "sdb", not.Members[0].Name)
	assert.True(t, not.Members[0].Stuck)
	assert.NotEmpty(t, not.Members[0].ByHand)
	assert.Contains(t, err.Error(), "qdsweep restore")
	for d, was := range before {
		assert.Equal(t, was, m.Settings(d), d)
	}
	assert.Equal(t, []string{string(m.Device("sdb").Identity)}, entries(t, state))
}

// Field case 18: the restore fails; the journal survives, the next run refuses, and takes nothing for an original.
func TestCase18RestoreFails(t *testing.T) {
	ctx := context.Background()
	m, k, state := machine(t, Options{}, disk("sda"), disk("sdb"))
	before := m.Settings("sda")
	k.apply(t, depth("1"))
	m.Fail("/sys/block/sda/device/queue_depth", unix.EIO)
	all, err := k.Restore(ctx)
	var not *NotRestoredError
	require.ErrorAs(t, err, &not)
	require.Len(t, all, 2)
	require.Len(t, not.Members, 1)
	assert.Equal(t, "sda", not.Members[0].Name)
	assert.Equal(t, []string{"echo 32 > /sys/block/sda/device/queue_depth"}, not.Members[0].ByHand)
	id := m.Device("sda").Identity
	assert.Equal(t, []string{string(id)}, entries(t, state), "sdb is as it was")

	// In this sweep: no further settings for it, others go on.
	m.Forget()
	rows := k.apply(t, depth("4"))
	assert.Contains(t, rows[0].Err, "could not be restored")
	assert.Empty(t, rows[1].Err)
	assert.Equal(t, []string{"4"}, m.WritesTo("device/queue_depth"))

	// Close fails too; and so does the next sweep.
	require.ErrorAs(t, k.Close(), &not)
	require.ErrorAs(t, <-k.served, &not)
	next := serve(t, m.Host(), openJournal(t, state), Options{})
	var left *UnrestoredError
	require.ErrorAs(t, next.Claim(ctx, members(t, m), 0), &left)
	assert.Equal(t, string(id), left.Key)

	// `qdsweep restore`, while it still fails, and when it works.
	out, err := next.RestoreJournal(ctx, RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, StateFailed, out[0].State)
	assert.Equal(t, 5, RestoreExit(out))
	assert.Equal(t, not.Members[0].ByHand, out[0].ByHand)
	m.Fail("/sys/block/sda/device/queue_depth", 0)
	out, err = next.RestoreJournal(ctx, RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, StateRestored, out[0].State)
	assert.Equal(t, []sysfs.Moved{{Device: "sda", Knob: "queue_depth", From: "32", To: "1"}}, out[0].Moved)
	assert.Equal(t, before, m.Settings("sda"))
	require.NoError(t, next.Claim(ctx, members(t, m), 0))
}

// The state folder is full: nothing is changed.
func TestNoJournalNoChange(t *testing.T) {
	m, state := systest.New(t, disk("sda"), disk("sdb")), stateDir(t)
	j := openJournal(t, state)
	j.Hook = func(op string) error {
		if op == "fsync folder" {
			return unix.ENOSPC
		}
		return nil
	}
	k := serve(t, m.Host(), j, Options{})
	require.NoError(t, k.Claim(context.Background(), members(t, m), 0))
	_, err := k.Apply(context.Background(), k.orders(everything))
	require.ErrorContains(t, err, "no space left")
	assert.Empty(t, m.Writes())
	// Again, without a Restore between: still nothing, for what is on disk is not certain.
	_, err = k.Apply(context.Background(), k.orders(everything))
	require.ErrorContains(t, err, "no space left")
	assert.Empty(t, m.Writes())
}

// Two applies without a restore between: the originals are the first ones.
func TestApplyTwice(t *testing.T) {
	m, k, _ := machine(t, Options{}, disk("sda"))
	before := m.Settings("sda")
	k.apply(t, everything)
	k.apply(t, depth("2"))
	_, err := k.Restore(context.Background())
	require.NoError(t, err)
	assert.Equal(t, before, m.Settings("sda"))
}

// A drive that is pulled: the others are restored; put back under another name it is restored there.
func TestPulledAndBackUnderAnotherName(t *testing.T) {
	ctx := context.Background()
	a := systest.Disk{Name: "sda", Serial: "A", WWID: "naa.5000000000000001", WriteCache: true, NrRequests: 24}
	m, k, state := machine(t, Options{}, a, disk("sdb"))
	before := m.Settings("sdb")
	id := m.Device("sda").Identity
	k.apply(t, []sysfs.Setting{{Knob: "queue_depth", Level: "1"}, {Knob: "write_cache", Level: "off"}})
	m.Pull("sda")
	all, err := k.Restore(ctx)
	var not *NotRestoredError
	require.ErrorAs(t, err, &not)
	require.Len(t, all, 2)
	assert.Contains(t, err.Error(), "is not there")
	assert.Equal(t, before, m.Settings("sdb"))
	require.ErrorAs(t, k.mainDies(t), &not)
	assert.Equal(t, []string{string(id)}, entries(t, state))

	// Field case 36, what restore says: other drives can be swept.
	next := serve(t, m.Host(), openJournal(t, state), Options{})
	require.NoError(t, next.Claim(ctx, members(t, m), 0))
	out, err := next.RestoreJournal(ctx, RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, StateGone, out[0].State)
	assert.Equal(t, 4, RestoreExit(out))
	assert.Contains(t, out[0].Next, "qdsweep restore --forget '"+string(id)+"'")

	// Another drive has its letter now, and it has another one, and what survives: its cache is off.
	m.Plug(systest.Disk{Name: "sda", Serial: "B", WriteCache: true, QueueDepth: 9})
	other := m.Settings("sda")
	a.Name, a.WriteCache, a.NrRequests = "sdc", false, 0
	m.Plug(a)
	out, err = next.RestoreJournal(ctx, RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, StateRestored, out[0].State)
	assert.Equal(t, "sda", out[0].Name)
	assert.Equal(t, "sdc", out[0].Now)
	assert.True(t, m.DriveCache("sdc"))
	assert.Equal(t, "24", m.Get("/sys/block/sdc/queue/nr_requests"))
	assert.Equal(t, other, m.Settings("sda"))
	assert.Empty(t, entries(t, state))
}

func TestFlushReachesEveryMember(t *testing.T) {
	m, k, _ := machine(t, Options{}, disk("sda"), systest.Disk{Name: "sdb", Transport: "sas", WriteCache: true}, systest.Disk{Name: "nvme0n1"})
	m.Forget()
	require.NoError(t, k.Flush(context.Background()))
	seen := map[string]bool{}
	for _, c := range m.Commands() {
		seen[c[:3]] = true
	}
	assert.True(t, seen["sda"] && seen["sdb"])
	m.Fail("/dev/sdb", unix.EIO)
	require.ErrorContains(t, k.Flush(context.Background()), "sdb")
}
