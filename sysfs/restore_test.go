package sysfs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

func set(knob, level string) sysfs.Setting { return sysfs.Setting{Knob: knob, Level: level} }

func TestRestore(t *testing.T) {
	type disk = systest.Disk
	for name, c := range map[string]struct {
		kernel systest.Kernel
		disk   disk
		before map[string]string // attributes as somebody had set them
		apply  []sysfs.Setting
		writes map[string][]string // by what the restore writes
	}{
		"queue_depth (case 1)":                  {apply: []sysfs.Setting{set("queue_depth", "1")}, writes: map[string][]string{"queue_depth": {"32"}}},
		"queue_depth 1 (case 2)":                {disk: disk{QueueDepth: 1}, apply: []sysfs.Setting{set("queue_depth", "8")}, writes: map[string][]string{"queue_depth": {"1"}}},
		"a depth the kernel no longer gives":    {disk: disk{QueueDepth: 31}, apply: []sysfs.Setting{set("queue_depth", "4")}, writes: map[string][]string{"queue_depth": {"31"}}},
		"max_sectors_kb, the default":           {apply: []sysfs.Setting{set("max_sectors_kb", "8")}, writes: map[string][]string{"max_sectors_kb": {"0"}}},
		"max_sectors_kb, the default, old":      {kernel: systest.OldKernel, apply: []sysfs.Setting{set("max_sectors_kb", "8")}, writes: map[string][]string{"max_sectors_kb": {"0", "1280"}}},
		"max_sectors_kb, the user's (15)":       {disk: disk{MaxSectorsKB: 1280, DefaultMaxSectorsKB: 4096}, apply: []sysfs.Setting{set("max_sectors_kb", "8")}, writes: map[string][]string{"max_sectors_kb": {"0", "1280"}}},
		"max_sectors_kb, the user's, old":       {kernel: systest.OldKernel, disk: disk{MaxSectorsKB: 1280, DefaultMaxSectorsKB: 4096}, apply: []sysfs.Setting{set("max_sectors_kb", "8")}},
		"read_ahead_kb (case 22)":               {disk: disk{ReadAheadKB: 16}, apply: []sysfs.Setting{set("max_sectors_kb", "8")}, writes: map[string][]string{"read_ahead_kb": {"16"}}},
		"scheduler (case 32)":                   {disk: disk{NrRequests: 24}, before: map[string]string{"queue/iosched/read_expire": "336"}, apply: []sysfs.Setting{set("scheduler", "none")}, writes: map[string][]string{"scheduler": {"mq-deadline"}, "nr_requests": {"24"}, "iosched/read_expire": {"336"}}},
		"scheduler with other attributes":       {disk: disk{Schedulers: []string{"none", "mq-deadline", "kyber"}}, apply: []sysfs.Setting{set("scheduler", "kyber")}},
		"write cache on":                        {disk: disk{WriteCache: true}, apply: []sysfs.Setting{cacheOff}},
		"write cache off":                       {apply: []sysfs.Setting{cacheOn}},
		"write cache, SAS":                      {disk: disk{Transport: "sas", WriteCache: true}, apply: []sysfs.Setting{cacheOff}},
		"write cache, old, resets a limit":      {kernel: systest.OldKernel, disk: disk{WriteCache: true, MaxSectorsKB: 512}, apply: []sysfs.Setting{cacheOff}},
		"write cache, old, noticed late":        {kernel: systest.OldKernel, disk: disk{WriteCache: true, MaxSectorsKB: 512, Lag: 20 * time.Millisecond}, apply: []sysfs.Setting{cacheOff, set("max_sectors_kb", "8")}},
		"the kernel's view, set by somebody":    {disk: disk{WriteCache: true}, before: map[string]string{"queue/write_cache": "write through"}, apply: []sysfs.Setting{cacheOff, cacheOn, cacheOff}, writes: map[string][]string{"queue/write_cache": {"write through"}}},
		"a temporary cache_type":                {disk: disk{WriteCache: true, CacheOverride: "write through"}, apply: []sysfs.Setting{cacheOff}},
		"a temporary cache_type, SAS":           {disk: disk{Transport: "sas", CacheOverride: "write back"}, apply: []sysfs.Setting{cacheOn, cacheOff, cacheOn}},
		"many":                                  {disk: disk{WriteCache: true}, apply: []sysfs.Setting{cacheOff, set("scheduler", "none"), set("nr_requests", "8"), set("queue_depth", "2"), set("max_sectors_kb", "16"), set("nomerges", "2"), set("rq_affinity", "2"), set("wbt_lat_usec", "0"), set("add_random", "1"), set("rotational", "0")}},
		"nothing changed: nothing written":      {writes: map[string][]string{}},
		"set to what it was: nothing to do":     {apply: []sysfs.Setting{set("queue_depth", "32")}, writes: map[string][]string{}},
		"NVMe":                                  {disk: disk{Transport: "nvme"}, apply: []sysfs.Setting{set("max_sectors_kb", "8"), set("scheduler", "mq-deadline")}},
		"write cache, NVMe":                     {disk: disk{Transport: "nvme", WriteCache: true}, apply: []sysfs.Setting{cacheOff}},
		"write cache, NVMe, was off":            {disk: disk{Transport: "nvme"}, apply: []sysfs.Setting{cacheOn, cacheOff, cacheOn}},
		"write cache, virtio":                   {disk: disk{Transport: "virtio", WriteCache: true}, apply: []sysfs.Setting{cacheOff}},
		"write cache, virtio, another view":     {disk: disk{Transport: "virtio", WriteCache: true}, before: map[string]string{"queue/write_cache": "write through"}, apply: []sysfs.Setting{cacheOff, cacheOn}},
		"write cache, SATA behind SAS":          {disk: disk{Transport: "sas", SAT: true, WriteCache: true}, apply: []sysfs.Setting{cacheOff}},
		"noncq, new: it cannot be written back": {disk: disk{NoNCQ: true}, apply: []sysfs.Setting{set("queue_depth", "31")}, writes: map[string][]string{}},
	} {
		inNoTime(t, name, func(t *testing.T) {
			c.disk.Name = "sda"
			if name := map[string]string{"nvme": "nvme0n1", "virtio": "vda"}[c.disk.Transport]; name != "" {
				c.disk.Name = name
			}
			m := systest.New(t, c.kernel, c.disk)
			d := m.Device(c.disk.Name)
			for p, v := range c.before {
				m.Set(d.SysDir()+"/"+p, v+"\n")
			}
			before := m.Settings(c.disk.Name)
			s := take(t, d)
			apply(t, d, c.apply...)
			m.Forget()
			require.NoError(t, d.Restore(context.Background(), s))
			assert.Equal(t, before, m.Settings(c.disk.Name))
			assert.Zero(t, m.Saved(c.disk.Name))
			for p, want := range c.writes {
				assert.Equal(t, want, m.WritesTo("/"+p), p)
			}
			if c.writes != nil && len(c.writes) == 0 {
				assert.Empty(t, m.Writes())
				assert.Empty(t, m.Commands())
			}
			m.Forget()
			require.NoError(t, d.Restore(context.Background(), s), "restoring twice")
			assert.Empty(t, m.Writes(), "what is right is not written")
		})
	}
}

