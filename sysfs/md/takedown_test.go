package md

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// standing is a machine on which an array was built.
func standing(t *testing.T, level string) (*fake, Spec, string) {
	f := newFake(t)
	before := f.state()
	s := f.spec(level, "sda", "sdb", "sdc")
	_, err := f.build(context.Background(), s, nil)
	require.NoError(t, err)
	f.changes, f.calls = nil, nil
	return f, s, before
}

func down(t *testing.T, f *fake, s Spec) ([]string, error) {
	t.Helper()
	return f.takeDown(context.Background(), s.Record())
}

func TestTakeDownFindsTheArrayByItsUUID(t *testing.T) {
	t.Run("under another name", func(t *testing.T) {
		f, s, before := standing(t, "5")
		f.sys.Unmount(point)
		f.gone("md126")
		f.assembled("md127", "raid5", ourUUID, "sda", "sdb", "sdc")
		f.assembled("md126", "raid1", "11111111-2222-4333-8444-555555555555", "sdd") // and its name is another's
		_, err := down(t, f, s)
		require.NoError(t, err)
		assert.Contains(t, f.changes, "stop md127 of "+ourUUID)
		assert.Equal(t, strings.Replace(before, "[md0 ", "[md0 md126 ", 1), f.state())
	})
	t.Run("on a kernel without md/uuid", func(t *testing.T) {
		f, s, before := standing(t, "5")
		require.NoError(t, os.Remove(f.path("/sys/block/md126/md/uuid")))
		require.NoError(t, os.Remove(f.path("/sys/block/md0/md/uuid")))
		f.contents["md126"] = f.contents["array "+ourUUID]
		_, err := down(t, f, s)
		require.NoError(t, err)
		f.sys.Set("/sys/block/md0/md/uuid", otherUUID+"\n")
		assert.Equal(t, before, f.state())
		assert.NotContains(t, strings.Join(f.calls, "\n"), "/dev/md0", "what has none of our members is not asked")
	})
	t.Run("not running, with one member", func(t *testing.T) {
		f, s, before := standing(t, "5")
		f.sys.Unmount(point)
		f.gone("md126")
		f.assembled("md127", "raid5", "00000000-0000-0000-0000-000000000000", "sda")
		f.sys.Set("/sys/block/md127/md/array_state", "inactive\n")
		f.sys.Set("/sys/block/md127/size", "0\n")
		_, err := down(t, f, s)
		require.NoError(t, err)
		assert.Equal(t, before, f.state())
	})
	t.Run("that udev assembles again meanwhile", func(t *testing.T) {
		f, s, before := standing(t, "5")
		f.patience = time.Minute
		times := 0
		f.beforeCall = func(call string) {
			if strings.HasPrefix(call, "mdadm --zero-superblock") && times < 2 {
				times++
				f.assembled(fmt.Sprint("md", 90+times), "raid5", ourUUID, "sda", "sdb", "sdc")
			}
		}
		_, err := down(t, f, s)
		require.NoError(t, err)
		assert.Equal(t, 2, times)
		assert.Equal(t, before, f.state())
	})
}

