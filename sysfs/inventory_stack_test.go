package sysfs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
)

// What is stacked says what it is, and which of its members hold no data.
func TestInventoryOfArraysAndMappings(t *testing.T) {
	m := fourDisks(t)
	m.MD("md0", "raid1", "sda1", "sdb1")
	m.MD("md5", "raid5", "sda2", "sdb2", "sdc2")
	m.DM("dm-0", "vg-lv", "LVM-abc", "md5")
	m.Kick("md5", "sdb2")
	m.Join("md5", "sdd2")
	m.Set("/sys/block/md0/md/uuid", "21514354-7f0c-e045-4c8d-4722426fdbbd\n")
	infos, err := m.Host().Inventory(context.Background())
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, sysfs.WriteInventory(&b, infos, 0, true))
	text := b.String()
	for _, want := range []string{
		`md0 +raid1, clean +uuid 21514354… +\d.* md +2 members +by member +by member +- +--allow shared-disk \(!\d\)\n`,
		`md5 +raid5, clean +uuid \S+ +\d.* md +4 members +by member +by member +dm-0 \(vg-lv\) +no \(!\d\) \(!\d\)\n`,
		`dm-0 +LVM volume vg-lv +- .* dm +4 members +by member +by member +- +--allow shared-disk \(!\d\)\n`,
		`!\d md5: sdb2 faulty, sdd2 spare\n`,
		`\nsdb .* dm-0 \(vg-lv\) md0 md5 \(F\) +no`,
		`\nsdd .* md5 \(S\) +no`,
		`\n  raid5, clean, 64 KiB chunk, 3 members, 1 missing, recover 25 %, sdb2 faulty, sdd2 spare, on sda sdb sdc sdd\n`,
		`stripe_cache_size +now 256 +can be 17-32768\n`,
		`max_sectors_kb +now 1280 +can be - +set on each member\n`,
	} {
		assert.Regexp(t, want, text)
	}
	disk, err := m.Host().Describe(context.Background(), "sdc")
	require.NoError(t, err)
	b.Reset()
	require.NoError(t, sysfs.WriteInventory(&b, []sysfs.Info{disk}, 0, true))
	assert.NotContains(t, b.String(), "stripe_cache_size", "of arrays only")
	assert.Contains(t, disk.Knobs["stripe_cache_size"].Reason, "only an md array of level 4, 5 or 6 has")
}
