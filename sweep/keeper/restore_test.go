package keeper

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// dead leaves the journal entry that a sweep leaves which died with its keeper, as if it had been made in that boot.
func dead(t *testing.T, m *systest.Machine, state, bootID string, names ...string) {
	t.Helper()
	for _, name := range names {
		s, err := m.Device(name).Snapshot(context.Background())
		require.NoError(t, err)
		require.NoError(t, openJournal(t, state).Save(Entry{
			Identity: s.Identity, Name: name, BootID: bootID, Sweep: "s1", PID: 4242, Taken: s.Taken, Snapshot: &s, Settings: depth("1"),
		}))
	}
}

func restore(t *testing.T, h sysfs.Host, state string, o RestoreOptions) []EntryOutcome {
	t.Helper()
	k := serve(t, h, openJournal(t, state), Options{})
	all, err := k.RestoreJournal(context.Background(), o)
	require.NoError(t, err)
	require.NoError(t, k.Close())
	require.NoError(t, <-k.served) // its locks are free
	return all
}

func TestRestoreInTheSameBoot(t *testing.T) {
	m, state := systest.New(t, disk("sda"), disk("sdb")), stateDir(t)
	before := m.Settings("sda")
	dead(t, m, state, boot, "sda", "sdb")
	m.Set("/sys/block/sda/device/queue_depth", "1\n")
	m.SetDriveCache("sda", false)

	all := restore(t, m.Host(), state, RestoreOptions{DryRun: true})
	require.Len(t, all, 2)
	assert.Equal(t, StateWouldRestore, all[0].State)
	assert.Contains(t, all[0].Moved, sysfs.Moved{Device: "sda", Knob: "queue_depth", From: "32", To: "1"})
	assert.Contains(t, all[0].Moved, sysfs.Moved{Device: "sda", Knob: "write_cache", From: "on", To: "off"})
	assert.Empty(t, all[1].Moved)
	assert.Empty(t, m.Writes())
	assert.Len(t, entries(t, state), 2)
	assert.Equal(t, 4, RestoreExit(all), "something is left to do")

	all = restore(t, m.Host(), state, RestoreOptions{})
	assert.Equal(t, StateRestored, all[0].State)
	assert.Equal(t, "s1", all[0].Sweep)
	assert.Equal(t, before, m.Settings("sda"))
	assert.Empty(t, entries(t, state))
	assert.Empty(t, restore(t, m.Host(), state, RestoreOptions{}))
}

// Field case 35: another boot, another kernel. The drive keeps its cache's state; the rest is not ours any more.
func TestCase35AnotherBoot(t *testing.T) {
	m, state := systest.New(t, systest.Disk{Name: "sda", WriteCache: true, QueueDepth: 31}), stateDir(t)
	dead(t, m, state, "the boot before", "sda")
	m.Set("/sys/block/sda/device/queue_depth", "32\n")
	m.SetDriveCache("sda", false)
	m.Forget()

	all := restore(t, m.Host(), state, RestoreOptions{})
	require.Len(t, all, 1)
	assert.Equal(t, StateRestored, all[0].State)
	assert.Equal(t, []sysfs.Moved{{Device: "sda", Knob: "write_cache", From: "on", To: "off"}}, all[0].Moved)
	assert.Contains(t, all[0].Notes, "queue_depth is 32, journal says 31: left alone")
	assert.True(t, m.DriveCache("sda"))
	assert.Equal(t, "32", m.Get("/sys/block/sda/device/queue_depth"))
	assert.Empty(t, m.WritesTo("queue_depth"))
	assert.Zero(t, RestoreExit(all))
	assert.Empty(t, entries(t, state))
}

// In another boot a drive without identity cannot be told from another one. Its cache may be off since: that stays recorded
// until somebody looks. What has no cache has nothing that outlives a boot.
func TestRestoreOfADriveWithoutIdentity(t *testing.T) {
	for _, tt := range []struct {
		boot, cache string
		want        State
		depth       string
	}{
		{boot, "", StateRestored, "32"},
		{"the boot before", "", StateRestored, "1"},
		{"the boot before", "on", StateLeft, "1"},
	} {
		root, state := plain(t), stateDir(t)
		plug(t, root, "sdh", "", 7)
		h := sysfs.NewHost(root)
		d, err := h.Device("sdh")
		require.NoError(t, err)
		require.Empty(t, d.Identity)
		s, err := d.Snapshot(context.Background())
		require.NoError(t, err)
		s.WriteCache = tt.cache
		require.NoError(t, openJournal(t, state).Save(Entry{Name: "sdh", BootID: tt.boot, Snapshot: &s}))
		put(t, root, "sys/block/sdh/device/queue_depth", "1")
		all := restore(t, h, state, RestoreOptions{})
		require.Len(t, all, 1)
		assert.Equal(t, "name:sdh", all[0].Key)
		assert.Equal(t, tt.want, all[0].State)
		assert.Equal(t, tt.depth, get(t, root, "sys/block/sdh/device/queue_depth"))
		if tt.want != StateLeft {
			assert.Empty(t, entries(t, state))
			continue
		}
		assert.Equal(t, 4, RestoreExit(all))
		assert.Contains(t, all[0].Next, "--forget 'name:sdh'")
		assert.Equal(t, []string{"its write_cache was on"}, all[0].Notes)
	}
}

