package systest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

func TestMachineIsWhatTheProgramSees(t *testing.T) {
	m := systest.New(t,
		systest.Disk{Name: "sda", WriteCache: true},
		systest.Disk{Name: "sdb", Transport: "sas", Model: "SAS DISK"},
		systest.Disk{Name: "sdc", Transport: "usb"},
		systest.Disk{Name: "nvme0n1"},
		systest.Disk{Name: "vda"},
		systest.Disk{Name: "cciss!c0d0"},
	)
	part := m.Partition("nvme0n1", 1, 1<<20, 8<<20)
	assert.Equal(t, "nvme0n1p1", part)
	m.MD("md0", "raid1", "sda", "sdb")
	m.Mount("md0", "/mnt/a b", "ext4")
	m.Swap(part)

	devices, err := m.Host().Devices()
	require.NoError(t, err)
	got := map[string]string{}
	for _, d := range devices {
		got[d.Name] = string(d.Kind) + " " + d.Transport + " " + d.Driver
	}
	assert.Equal(t, map[string]string{
		"sda": "disk ata ahci", "sdb": "disk sas mpt3sas", "sdc": "disk usb usb-storage", "nvme0n1": "disk nvme nvme",
		"vda": "disk virtio virtio_blk", "cciss!c0d0": "disk sas mpt3sas", "md0": "md  ",
	}, got)
	a := m.Device("sda")
	assert.Equal(t, sysfs.Identity("wwid:naa.5000c50000000001"), a.Identity)
	assert.Equal(t, "SN0001", a.Serial)
	assert.Equal(t, "3.0 Gbps", a.LinkSpeed)
	assert.EqualValues(t, 64<<20, a.Bytes)
	assert.Equal(t, "/dev/cciss/c0d0", m.Device("cciss!c0d0").Path)

	s, err := m.Host().ResolveDirectory("/mnt/a b")
	require.NoError(t, err)
	require.Len(t, s.Members, 2)
	s, err = m.Host().Resolve("/dev/disk/by-id/ata-SYSTEST_DRIVE_SN0001")
	require.NoError(t, err)
	assert.Equal(t, "sda", s.Device.Name)
	s, err = m.Host().Resolve("/dev/" + part)
	require.NoError(t, err)
	assert.Equal(t, "nvme0n1", s.Members[0].Name)
}

func TestQueueDepthRules(t *testing.T) {
	type disk = systest.Disk
	for name, c := range map[string]struct {
		kernel systest.Kernel
		disk   disk
		write  string
		errno  error
		reads  string
	}{
		"plain":               {systest.NewKernel, disk{}, "8", nil, "8"},
		"octal":               {systest.NewKernel, disk{}, "010", nil, "8"},
		"trailing text":       {systest.NewKernel, disk{}, "31abc", nil, "31"},
		"zero":                {systest.NewKernel, disk{}, "0", unix.EINVAL, "32"},
		"above the host":      {systest.OldKernel, disk{}, "33", unix.EINVAL, "32"},
		"clamped, old":        {systest.OldKernel, disk{DriveDepth: 31, QueueDepth: 8}, "32", nil, "31"},
		"clamped twice, old":  {systest.OldKernel, disk{DriveDepth: 31}, "32", unix.EINVAL, "31"},
		"above the drive":     {systest.NewKernel, disk{DriveDepth: 31, QueueDepth: 8}, "32", unix.EINVAL, "8"},
		"noncq, old":          {systest.OldKernel, disk{NoNCQ: true}, "4", unix.EINVAL, "1"},
		"noncq, new (case 7)": {systest.NewKernel, disk{NoNCQ: true}, "31", nil, "1"},
		"fixed":               {systest.NewKernel, disk{FixedDepth: true}, "4", unix.EACCES, "32"},
	} {
		t.Run(name, func(t *testing.T) {
			c.disk.Name = "sda"
			m := systest.New(t, c.kernel, c.disk)
			err := m.Host().Write(context.Background(), "/sys/block/sda/device/queue_depth", c.write)
			if c.errno == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.errno)
			}
			assert.Equal(t, c.reads, m.Get("/sys/block/sda/device/queue_depth"))
		})
	}
}

func TestQueueRules(t *testing.T) {
	write := func(m *systest.Machine, name, value string) error {
		return m.Host().Write(context.Background(), "/sys/block/sda/queue/"+name, value)
	}
	t.Run("limits, old", func(t *testing.T) {
		m := systest.New(t, systest.OldKernel, systest.Disk{Name: "sda", MaxHWSectorsKB: 4096, ReadAheadKB: 16})
		assert.ErrorIs(t, write(m, "max_sectors_kb", "0"), unix.EINVAL)
		assert.ErrorIs(t, write(m, "max_sectors_kb", "4097"), unix.EINVAL)
		assert.ErrorIs(t, write(m, "max_sectors_kb", "3"), unix.EINVAL)
		assert.NoError(t, write(m, "max_sectors_kb", "8"))
		assert.Equal(t, "16", m.Get("/sys/block/sda/queue/read_ahead_kb"))
	})
	t.Run("limits, new", func(t *testing.T) {
		m := systest.New(t, systest.Disk{Name: "sda", MaxHWSectorsKB: 4096, ReadAheadKB: 16, HiddenMaxKB: 512})
		assert.NoError(t, write(m, "max_sectors_kb", "5000"))
		assert.Equal(t, "512", m.Get("/sys/block/sda/queue/max_sectors_kb"))
		assert.Equal(t, "128", m.Get("/sys/block/sda/queue/read_ahead_kb"))
		assert.NoError(t, write(m, "max_sectors_kb", "0"))
		assert.Equal(t, "512", m.Get("/sys/block/sda/queue/max_sectors_kb"))
	})
	t.Run("scheduler", func(t *testing.T) {
		m := systest.New(t, systest.Disk{Name: "sda", NrRequests: 24})
		assert.NoError(t, write(m, "iosched/read_expire", "336"))
		assert.NoError(t, write(m, "scheduler", "none"))
		assert.ErrorIs(t, write(m, "iosched/read_expire", "336"), unix.ENOENT)
		assert.NoError(t, write(m, "scheduler", "mq-deadline"))
		assert.Equal(t, "64", m.Get("/sys/block/sda/queue/nr_requests"))
		assert.Equal(t, "500", m.Get("/sys/block/sda/queue/iosched/read_expire"))
		assert.ErrorIs(t, write(m, "scheduler", "cfq"), unix.EINVAL)
	})
}

func TestPullAndPlugAgain(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda", Serial: "X", WWID: "naa.5000000000000001"}, systest.Disk{Name: "sdb"})
	before := m.Device("sda").Identity
	m.Pull("sda")
	_, err := m.Host().Device("sda")
	require.ErrorIs(t, err, sysfs.ErrNoDevice)
	m.Plug(systest.Disk{Name: "sdc", Serial: "X", WWID: "naa.5000000000000001"})
	assert.Equal(t, before, m.Device("sdc").Identity)
}