func TestTakeDownNeverTouchesAnothers(t *testing.T) {
	t.Run("superblock", func(t *testing.T) {
		f, s, _ := standing(t, "5")
		_, err := down(t, f, s)
		require.NoError(t, err)
		f.superblocks["sdb"] = otherUUID // somebody has used the disk since
		f.contents["sda"] = []signature{{"0x438", "ext4", otherUUID}}
		f.changes = nil
		did, err := down(t, f, s)
		assert.NoError(t, err)
		assert.Empty(t, did)
		assert.Empty(t, f.changes)
	})
	t.Run("superblock that came in between", func(t *testing.T) {
		f, s, _ := standing(t, "5")
		f.patience = time.Minute
		f.atStep = func(change string) {
			if strings.HasPrefix(change, "stop") {
				f.superblocks["sdb"] = otherUUID
			}
		}
		_, err := down(t, f, s)
		assert.NoError(t, err)
		assert.Equal(t, otherUUID, f.superblocks["sdb"])
		assert.NotContains(t, f.superblocks, "sda")
	})
	t.Run("file system", func(t *testing.T) {
		f, s, _ := standing(t, LevelNone)
		f.sys.Unmount(point)
		require.NoError(t, os.Remove(f.path(point)))
		f.contents["sda"] = []signature{{"0x0", "xfs", ourUUID}, {"0x438", "ext4", otherUUID}}
		did, err := down(t, f, s)
		assert.NoError(t, err)
		assert.Empty(t, did)
		assert.Len(t, f.contents["sda"], 2)
	})
	t.Run("one signature of several", func(t *testing.T) {
		f, s, _ := standing(t, LevelNone)
		f.contents["sda"] = append(f.contents["sda"], signature{"0x1fe", "dos", ""})
		_, err := down(t, f, s)
		assert.NoError(t, err)
		assert.Equal(t, []signature{{"0x1fe", "dos", ""}}, f.contents["sda"])
	})
	t.Run("array with a member more", func(t *testing.T) {
		f, s, _ := standing(t, "1")
		f.sys.Join("md126", "sdd")
		_, err := down(t, f, s)
		assert.ErrorContains(t, err, "a member that was not built into it, sdd")
		assert.Empty(t, f.changes)
	})
	t.Run("mount on our mount point", func(t *testing.T) {
		f, s, _ := standing(t, "1")
		f.sys.Mount("sdd", point, "xfs")
		_, err := down(t, f, s)
		assert.ErrorContains(t, err, "/dev/sdd is mounted on "+point+" and cannot be told to be ours")
		assert.Empty(t, f.changes)
	})
	t.Run("a file in our mount point", func(t *testing.T) {
		f, s, _ := standing(t, "1")
		f.sys.Set(point+"/x", "precious")
		_, err := down(t, f, s)
		assert.ErrorContains(t, err, "remove the folder "+point)
		assert.Equal(t, "precious", f.sys.Get(point+"/x"))
		assert.NotContains(t, f.superblocks, "sda", "the rest is done")
	})
	t.Run("a record without a UUID", func(t *testing.T) {
		f, s, _ := standing(t, "1")
		for _, uuid := range []string{"", "00000000-0000-0000-0000-000000000000", "x"} {
			r := s.Record()
			r.UUID = uuid
			f.superblocks["sdd"] = ""
			_, err := f.takeDown(context.Background(), r)
			assert.ErrorContains(t, err, "is no UUID")
		}
		assert.Empty(t, f.calls)
	})
	t.Run("a record with an odd mount point", func(t *testing.T) {
		f, s, _ := standing(t, "1")
		for _, p := range []string{"/", "x", "/a/../b"} {
			r := s.Record()
			r.MountPoint = p
			_, err := f.takeDown(context.Background(), r)
			assert.ErrorContains(t, err, "is no mount point of ours")
		}
		assert.Empty(t, f.calls)
	})
}

func TestTakeDownDoesNotForce(t *testing.T) {
	for name, c := range map[string]struct {
		level string
		use   func(*fake)
		want  string
	}{
		"mounted elsewhere": {"1", func(f *fake) { f.sys.Mount("md126", "/mnt/theirs", "ext4") }, "md126 is mounted on /mnt/theirs"},
		"under LVM":         {"1", func(f *fake) { f.sys.DM("dm-0", "vg-lv", "LVM-x", "md126") }, "md126 is under the mapping dm-0 (vg-lv)"},
		"swap":              {"1", func(f *fake) { f.sys.Swap("md126") }, "md126 holds swap"},
		"open":              {"1", func(f *fake) { f.open("md126") }, "md126 is open for writing in pid 431 (dd)"},
		"no array, mounted": {LevelNone, func(f *fake) { f.sys.Mount("sda", "/mnt/theirs", "ext4") }, "sda is mounted on /mnt/theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			f, s, _ := standing(t, c.level)
			c.use(f)
			_, err := down(t, f, s)
			assert.ErrorIs(t, err, ErrInUse)
			assert.ErrorContains(t, err, c.want)
			assert.Empty(t, f.changes, "nothing was touched")
			left, err := f.look(context.Background(), s.Record())
			assert.ErrorIs(t, err, ErrInUse)
			assert.Empty(t, left)
		})
	}
}

