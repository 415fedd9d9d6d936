package keeper

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

func memberOf(m *systest.Machine, name string) Member {
	return Member{Name: name, Identity: m.Device(name).Identity}
}

func set(pairs ...string) []sysfs.Setting {
	var all []sysfs.Setting
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, sysfs.Setting{Knob: pairs[i], Level: pairs[i+1]})
	}
	return all
}

// Each member gets its own settings. One with none is recorded all the same, and put back when it moved; one that no order
// names is neither recorded nor put back.
func TestOrdersAreMemberByMember(t *testing.T) {
	ctx := context.Background()
	m, k, state := machine(t, Options{}, disk("sda"), disk("sdb"), disk("sdc"), disk("sdd"))
	a, b, c := memberOf(m, "sda"), memberOf(m, "sdb"), memberOf(m, "sdc")
	rows, err := k.Apply(ctx, []Order{
		{Member: c, Set: nil},
		{Member: a, Set: set("max_sectors_kb", "8", "queue_depth", "4")},
		{Member: b, Set: set("read_ahead_kb", "64")},
	})
	require.NoError(t, err)
	assert.Equal(t, []Applied{
		{Member: a.Identity, Name: "sda", Setting: set("queue_depth", "4")[0], Effective: "4"},
		{Member: a.Identity, Name: "sda", Setting: set("max_sectors_kb", "8")[0], Effective: "8"},
		{Member: b.Identity, Name: "sdb", Setting: set("read_ahead_kb", "64")[0], Effective: "64"},
	}, rows)
	assert.ElementsMatch(t, []string{string(a.Identity), string(b.Identity), string(c.Identity)}, entries(t, state))
	for _, e := range entriesOf(t, state) {
		assert.Equal(t, map[string]int{"sda": 2, "sdb": 1, "sdc": 0}[e.Name], len(e.Settings), e.Name)
	}

	m.Set("/sys/block/sdc/queue/nr_requests", "8\n")
	m.Set("/sys/block/sdd/queue/nr_requests", "8\n")
	all, err := k.Restore(ctx)
	require.NoError(t, err)
	assert.Len(t, all, 3)
	assert.Equal(t, "64", m.Get("/sys/block/sdc/queue/nr_requests"))
	assert.Equal(t, "8", m.Get("/sys/block/sdd/queue/nr_requests"), "somebody else's")
	assert.Equal(t, "128", m.Get("/sys/block/sdb/queue/read_ahead_kb"))
	assert.Empty(t, entries(t, state))
}

func entriesOf(t *testing.T, state string) []Entry {
	t.Helper()
	all, err := openJournal(t, state).Entries()
	require.NoError(t, err)
	return all
}

// Whole: knob by knob over all that are to have it. One that could not be set stops what comes after it everywhere, also on
// members that were never to have it.
func TestWholeOrdersGoKnobByKnob(t *testing.T) {
	ctx := context.Background()
	m, k, _ := machine(t, Options{}, disk("sda"), disk("sdb"), disk("sdc"))
	m.Fail("/sys/block/sdb/queue/max_sectors_kb", unix.EIO)
	rows, err := k.ApplyWhole(ctx, []Order{
		{Member: memberOf(m, "sda"), Set: set("max_sectors_kb", "8", "queue_depth", "4", "read_ahead_kb", "64")},
		{Member: memberOf(m, "sdb"), Set: set("max_sectors_kb", "8")},
		{Member: memberOf(m, "sdc"), Set: set("read_ahead_kb", "64", "nr_requests", "16")},
	})
	require.NoError(t, err)
	untried := map[string]bool{}
	for _, r := range rows {
		untried[r.Name+" "+r.Knob] = r.NotTried
	}
	assert.Equal(t, map[string]bool{
		"sda queue_depth": false, "sda max_sectors_kb": false, "sda read_ahead_kb": true, "sdb max_sectors_kb": false,
		"sdc nr_requests": false, "sdc read_ahead_kb": true,
	}, untried)
	assert.Empty(t, m.WritesTo("queue/read_ahead_kb"))
	_, err = k.Restore(ctx)
	require.NoError(t, err)
}

