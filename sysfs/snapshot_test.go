package sysfs_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

func take(t *testing.T, d sysfs.Device) sysfs.Snapshot {
	t.Helper()
	s, err := d.Snapshot(context.Background())
	require.NoError(t, err)
	return s
}

func apply(t *testing.T, d sysfs.Device, set ...sysfs.Setting) {
	t.Helper()
	for _, s := range set {
		_, err := d.Apply(context.Background(), s)
		require.NoError(t, err)
	}
}

func TestSnapshotIsWhatASweepCouldChange(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda", WriteCache: true})
	s := take(t, m.Device("sda"))
	got := map[string]string{}
	var order []string
	for _, a := range s.Attributes {
		got[a.Path] = a.Value
		order = append(order, a.Path)
	}
	for p, want := range map[string]string{
		"queue/scheduler": "mq-deadline", "queue/nr_requests": "64", "queue/max_sectors_kb": "1280", "queue/read_ahead_kb": "128",
		"queue/iosched/read_expire": "500", "queue/wbt_lat_usec": "75000", "queue/write_cache": "write back", "queue/iostats": "1",
		"device/queue_depth": "32", "device/queue_ramp_up_period": "120000",
	} {
		assert.Equal(t, want, got[p], p)
	}
	for _, p := range []string{"device/rescan", "device/delete", "device/state", "queue/max_hw_sectors_kb", "queue/zoned", "queue/fua"} {
		assert.NotContains(t, got, p)
	}
	assert.Equal(t, []string{"queue/scheduler", "queue/nr_requests", "device/queue_depth", "queue/max_sectors_kb", "queue/read_ahead_kb"}, order[:5])
	assert.Equal(t, "queue/write_cache", order[len(order)-1])
	assert.Equal(t, "on", s.WriteCache)
	assert.Equal(t, "write back", s.CacheType)
	assert.False(t, s.CacheOverridden)
	assert.Equal(t, "11111111-2222-3333-4444-555555555555", s.BootID)
	assert.Empty(t, m.Writes())

	text, err := json.Marshal(s)
	require.NoError(t, err)
	var back sysfs.Snapshot
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, s, back)
}

func TestSnapshotLeavesOutWhatCannotBeRead(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "nvme0n1", NoWriteCache: true}, systest.Disk{Name: "sda", Transport: "sas", SilentSG: true})
	s := take(t, m.Device("nvme0n1"))
	assert.Empty(t, s.WriteCache)
	assert.Contains(t, s.WriteCacheReason, "no volatile write cache")
	s = take(t, m.Device("sda"))
	assert.Empty(t, s.WriteCache, "an answer of zeros is unknown, never off")
	assert.NotEmpty(t, s.WriteCacheReason)

	m.Fail("/dev/sda", unix.EACCES)
	assert.Contains(t, take(t, m.Device("sda")).WriteCacheReason, "permission denied")
}

func TestDifferences(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sdc"})
	d := m.Device("sdc")
	s := take(t, d)
	moved, err := d.Differences(context.Background(), s)
	require.NoError(t, err)
	assert.Empty(t, moved)

	m.SetDriveCache("sdc", true)
	apply(t, d, sysfs.Setting{Knob: "queue_depth", Level: "4"}, sysfs.Setting{Knob: "scheduler", Level: "none"})
	moved, err = d.Differences(context.Background(), s)
	require.NoError(t, err)
	var texts []string
	for _, x := range moved {
		texts = append(texts, x.String())
	}
	assert.Contains(t, texts, "sdc: write_cache moved: off → on")
	assert.Contains(t, texts, "sdc: queue_depth moved: 32 → 4")
	assert.Contains(t, texts, "sdc: scheduler moved: mq-deadline → none")
	assert.Contains(t, texts, "sdc: nr_requests moved: 64 → 32")
	assert.Contains(t, texts, "sdc: queue/iosched/read_expire moved: 500 → gone")
	assert.Contains(t, texts, "sdc: cache_type moved: write through → write back")
}

func TestSurvivingAReboot(t *testing.T) { // what field case 35 needs
	m := systest.New(t, systest.Disk{Name: "sda", WriteCache: true})
	d := m.Device("sda")
	s := take(t, d)
	apply(t, d, cacheOff, sysfs.Setting{Knob: "queue_depth", Level: "4"})
	require.NoError(t, d.Restore(context.Background(), s.Surviving()))
	assert.True(t, m.DriveCache("sda"))
	assert.Equal(t, "4", m.Get("/sys/block/sda/device/queue_depth"), "the next kernel's, not ours to overwrite")
}

func TestMoreSchedulersAreNoDifference(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"})
	d := m.Device("sda")
	s := take(t, d)
	m.Set("/sys/block/sda/queue/scheduler", "none [mq-deadline] kyber bfq\n")
	moved, err := d.Differences(context.Background(), s)
	require.NoError(t, err)
	assert.Empty(t, moved)
}