// open has a process hold a device open for writing.
func (f *fake) open(device string) {
	f.sys.Set("/proc/431/comm", "dd\n")
	f.sys.Set("/proc/431/fdinfo/7", "pos:\t0\nflags:\t0100001\nmnt_id:\t24\n")
	require.NoError(f.t, os.MkdirAll(f.path("/proc/431/fd"), 0o755))
	require.NoError(f.t, os.Symlink("/dev/"+device, f.path("/proc/431/fd/7")))
}

func TestTakeDownWaitsForWhatPasses(t *testing.T) {
	f, s, before := standing(t, "1")
	f.patience = time.Minute
	f.open("md126")
	f.beforeCall = func(string) {
		if f.steps++; f.steps > 20 { // a few looks later
			require.NoError(t, os.RemoveAll(f.path("/proc/431")))
		}
	}
	_, err := down(t, f, s)
	require.NoError(t, err)
	assert.Equal(t, before, f.state())
}

func TestTakeDownTriesAgainWhatIsBusyForAMoment(t *testing.T) {
	for _, what := range []string{"unmount", "stop", "zero"} {
		f, s, before := standing(t, "1")
		f.patience = time.Minute
		f.atStep = func(change string) {
			if f.failAt == 0 && strings.HasPrefix(change, what) {
				f.failAt = f.steps
			}
		}
		_, err := down(t, f, s)
		require.NoError(t, err, what)
		assert.NotZero(t, f.failAt)
		assert.Equal(t, before, f.state(), what)
	}
}

func TestTakeDownSaysWhatFailed(t *testing.T) {
	f, s, _ := standing(t, "1")
	f.atStep = func(change string) {
		if strings.HasPrefix(change, "stop") {
			f.failAt = f.steps
		}
	}
	did, err := down(t, f, s)
	assert.ErrorContains(t, err, "stop the array md126: mdadm --stop /dev/md126: exit 1: played failure")
	assert.Contains(t, did, "unmounted "+point)
	assert.Equal(t, ourUUID, f.superblocks["sda"])
}

func TestTakeDownWithAMemberGone(t *testing.T) {
	f, s, before := standing(t, "5")
	f.sys.Unmount(point)
	f.gone("md126")
	f.sys.Pull("sdb")
	did, err := down(t, f, s)
	assert.ErrorIs(t, err, sysfs.ErrNoDevice)
	assert.ErrorContains(t, err, "the member sdb (wwid:naa.50000000000000b1) is not found, and what was built may be left on it")
	assert.Contains(t, did, "zeroed the md superblock of sda")
	assert.Equal(t, map[string]string{"sdb": ourUUID, "sde": otherUUID, "sdf": otherUUID}, f.superblocks)

	// It comes back under another name, and another drive has its old one.
	f.sys.Plug(systest.Disk{Name: "sdb", Bytes: 1 << 30, Serial: "S-new", WWID: "naa.5000000000000ff1"})
	f.sys.Plug(systest.Disk{Name: "sdg", Bytes: 1 << 30, Serial: "S-sdb", WWID: "naa.50000000000000b1"})
	f.superblocks["sdg"], f.superblocks["sdb"] = ourUUID, otherUUID
	did, err = down(t, f, s)
	assert.NoError(t, err)
	assert.Equal(t, []string{"zeroed the md superblock of sdg"}, did)
	assert.Equal(t, otherUUID, f.superblocks["sdb"])
	_ = before
}

// An array that lost a drive while it ran still names it.
func TestTakeDownOfAnArrayThatLostAMember(t *testing.T) {
	f, s, _ := standing(t, "0")
	f.sys.Pull("sdb")
	require.NoError(t, os.RemoveAll(f.path("/dev/sdb")))
	_, err := down(t, f, s)
	assert.ErrorIs(t, err, sysfs.ErrNoDevice)
	assert.Contains(t, f.changes, "stop md126 of "+ourUUID)
	assert.NotContains(t, f.superblocks, "sda")
	assert.NotContains(t, f.superblocks, "sdc")
}