func TestRestorePutsAnOverrideBackAsOne(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda", WriteCache: true, CacheOverride: "write through"})
	d := m.Device("sda")
	s := take(t, d)
	assert.True(t, s.CacheOverridden)
	m.Set("/sys/class/scsi_disk/0:0:0:0/cache_type", "write back\n")
	require.NoError(t, d.Restore(context.Background(), s))
	assert.Equal(t, []string{"temporary write through"}, m.WritesTo("cache_type"))
	assert.True(t, m.DriveCache("sda"))
}

func TestRestoreThatFails(t *testing.T) { // field case 18, the device's part
	m := systest.New(t, systest.Disk{Name: "sda", WriteCache: true})
	d := m.Device("sda")
	s := take(t, d)
	apply(t, d, cacheOff, set("queue_depth", "1"), set("max_sectors_kb", "8"))
	m.Fail("/sys/block/sda/device/queue_depth", unix.EIO)
	m.Fail("/dev/sda", unix.ENODEV)
	err := d.Restore(context.Background(), s)
	var failed *sysfs.RestoreError
	require.ErrorAs(t, err, &failed)
	assert.ErrorIs(t, err, unix.EIO)
	assert.ErrorIs(t, err, unix.ENODEV)
	assert.Equal(t, "1280", m.Get("/sys/block/sda/queue/max_sectors_kb"), "everything is tried")
	assert.Contains(t, failed.ByHand(), "echo 32 > /sys/block/sda/device/queue_depth")
	assert.Contains(t, failed.ByHand(), "hdparm -W1 /dev/sda")
	assert.ErrorContains(t, err, "NOT RESTORED on sda: write_cache is off, was on (by hand: hdparm -W1 /dev/sda)")
	assert.ErrorContains(t, err, "queue_depth is 1, was 32")

	m.Fail("/sys/block/sda/device/queue_depth", 0)
	m.Fail("/dev/sda", 0)
	require.NoError(t, d.Restore(context.Background(), s))
}

func TestRestoreOfADriveThatDoesNotObey(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda", Transport: "sas", WriteCache: true, CacheForced: true})
	d := m.Device("sda")
	s := take(t, d)
	m.SetDriveCache("sda", false)
	err := d.Restore(context.Background(), s)
	assert.ErrorContains(t, err, "the drive took the command and still says off")
	assert.ErrorContains(t, err, "sdparm --set=WCE=1 /dev/sda")
}

