package md

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

const errBusy = unix.EBUSY

func disks(n int) []sysfs.Device {
	var all []sysfs.Device
	for i := range n {
		name := "sd" + string(rune('a'+i))
		all = append(all, sysfs.Device{Name: name, Path: "/dev/" + name, Kind: sysfs.KindDisk})
	}
	return all
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		want string // "" right
	}{
		{"none", Spec{Level: "none", Members: disks(1)}, ""},
		{"none of none", Spec{Level: "none"}, "level none needs at least 1 members and has 0"},
		{"0", Spec{Level: "0", Members: disks(2), ChunkKB: 4}, ""},
		{"1", Spec{Level: "1", Members: disks(2), Bitmap: "internal"}, ""},
		{"4", Spec{Level: "4", Members: disks(2), ChunkKB: 512}, ""},
		{"5", Spec{Level: "5", Members: disks(2), Layout: "left-symmetric"}, ""},
		{"6", Spec{Level: "6", Members: disks(4), Layout: "ddf-zero-restart", Bitmap: "none"}, ""},
		{"10", Spec{Level: "10", Members: disks(2), Layout: "f2"}, ""},
		{"10 of 5", Spec{Level: "10", Members: disks(5), Layout: "n3"}, ""},
		{"no such level", Spec{Level: "7", Members: disks(4)}, `there is no RAID level "7": none, 0, 1, 4, 5, 6, 10 are possible`},
		{"raid5", Spec{Level: "raid5", Members: disks(4)}, "there is no RAID level"},
		{"5 of 1", Spec{Level: "5", Members: disks(1)}, "RAID level 5 needs at least 2 members and has 1"},
		{"6 of 3", Spec{Level: "6", Members: disks(3)}, "RAID level 6 needs at least 4 members and has 3"},
		{"twice", Spec{Level: "1", Members: append(disks(1), disks(1)...)}, "sda is a member twice"},
		{"of an array", Spec{Level: "1", Members: append(disks(1), sysfs.Device{Name: "md0", Kind: sysfs.KindMD})}, "members are disks or partitions"},
		{"chunk", Spec{Level: "5", Members: disks(3), ChunkKB: 2}, "chunk_kb 2 is not possible: it is a power of two, 4 or more"},
		{"chunk", Spec{Level: "5", Members: disks(3), ChunkKB: 96}, "chunk_kb 96 is not possible"},
		{"chunk", Spec{Level: "5", Members: disks(3), ChunkKB: -4}, "chunk_kb -4 is not possible"},
		{"chunk of 1", Spec{Level: "1", Members: disks(2), ChunkKB: 64}, "RAID level 1 has no chunks: chunk_kb is for levels 0, 4, 5, 6 and 10"},
		{"layout of 0", Spec{Level: "0", Members: disks(2), Layout: "n2"}, "layouts are for levels 5, 6 and 10"},
		{"layout of 5", Spec{Level: "5", Members: disks(3), Layout: "ddf-zero-restart"}, `RAID level 5 has no layout "ddf-zero-restart": left-symmetric,`},
		{"layout of 10", Spec{Level: "10", Members: disks(3), Layout: "n4"}, "layout n4 keeps 4 copies, and there are 3 members"},
		{"layout of 10", Spec{Level: "10", Members: disks(3), Layout: "n1"}, "n2, f2, o2"},
		{"bitmap of 0", Spec{Level: "0", Members: disks(2), Bitmap: "internal"}, "RAID level 0 has no bitmap: bitmap internal is for levels 1, 4, 5, 6 and 10"},
		{"bitmap", Spec{Level: "1", Members: disks(2), Bitmap: "/tmp/x"}, "none and internal are possible"},
		{"ext4", Spec{Level: "1", Members: disks(2), Filesystem: "ext4", MountPoint: "/x/y", MkfsOptions: []string{"-b", "4096", "-E", "stride=16"}}, ""},
		{"btrfs", Spec{Level: "1", Members: disks(2), Filesystem: "btrfs", MountPoint: "/x"}, `no filesystem "btrfs" can be made: ext4, xfs are possible`},
		{"mount point", Spec{Level: "1", Members: disks(2), Filesystem: "ext4", MountPoint: "x"}, "is not an absolute path"},
		{"mount point", Spec{Level: "1", Members: disks(2), Filesystem: "ext4", MountPoint: "/"}, "is not an absolute path"},
		{"options of nothing", Spec{Level: "1", Members: disks(2), MkfsOptions: []string{"-b"}}, "need a filesystem"},
		{"mount option", Spec{Level: "1", Members: disks(2), Filesystem: "ext4", MountPoint: "/x", MountOptions: []string{"ro"}}, `"ro" is not possible`},
		{"UUID", Spec{UUID: "x", Level: "1", Members: disks(2)}, "is no UUID of an array"},
		{"UUID", Spec{UUID: "00000000-0000-0000-0000-000000000000", Level: "1", Members: disks(2)}, "is no UUID of an array"},
		{"UUID", Spec{UUID: strings.ToUpper(ourUUID), Level: "1", Members: disks(2)}, "is no UUID of an array"},
	} {
		if c.spec.UUID == "" {
			c.spec.UUID = ourUUID
		}
		err := c.spec.Check()
		if c.want == "" {
			assert.NoError(t, err, c.name)
		} else {
			assert.ErrorContains(t, err, c.want, c.name)
		}
	}
	err := Spec{UUID: ourUUID, Level: "1", Members: disks(1), ChunkKB: 3, Bitmap: "x"}.Check()
	for _, want := range []string{"members", "chunk", "bitmap"} {
		assert.ErrorContains(t, err, want, "all at once")
	}
}

