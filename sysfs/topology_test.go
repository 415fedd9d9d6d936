package sysfs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deep is LVM on an array of partitions of three disks, one of which gives two.
func deep(t *testing.T) *tree {
	tr := newTree(t)
	for i, disk := range []string{"sda", "sdb", "sdc"} {
		tr.sata(disk, i+1, 1000)
		tr.partition(disk, disk+"1", 1, 1, 100)
		tr.partition(disk, disk+"2", 2, 101, 100)
	}
	tr.md("md0", "sda1", "sdb1", "sdc1", "sda2")
	tr.dm("dm-0", "vg0-lv0", "LVM-abc", "md0")
	tr.dm("dm-1", "vg0-lv1", "LVM-abd", "md0")
	tr.partition("md0", "md0p1", 1, 1, 10)
	return tr
}

func TestMembersAtAnyDepth(t *testing.T) {
	tr := deep(t)
	for target, want := range map[string][]string{
		"sda":                 {"sda"},
		"sda2":                {"sda"},
		"/dev/md0":            {"sda", "sdb", "sdc"}, // field case 21: two partitions of sda are one member
		"md0p1":               {"sda", "sdb", "sdc"},
		"/dev/mapper/vg0-lv0": {"sda", "sdb", "sdc"},
		"dm-1":                {"sda", "sdb", "sdc"},
	} {
		s, err := tr.host().Resolve(target)
		require.NoError(t, err, target)
		assert.Equal(t, want, names(s.Members), target)
	}
	s, err := tr.host().Resolve("dm-0")
	require.NoError(t, err)
	var layers []string
	for _, l := range s.Layers {
		layers = append(layers, l.Device.Name)
	}
	assert.Equal(t, []string{"dm-0", "md0", "sda1", "sda2", "sdb1", "sdc1"}, layers)
	assert.Equal(t, "LVM volume vg0-lv0", s.Layers[0].Detail)
	assert.Equal(t, "raid5, clean, 64 KiB chunk, 4 members", s.Layers[1].Detail)
	assert.Equal(t, "partition, starts at byte 1048576", s.Layers[2].Detail)
	assert.Equal(t, Identity("wwid:dm-uuid-LVM-abc"), s.Device.Identity)
}

// A member that md has kicked is no longer in slaves/ in some kernels.
func TestFaultyAndSpareMembersAreMembers(t *testing.T) {
	tr := newTree(t)
	for i, disk := range []string{"sda", "sdb", "sdc"} {
		tr.sata(disk, i+1, 1000)
	}
	tr.md("md0", "sda", "sdb")
	dir := tr.devPath["md0"] + "/md/"
	tr.file(dir+"dev-sdb/state", "faulty\n")
	tr.file(dir+"dev-sdc/state", "spare\n")
	tr.link(dir+"dev-sdc/block", tr.devPath["sdc"])
	tr.file(dir+"degraded", "1\n")
	tr.file(dir+"sync_action", "recover\n")
	s, err := tr.host().Resolve("md0")
	require.NoError(t, err)
	assert.Equal(t, []string{"sda", "sdb", "sdc"}, names(s.Members))
	assert.Equal(t, "raid5, clean, 64 KiB chunk, 2 members, 1 missing, recover, sdb faulty, sdc spare", s.Layers[0].Detail)
	array, action := tr.host().Resyncing(s)
	assert.Equal(t, "md0", array)
	assert.Equal(t, "recover", action)
}

func TestArrayIdentity(t *testing.T) {
	tr := newTree(t)
	tr.sata("sda", 1, 100)
	tr.md("md0", "sda")
	tr.byID("md-name-host:0", "md0")
	tr.byID("md-uuid-aaaa:bbbb:cccc:dddd", "md0")
	d, err := tr.host().Device("md0")
	require.NoError(t, err)
	assert.Equal(t, Identity("wwid:md-uuid-aaaa:bbbb:cccc:dddd"), d.Identity)
}

func TestResolveDirectory(t *testing.T) {
	tr := deep(t)
	tr.sata("sdd", 4, 100)
	tr.sata("sde", 5, 100)
	tr.partition("sde", "sde1", 1, 1, 50)
	tr.mount("/mnt/lv", "ext4", "/dev/dm-0", "", "rw,noatime", "rw,stripe=16")
	tr.mount(`/mnt/a\040!b`, "xfs", "/dev/sdd", "")
	tr.mount("/mnt/bt", "btrfs", "/dev/sde1", "0:40")
	tr.link("/sys/fs/btrfs/1111-2222/devices/sde1", tr.devPath["sde1"])
	tr.link("/sys/fs/btrfs/1111-2222/devices/sdc2", tr.devPath["sdc2"])
	tr.dir("/sys/fs/btrfs/features")
	tr.mount("/mnt/nfs", "nfs4", "server:/x", "0:41")
	tr.mount("/tmp", "tmpfs", "tmpfs", "0:42")
	tr.mount("/ov", "overlay", "overlay", "0:43")
	tr.mount("/fuse", "fuse.sshfs", "me@there:", "0:44")
	tr.mount("/ntfs", "fuseblk", "/dev/sdd", "")
	tr.mount("/pool", "zfs", "pool/data", "0:45")

	for _, c := range []struct {
		dir, device string
		members     []string
		noKnobs     string
	}{
		{"/mnt/lv/sub", "dm-0", []string{"sda", "sdb", "sdc"}, ""},
		{"/mnt/a !b", "sdd", []string{"sdd"}, ""},
		{"/mnt/bt/x", "sde1", []string{"sdc", "sde"}, ""},
		{"/mnt/nfs/x", "", nil, "another machine's"},
		{"/tmp", "", nil, "in memory"},
		{"/ov", "", nil, "no block device"},
		{"/fuse", "", nil, "a program decides"},
		{"/ntfs", "", nil, "a program decides"},
		{"/pool/x", "", nil, "does not say which disks"},
		{"/elsewhere", "", nil, "rootfs on /"},
	} {
		s, err := tr.host().ResolveDirectory(c.dir)
		require.NoError(t, err, c.dir)
		assert.Equal(t, c.device, s.Device.Name, c.dir)
		assert.Equal(t, c.members, names(s.Members), c.dir)
		assert.Equal(t, c.dir, s.Directory)
		if c.noKnobs == "" {
			assert.Empty(t, s.NoKnobs)
		} else {
			assert.Contains(t, s.NoKnobs, c.noKnobs)
		}
	}
	s, err := tr.host().ResolveDirectory("/mnt/lv/sub")
	require.NoError(t, err)
	assert.Equal(t, "ext4", s.FileSystem)
	assert.Equal(t, "/mnt/lv", s.MountPoint)
	assert.Equal(t, "rw,noatime,stripe=16", s.MountOptions)
}

func TestResolveDirectoryOfTheMachine(t *testing.T) {
	h := NewHost("/")
	s, err := h.ResolveDirectory("/proc")
	require.NoError(t, err)
	assert.Contains(t, s.NoKnobs, "proc on /proc")
	_, err = h.ResolveDirectory("/proc/version")
	assert.ErrorContains(t, err, "not a directory")
	_, err = h.Resolve("/proc")
	assert.ErrorContains(t, err, "is a directory")
	_, err = h.Resolve("/dev/null")
	assert.ErrorIs(t, err, ErrNoDevice)
}
