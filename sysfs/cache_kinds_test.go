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

func TestWriteCacheOfNVMe(t *testing.T) {
	type disk = systest.Disk
	ask := []string{"nvme0n1: Identify Controller", "nvme0n1: Get Features 06h", "nvme0n1: Get Features 06h, capabilities"}
	change := []string{"nvme0n1: Flush", "nvme0n1: Set Features 06h", "nvme0n1: Flush"}
	for name, c := range map[string]struct {
		disk      disk
		set       sysfs.Setting
		effective string
		drive     bool
		err       string
	}{
		"off":               {disk: disk{WriteCache: true}, set: cacheOff, effective: "off"},
		"off, again":        {disk: disk{}, set: cacheOff, effective: "off"},
		"on":                {disk: disk{}, set: cacheOn, effective: "on", drive: true},
		"it lies (case 11)": {disk: disk{WriteCache: true, CacheForced: true}, set: cacheOff, effective: "on", drive: true},
		"none":              {disk: disk{NoWriteCache: true}, set: cacheOff, err: "no volatile write cache"},
		"fixed":             {disk: disk{FixedCache: true, WriteCache: true}, set: cacheOff, drive: true, err: "feature 06h cannot be changed"},
	} {
		t.Run(name, func(t *testing.T) {
			c.disk.Name = "nvme0n1"
			m := systest.New(t, c.disk)
			d, ctx := m.Device("nvme0n1"), context.Background()
			view := m.Get("/sys/block/nvme0n1/queue/write_cache")
			effective, err := d.Apply(ctx, c.set)
			assert.Equal(t, c.drive, m.DriveCache("nvme0n1"))
			assert.Zero(t, m.Saved("nvme0n1"), "SV is never set")
			assert.Empty(t, m.Writes())
			assert.Equal(t, view, m.Get("/sys/block/nvme0n1/queue/write_cache"), "that is another thing")
			assert.Empty(t, d.CacheDisagreement(ctx))
			if c.err != "" {
				require.ErrorIs(t, err, sysfs.ErrUnsupported)
				assert.ErrorContains(t, err, c.err)
				assert.NotContains(t, m.Commands(), "nvme0n1: Set Features 06h")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.effective, effective, "what the drive says, not what it was told")
			assert.Equal(t, append(append(append([]string{}, ask...), change...), ask...), m.Commands()[:9])
		})
	}
}

// Field case 11. The drive moved by itself, or by somebody, and takes no Set Features seriously: that is said, with what to type,
// and never taken for restored.
func TestNVMeThatIsNotRestored(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "nvme0n1", WriteCache: true, CacheForced: true})
	d, ctx := m.Device("nvme0n1"), context.Background()
	s := take(t, d)
	require.Equal(t, "on", s.WriteCache)
	m.SetDriveCache("nvme0n1", false)
	err := d.Restore(ctx, s)
	var e *sysfs.RestoreError
	require.ErrorAs(t, err, &e)
	assert.Contains(t, err.Error(), "NOT RESTORED on nvme0n1: write_cache is off, was on (by hand: nvme set-feature /dev/nvme0 --feature-id=6 --value=1)")
	assert.Contains(t, err.Error(), "the drive took the command and still says off")
	assert.Equal(t, []string{"nvme set-feature /dev/nvme0 --feature-id=6 --value=1"}, e.ByHand())
}

func TestNVMeThatCannotBeAsked(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "nvme0n1", WriteCache: true})
	d, ctx := m.Device("nvme0n1"), context.Background()
	m.Fail("/dev/nvme0n1", unix.EIO)
	s := take(t, d)
	assert.Empty(t, s.WriteCache)
	assert.Contains(t, s.WriteCacheReason, "input/output error")
	_, err := d.Apply(ctx, cacheOff)
	require.ErrorIs(t, err, unix.EIO)
	assert.NotErrorIs(t, err, sysfs.ErrUnsupported)
	m.Fail("/dev/nvme0n1", 0)
	assert.True(t, m.DriveCache("nvme0n1"))
	m.Fail("/dev/nvme0n1", unix.EACCES)
	_, err = d.Current(ctx, "write_cache")
	assert.ErrorIs(t, err, unix.EACCES)
}

