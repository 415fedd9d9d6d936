package keeper

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

const uuid = "0badcafe-0000-4000-8000-00000000beef"

// arrays is a machine with an array of ours on partitions of two disks, and a third disk. named: the kernel, or udev, tells
// the array's UUID.
func arrays(t *testing.T, named bool) (*systest.Machine, Array) {
	t.Helper()
	m := systest.New(t, disk("sda"), disk("sdb"), disk("sdc"))
	a := Array{UUID: uuid, Level: "1"}
	for _, name := range []string{"sda", "sdb"} {
		d := m.Device(m.Partition(name, 1, 1<<20, 8<<20))
		a.Members = append(a.Members, ArrayMember{Identity: d.Identity, Name: d.Name, Bytes: d.Bytes})
	}
	m.MD("md127", "raid1", "sda1", "sdb1")
	m.Set("/sys/block/md127/md/uuid", map[bool]string{true: uuid, false: ""}[named]+"\n")
	return m, a
}

// takenDown is what main does, as far as a tree can show it: the array is no more.
func takenDown(t *testing.T, m *systest.Machine) {
	t.Helper()
	require.NoError(t, os.Remove(filepath.Join(m.Root(), "sys/block/md127")))
	require.NoError(t, os.Remove(filepath.Join(m.Root(), "sys/class/block/md127")))
	for _, d := range []string{"sda/sda1", "sdb/sdb1"} {
		require.NoError(t, os.Remove(filepath.Join(m.Root(), "sys/block", d, "holders/md127")))
	}
}

// The whole life of an array in a sweep: recorded, made, its own settings changed and put back, let go of, taken down.
func TestArrayOfASweep(t *testing.T) {
	for name, named := range map[string]bool{"known by its UUID": true, "known by what it is of": false} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			m, a := arrays(t, named)
			state := stateDir(t)
			k := serve(t, m.Host(), openJournal(t, state), Options{Sweep: "s1"})
			require.NoError(t, k.Claim(ctx, []Member{memberOf(m, "sda"), memberOf(m, "sdb")}, 0))
			require.NoError(t, k.Array(ctx, a, true))
			require.Equal(t, []string{"array-" + uuid}, entries(t, state))
			a.Filesystem, a.MountPoint = "ext4", "/mnt/x"
			require.NoError(t, k.Array(ctx, a, true), "again, with what is known by now")
			require.Equal(t, &a, entriesOf(t, state)[0].Array)

			md := memberOf(m, "md127")
			require.Equal(t, named, md.Identity != "")
			require.NoError(t, k.Claim(ctx, []Member{md}, 0), "members of an array of this sweep are its own")
			rows, err := k.Apply(ctx, []Order{{Member: md, Set: set("read_ahead_kb", "4096")}})
			require.NoError(t, err)
			assert.Equal(t, "4096", rows[0].Effective)
			assert.Equal(t, uuid, entriesOf(t, state)[1].PartOf)
			_, err = k.Restore(ctx)
			require.NoError(t, err)
			assert.Equal(t, "512", m.Get("/sys/block/md127/queue/read_ahead_kb"))
			require.NoError(t, k.Release(ctx, md))
			takenDown(t, m)
			require.NoError(t, k.Array(ctx, a, false))
			require.NoError(t, k.Array(ctx, a, false), "twice is once")
			assert.Empty(t, entries(t, state))
			require.NoError(t, k.Close())
		})
	}
}

// A setting of an array of ours that does not go back does not keep the array: it goes with it.
func TestReleaseOfAnUnrestoredArray(t *testing.T) {
	ctx := context.Background()
	m, a := arrays(t, false)
	state := stateDir(t)
	k := serve(t, m.Host(), openJournal(t, state), Options{})
	require.NoError(t, k.Array(ctx, a, true))
	md := memberOf(m, "md127")
	require.NoError(t, k.Claim(ctx, []Member{md}, 0))
	_, err := k.Apply(ctx, []Order{{Member: md, Set: set("read_ahead_kb", "4096")}})
	require.NoError(t, err)
	m.Fail("/sys/block/md127/queue/read_ahead_kb", 5)
	_, err = k.Restore(ctx)
	var not *NotRestoredError
	require.ErrorAs(t, err, &not)
	require.NoError(t, k.Release(ctx, md))
	assert.Equal(t, []string{"array-" + uuid}, entries(t, state))
	require.NoError(t, k.Close())
}

func TestArrayThatIsRefused(t *testing.T) {
	ctx := context.Background()
	m, a := arrays(t, true)
	k := serve(t, m.Host(), openJournal(t, stateDir(t)), Options{})
	require.ErrorContains(t, k.Array(ctx, Array{UUID: uuid}, true), "no members")
	require.ErrorContains(t, k.Array(ctx, Array{Members: a.Members}, true), "no UUID")
	a.MountPoint = "mnt"
	require.ErrorContains(t, k.Array(ctx, a, true), "absolute")
}