func TestRestoreWhereAWriteNeverReturns(t *testing.T) { // field case 16, the device's part
	inNoTime(t, "stuck", func(t *testing.T) {
		m := systest.New(t, systest.Disk{Name: "sda", WriteCache: true})
		d := m.Device("sda")
		s := take(t, d)
		apply(t, d, cacheOff, set("nr_requests", "8"), set("queue_depth", "1"), set("max_sectors_kb", "8"))
		m.Hang("/sys/block/sda/queue/nr_requests")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := d.Restore(ctx, s)
		require.ErrorIs(t, err, sysfs.ErrStuck)
		assert.True(t, m.DriveCache("sda"))
		assert.Equal(t, "32", m.Get("/sys/block/sda/device/queue_depth"), "does not wait behind queue/")
		assert.ErrorContains(t, err, "echo 64 > /sys/block/sda/queue/nr_requests")
		assert.Len(t, m.WritesTo("nr_requests"), 2, "the sweep's and one more: a queue that is stuck is not tried again")
	})
}

func TestRestoreRefusesAnotherDrive(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb"})
	s := take(t, m.Device("sda"))
	assert.ErrorContains(t, m.Device("sdb").Restore(context.Background(), s), "naa.5000c50000000001")
}

func knobNames() (names []string) {
	for _, k := range sysfs.Knobs() {
		names = append(names, k.Name)
	}
	return names
}

// inNoTime is a subtest in which waiting takes no time: for a view of the kernel that never follows the drive, say.
func inNoTime(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestRestoreReturnsTheWholeSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alike := struct{ *testing.T }{t} // rapid asks a *testing.T for its deadline, and there is none in here
		rapid.Check(alike, func(rt *rapid.T) { restoreReturnsTheWholeSnapshot(t, rt) })
	})
}

func restoreReturnsTheWholeSnapshot(t *testing.T, rt *rapid.T) {
	pick := func(name string, from ...int) int { return rapid.SampledFrom(from).Draw(rt, name) }
	disk := systest.Disk{
		Name: "sda", Transport: rapid.SampledFrom([]string{"ata", "sas"}).Draw(rt, "transport"),
		WriteCache: rapid.Bool().Draw(rt, "write cache"), NoWriteCache: rapid.Bool().Draw(rt, "no write cache"),
		QueueDepth: pick("queue_depth", 1, 2, 31, 32), DriveDepth: pick("drive depth", 31, 32),
		MaxSectorsKB: pick("max_sectors_kb", 64, 512, 1280), DefaultMaxSectorsKB: pick("default", 512, 1280, 4096), MaxHWSectorsKB: pick("hardware", 4096, 32767), HiddenMaxKB: pick("hidden", 0, 1280),
		ReadAheadKB: pick("read_ahead_kb", 0, 16, 128, 4096), NrRequests: pick("nr_requests", 4, 24, 32, 64),
		Schedulers: []string{"none", "mq-deadline", "kyber", "bfq"},
		Scheduler:  rapid.SampledFrom([]string{"none", "mq-deadline", "kyber", "bfq"}).Draw(rt, "scheduler"),
	}
	// An override that agrees with the drive cannot be told from none, and costs the whole wait.
	if rapid.Bool().Draw(rt, "override") {
		disk.CacheOverride = map[bool]string{true: "write through", false: "write back"}[disk.WriteCache]
	}
	disk.QueueDepth = min(disk.QueueDepth, disk.DriveDepth)
	kernel := rapid.SampledFrom([]systest.Kernel{systest.OldKernel, systest.NewKernel}).Draw(rt, "kernel")
	m := systest.New(t, kernel, disk)
	d, ctx := m.Device("sda"), context.Background()
	before := m.Settings("sda")
	s, err := d.Snapshot(ctx)
	require.NoError(rt, err)
	for range rapid.IntRange(0, 12).Draw(rt, "settings") {
		k, _ := sysfs.LookupKnob(rapid.SampledFrom(knobNames()).Draw(rt, "knob"))
		a, err := d.Allowed(ctx, k.Name)
		if err != nil {
			require.ErrorIs(rt, err, sysfs.ErrUnsupported)
			continue
		}
		level := ""
		if a.Levels != nil {
			level = rapid.SampledFrom(a.Levels).Draw(rt, "level")
		} else {
			level = rapid.StringMatching(`[1-9][0-9]{0,4}`).Draw(rt, "level")
		}
		if _, err := d.Apply(ctx, sysfs.Setting{Knob: k.Name, Level: level}); err != nil && a.Has(level) && k.Name != "nr_requests" && k.Name != "queue_depth" {
			rt.Fatalf("%s=%s is allowed (%s), and fails: %v", k.Name, level, a, err)
		}
	}
	require.NoError(rt, d.Restore(ctx, s))
	require.Equal(rt, before, m.Settings("sda"))
	moved, err := d.Differences(ctx, s)
	require.NoError(rt, err)
	require.Empty(rt, moved)
	require.Zero(rt, m.Saved("sda"))
}