// Feature 06h is the controller's: what one namespace is told the others get, and another path's controller does not.
func TestNVMeCacheThatIsNotTheNamespacesOwn(t *testing.T) {
	ctx := context.Background()
	t.Run("a second namespace", func(t *testing.T) {
		m := systest.New(t, systest.Disk{Name: "nvme0n1", WriteCache: true})
		m.Set(m.Device("nvme0n1").SysDir()+"/device/nvme0n2/dev", "259:77\n")
		a, err := m.Device("nvme0n1").Allowed(ctx, "write_cache")
		require.ErrorIs(t, err, sysfs.ErrUnsupported)
		assert.ErrorContains(t, err, "nvme0n2 on the same controller would be switched with it")
		assert.False(t, a.Writable)
		now, err := m.Device("nvme0n1").Current(ctx, "write_cache")
		require.NoError(t, err)
		assert.Equal(t, "on", now, "it can be asked")
		_, err = m.Device("nvme0n1").Apply(ctx, cacheOff)
		require.ErrorIs(t, err, sysfs.ErrUnsupported)
		assert.True(t, m.DriveCache("nvme0n1"))
	})
	head := func(t *testing.T, controllers ...string) sysfs.Device {
		m := systest.New(t, systest.Disk{Name: "nvme0n1", WriteCache: true})
		const subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0"
		m.Set(subsystem+"/subsysnqn", "nqn.2014-08.org.example\n")
		for i, c := range controllers {
			at := "/sys/devices/pci0000:00/0000:0" + string(rune('3'+i)) + ":00.0/nvme/" + c
			m.Set(at+"/transport", "pcie\n")
			m.Link(subsystem+"/"+c, at)
		}
		m.Link("/sys/block/nvme0n1/device", subsystem)
		return m.Device("nvme0n1")
	}
	t.Run("two controllers", func(t *testing.T) {
		_, err := head(t, "nvme0", "nvme1").Allowed(ctx, "write_cache")
		require.ErrorIs(t, err, sysfs.ErrUnsupported)
		assert.ErrorContains(t, err, "NVMe multipath: nvme0n1 is reached through nvme0 and nvme1")
	})
	t.Run("a multipath node with one controller", func(t *testing.T) {
		a, err := head(t, "nvme3").Allowed(ctx, "write_cache")
		require.NoError(t, err)
		assert.True(t, a.Writable)
	})
}

func TestWriteCacheOfVirtio(t *testing.T) {
	ctx := context.Background()
	m := systest.New(t, systest.Disk{Name: "vda", WriteCache: true}, systest.Disk{Name: "vdb", WriteCache: true, FixedCache: true},
		systest.Disk{Name: "vdc", WriteCache: true, CacheForced: true})
	a := m.Device("vda")
	for _, level := range []string{"off", "off", "on", "off"} {
		effective, err := a.Apply(ctx, set("write_cache", level))
		require.NoError(t, err)
		assert.Equal(t, level, effective)
		assert.Equal(t, level == "on", m.DriveCache("vda"))
		assert.Empty(t, a.CacheDisagreement(ctx))
	}
	assert.Equal(t, []string{"write through", "write through", "write back", "write through"}, m.WritesTo("vda/cache_type"))
	assert.Empty(t, m.Commands(), "it takes none")

	_, err := m.Device("vdb").Apply(ctx, cacheOff)
	require.ErrorIs(t, err, sysfs.ErrUnsupported)
	assert.ErrorContains(t, err, "cache_type is read-only")
	assert.Empty(t, m.WritesTo("vdb/cache_type"))
	now, err := m.Device("vdb").Current(ctx, "write_cache")
	require.NoError(t, err)
	assert.Equal(t, "on", now)

	c := m.Device("vdc")
	s := take(t, c)
	effective, err := c.Apply(ctx, cacheOff)
	require.NoError(t, err)
	assert.Equal(t, "on", effective, "a host that goes on as before")
	m.SetDriveCache("vdc", false)
	assert.ErrorContains(t, c.Restore(ctx, s), "by hand: echo 'write back' > /sys/block/vdc/cache_type)")
}

