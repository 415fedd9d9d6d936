package sysfs_test

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

var update = flag.Bool("update", false, "write the golden files anew; look at them before you commit them")

// One of each kind of drive, and of each trouble with a write cache: a disagreement, an override, none, fixed, unknown.
func TestDevicesWithEveryKindOfCache(t *testing.T) {
	m := systest.New(t,
		systest.Disk{Name: "sda", WriteCache: true}, systest.Disk{Name: "sdb", WriteCache: true},
		systest.Disk{Name: "sdc"}, systest.Disk{Name: "sdd", Transport: "sas", WriteCache: true, CacheOverride: "write through"},
		systest.Disk{Name: "sde", Transport: "sas", WriteCache: true, FixedCache: true}, systest.Disk{Name: "sdf", NoWriteCache: true},
		systest.Disk{Name: "sdg", Transport: "sas", SilentSG: true}, systest.Disk{Name: "sdh", Transport: "usb", WriteCache: true},
		systest.Disk{Name: "nvme0n1", WriteCache: true}, systest.Disk{Name: "nvme9n1"}, systest.Disk{Name: "vda", WriteCache: true},
		systest.Disk{Name: "vdb", FixedCache: true})
	m.Set("/sys/block/sdc/queue/write_cache", "write back\n")
	ctx := context.Background()
	infos, err := m.Host(sysfs.WithEUID(0)).Inventory(ctx)
	require.NoError(t, err)
	for _, width := range []string{"120", "80"} {
		t.Run(width, func(t *testing.T) {
			columns := map[string]int{"120": 120, "80": 80}[width]
			var b strings.Builder
			require.NoError(t, sysfs.WriteInventory(&b, infos, columns, false))
			for line := range strings.Lines(b.String()) {
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), columns, line)
			}
			golden(t, "devices-"+width+".txt", b.String())
		})
	}
	t.Run("verbose", func(t *testing.T) {
		info, err := m.Host(sysfs.WithEUID(0)).Describe(ctx, "sdh")
		require.NoError(t, err)
		var b strings.Builder
		require.NoError(t, sysfs.WriteInventory(&b, append(infos[:0:0], info, infos[2]), 120, true))
		assert.Contains(t, b.String(), "write_cache")
		golden(t, "devices-verbose.txt", b.String())
	})
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	at := "testdata/" + name
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(at, []byte(got), 0o644))
	}
	want, err := os.ReadFile(at)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}
