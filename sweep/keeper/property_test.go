package keeper

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"qdsweep/sysfs/systest"
)

// Whatever is ordered of whom, in however many steps, and whatever fails: only who was named is touched and recorded, what was made
// reads back, whole orders stop together, and all of it comes back.
func TestOrdersComeBack(t *testing.T) {
	ctx := context.Background()
	m, state := systest.New(t, disk("sda"), disk("sdb"), disk("sdc"), disk("sdd")), stateDir(t)
	m.MD("md0", "raid5", "sda", "sdb", "sdc")
	m.DM("dm-0", "vg-lv", "LVM-x", "md0")
	names := []string{"sda", "sdb", "sdc", "sdd", "md0", "dm-0"}
	k := serve(t, m.Host(), openJournal(t, state), Options{})
	var all []Member
	for _, n := range names {
		all = append(all, memberOf(m, n))
	}
	require.NoError(t, k.Claim(ctx, all, 0))
	originals := contents(t, m.Root())
	levels := map[string][]string{
		"write_cache": {"on", "off"}, "scheduler": {"none", "mq-deadline"}, "nr_requests": {"8", "64"}, "queue_depth": {"1", "4", "32"},
		"max_sectors_kb": {"8", "1280"}, "read_ahead_kb": {"0", "128", "4096"}, "stripe_cache_size": {"17", "1024"}, "nomerges": {"0", "2"},
	}
	knobs := slices.Sorted(maps.Keys(levels))
	rapid.Check(t, func(rt *rapid.T) {
		m.Forget()
		named := map[string]bool{}
		for range rapid.IntRange(1, 3).Draw(rt, "applies") {
			var orders []Order
			for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names), rapid.ID).Draw(rt, "members") {
				var pairs []string
				for _, knob := range rapid.SliceOfNDistinct(rapid.SampledFrom(knobs), 0, 4, rapid.ID).Draw(rt, "knobs of "+n) {
					pairs = append(pairs, knob, rapid.SampledFrom(levels[knob]).Draw(rt, knob))
				}
				orders = append(orders, Order{Member: memberOf(m, n), Set: set(pairs...)})
				named[n] = true
			}
			broken := "/sys/block/" + rapid.SampledFrom(names).Draw(rt, "broken") + "/queue/" + rapid.SampledFrom([]string{"max_sectors_kb", "read_ahead_kb", "none at all"}).Draw(rt, "attribute")
			m.Fail(broken, unix.EIO)
			apply, whole := k.Apply, rapid.Bool().Draw(rt, "whole")
			if whole {
				apply = k.ApplyWhole
			}
			rows, err := apply(ctx, orders)
			m.Fail(broken, 0)
			require.NoError(rt, err)
			wanted, failed := 0, false
			for _, o := range orders {
				wanted += len(o.Set)
			}
			require.Len(rt, rows, wanted)
			for _, r := range rows {
				failed = failed || r.Err != ""
				require.False(rt, r.NotTried && r.Err == "")
				if r.Err == "" {
					require.Equal(rt, r.Level, r.Effective, "%s of %s", r.Knob, r.Name)
				}
			}
			if whole && !failed {
				moved, err := k.Check(ctx)
				require.NoError(rt, err)
				require.Empty(rt, moved)
			}
			require.ElementsMatch(rt, slices.Collect(maps.Keys(named)), namesOf(t, state))
		}
		for _, w := range m.Writes() {
			require.True(rt, named[strings.Split(w.Path, "/")[3]], w.Path)
		}
		restored, err := k.Restore(ctx)
		require.NoError(rt, err)
		require.Len(rt, restored, len(named))
		require.Equal(rt, originals, contents(t, m.Root()))
		require.Empty(rt, namesOf(t, state))
	})
}

func namesOf(t *testing.T, state string) []string {
	t.Helper()
	all := []string{}
	for _, e := range entriesOf(t, state) {
		all = append(all, e.Name)
	}
	return all
}
