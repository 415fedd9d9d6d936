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

// stacked is a machine with an array and a keeper that holds it and all disks below.
func stacked(t *testing.T, o Options, level string, disks ...systest.Disk) (m *systest.Machine, k *keeper, state string, stack sysfs.Stack) {
	t.Helper()
	var parts []systest.Part
	for _, d := range disks {
		parts = append(parts, d)
	}
	m, state = systest.New(t, parts...), stateDir(t)
	var under []string
	for _, d := range disks {
		under = append(under, m.Partition(d.Name, 1, 1<<20, 8<<20))
	}
	m.MD("md0", level, under...)
	stack, err := m.Host().Resolve("/dev/md0")
	require.NoError(t, err)
	k = serve(t, m.Host(), openJournal(t, state), o)
	require.NoError(t, k.Claim(context.Background(), append(membersOfStack(stack), memberOf(m, "md0")), 0))
	return m, k, state, stack
}

func membersOfStack(s sysfs.Stack) []Member {
	var all []Member
	for _, d := range s.Members {
		all = append(all, Member{Name: d.Name, Identity: d.Identity})
	}
	return all
}

// Field case 5, the restoring half: the array lost a member in the run. Both disks go back, and the array's own settings.
func TestCase05DegradedInTheRun(t *testing.T) {
	ctx := context.Background()
	m, k, state, stack := stacked(t, Options{}, "raid1", disk("sda"), disk("sdb"))
	before := []map[string]string{m.Settings("sda"), m.Settings("sdb")}
	orders := append(orders(membersOfStack(stack), set("queue_depth", "1", "write_cache", "off")),
		Order{Member: memberOf(m, "md0"), Set: set("read_ahead_kb", "4096")})
	_, err := k.ApplyWhole(ctx, orders)
	require.NoError(t, err)
	m.Kick("md0", "sdb1")
	moved, err := k.Check(ctx)
	require.NoError(t, err)
	assert.Empty(t, moved, "a member that is faulty keeps its settings")
	all, err := k.Restore(ctx)
	require.NoError(t, err)
	assert.Len(t, all, 3)
	assert.Equal(t, before, []map[string]string{m.Settings("sda"), m.Settings("sdb")})
	assert.Equal(t, "512", m.Get("/sys/block/md0/queue/read_ahead_kb"))
	assert.Equal(t, "1", m.Get("/sys/block/md0/md/degraded"), "the array is left as it is")
	assert.Empty(t, entries(t, state))
}

// Field case 16 with an array: its own setting never goes back, those of its disks do, and the other way round.
func TestCase16AnArrayThatHangs(t *testing.T) {
	for _, hangs := range []string{"/sys/block/md0/queue/read_ahead_kb", "/sys/block/sdb/queue/read_ahead_kb"} {
		t.Run(hangs, func(t *testing.T) {
			t.Parallel()
			m, k, state, stack := stacked(t, Options{WriteTimeout: 2 * time.Second, RestoreTimeout: 3 * time.Second}, "raid1", disk("sda"), disk("sdb"))
			before := m.Settings("sda")
			_, err := k.Apply(context.Background(), orders(append(membersOfStack(stack), memberOf(m, "md0")), set("read_ahead_kb", "64")))
			require.NoError(t, err)
			m.Hang(hangs)
			var not *NotRestoredError
			require.ErrorAs(t, k.mainDies(t), &not)
			require.Len(t, not.Members, 1)
			assert.Contains(t, hangs, not.Members[0].Name)
			assert.Equal(t, []string{"echo " + map[bool]string{true: "512", false: "128"}[not.Members[0].Name == "md0"] + " > " + hangs}, not.Members[0].ByHand)
			assert.Equal(t, before, m.Settings("sda"))
			assert.Len(t, entries(t, state), 1)
		})
	}
}

// Field case 18 with an array: its setting does not go back, so it stays recorded, and the next sweep does not take what it has
// for an original.
func TestCase18AnArrayThatIsNotRestored(t *testing.T) {
	ctx := context.Background()
	m, k, state, stack := stacked(t, Options{}, "raid1", disk("sda"), disk("sdb"))
	md := memberOf(m, "md0")
	_, err := k.Apply(ctx, append(orders(membersOfStack(stack), nil), Order{Member: md, Set: set("read_ahead_kb", "64")}))
	require.NoError(t, err)
	m.Fail("/sys/block/md0/queue/read_ahead_kb", unix.EIO)
	var not *NotRestoredError
	require.ErrorAs(t, k.Close(), &not)
	require.ErrorAs(t, <-k.served, &not)
	assert.Equal(t, []string{string(md.Identity)}, entries(t, state))
	next := serve(t, m.Host(), openJournal(t, state), Options{})
	var left *UnrestoredError
	require.ErrorAs(t, next.Claim(ctx, []Member{md}, 0), &left)
	require.NoError(t, next.Claim(ctx, membersOfStack(stack), 0), "its disks are as they were")
	m.Fail("/sys/block/md0/queue/read_ahead_kb", 0)
	all, err := next.RestoreJournal(ctx, RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, StateRestored, all[0].State)
	assert.Equal(t, "512", m.Get("/sys/block/md0/queue/read_ahead_kb"))
}