// A superblock that mdadm cannot make sense of is not taken for none.
func TestTakeDownOfAMemberThatCannotBeRead(t *testing.T) {
	f, s, _ := standing(t, "1")
	run := f.run
	f.run = func(ctx context.Context, name string, args ...string) (said, error) {
		if args[0] == "--examine" && args[len(args)-1] == "/dev/sdb" {
			return said{code: 1, err: "mdadm: invalid superblock checksum on /dev/sdb\n"}, nil
		}
		return run(ctx, name, args...)
	}
	did, err := down(t, f, s)
	assert.ErrorContains(t, err, "the member sdb (wwid:naa.50000000000000b1) cannot be read: mdadm --examine --export --metadata=1.2 /dev/sdb: exit 1: mdadm: invalid superblock checksum on /dev/sdb")
	assert.Contains(t, did, "zeroed the md superblock of sda")
	assert.Equal(t, ourUUID, f.superblocks["sdb"])
}

func TestTakeDownByNameAndSize(t *testing.T) {
	none := func(f *fake, name string) sysfs.Device {
		f.sys.Plug(systest.Disk{Name: name, Transport: "virtio", Bytes: 1 << 30, WWID: "none", Serial: " "})
		return f.sys.Device(name)
	}
	f := newFake(t)
	s := f.spec("1")
	s.Members = []sysfs.Device{none(f, "vda"), none(f, "vdb")}
	for _, d := range s.Members {
		require.Empty(t, d.Identity)
	}
	_, err := f.build(context.Background(), s, nil)
	require.NoError(t, err)
	r := s.Record()
	r.Members[0].Bytes++
	_, err = f.takeDown(context.Background(), r)
	assert.ErrorContains(t, err, "another device is called vda now")
	_, err = down(t, f, s)
	assert.NoError(t, err)
	assert.NotContains(t, f.superblocks, "vda")
}

func TestTakeDownOfPartitions(t *testing.T) {
	f := newFake(t)
	var s Spec
	for _, disk := range []string{"sda", "sdb"} {
		name := f.sys.Partition(disk, 1, 1<<20, 100<<20)
		f.sys.Partition(disk, 2, 200<<20, 100<<20)
		s.Members = append(s.Members, f.sys.Device(name))
	}
	s.UUID, s.Level, s.Filesystem, s.MountPoint = ourUUID, "1", "ext4", point
	_, err := f.build(context.Background(), s, nil)
	require.NoError(t, err)
	assert.EqualValues(t, "wwid:naa.50000000000000a1-part1", s.Record().Members[0].Identity)
	did, err := down(t, f, s)
	require.NoError(t, err)
	assert.Contains(t, did, "zeroed the md superblock of sda1")
}

func TestUnmountNamesWhoIsInIt(t *testing.T) {
	f, s, _ := standing(t, "1")
	f.sys.Set("/proc/77/comm", "bash\n")
	require.NoError(t, os.MkdirAll(f.path("/proc/77/fd"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(point, "dir"), f.path("/proc/77/cwd")))
	require.NoError(t, os.MkdirAll(f.path("/proc/78/fd"), 0o755))
	require.NoError(t, os.Symlink(point+"2", f.path("/proc/78/cwd")))
	f.unmount = func(string) error { return os.NewSyscallError("umount", errBusy) }
	_, err := down(t, f, s)
	assert.ErrorContains(t, err, "used by pid 77 (bash)")
	assert.NotContains(t, err.Error(), "78")
}

// The kernel lists mounts without the links on the way to them.
func TestMountPointThroughALink(t *testing.T) {
	f := newFake(t)
	f.sys.Link("/var/lib/qdsweep", "/state")
	before := f.state()
	s := f.spec("1", "sda", "sdb")
	s.MountPoint = "/var/lib/qdsweep/mnt"
	built, err := f.build(context.Background(), s, nil)
	require.NoError(t, err)
	assert.Equal(t, s.MountPoint, built.Directory)
	did, err := down(t, f, s)
	require.NoError(t, err)
	assert.Contains(t, did, "unmounted "+s.MountPoint)
	assert.Equal(t, before, f.state())
}
