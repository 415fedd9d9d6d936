package keeper

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// Main dies: its settings are put back, its array stays, recorded and free for `restore`.
func TestMainDiesWithAnArray(t *testing.T) {
	ctx := context.Background()
	m, a := arrays(t, true)
	state := stateDir(t)
	k := serve(t, m.Host(), openJournal(t, state), Options{Sweep: "s1"})
	require.NoError(t, k.Array(ctx, a, true))
	both := []Member{memberOf(m, "sda"), memberOf(m, "md127")}
	require.NoError(t, k.Claim(ctx, both, 0))
	before := m.Settings("sda")
	_, err := k.Apply(ctx, []Order{{Member: both[0], Set: depth("1")}, {Member: both[1], Set: set("read_ahead_kb", "4096")}})
	require.NoError(t, err)
	require.NoError(t, k.mainDies(t))
	assert.Equal(t, before, m.Settings("sda"))
	assert.Equal(t, "512", m.Get("/sys/block/md127/queue/read_ahead_kb"))
	assert.Equal(t, []string{"array-" + uuid}, entries(t, state))
	assert.Equal(t, StateTakeDown, restore(t, m.Host(), state, RestoreOptions{})[0].State)
}

// The keeper dies: the next one of this main puts back what was changed, the array's own settings too, and takes the array
// over; main goes on with it.
func TestRecoverAdoptsArrays(t *testing.T) {
	for name, named := range map[string]bool{"known by its UUID": true, "known by what it is of": false} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			m, a := arrays(t, named)
			state := stateDir(t)
			leave(t, m, a, state, boot)
			for _, e := range entriesOf(t, state) {
				e.PID = os.Getpid()
				require.NoError(t, openJournal(t, state).Save(e))
			}
			k := serve(t, m.Host(), openJournal(t, state), Options{Sweep: "s1"})
			all, err := k.Recover(ctx)
			require.NoError(t, err)
			assert.Len(t, all, 2)
			assert.Equal(t, "512", m.Get("/sys/block/md127/queue/read_ahead_kb"))
			assert.Equal(t, []string{"array-" + uuid}, entries(t, state))
			require.NoError(t, k.Claim(ctx, []Member{memberOf(m, "sda"), memberOf(m, "md127")}, 0))
			other := restore(t, m.Host(), state, RestoreOptions{})
			assert.Equal(t, StateBusy, other[0].State)
			all2, err := k.RestoreJournal(ctx, RestoreOptions{})
			require.NoError(t, err)
			assert.Equal(t, StateBusy, all2[0].State, "its own sweep is alive")
			require.NoError(t, k.Array(ctx, a, false))
			assert.Empty(t, entries(t, state))
		})
	}
}

// The keeper died while main took the array down: there is nothing to put back on it.
func TestRecoverOfAnArrayThatIsHalfDown(t *testing.T) {
	m, a := arrays(t, true)
	state := stateDir(t)
	leave(t, m, a, state, boot)
	for _, e := range entriesOf(t, state) {
		e.PID = os.Getpid()
		require.NoError(t, openJournal(t, state).Save(e))
	}
	takenDown(t, m)
	k := serve(t, m.Host(), openJournal(t, state), Options{Sweep: "s1"})
	_, err := k.Recover(context.Background())
	require.NoError(t, err)
	assert.Equal(t, []string{"array-" + uuid}, entries(t, state))
	require.NoError(t, k.Array(context.Background(), a, false))
}

// A lock that is free does not say that the sweep is dead: its keeper may be, and main about to start another one, which has to
// find the array. Only when main is gone, too, is it taken down.
func TestArrayOfALiveMainWithoutAKeeper(t *testing.T) {
	root := plain(t, "sda", "sdb")
	a := Array{UUID: uuid, Level: "1", Members: []ArrayMember{{Identity: sda.Identity, Name: "sda"}, {Identity: sdb.Identity, Name: "sdb"}}}
	p := start(t, plot{Root: root, State: stateDir(t), Members: []Member{sda, sdb}, Settings: depth("1"), Array: &a})
	require.NoError(t, unix.Kill(p.keeper, unix.SIGKILL))
	gone(t, p.keeper)
	h := sysfs.NewHost(root)
	o := byKey(restore(t, h, p.State, RestoreOptions{Wait: time.Second}))["array-"+uuid] // till the last thread of the keeper is gone
	assert.Equal(t, StateBusy, o.State)
	assert.Equal(t, p.cmd.Process.Pid, o.PID)
	assert.Nil(t, o.Array)

	waiting := make(chan []EntryOutcome)
	k := serve(t, h, openJournal(t, p.State), Options{})
	go func() {
		all, _ := k.RestoreJournal(context.Background(), RestoreOptions{Wait: time.Minute})
		waiting <- all
	}()
	p.say("recover")
	p.line("died true")
	p.line("recovered ")
	p.line("again <nil>")
	require.Contains(t, entries(t, p.State), "array-"+uuid)
	require.NoError(t, p.cmd.Process.Kill())
	o = byKey(<-waiting)["array-"+uuid]
	assert.Equal(t, StateTakeDown, o.State, o.Reason)
	assert.Equal(t, "32", get(t, root, "sys/block/sda/device/queue_depth"))
}

// A damaged entry of an array tells of no array: it is left, and may be dropped.
func TestDamagedArrayEntry(t *testing.T) {
	m, a := arrays(t, true)
	state := stateDir(t)
	leave(t, m, a, state, boot)
	require.NoError(t, os.Truncate(filepath.Join(state, "journal", "array-"+uuid+".json"), 30))
	by := byKey(restore(t, m.Host(), state, RestoreOptions{}))
	assert.Equal(t, StateLeft, by["array-"+uuid].State)
	assert.Nil(t, by["array-"+uuid].Array)
	assert.Contains(t, by["array-"+uuid].Next, "--forget 'array-"+uuid+"'")
	assert.Equal(t, StateRestored, by[string(m.Device("md127").Identity)].State, "the array is there")
	all := restore(t, m.Host(), state, RestoreOptions{Forget: []string{"array-" + uuid}})
	assert.Equal(t, StateForgotten, all[0].State)
}