// Field case 21: two partitions of one disk are members of one array. One snapshot of it, one write, one restore.
func TestCase21TwoPartitionsOfOneDisk(t *testing.T) {
	ctx := context.Background()
	m, state := systest.New(t, disk("sda"), disk("sdb")), stateDir(t)
	m.MD("md0", "raid5", m.Partition("sda", 1, 1<<20, 8<<20), m.Partition("sda", 2, 16<<20, 8<<20), m.Partition("sdb", 1, 1<<20, 8<<20))
	stack, err := m.Host().Resolve("/dev/md0")
	require.NoError(t, err)
	k := serve(t, m.Host(), openJournal(t, state), Options{})
	require.NoError(t, k.Claim(ctx, membersOfStack(stack), 0))
	rows := k.apply(t, depth("1"))
	require.Len(t, rows, 2)
	assert.Equal(t, []string{string(m.Device("sda").Identity), string(m.Device("sdb").Identity)}, entries(t, state))
	all, err := k.Restore(ctx)
	require.NoError(t, err)
	assert.Len(t, all, 2)
	assert.Equal(t, []string{"1", "32"}, writesTo(m, "/sys/block/sda/device/queue_depth"))
}

func writesTo(m *systest.Machine, path string) []string {
	var all []string
	for _, w := range m.Writes() {
		if w.Path == path {
			all = append(all, w.Value)
		}
	}
	return all
}

// Field case 23: QUEUE_FULL tracking lowers the depth in the run. What was set is what is compared with, and the original is what
// comes back; where the depth is no axis, too.
func TestCase23QueueFull(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct {
		set   []sysfs.Setting
		moved []string
	}{
		"an axis":  {depth("128"), []string{"sda: queue_depth moved: 128 → 97"}},
		"a lower":  {depth("100"), []string{"sda: queue_depth moved: 100 → 97"}},
		"no axis":  {set("max_sectors_kb", "8"), nil},
		"no knobs": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, k, state := machine(t, Options{}, systest.Disk{Name: "sda", Transport: "sas", CanQueue: 256, DriveDepth: 256, QueueDepth: 128})
			k.apply(t, tt.set)
			m.Set("/sys/block/sda/device/queue_depth", "97\n")
			moved, err := k.Check(ctx)
			require.NoError(t, err)
			var words []string
			for _, mv := range moved {
				words = append(words, mv.String())
			}
			assert.Equal(t, tt.moved, words)
			_, err = k.Restore(ctx)
			require.NoError(t, err)
			assert.Equal(t, "128", m.Get("/sys/block/sda/device/queue_depth"))
			assert.Empty(t, entries(t, state))
		})
	}
}

// Field case 36: the drive died in the sweep, and for good. Its entry blocks nobody else, and the message says how to drop it.
func TestCase36TheDriveDied(t *testing.T) {
	ctx := context.Background()
	m, k, state := machine(t, Options{}, disk("sda"), disk("sdb"))
	id := string(m.Device("sda").Identity)
	k.apply(t, set("queue_depth", "1", "write_cache", "off"))
	m.Pull("sda")
	var not *NotRestoredError
	require.ErrorAs(t, k.Close(), &not)
	require.Len(t, not.Members, 1)
	assert.Equal(t, id, not.Members[0].Key())
	require.Error(t, <-k.served)

	// The next sweep of the other drive, whole, while the entry is there.
	next := serve(t, m.Host(), openJournal(t, state), Options{})
	require.NoError(t, next.Claim(ctx, members(t, m), 0))
	require.Len(t, next.apply(t, depth("4")), 1)
	_, err := next.Restore(ctx)
	require.NoError(t, err)
	require.NoError(t, next.Close())
	require.NoError(t, <-next.served)

	all := restore(t, m.Host(), state, RestoreOptions{})
	require.Len(t, all, 1)
	assert.Equal(t, StateGone, all[0].State)
	assert.Contains(t, all[0].Next, "qdsweep restore --forget '"+id+"'")
	all = restore(t, m.Host(), state, RestoreOptions{Forget: []string{id}})
	assert.Equal(t, StateForgotten, all[0].State)
	assert.Empty(t, entries(t, state))
	assert.Empty(t, restore(t, m.Host(), state, RestoreOptions{}))
}

// The knobs of an array beside those of its disks: each on what carries it, all of it back.
func TestKnobsOfAnArray(t *testing.T) {
	ctx := context.Background()
	m, k, state, stack := stacked(t, Options{}, "raid5", disk("sda"), disk("sdb"), disk("sdc"))
	own := func() []string {
		return []string{m.Get("/sys/block/md0/md/stripe_cache_size"), m.Get("/sys/block/md0/md/group_thread_cnt"), m.Get("/sys/block/md0/queue/read_ahead_kb")}
	}
	before, was := []map[string]string{m.Settings("sda"), m.Settings("sdb"), m.Settings("sdc")}, own()
	rows, err := k.ApplyWhole(ctx, append(orders(membersOfStack(stack), set("queue_depth", "4", "max_sectors_kb", "8")),
		Order{Member: memberOf(m, "md0"), Set: set("group_thread_count", "2", "stripe_cache_size", "1024", "read_ahead_kb", "64")}))
	require.NoError(t, err)
	require.Len(t, rows, 3*2+3)
	for _, r := range rows {
		assert.Empty(t, r.Err)
		assert.Equal(t, r.Level, r.Effective, "%s of %s", r.Knob, r.Name)
	}
	assert.Equal(t, []string{"1024", "2", "64"}, own())
	m.Set("/sys/block/md0/md/stripe_cache_size", "512\n")
	moved, err := k.Check(ctx)
	require.NoError(t, err)
	require.Len(t, moved, 1)
	assert.Equal(t, "md0: stripe_cache_size moved: 1024 → 512", moved[0].String())
	_, err = k.Restore(ctx)
	require.NoError(t, err)
	assert.Equal(t, was, own())
	assert.Equal(t, before, []map[string]string{m.Settings("sda"), m.Settings("sdb"), m.Settings("sdc")})
	assert.Empty(t, entries(t, state))
	for _, w := range m.Writes() {
		assert.NotContains(t, w.Path, "sync_action")
		assert.NotContains(t, w.Path, "array_state")
	}
}
