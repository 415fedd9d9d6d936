package sysfs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNaturalOrder(t *testing.T) {
	want := []string{"loop0", "loop10", "md0", "nvme0n1", "nvme0n2", "nvme10n1", "sda", "sda1", "sda2", "sda10", "sdb", "sdz", "sdaa", "sdab"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, natural)
	assert.Equal(t, want, got)
}

// Field case 9: names say nothing of what is a partition and of which disk.
func TestWholeDiskOfAnyName(t *testing.T) {
	tr := newTree(t)
	tr.sata("sda", 1, 100)
	tr.partition("sda", "sda1", 1, 1, 10)
	tr.partition("sda", "sda10", 10, 20, 10)
	tr.block("nvme0n1", "pci0000:00/0000:01:00.0/nvme/nvme0", 100)
	tr.link(tr.devPath["nvme0n1"]+"/device", "/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0")
	tr.partition("nvme0n1", "nvme0n1p1", 1, 1, 10)
	tr.block("mmcblk0", "platform/sdhci/mmc_host/mmc0/mmc0:0001/block", 100)
	tr.link(tr.devPath["mmcblk0"]+"/device", "/sys/devices/platform/sdhci/mmc_host/mmc0/mmc0:0001")
	tr.partition("mmcblk0", "mmcblk0p2", 2, 1, 10)
	tr.block("loop0", "virtual/block", 10)
	tr.block("cciss!c0d0", "pci0000:00/0000:02:00.0/cciss0/c0d0/block", 100)
	tr.link(tr.devPath["cciss!c0d0"]+"/device", "/sys/devices/pci0000:00/0000:02:00.0/cciss0/c0d0")

	for _, c := range []struct{ target, name, whole, node string }{
		{"/dev/nvme0n1", "nvme0n1", "nvme0n1", "/dev/nvme0n1"},
		{"/dev/nvme0n1p1", "nvme0n1p1", "nvme0n1", "/dev/nvme0n1p1"},
		{"/dev/mmcblk0p2", "mmcblk0p2", "mmcblk0", "/dev/mmcblk0p2"},
		{"/dev/sda10", "sda10", "sda", "/dev/sda10"},
		{"sda10", "sda10", "sda", "/dev/sda10"},
		{"/dev/loop0", "loop0", "loop0", "/dev/loop0"},
		{"/dev/cciss/c0d0", "cciss!c0d0", "cciss!c0d0", "/dev/cciss/c0d0"},
		{"cciss/c0d0", "cciss!c0d0", "cciss!c0d0", "/dev/cciss/c0d0"},
	} {
		t.Run(c.target, func(t *testing.T) {
			s, err := tr.host().Resolve(c.target)
			require.NoError(t, err)
			assert.Equal(t, c.name, s.Device.Name)
			assert.Equal(t, c.node, s.Device.Path)
			assert.Equal(t, []string{c.whole}, names(s.Members))
		})
	}
	s, err := tr.host().Resolve("sda10")
	require.NoError(t, err)
	assert.EqualValues(t, 20<<20, s.Offset)
	assert.EqualValues(t, 10<<20, s.Bytes)
	assert.Equal(t, Identity("wwid:naa.5000c50000000001-part10"), s.Device.Identity)

	_, err = tr.host().Resolve("/dev/sdq")
	assert.ErrorIs(t, err, ErrNoDevice)
	_, err = tr.host().Resolve("../sda")
	assert.ErrorIs(t, err, ErrNoDevice)
}

func TestDevicesLeavesOutHiddenPaths(t *testing.T) {
	tr := newTree(t)
	tr.sata("sdb", 2, 10)
	tr.sata("sda", 1, 10)
	tr.partition("sda", "sda1", 1, 1, 2)
	tr.block("nvme0c0n1", "pci0000:00/0000:01:00.0/nvme/nvme0", 10)
	tr.file(tr.devPath["nvme0c0n1"]+"/hidden", "1\n")
	all, err := tr.host().Devices()
	require.NoError(t, err)
	assert.Equal(t, []string{"sda", "sdb"}, names(all))
}

func TestATreeWithoutLinks(t *testing.T) {
	tr := newTree(t)
	tr.file("/sys/block/sda/dev", "8:0\n")
	tr.file("/sys/block/sda/size", "2048\n")
	tr.file("/sys/block/sda/device/wwid", "naa.5\n")
	tr.file("/sys/block/sda/sda3/dev", "8:3\n")
	tr.file("/sys/block/sda/sda3/partition", "3\n")
	s, err := tr.host().Resolve("/dev/sda3")
	require.NoError(t, err)
	assert.Equal(t, KindPartition, s.Device.Kind)
	assert.Equal(t, "/sys/block/sda/sda3", s.Device.SysDir())
	assert.Equal(t, []string{"sda"}, names(s.Members))
	d, err := tr.host().byNumber(8, 3)
	require.NoError(t, err)
	assert.Equal(t, "sda3", d.Name)
}