func TestLevelsAndLayouts(t *testing.T) {
	assert.Equal(t, []string{"none", "0", "1", "4", "5", "6", "10"}, Levels())
	for level, want := range map[string]int{"none": 1, "0": 2, "1": 2, "4": 2, "5": 2, "6": 4, "10": 2, "7": 0} {
		assert.Equal(t, want, MinMembers(level), level)
	}
	assert.True(t, HasChunk("10"))
	assert.False(t, HasChunk("1"))
	assert.False(t, HasChunk("none"))
	assert.True(t, HasBitmap("1"))
	assert.False(t, HasBitmap("0"))
	for layout, want := range map[string][]string{
		"left-symmetric": {"5", "6"}, "parity-last": {"5", "6"}, "ddf-N-continue": {"6"}, "left-symmetric-6": {"6"},
		"n2": {"10"}, "f3": {"10"}, "o2": {"10"}, "n02": nil, "n": nil, "n201": nil, "x2": nil, "": nil, "near": nil,
	} {
		assert.Equal(t, want, LayoutLevels(layout), layout)
	}
	for _, c := range []struct {
		level, layout string
		want          int // as md/layout showed it
	}{{"5", "left-symmetric", 2}, {"5", "parity-first", 4}, {"6", "left-symmetric-6", 18}, {"6", "ddf-zero-restart", 8}, {"10", "n2", 258}, {"10", "f2", 513}, {"10", "o2", 66049}} {
		n, ok := layoutNumber(c.level, c.layout)
		assert.True(t, ok)
		assert.Equal(t, c.want, n, c.layout)
	}
}