func TestOrdersThatAreRefused(t *testing.T) {
	ctx := context.Background()
	m, state := systest.New(t, disk("sda"), disk("sdb")), stateDir(t)
	k := serve(t, m.Host(), openJournal(t, state), Options{})
	a, b := memberOf(m, "sda"), memberOf(m, "sdb")
	require.NoError(t, k.Claim(ctx, []Member{a}, 0))
	for want, orders := range map[string][]Order{
		"no member is named":                         nil,
		"sdb (" + string(b.Identity) + ") is not cl": {{Member: a, Set: depth("1")}, {Member: b, Set: depth("1")}},
		"sda (" + string(a.Identity) + ") is named ": {{Member: a, Set: depth("1")}, {Member: a}},
		`no knob "queue_deep"`:                       {{Member: a, Set: set("queue_deep", "1")}},
	} {
		_, err := k.Apply(ctx, orders)
		require.ErrorContains(t, err, want)
	}
	assert.Empty(t, m.Writes())
	assert.Empty(t, entries(t, state))
}

// Claims come and go within a sweep, each by name; what is not restored is not let go of.
func TestClaimsComeAndGo(t *testing.T) {
	ctx := context.Background()
	m, state := systest.New(t, disk("sda"), disk("sdb")), stateDir(t)
	m.MD("md0", "raid1", "sda", "sdb")
	a, b, md := memberOf(m, "sda"), memberOf(m, "sdb"), memberOf(m, "md0")
	k := serve(t, m.Host(), openJournal(t, state), Options{})
	require.NoError(t, k.Claim(ctx, []Member{a, b}, 0))
	_, err := k.Apply(ctx, []Order{{Member: a, Set: depth("1")}})
	require.NoError(t, err)
	require.NoError(t, k.Claim(ctx, []Member{md}, 0), "while another one is changed")
	_, err = k.Apply(ctx, []Order{{Member: md, Set: set("read_ahead_kb", "4096")}})
	require.NoError(t, err)
	require.ErrorContains(t, k.Release(ctx, md), "md0 is not restored")

	// As another program sees it: held, and then not.
	free := func(name string) bool {
		other := serve(t, m.Host(), openJournal(t, state), Options{})
		err := other.Claim(ctx, []Member{memberOf(m, name)}, 0)
		require.NoError(t, other.Close())
		var busy *BusyError
		require.True(t, err == nil || errors.As(err, &busy), "%v", err)
		return err == nil
	}
	assert.False(t, free("md0"))
	_, err = k.Restore(ctx)
	require.NoError(t, err)
	assert.Equal(t, "512", m.Get("/sys/block/md0/queue/read_ahead_kb"))
	require.NoError(t, k.Release(ctx, md))
	assert.True(t, free("md0"))
	assert.False(t, free("sda"))
	require.NoError(t, k.Release(ctx, md), "again")
	_, err = k.Apply(ctx, []Order{{Member: md}})
	require.ErrorContains(t, err, "not claimed")
	require.NoError(t, k.Release(ctx))
	assert.True(t, free("sda"))
}

// The members that are named, and no command to an array: it has no cache of its own.
func TestFlushByName(t *testing.T) {
	ctx := context.Background()
	m, state := systest.New(t, disk("sda"), disk("sdb")), stateDir(t)
	m.MD("md0", "raid1", "sda", "sdb")
	k := serve(t, m.Host(), openJournal(t, state), Options{})
	require.NoError(t, k.Claim(ctx, []Member{memberOf(m, "sda"), memberOf(m, "sdb"), memberOf(m, "md0")}, 0))
	m.Forget()
	require.NoError(t, k.Flush(ctx, memberOf(m, "sdb"), memberOf(m, "md0")))
	assert.Len(t, m.Commands(), 1)
	assert.Contains(t, m.Commands()[0], "sdb: FLUSH")
	require.NoError(t, k.Flush(ctx))
	assert.Len(t, m.Commands(), 3)
}

// A USB bridge is asked about its cache only where the cache is to be set: the question makes some of them hang.
func TestUSBBridgeIsNotAskedForNothing(t *testing.T) {
	ctx := context.Background()
	m, k, _ := machine(t, Options{}, systest.Disk{Name: "sda", Transport: "usb", SAT: true, WriteCache: true})
	m.Forget()
	k.apply(t, set("max_sectors_kb", "64"))
	_, err := k.Restore(ctx)
	require.NoError(t, err)
	assert.Empty(t, m.Commands())
	rows := k.apply(t, set("write_cache", "off"))
	assert.Equal(t, "off", rows[0].Effective, rows[0].Err)
	_, err = k.Restore(ctx)
	require.NoError(t, err)
	assert.True(t, m.DriveCache("sda"))
}
