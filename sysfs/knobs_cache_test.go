package sysfs_test

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

var (
	cacheOff = sysfs.Setting{Knob: "write_cache", Level: "off"}
	cacheOn  = sysfs.Setting{Knob: "write_cache", Level: "on"}
)

func TestWriteCache(t *testing.T) {
	type disk = systest.Disk
	ata := []string{"sda: FLUSH CACHE EXT", "sda: SET FEATURES 82h", "sda: FLUSH CACHE EXT", "sda: IDENTIFY DEVICE"}
	for name, c := range map[string]struct {
		disk      disk
		set       sysfs.Setting
		effective string
		drive     bool
		commands  []string
		err       string
	}{
		"ATA off":                     {disk: disk{WriteCache: true}, set: cacheOff, effective: "off", commands: ata},
		"ATA off, again: the same":    {disk: disk{}, set: cacheOff, effective: "off", commands: ata},
		"ATA on":                      {disk: disk{}, set: cacheOn, effective: "on", drive: true, commands: []string{"sda: FLUSH CACHE EXT", "sda: SET FEATURES 02h", "sda: FLUSH CACHE EXT", "sda: IDENTIFY DEVICE"}},
		"ATA, the kernel takes time":  {disk: disk{WriteCache: true, Lag: 30 * time.Millisecond}, set: cacheOff, effective: "off"},
		"ATA, forced by SCT":          {disk: disk{WriteCache: true, CacheForced: true}, set: cacheOff, effective: "on", drive: true},
		"SAS off":                     {disk: disk{Transport: "sas", WriteCache: true}, set: cacheOff, effective: "off"},
		"SATA behind a SAS adapter":   {disk: disk{Transport: "sas", SAT: true, WriteCache: true}, set: cacheOff, effective: "off"},
		"SAS, WCE cannot be changed":  {disk: disk{Transport: "sas", FixedCache: true, WriteCache: true}, set: cacheOff, drive: true, err: "WCE cannot be changed"},
		"SAS on":                      {disk: disk{Transport: "sas"}, set: cacheOn, effective: "on", drive: true},
		"SAS that lies":               {disk: disk{Transport: "sas", CacheForced: true, WriteCache: true}, set: cacheOff, effective: "on", drive: true},
		"RAID adapter (case 10)":      {disk: disk{Transport: "sas", RefuseModeSelect: true, WriteCache: true}, set: cacheOff, drive: true, err: "the adapter or drive refuses"},
		"RAID adapter, its own value": {disk: disk{Transport: "sas", RefuseModeSelect: true, WriteCache: true}, set: cacheOn, drive: true, err: "the adapter or drive refuses"},
		"no cache":                    {disk: disk{NoWriteCache: true}, set: cacheOff, err: "word 82"},
		"answers nothing":             {disk: disk{Transport: "sas", SilentSG: true, WriteCache: true}, set: cacheOff, drive: true, err: "no ATA status"},
	} {
		t.Run(name, func(t *testing.T) {
			c.disk.Name = "sda"
			m := systest.New(t, c.disk)
			d := m.Device("sda")
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			effective, err := d.Apply(ctx, c.set)
			assert.Equal(t, c.drive, m.DriveCache("sda"))
			assert.Zero(t, m.Saved("sda"), "SP is never set")
			assert.Empty(t, m.WritesTo("cache_type"))
			if c.err != "" {
				require.ErrorIs(t, err, sysfs.ErrUnsupported)
				assert.ErrorContains(t, err, c.err)
				assert.Empty(t, m.Writes(), "said before anything else is touched")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.effective, effective)
			assert.Empty(t, d.CacheDisagreement(ctx), "the kernel has noticed")
			if c.commands != nil {
				assert.Equal(t, c.commands, m.Commands())
			}
		})
	}
}

func TestWriteCacheOfASASDisk(t *testing.T) { // field case 12
	m := systest.New(t, systest.Disk{Name: "sda", Transport: "sas", WriteCache: true})
	d, ctx := m.Device("sda"), context.Background()
	now, err := d.Current(ctx, "write_cache")
	require.NoError(t, err)
	assert.Equal(t, "on", now)
	assert.Equal(t, []string{"sda: IDENTIFY DEVICE", "sda: MODE SENSE(10)", "sda: MODE SENSE(10)"}, m.Commands())
	_, err = d.Apply(ctx, cacheOff)
	require.NoError(t, err)
	assert.Equal(t, []string{"1"}, m.WritesTo("device/rescan"), "nobody else tells sd")
	assert.Equal(t, "write through", m.Get("/sys/class/scsi_disk/0:0:0:0/cache_type"))
}

// A caching page with PS set can be saved, and a MODE SELECT with SP = 1 would outlive the sweep, the keeper and the next power cut.
func TestSavedValuesAreNotTouched(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda", Transport: "sas", WriteCache: true})
	d, ctx := m.Device("sda"), context.Background()
	s := take(t, d)
	for _, level := range []sysfs.Setting{cacheOff, cacheOn, cacheOff} {
		_, err := d.Apply(ctx, level)
		require.NoError(t, err)
		assert.True(t, m.SavedCache("sda"))
	}
	require.NoError(t, d.Restore(ctx, s))
	assert.True(t, m.SavedCache("sda"))
	assert.Zero(t, m.Saved("sda"))
	require.NoError(t, m.Host().Write(ctx, "/sys/class/scsi_disk/0:0:0:0/cache_type", "write through"))
	assert.False(t, m.SavedCache("sda"), "what is not done here: sd saves where it can")
}

func TestCacheDisagreement(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb", WriteCache: true, CacheOverride: "write through"}, systest.Disk{Name: "nvme0n1"})
	ctx := context.Background()
	a := m.Device("sda")
	assert.Empty(t, a.CacheDisagreement(ctx))
	m.Set("/sys/block/sda/queue/write_cache", "write back\n")
	m.Set("/sys/block/nvme0n1/queue/write_cache", "write back\n") // the drive's is off: that is no disagreement
	assert.Equal(t, "the drive says off, the kernel believes on (queue/write_cache: write back)", a.CacheDisagreement(ctx))
	assert.Equal(t, "the drive says on, the kernel believes off (cache_type: write through; queue/write_cache: write through)", m.Device("sdb").CacheDisagreement(ctx))
	assert.Empty(t, m.Device("nvme0n1").CacheDisagreement(ctx))
}

func TestFlush(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb", Transport: "sas"}, systest.Disk{Name: "nvme0n1"}, systest.Disk{Name: "sdc", Transport: "usb"})
	ctx := context.Background()
	for _, name := range []string{"sda", "sdb", "nvme0n1", "sdc"} {
		require.NoError(t, m.Device(name).Flush(ctx))
	}
	assert.Equal(t, []string{"sda: FLUSH CACHE EXT", "sdb: SYNCHRONIZE CACHE(10)", "nvme0n1: Flush"}, m.Commands(), "nobody has asked the USB bridge anything")

	m.Fail("/dev/sda", unix.EIO)
	assert.ErrorIs(t, m.Device("sda").Flush(ctx), unix.EIO)
	m.Hang("/dev/sdb")
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, m.Device("sdb").Flush(short), sysfs.ErrStuck)
}

func TestFailedCommandsAreNotUnsupported(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"})
	m.Fail("/dev/sda", unix.EIO)
	_, err := m.Device("sda").Apply(context.Background(), cacheOff)
	require.ErrorIs(t, err, unix.EIO)
	assert.NotErrorIs(t, err, sysfs.ErrUnsupported)
}