// leave is a sweep that made an array, changed a setting of it and one of a drive under it, and died with its keeper, in
// that boot. The array's own entry is there, the folder in its file system too.
func leave(t *testing.T, m *systest.Machine, a Array, state, bootID string) {
	t.Helper()
	j := openJournal(t, state)
	require.NoError(t, j.Save(Entry{BootID: bootID, Sweep: "s1", PID: 4242, Array: &a}))
	dead(t, m, state, bootID, "sda")
	s, err := m.Device("md127").Snapshot(context.Background())
	require.NoError(t, err)
	require.NoError(t, j.Save(Entry{Identity: s.Identity, Name: "md127", BootID: bootID, Sweep: "s1", PID: 4242, Snapshot: &s, PartOf: a.UUID}))
	if a.MountPoint != "" {
		require.NoError(t, j.Save(Entry{BootID: bootID, Sweep: "s1", PID: 4242, Folder: &Folder{ID: "f", Path: a.MountPoint + "/qdsweep-s1", Device: "9:127", Inode: 12}}))
	}
	m.Set("/sys/block/sda/device/queue_depth", "1\n")
	m.SetDriveCache("sda", false)
	m.Set("/sys/block/md127/queue/read_ahead_kb", "4096\n")
	m.Forget()
}

func byKey(all []EntryOutcome) map[string]EntryOutcome {
	by := map[string]EntryOutcome{}
	for _, o := range all {
		by[o.Key] = o
	}
	return by
}

// The drives below are put back; the array is held for main to take it down, and what is on it goes with it.
func TestRestoreOfADeadSweepsArray(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct {
		boot  string
		named bool
	}{
		"same boot": {boot, true}, "same boot, without a UUID": {boot, false}, "another boot": {"the boot before", true},
	} {
		t.Run(name, func(t *testing.T) {
			m, a := arrays(t, tt.named)
			a.Filesystem, a.MountPoint = "ext4", "/mnt/x"
			state := stateDir(t)
			leave(t, m, a, state, tt.boot)
			if tt.boot != boot { // nothing has assembled it since
				takenDown(t, m)
			}
			all := restore(t, m.Host(), state, RestoreOptions{DryRun: true})
			require.Len(t, all, 4)
			for _, o := range all {
				assert.Equal(t, StateWouldRestore, o.State, o.Key)
			}
			assert.Equal(t, &a, byKey(all)["array-"+uuid].Array)
			require.Len(t, entries(t, state), 4)
			assert.Empty(t, m.Writes())

			k := serve(t, m.Host(), openJournal(t, state), Options{})
			all, err := k.RestoreJournal(ctx, RestoreOptions{})
			require.NoError(t, err)
			by := byKey(all)
			o := by["array-"+uuid]
			assert.Equal(t, StateTakeDown, o.State)
			assert.Equal(t, "raid1 of sda1, sdb1", o.Name)
			assert.Equal(t, &a, o.Array)
			assert.Equal(t, 5, RestoreExit(all), "until main has done it")
			assert.Equal(t, StateRestored, by[string(m.Device("sda").Identity)].State)
			assert.True(t, m.DriveCache("sda"))
			assert.Equal(t, StateRemoved, by["folder-f"].State, by["folder-f"].Reason)
			assert.Contains(t, by["folder-f"].Notes[0], "goes with the file system")
			for key, o := range by {
				if o.Name == "md127" {
					assert.Equal(t, StateRemoved, o.State, key)
					assert.Contains(t, o.Notes[0], "goes with the array")
				}
			}
			assert.Empty(t, m.WritesTo("md127/queue/read_ahead_kb"))
			assert.Equal(t, []string{"array-" + uuid}, entries(t, state))

			// Nobody else gets it meanwhile; the same keeper tells of it again.
			other := restore(t, m.Host(), state, RestoreOptions{})
			assert.Equal(t, StateBusy, other[0].State)
			assert.Equal(t, os.Getpid(), other[0].PID)
			all, err = k.RestoreJournal(ctx, RestoreOptions{})
			require.NoError(t, err)
			require.Len(t, all, 1)
			assert.Equal(t, StateTakeDown, all[0].State)
			require.ErrorContains(t, k.Array(ctx, a, true), "to be taken down")
			require.NoError(t, k.Array(ctx, a, false))
			assert.Empty(t, entries(t, state))
			require.NoError(t, k.Close())
		})
	}
}

// Main could not take it down: the entry stays, and with the keeper's end it is free for the next try.
func TestArrayThatStays(t *testing.T) {
	m, a := arrays(t, true)
	state := stateDir(t)
	leave(t, m, a, state, boot)
	for range 2 {
		assert.Equal(t, StateTakeDown, byKey(restore(t, m.Host(), state, RestoreOptions{}))["array-"+uuid].State)
		assert.Equal(t, []string{"array-" + uuid}, entries(t, state))
	}
	all := restore(t, m.Host(), state, RestoreOptions{Forget: []string{"array-" + uuid}})
	assert.Equal(t, StateForgotten, all[0].State)
	assert.Contains(t, all[0].Notes[0], uuid)
	assert.Empty(t, entries(t, state))
}