func TestWriteCacheBehindUSB(t *testing.T) {
	ctx := context.Background()
	for name, disk := range map[string]systest.Disk{"translates ATA": {SAT: true, WriteCache: true}, "has a mode page": {WriteCache: true}} {
		t.Run(name, func(t *testing.T) {
			disk.Name, disk.Transport = "sdx", "usb"
			m := systest.New(t, disk)
			d := m.Device("sdx")
			before := m.Settings("sdx")
			plain := take(t, d)
			assert.Empty(t, m.Commands(), "a bridge is asked only where its cache is to be set")
			assert.Equal(t, "not asked: a USB bridge may not answer for a minute", plain.WriteCacheReason)

			s, err := d.Snapshot(ctx, cacheOff)
			require.NoError(t, err)
			assert.Equal(t, "on", s.WriteCache)
			effective, err := d.Apply(ctx, cacheOff)
			require.NoError(t, err)
			assert.Equal(t, "off", effective)
			assert.False(t, m.DriveCache("sdx"))
			m.Forget()
			require.NoError(t, d.Flush(ctx))
			assert.Equal(t, []string{"sdx: SYNCHRONIZE CACHE(10)"}, m.Commands(), "one that has answered is flushed")
			require.NoError(t, d.Restore(ctx, s))
			assert.Equal(t, before, m.Settings("sdx"))
			assert.Zero(t, m.Saved("sdx"))
		})
	}
	t.Run("answers nothing", func(t *testing.T) {
		m := systest.New(t, systest.Disk{Name: "sdx", Transport: "usb", SilentSG: true, WriteCache: true})
		d := m.Device("sdx")
		s, err := d.Snapshot(ctx, cacheOff)
		require.NoError(t, err)
		assert.Empty(t, s.WriteCache, "unknown, never off")
		_, err = d.Apply(ctx, cacheOff)
		require.ErrorIs(t, err, sysfs.ErrUnsupported)
		assert.True(t, m.DriveCache("sdx"))
		m.Forget()
		_, err = d.Allowed(ctx, "write_cache")
		require.ErrorIs(t, err, sysfs.ErrUnsupported)
		require.NoError(t, d.Flush(ctx))
		assert.Empty(t, m.Commands(), "asked once")
	})
}

func TestDevicesSayWhatTheCacheIs(t *testing.T) {
	ctx := context.Background()
	m := systest.New(t, systest.Disk{Name: "sda", WriteCache: true}, systest.Disk{Name: "sdb", Transport: "sas"},
		systest.Disk{Name: "sdc", Transport: "usb", WriteCache: true}, systest.Disk{Name: "nvme0n1"}, systest.Disk{Name: "vda", FixedCache: true})
	infos, err := m.Host().Inventory(ctx)
	require.NoError(t, err)
	got := map[string]string{}
	for _, i := range infos {
		text, err := json.Marshal(i.Knobs["write_cache"])
		require.NoError(t, err)
		got[i.Name] = string(text)
	}
	assert.Equal(t, map[string]string{
		"sda":     `{"value":"on","allowed":{"levels":["off","on"]},"writable":true,"reason":"","by":"SET FEATURES","kernel":"on"}`,
		"sdb":     `{"value":"off","allowed":{"levels":["off","on"]},"writable":true,"reason":"","by":"MODE SELECT","kernel":"off"}`,
		"sdc":     `{"value":"","allowed":{},"writable":false,"reason":"not asked: a USB bridge may not answer for a minute","kernel":"on"}`,
		"nvme0n1": `{"value":"off","allowed":{"levels":["off","on"]},"writable":true,"reason":"","by":"Set Features 06h","kernel":"there is one"}`,
		"vda":     `{"value":"off","allowed":{},"writable":false,"reason":"the host does not let its cache mode be changed (cache_type is read-only)","by":"cache_type","kernel":"off"}`,
	}, got)
	assert.NotContains(t, m.Commands(), "sdc: IDENTIFY DEVICE")
	info, err := m.Host().Describe(ctx, "sdc")
	require.NoError(t, err)
	assert.Equal(t, "on", info.Knobs["write_cache"].Value, "who names a bridge has it asked")
	assert.Contains(t, m.Commands(), "sdc: IDENTIFY DEVICE")
}