// Nothing of an entry outlives a boot: it is told of, by what the device is now where it is there, and goes. A live sweep's
// is not taken from it.
func TestExpiredEntry(t *testing.T) {
	m, state := systest.New(t, systest.Disk{Name: "sda", NoWriteCache: true}, disk("sdb")), stateDir(t)
	m.MD("md0", "raid1", "sda", "sdb")
	dead(t, m, state, "the boot before", "sda", "md0")
	m.Set("/sys/block/md0/queue/read_ahead_kb", "4096\n")
	m.Pull("sda")
	for _, dry := range []bool{true, false} {
		all := restore(t, m.Host(), state, RestoreOptions{DryRun: dry})
		require.Len(t, all, 2)
		for _, o := range all {
			assert.Contains(t, o.Notes[0], "nothing of it outlives one")
			assert.Equal(t, map[bool]State{true: StateWouldRestore, false: StateRestored}[dry], o.State)
		}
		assert.Contains(t, all[0].Notes, "read_ahead_kb is 4096, journal says 512: left alone")
		assert.Equal(t, "md0", all[0].Now)
		assert.Contains(t, all[1].Notes[1], "is not there")
		assert.Equal(t, map[bool]int{true: 4, false: 0}[dry], RestoreExit(all))
	}
	assert.Empty(t, m.Writes())
	assert.Empty(t, entries(t, state))

	k := serve(t, m.Host(), openJournal(t, state), Options{})
	require.NoError(t, k.Claim(context.Background(), []Member{memberOf(m, "md0")}, 0))
	dead(t, m, state, "the boot before", "md0")
	all := restore(t, m.Host(), state, RestoreOptions{})
	assert.Equal(t, StateBusy, all[0].State)
	assert.Len(t, entries(t, state), 1)
}

// A live sweep has it: nothing is touched, and its process is named.
func TestRestoreOfALiveSweep(t *testing.T) {
	m, k, state := machine(t, Options{}, disk("sda"))
	k.apply(t, depth("1"))
	all := restore(t, m.Host(), state, RestoreOptions{})
	require.Len(t, all, 1)
	assert.Equal(t, StateBusy, all[0].State)
	assert.Equal(t, os.Getpid(), all[0].PID)
	assert.Equal(t, 3, RestoreExit(all))
	assert.Equal(t, "1", m.Get("/sys/block/sda/device/queue_depth"))
	all = restore(t, m.Host(), state, RestoreOptions{Forget: []string{all[0].Key}})
	assert.Equal(t, StateBusy, all[0].State)

	// With --wait it gets it when the sweep is over; there is nothing left to do then.
	waiting := make(chan []EntryOutcome)
	other := serve(t, m.Host(), openJournal(t, state), Options{})
	go func() {
		all, _ := other.RestoreJournal(context.Background(), RestoreOptions{Wait: time.Minute})
		waiting <- all
	}()
	require.NoError(t, k.Close())
	all = <-waiting
	for _, o := range all { // none, where the sweep was faster than the look into the journal
		assert.Equal(t, StateRestored, o.State)
	}
	assert.Equal(t, "32", m.Get("/sys/block/sda/device/queue_depth"))
}

// Field case 36, and a damaged entry: both can be dropped, and nothing else is.
func TestForget(t *testing.T) {
	m, state := systest.New(t, disk("sda"), disk("sdb"), disk("sdc")), stateDir(t)
	dead(t, m, state, boot, "sda", "sdb", "sdc")
	a, b, c := m.Device("sda").Identity, m.Device("sdb").Identity, m.Device("sdc").Identity
	m.Pull("sda")
	require.NoError(t, os.Truncate(filepath.Join(state, "journal", b.FileName()+".json"), 20))

	all := restore(t, m.Host(), state, RestoreOptions{DryRun: true, Forget: []string{string(a)}})
	assert.Equal(t, StateWouldRestore, all[0].State)
	require.Len(t, entries(t, state), 3)
	all = restore(t, m.Host(), state, RestoreOptions{Forget: []string{string(a), string(b)}})
	require.Len(t, all, 2)
	assert.Equal(t, StateForgotten, all[0].State)
	assert.Contains(t, all[0].Notes[0], "its originals were: write_cache on, ")
	assert.Equal(t, StateForgotten, all[1].State)
	assert.Equal(t, []string{string(c)}, entries(t, state))

	k := serve(t, m.Host(), openJournal(t, state), Options{})
	_, err := k.RestoreJournal(context.Background(), RestoreOptions{Forget: []string{"wwid:x"}})
	require.ErrorContains(t, err, "there are '"+string(c)+"'")
}

func TestRestoreOfADamagedEntry(t *testing.T) {
	m, state := systest.New(t, disk("sda")), stateDir(t)
	dead(t, m, state, boot, "sda")
	file := filepath.Join(state, "journal", m.Device("sda").Identity.FileName()+".json")
	require.NoError(t, os.Chmod(file, 0o666))
	all := restore(t, m.Host(), state, RestoreOptions{})
	assert.Equal(t, StateLeft, all[0].State)
	assert.Equal(t, 4, RestoreExit(all))
	assert.Equal(t, file, all[0].Path)
	assert.Contains(t, all[0].Reason, "not obeyed")
	assert.Len(t, entries(t, state), 1)
}

func TestRestoreExit(t *testing.T) {
	for _, tt := range []struct {
		states []State
		want   int
	}{
		{nil, 0},
		{[]State{StateRestored, StateRemoved, StateForgotten}, 0},
		{[]State{StateWouldRestore}, 4},
		{[]State{StateRestored, StateGone}, 4},
		{[]State{StateBusy, StateGone}, 3},
		{[]State{StateFailed, StateBusy, StateLeft}, 5},
		{[]State{StateTakeDown, StateBusy}, 5},
	} {
		var all []EntryOutcome
		for _, s := range tt.states {
			all = append(all, EntryOutcome{State: s})
		}
		assert.Equal(t, tt.want, RestoreExit(all), tt.states)
	}
}
