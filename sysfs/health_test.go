package sysfs_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// signs is what happened to a drive while f ran.
func signs(t *testing.T, m *systest.Machine, name string, f func()) []sysfs.Sign {
	t.Helper()
	d, ctx := m.Device(name), context.Background()
	l := watch(t, m.Host())
	before := d.Health(ctx)
	f()
	texts, lost := l.Messages()
	require.False(t, lost)
	return m.Host().Signs(d, before, d.Health(ctx), texts)
}

func TestNCQThatWasSwitchedOffIsASign(t *testing.T) { // field case 3, the device's part
	m := systest.New(t, systest.Disk{Name: "sda", QueueDepth: 31}, systest.Disk{Name: "sdb"})
	got := signs(t, m, "sda", func() { m.GiveUpNCQ("sda") })
	assert.Equal(t, []sysfs.Sign{
		{Device: "sda", Kind: sysfs.NCQOff, Text: "ata1.00: NCQ disabled due to excessive errors"},
		{Device: "sda", Kind: sysfs.ErrorHandling, Text: "ata1.00: exception Emask 0x0 SAct 0x1 SErr 0x0 action 0x6 frozen (and 3 more)"},
	}, got)
	assert.Equal(t, "31", m.Get("/sys/block/sda/device/queue_depth"), "which tells nothing")
	assert.Empty(t, signs(t, m, "sdb", func() { m.GiveUpNCQ("sda") }), "another drive's")
}

func TestSignsOfHealthAlone(t *testing.T) { // where the log was lost, or cannot be read
	set := func(path, text string) func(*systest.Machine) {
		return func(m *systest.Machine) { m.Set(path, text) }
	}
	for name, c := range map[string]struct {
		disk    systest.Disk
		happens func(*systest.Machine)
		want    []sysfs.Sign
	}{
		"nothing":             {happens: func(*systest.Machine) {}},
		"errors":              {happens: set("/sys/class/ata_device/dev1.0/ering", "[12.5]timeout\n[1.0]Unknown\n"), want: []sysfs.Sign{{Device: "sda", Kind: sysfs.ErrorHandling, Text: "the drive's error record changed (ering): [12.5]timeout"}}},
		"slowed down":         {happens: set("/sys/class/ata_device/dev1.0/spdn_cnt", "1\n"), want: []sysfs.Sign{{Device: "sda", Kind: sysfs.SlowedDown, Text: "spdn_cnt: 0 → 1"}}},
		"a slower link":       {happens: set("/sys/class/ata_link/link1/sata_spd", "1.5 Gbps\n"), want: []sysfs.Sign{{Device: "sda", Kind: sysfs.SlowedDown, Text: "link speed: 3.0 Gbps → 1.5 Gbps"}}},
		"a faster link":       {happens: set("/sys/class/ata_link/link1/sata_spd", "6.0 Gbps\n")},
		"offline":             {happens: set("/sys/block/sda/device/state", "offline\n"), want: []sysfs.Sign{{Device: "sda", Kind: sysfs.Gone, Text: "device/state: running → offline"}}},
		"pulled":              {happens: func(m *systest.Machine) { m.Pull("sda") }, want: []sysfs.Sign{{Device: "sda", Kind: sysfs.Gone, Text: "device/state is gone"}}},
		"pass-through errors": {happens: set("/sys/block/sda/device/ioerr_cnt", "0x1f\n")},
		"NVMe, resetting":     {disk: systest.Disk{Name: "nvme0n1"}, happens: set("/sys/block/nvme0n1/device/state", "resetting\n"), want: []sysfs.Sign{{Device: "nvme0n1", Kind: sysfs.Gone, Text: "device/state: live → resetting"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.disk.Name == "" {
				c.disk.Name = "sda"
			}
			m := systest.New(t, c.disk)
			d, ctx := m.Device(c.disk.Name), context.Background()
			before := d.Health(ctx)
			c.happens(m)
			assert.Equal(t, c.want, m.Host().Signs(d, before, d.Health(ctx), nil))
		})
	}
}

func TestTheSettingsOfASweepAreNoSign(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda", WriteCache: true})
	got := signs(t, m, "sda", func() {
		apply(t, m.Device("sda"), cacheOff, set("queue_depth", "1"))
		// What libata says then, as seen in the lab.
		m.KernelSays("ata1.00: configured for UDMA/100")
		m.KernelSays("ata1: EH complete")
	})
	assert.Empty(t, got)
}

func TestTemperature(t *testing.T) {
	ctx := context.Background()
	m := systest.New(t, systest.Disk{Name: "sda"}, systest.Disk{Name: "nvme0n1"}, systest.Disk{Name: "sdb"})
	m.Warm("sda", 41)
	m.Warm("nvme0n1", 49.85)
	for name, want := range map[string]float64{"sda": 41, "nvme0n1": 49.85} {
		celsius, ok := m.Device(name).Temperature(ctx)
		assert.True(t, ok, name)
		assert.InDelta(t, want, celsius, 1e-9, name)
	}
	_, ok := m.Device("sdb").Temperature(ctx)
	assert.False(t, ok, "absence is data")
	m.MD("md0", "raid1", "sda", "sdb")
	_, ok = m.Device("md0").Temperature(ctx)
	assert.False(t, ok)

	m.Set("/sys/block/sda/device/hwmon/hwmon0/temp1_input", "nonsense\n")
	_, ok = m.Device("sda").Temperature(ctx)
	assert.False(t, ok)
	m.Warm("sda", -5)
	celsius, ok := m.Device("sda").Temperature(ctx)
	assert.True(t, ok)
	assert.InDelta(t, -5, celsius, 1e-9)
}