// The array went before its own settings' entry did. Where it is gone there is nothing to put back; where its entry was
// forgotten and it is still there, there is.
func TestEntryOfAnArrayThatWent(t *testing.T) {
	for name, tt := range map[string]struct {
		gone, ours bool
		want       State
	}{
		"taken down":                  {true, true, StateRemoved},
		"forgotten, and still there":  {false, true, StateRestored},
		"somebody else's, taken down": {true, false, StateGone},
	} {
		t.Run(name, func(t *testing.T) {
			m, a := arrays(t, true)
			state := stateDir(t)
			if !tt.ours {
				a.UUID = ""
			}
			leave(t, m, a, state, boot)
			require.NoError(t, openJournal(t, state).Clear(Entry{Array: &a}))
			key := string(m.Device("md127").Identity)
			if tt.gone {
				takenDown(t, m)
			}
			all := restore(t, m.Host(), state, RestoreOptions{})
			assert.Equal(t, tt.want, byKey(all)[key].State)
			assert.Equal(t, tt.want == StateGone, len(entries(t, state)) == 1)
			if !tt.gone {
				assert.Equal(t, "512", m.Get("/sys/block/md127/queue/read_ahead_kb"))
			}
		})
	}
}

// Without a UUID to be seen, an array of that name may by now be another one: it is left alone.
func TestAnotherArrayOfThatName(t *testing.T) {
	m, a := arrays(t, false)
	state := stateDir(t)
	leave(t, m, a, state, boot)
	require.NoError(t, openJournal(t, state).Clear(Entry{Array: &a}))
	all := restore(t, m.Host(), state, RestoreOptions{})
	assert.Equal(t, StateRemoved, byKey(all)["name:md127"].State)
	assert.Empty(t, m.WritesTo("md127/queue/read_ahead_kb"))
}

// Nobody gets a disk of an array that a dead sweep made, by whichever of disk and partition the array names; other disks
// are free.
func TestClaimOfAMemberOfADeadSweepsArray(t *testing.T) {
	ctx := context.Background()
	wholes := func(m *systest.Machine, a Array) Array {
		a.Members = nil
		for _, name := range []string{"sda", "sdb"} {
			d := m.Device(name)
			a.Members = append(a.Members, ArrayMember{Identity: d.Identity, Name: name, Bytes: d.Bytes})
		}
		return a
	}
	for name, change := range map[string]func(*systest.Machine, Array) Array{
		"on partitions":   func(_ *systest.Machine, a Array) Array { return a },
		"on whole disks":  wholes,
		"of another boot": func(_ *systest.Machine, a Array) Array { return a },
	} {
		t.Run(name, func(t *testing.T) {
			m, a := arrays(t, true)
			a = change(m, a)
			state := stateDir(t)
			bootID := boot
			if name == "of another boot" {
				bootID = "the boot before"
			}
			require.NoError(t, openJournal(t, state).Save(Entry{BootID: bootID, Sweep: "s1", PID: os.Getpid(), Array: &a}))
			k := serve(t, m.Host(), openJournal(t, state), Options{Sweep: "s1"})
			for _, of := range []string{"sda", "sdb", "md127", "sda1"} {
				err := k.Claim(ctx, []Member{memberOf(m, of)}, 0)
				var left *UnrestoredError
				require.ErrorAs(t, err, &left, of)
				assert.Equal(t, "array-"+uuid, left.Key)
				assert.ErrorContains(t, err, of+" is part of raid1 of ")
				assert.ErrorContains(t, err, "first: qdsweep restore")
			}
			require.NoError(t, k.Claim(ctx, []Member{memberOf(m, "sdc")}, 0))

			// Held for taking it down it is still nobody's.
			next := serve(t, m.Host(), openJournal(t, state), Options{})
			all, err := next.RestoreJournal(ctx, RestoreOptions{})
			require.NoError(t, err)
			require.Equal(t, StateTakeDown, all[0].State)
			require.Error(t, next.Claim(ctx, []Member{memberOf(m, "sda")}, 0))
			require.NoError(t, next.Array(ctx, a, false))
			require.NoError(t, next.Claim(ctx, []Member{memberOf(m, "sda")}, 0))
		})
	}
}

// A disk without identity is known by its name, through its partitions too.
func TestArrayOnDisksWithoutIdentity(t *testing.T) {
	root := plain(t, "sda")
	plug(t, root, "sdh", "", 7)
	for path, text := range map[string]string{"partition": "1", "dev": "8:113", "size": "1024", "start": "512"} {
		put(t, root, "sys/block/sdh/sdh1/"+path, text)
	}
	h := sysfs.NewHost(root)
	a := Array{UUID: uuid, Level: "none", Filesystem: "ext4", Members: []ArrayMember{{Name: "sdh1"}}}
	assert.Equal(t, "ext4 on sdh1", a.String())
	assert.True(t, a.names(h, Member{Name: "sdh"}))
	assert.True(t, a.names(h, Member{Name: "sdh1"}))
	assert.False(t, a.names(h, sda))
	assert.False(t, a.names(h, Member{Name: "sdi"}))
	assert.False(t, a.names(h, Member{Name: "sdh", Identity: "serial:X:Y"}), "another disk has that name now")
	assert.Equal(t, sysfs.Identity(""), Array{UUID: "x"}.identity())
}