func TestMkfsArguments(t *testing.T) {
	for _, c := range []struct {
		fs, options, want string // want "" for refused
	}{
		{"ext4", "", "-q -F -U UUID -E lazy_itable_init=0,lazy_journal_init=0,nodiscard /dev/md1"},
		{"ext4", "-b 4096 -E stride=16,stripe-width=32 -j", "-q -F -U UUID -E lazy_itable_init=0,lazy_journal_init=0,nodiscard,stride=16,stripe-width=32 -b 4096 -j /dev/md1"},
		{"ext4", "-m0 -O ^has_journal", "-q -F -U UUID -E lazy_itable_init=0,lazy_journal_init=0,nodiscard -m 0 -O ^has_journal /dev/md1"},
		{"xfs", "", "-q -f -K -m uuid=UUID /dev/md1"},
		{"xfs", "-m crc=0 -d su=64k,sw=3", "-q -f -K -m uuid=UUID -m crc=0 -d su=64k,sw=3 /dev/md1"},
		{"ext4", "/dev/sda", ""}, // would be formatted instead
		{"ext4", "-b 4096 /dev/sda", ""},
		{"ext4", "-b /dev/sda", ""},
		{"ext4", "-J device=UUID=1", ""},
		{"ext4", "-O journal_dev", ""},
		{"ext4", "-E lazy_itable_init=1", ""},
		{"ext4", "-E stride=1,offset=4096", ""},
		{"ext4", "-U random", ""},
		{"ext4", "-n", ""},
		{"ext4", "-FF", ""},
		{"ext4", "-b", ""},
		{"ext4", "-b -q", ""},
		{"ext4", "-", ""},
		{"ext4", "--help", ""},
		{"ext4", "-d /etc", ""},
		{"xfs", "-m uuid=1", ""},
		{"xfs", "-l logdev=/dev/sda", ""},
		{"xfs", "-d name=x", ""},
		{"xfs", "-r rtdev=x", ""},
		{"xfs", "-N", ""},
		{"xfs", "-p proto", ""},
	} {
		f, ok := lookupFilesystem(c.fs)
		require.True(t, ok)
		args, err := f.arguments("UUID", []string{c.options}, "/dev/md1")
		if c.want == "" {
			assert.ErrorContains(t, err, "mkfs_options", "%s %s", c.fs, c.options)
			continue
		}
		require.NoError(t, err, c.options)
		assert.Equal(t, c.want, strings.Join(args, " "))
	}
}

func TestMountFlags(t *testing.T) {
	flags, data, err := mountFlags([]string{"noatime,data=writeback", "rw", " barrier=0 "})
	require.NoError(t, err)
	assert.EqualValues(t, unix.MS_NOATIME, flags)
	assert.Equal(t, "data=writeback,barrier=0", data)
	for _, o := range []string{"ro", "bind", "remount", "logdev=/dev/sda", "journal_path=/dev/sda", "loop"} {
		_, _, err := mountFlags([]string{o})
		assert.ErrorContains(t, err, "mount_options", o)
	}
}

func TestUUIDs(t *testing.T) {
	a, b := NewUUID(), NewUUID()
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, a)
	assert.NotEqual(t, a, b)
	assert.NoError(t, Spec{UUID: a, Level: "1", Members: disks(2)}.Check())
	assert.True(t, sameUUID(a, mdadmUUID(a)))
	assert.True(t, sameUUID(a, strings.ToUpper(a)))
	for _, c := range [][2]string{{"", ""}, {a, b}, {a, ""}, {"00000000:00000000:00000000:00000000", "00000000-0000-0000-0000-000000000000"}, {"x", "x"}, {a[:35], a[:35]}} {
		assert.False(t, sameUUID(c[0], c[1]), "%q", c)
	}
	assert.LessOrEqual(t, len("any:"+arrayName(a)), 32, "what a superblock has room for")
}

func TestMissing(t *testing.T) {
	specs := []Spec{{Level: "5", Filesystem: "ext4"}, {Level: "0", Filesystem: "xfs"}, {Level: "none", Filesystem: "ext4"}, {Level: "none"}}
	nothing := func(name string) (string, error) { return "", assert.AnError }
	assert.Equal(t, []string{"mdadm (apt install mdadm)", "mkfs.ext4 (apt install e2fsprogs)", "wipefs (apt install util-linux)", "mkfs.xfs (apt install xfsprogs)"}, missing(specs, nothing))
	assert.Equal(t, []string{"mkfs.ext4 (apt install e2fsprogs)", "wipefs (apt install util-linux)"}, missing(specs[2:3], nothing))
	assert.Empty(t, missing(specs[3:], nothing))
	assert.Empty(t, missing(specs, func(name string) (string, error) { return "/sbin/" + name, nil }))
	_, err := findProgram("no-such-program-anywhere")
	assert.ErrorContains(t, err, "no-such-program-anywhere is not installed")
}