func TestAttachment(t *testing.T) {
	tr := newTree(t)
	tr.sata("sda", 3, 10)
	usb := "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host9/target9:0:0/9:0:0:0"
	tr.block("sdb", usb+"/block", 10)
	tr.link(tr.devPath["sdb"]+"/device", "/sys/devices/"+usb)
	tr.dir("/sys/bus/usb/drivers/uas")
	tr.link("/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/driver", "/sys/bus/usb/drivers/uas")
	tr.file("/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/speed", "5000\n")
	sas := "pci0000:00/0000:03:00.0/host0/port-0:1/end_device-0:1/target0:0:1/0:0:1:0"
	tr.block("sdc", sas+"/block", 10)
	tr.link(tr.devPath["sdc"]+"/device", "/sys/devices/"+sas)
	tr.file("/sys/class/scsi_host/host0/proc_name", "mpt3sas\n")
	tr.file("/sys/devices/pci0000:00/0000:03:00.0/host0/port-0:1/phy-0:1/sas_phy/phy-0:1/negotiated_linkrate", "12.0 Gbit\n")
	tr.block("nvme0n1", "pci0000:00/0000:01:00.0/nvme/nvme0", 10)
	tr.link(tr.devPath["nvme0n1"]+"/device", "/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0")
	tr.file("/sys/devices/pci0000:00/0000:01:00.0/current_link_speed", "8.0 GT/s PCIe\n")
	tr.file("/sys/devices/pci0000:00/0000:01:00.0/current_link_width", "4\n")
	tr.block("vda", "pci0000:00/0000:00:05.0/virtio2/block", 10)
	tr.link(tr.devPath["vda"]+"/device", "/sys/devices/pci0000:00/0000:00:05.0/virtio2")
	tr.dir("/sys/bus/virtio/drivers/virtio_blk")
	tr.link("/sys/devices/pci0000:00/0000:00:05.0/virtio2/driver", "/sys/bus/virtio/drivers/virtio_blk")
	debug := "pseudo_0/adapter0/host7/target7:0:0/7:0:0:0"
	tr.block("sdd", debug+"/block", 10)
	tr.link(tr.devPath["sdd"]+"/device", "/sys/devices/"+debug)
	pmp := "pci0000:00/0000:00:1f.2/ata5/host4/target4:2:0/4:2:0:0"
	tr.block("sde", pmp+"/block", 10)
	tr.link(tr.devPath["sde"]+"/device", "/sys/devices/"+pmp)
	tr.file("/sys/class/ata_link/link5.2/sata_spd", "1.5 Gbps\n")
	tr.dir("/sys/class/ata_device/dev5.2.0")

	for _, c := range []struct{ name, transport, driver, controller, link string }{
		{"sda", "ata", "ahci", "0000:00:1f.2 8086:2922", "3.0 Gbps"},
		{"sdb", "usb", "uas", "0000:00:14.0", "5000 Mbit/s"},
		{"sdc", "sas", "mpt3sas", "0000:03:00.0", "12.0 Gbit"},
		{"nvme0n1", "nvme", "nvme", "0000:01:00.0", "8.0 GT/s PCIe x4"},
		{"vda", "virtio", "virtio_blk", "0000:00:05.0", ""},
		{"sdd", "scsi", "", "", ""},
		{"sde", "ata", "ahci", "0000:00:1f.2 8086:2922", "1.5 Gbps"},
	} {
		d, err := tr.host().Device(c.name)
		require.NoError(t, err)
		assert.Equal(t, c, struct{ name, transport, driver, controller, link string }{d.Name, d.Transport, d.Driver, d.Controller, d.LinkSpeed})
		assert.Equal(t, c.transport == "ata", d.Libata())
		assert.Equal(t, KindDisk, d.Kind)
	}
	d, err := tr.host().Device("sde")
	require.NoError(t, err)
	assert.Equal(t, "/sys/class/ata_device/dev5.2.0", d.ataDevice())
}

func TestFileNameIsSafeAndInjective(t *testing.T) {
	seen := map[string]Identity{}
	for _, i := range []Identity{"wwid:naa.5000c5", "wwid%3Anaa.5000c5", "serial:a/b:c", "serial:a:b/c", "serial:../../x:", "wwid:t10.ATA  X", ".", "..", "%2E"} {
		name := i.FileName()
		assert.NotContains(t, name, "/")
		assert.False(t, strings.HasPrefix(name, "."), name)
		other, twice := seen[name]
		assert.False(t, twice, fmt.Sprintf("%q and %q are both %q", i, other, name))
		seen[name] = i
	}
	assert.Equal(t, "wwid%3Anaa.5000c500abcd", Identity("wwid:naa.5000c500abcd").FileName())
	long := Identity("wwid:nvme." + strings.Repeat("4 ", 150)).FileName()
	assert.LessOrEqual(t, len(long), 200)
	assert.NotEqual(t, long, Identity("wwid:nvme."+strings.Repeat("4 ", 151)).FileName())
}
