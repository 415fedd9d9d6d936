package sysfs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// machine has a system disk sda, and spare disks sdb to sde.
func machine(t *testing.T) *tree {
	tr := newTree(t)
	for i, disk := range []string{"sda", "sdb", "sdc", "sdd", "sde"} {
		tr.sata(disk, i+1, 1000)
		tr.byID("ata-DISK_"+disk, disk)
	}
	tr.partition("sda", "sda1", 1, 1, 100)
	tr.partition("sda", "sda2", 2, 101, 100)
	tr.file("/proc/self/mountinfo", "")
	tr.mounts = 0
	tr.mount("/", "ext4", "/dev/sda1", "")
	return tr
}

func (tr *tree) judge(target string, in Intent, opts ...Option) (refusals []Refusal, notes []string) {
	tr.t.Helper()
	h := tr.host(opts...)
	var s Stack
	var err error
	if dir, ok := strings.CutPrefix(target, "dir:"); ok {
		s, err = h.ResolveDirectory(dir)
	} else {
		s, err = h.Resolve(target)
	}
	require.NoError(tr.t, err)
	refusals, notes, err = h.Judge(context.Background(), s, in)
	require.NoError(tr.t, err)
	return refusals, notes
}

func text(refusals []Refusal) string {
	var lines []string
	for _, r := range refusals {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n")
}

func TestJudgeReading(t *testing.T) {
	shared := Intent{SharedDisk: true}
	for _, c := range []struct {
		name   string
		set    func(*tree)
		target string
		in     Intent
		want   []string // in the refusals; none: allowed
	}{
		{"a spare disk", nil, "sdb", Intent{}, nil},
		{"a mounted disk", func(tr *tree) { tr.mount("/mnt/x", "ext4", "/dev/sdb", "") }, "sdb", Intent{},
			[]string{"sdb is mounted on /mnt/x", "umount /mnt/x"}},
		{"mounted twice", func(tr *tree) { tr.mount("/x", "ext4", "/dev/sdb", ""); tr.mount("/y", "ext4", "/dev/sdb", "") }, "sdb", shared,
			[]string{"/x", "/y"}},
		{"the parent of a mounted partition", func(tr *tree) { tr.partition("sdb", "sdb1", 1, 1, 10); tr.mount("/mnt/x", "ext4", "/dev/sdb1", "") }, "sdb", shared,
			[]string{"sdb1 is mounted on /mnt/x"}},
		{"a partition of a mounted disk", func(tr *tree) { tr.partition("sdb", "sdb1", 1, 1, 10); tr.mount("/mnt/x", "iso9660", "/dev/sdb", "") }, "sdb1", shared,
			[]string{"sdb is mounted on /mnt/x"}},
		{"a partition beside a mounted one", besideMounted, "sdb2", Intent{}, []string{"sdb1 is mounted on /mnt/x", "--allow shared-disk"}},
		{"the same, allowed", besideMounted, "sdb2", shared, nil},
		{"overlapping partitions", func(tr *tree) {
			tr.partition("sdb", "sdb4", 4, 1, 500)
			tr.partition("sdb", "sdb5", 5, 2, 10)
			tr.mount("/mnt/x", "ext4", "/dev/sdb5", "")
		}, "sdb4", shared, []string{"sdb5 is mounted"}},
		{"an array member", func(tr *tree) { tr.md("md0", "sdb", "sdc") }, "sdb", shared,
			[]string{"sdb is a member of the array md0", "mdadm --stop /dev/md0"}},
		{"the disk of an array member", func(tr *tree) { tr.partition("sdb", "sdb1", 1, 1, 10); tr.md("md0", "sdb1", "sdc") }, "sdb", shared,
			[]string{"sdb1 is a member of the array md0"}},
		{"an array", func(tr *tree) { tr.md("md0", "sdb", "sdc") }, "md0", Intent{}, nil},
		{"an array in use", func(tr *tree) { tr.md("md0", "sdb", "sdc"); tr.mount("/r", "ext4", "/dev/md0", "") }, "md0", shared,
			[]string{"md0 is mounted on /r"}},
		{"an array whose member is open for writing", func(tr *tree) { tr.md("md0", "sdb", "sdc"); tr.open(431, "dd", "/dev/sdc", "0100001") }, "md0", shared,
			[]string{"sdc is open for writing in pid 431 (dd)"}},
		// Field case 34: another, idle array on the same disks.
		{"an idle array beside", idleBeside, "md0", Intent{}, []string{"sdb2 is a member of the array md1", "--allow shared-disk"}},
		{"the same, allowed", idleBeside, "md0", shared, nil},
		{"an LVM member", func(tr *tree) { tr.dm("dm-0", "vg0-lv0", "LVM-abc", "sdb") }, "sdb", shared,
			[]string{"sdb is under the mapping dm-0 (vg0-lv0)", "lvchange -an /dev/mapper/vg0-lv0"}},
		{"a logical volume", func(tr *tree) { tr.dm("dm-0", "vg0-lv0", "LVM-abc", "sdb") }, "dm-0", Intent{}, nil},
		{"a logical volume beside another", twoVolumes, "dm-0", Intent{}, []string{"dm-1 (vg0-lv1)", "dm-1 is mounted on /lv1", "--allow shared-disk"}},
		{"the same, allowed", twoVolumes, "dm-0", shared, nil},
		{"the other one", twoVolumes, "dm-1", shared, []string{"dm-1 is mounted on /lv1"}},
		{"a mapping on a partition's disk", func(tr *tree) { tr.partition("sdb", "sdb1", 1, 1, 10); tr.dm("dm-0", "x", "", "sdb") }, "sdb1", shared,
			[]string{"sdb is under the mapping dm-0 (x)", "dmsetup remove x"}},
		{"two partitions of an array", func(tr *tree) {
			tr.md("md0", "sdb", "sdc")
			tr.partition("md0", "md0p1", 1, 1, 10)
			tr.partition("md0", "md0p2", 2, 11, 10)
			tr.mount("/p2", "ext4", "/dev/md0p2", "")
		}, "md0p1", shared, nil},
		{"a RAID adapter's container", func(tr *tree) {
			tr.md("md127", "sdb", "sdc")
			tr.md("md126", "sdb", "sdc")
			tr.file(tr.devPath["md126"]+"/md/metadata_version", "external:/md127/0\n")
			tr.file(tr.devPath["md127"]+"/md/array_state", "inactive\n")
		}, "md126", Intent{}, nil},
		{"dm-multipath", func(tr *tree) { tr.dm("dm-0", "mpatha", "mpath-3500", "sdb", "sdc") }, "dm-0", shared, []string{"dm-multipath", "multipath -f mpatha"}},
		{"a path below dm-multipath", func(tr *tree) { tr.dm("dm-0", "mpatha", "mpath-3500", "sdb", "sdc") }, "sdb", shared, []string{"sdb is under the mapping dm-0 (mpatha)"}},
		{"swap", func(tr *tree) { tr.swap("/dev/sdb", "partition") }, "sdb", shared, []string{"sdb holds swap (/dev/sdb)", "swapoff /dev/sdb"}},
		{"swap beside", func(tr *tree) {
			besideMounted(tr)
			tr.partition("sdb", "sdb3", 3, 400, 10)
			tr.swap("/dev/sdb3", "partition")
		}, "sdb2", shared, []string{"sdb3 holds swap (/dev/sdb3), on a disk of the target"}},
		{"a swap file beside", func(tr *tree) { besideMounted(tr); tr.swap("/mnt/x/swap", "file") }, "sdb2", shared, []string{"sdb1 holds swap (/mnt/x/swap)"}},
		{"swap below a directory", func(tr *tree) { tr.mount("/mnt/x", "ext4", "/dev/sdb", ""); tr.swap("/mnt/x/swap", "file") }, "dir:/mnt/x", shared,
			[]string{"sdb holds swap"}},
		{"swap on an array member", func(tr *tree) {
			tr.partition("sdb", "sdb1", 1, 1, 10)
			tr.partition("sdb", "sdb2", 2, 11, 10)
			tr.md("md0", "sdb1", "sdc")
			tr.swap("/dev/sdb2", "partition")
		}, "md0", shared, []string{"sdb2 holds swap"}},
		{"the root disk", nil, "sda", shared, []string{"sda holds the root file system", "--directory"}},
		{"a spare partition of the root disk", nil, "sda2", shared, []string{"sda holds the root file system"}},
		{"a directory on the root disk", nil, "dir:/srv", Intent{}, nil},
		{"the disk of root on LVM", func(tr *tree) {
			tr.file("/proc/self/mountinfo", "")
			tr.dm("dm-0", "vg-root", "LVM-r", "sdd")
			tr.mount("/", "ext4", "/dev/dm-0", "")
		}, "sdd", shared, []string{"sdd holds the root file system"}},
		{"the disk of an overlay root", func(tr *tree) {
			tr.file("/proc/self/mountinfo", "")
			tr.mounts = 0
			tr.mount("/", "overlay", "overlay", "0:30", "rw", "rw,lowerdir=/ro/fs:/ro/more,upperdir=/run/rw,workdir=/run/wk")
			tr.block("loop0", "virtual/block", 10)
			tr.file(tr.devPath["loop0"]+"/loop/backing_file", "/medium/live/filesystem.squashfs")
			tr.mount("/ro/fs", "squashfs", "/dev/loop0", "")
			tr.partition("sde", "sde1", 1, 1, 100)
			tr.partition("sde", "sde2", 2, 101, 100)
			tr.mount("/medium", "iso9660", "/dev/sde1", "")
		}, "sde2", shared, []string{"sde holds the root file system"}},
		{"root in the first process's namespace", func(tr *tree) {
			tr.file("/proc/1/mountinfo", "25 1 "+strings.TrimSpace(tr.read(tr.devPath["sdd"]+"/dev"))+" / / rw - ext4 /dev/root rw\n")
		}, "sdd", shared, []string{"sdd holds the root file system"}},
		// Field case 37.
		{"a disk open in a virtual machine", func(tr *tree) { tr.open(431, "qemu-system-x86", "/dev/sdb", "02100002") }, "sdb", shared,
			[]string{"sdb is open for writing in pid 431 (qemu-system-x86)", "kill 431"}},
		{"the disk open, a partition as the target", func(tr *tree) { tr.partition("sdb", "sdb1", 1, 1, 10); tr.open(431, "qemu", "/dev/sdb", "02") }, "sdb1", shared,
			[]string{"sdb is open for writing"}},
		{"open by another name, deleted since", func(tr *tree) { tr.open(431, "qemu", "/dev/sdb (deleted)", "0100002") }, "sdb", shared,
			[]string{"pid 431"}},
		{"another partition open", func(tr *tree) {
			tr.partition("sdb", "sdb1", 1, 1, 10)
			tr.partition("sdb", "sdb2", 2, 11, 10)
			tr.open(431, "qemu", "/dev/sdb2", "02")
		}, "sdb1", shared, nil},
		{"open for reading", func(tr *tree) { tr.open(431, "smartd", "/dev/sdb", "0100000") }, "sdb", Intent{}, nil},
		{"open by ourselves", func(tr *tree) { tr.open(431, "qdsweep", "/dev/sdb", "0100002") }, "sdb", Intent{OwnPIDs: []int{9, 431}}, nil},
		{"a loop device on the disk", func(tr *tree) {
			tr.block("loop0", "virtual/block", 10)
			tr.file(tr.devPath["loop0"]+"/loop/backing_file", "/dev/sdb\n")
		}, "sdb", shared, []string{"sdb is used by loop0"}},
		{"a second device of a btrfs", func(tr *tree) {
			tr.mount("/bt", "btrfs", "/dev/sdb", "0:40")
			tr.link("/sys/fs/btrfs/1-2/devices/sdb", tr.devPath["sdb"])
			tr.link("/sys/fs/btrfs/1-2/devices/sdc", tr.devPath["sdc"])
		}, "sdc", shared, []string{"sdc is mounted on /bt"}},
		{"the log of an XFS", func(tr *tree) { tr.mount("/x", "xfs", "/dev/sdb", "", "rw", "rw,logdev=/dev/sdc,noquota") }, "sdc", shared,
			[]string{"sdc is mounted on /x"}},
		{"a directory on a mounted disk", func(tr *tree) { tr.mount("/mnt/x", "ext4", "/dev/sdb", "") }, "dir:/mnt/x/sub", Intent{Write: true}, nil},
		{"a directory beside another partition", besideMountedTwice, "dir:/mnt/y", Intent{}, []string{"sdb1 is mounted on /mnt/x", "--allow shared-disk"}},
		{"a directory on an array", func(tr *tree) { tr.md("md0", "sdb", "sdc"); tr.mount("/r", "ext4", "/dev/md0", "") }, "dir:/r", Intent{Write: true}, nil},
		{"a directory whose device is open for writing", func(tr *tree) {
			tr.mount("/mnt/x", "ext4", "/dev/sdb", "")
			tr.open(7, "tune2fs", "/dev/sdb", "02")
		}, "dir:/mnt/x", Intent{}, []string{"pid 7 (tune2fs)"}},
		{"a directory mounted read-only", func(tr *tree) { tr.mount("/mnt/x", "ext4", "/dev/sdb", "", "ro,noatime") }, "dir:/mnt/x", Intent{},
			[]string{"/mnt/x is mounted read-only", "remount,rw"}},
		{"device settings below tmpfs", func(tr *tree) { tr.mount("/t", "tmpfs", "tmpfs", "0:50") }, "dir:/t", Intent{NeedKnobs: true},
			[]string{"no device setting can be made below /t"}},
		{"workload axes on tmpfs", func(tr *tree) { tr.mount("/t", "tmpfs", "tmpfs", "0:50") }, "dir:/t", Intent{Write: true}, nil},
		{"two drives of one identity", func(tr *tree) { tr.file(tr.devPath["sdc"]+"/device/wwid", "naa.5000c50000000002\n") }, "sdb", shared,
			[]string{"sdb and sdc have the same identity wwid:naa.5000c50000000002"}},
		{"an offline disk", func(tr *tree) { tr.file(tr.devPath["sdb"]+"/device/state", "offline\n") }, "sdb", Intent{}, []string{"sdb is offline"}},
		{"a degraded array", func(tr *tree) { tr.md("md0", "sdb", "sdc"); tr.file(tr.devPath["md0"]+"/md/degraded", "1\n") }, "md0", Intent{},
			[]string{"the array md0 is degraded: 1 of its 2 members missing"}},
		{"an inactive array", func(tr *tree) { tr.md("md0", "sdb", "sdc"); tr.file(tr.devPath["md0"]+"/md/array_state", "inactive\n") }, "md0", Intent{},
			[]string{"the array md0 is inactive"}},
		{"no medium", func(tr *tree) { tr.file(tr.devPath["sdb"]+"/size", "0\n") }, "sdb", Intent{}, []string{"sdb has no size"}},
		{"an optical drive", func(tr *tree) { tr.file(tr.devPath["sdb"]+"/device/type", "5\n") }, "sdb", Intent{}, []string{"optical drive"}},
		{"a null_blk device", func(tr *tree) { tr.block("nullb0", "virtual/block", 10) }, "nullb0", Intent{}, nil},
		{"a RAM disk", func(tr *tree) { tr.block("zram0", "virtual/block", 10) }, "zram0", Intent{}, []string{"zram0 is no disk"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := machine(t)
			if c.set != nil {
				c.set(tr)
			}
			refusals, _ := tr.judge(c.target, c.in)
			if c.want == nil {
				assert.Empty(t, refusals)
				return
			}
			got := text(refusals)
			for _, w := range c.want {
				assert.Contains(t, got, w)
			}
			for _, r := range refusals {
				assert.NotEmpty(t, r.Fix, r.Reason)
				assert.NotEmpty(t, r.Device, r.Reason)
			}
		})
	}
}

func besideMounted(tr *tree) {
	tr.partition("sdb", "sdb1", 1, 1, 100)
	tr.partition("sdb", "sdb2", 2, 101, 100)
	tr.mount("/mnt/x", "ext4", "/dev/sdb1", "")
}

func besideMountedTwice(tr *tree) {
	besideMounted(tr)
	tr.mount("/mnt/y", "ext4", "/dev/sdb2", "")
}

func idleBeside(tr *tree) {
	for _, disk := range []string{"sdb", "sdc"} {
		tr.partition(disk, disk+"1", 1, 1, 100)
		tr.partition(disk, disk+"2", 2, 101, 100)
	}
	tr.md("md0", "sdb1", "sdc1")
	tr.md("md1", "sdb2", "sdc2")
}

func twoVolumes(tr *tree) {
	tr.partition("sdb", "sdb1", 1, 1, 100)
	tr.dm("dm-0", "vg0-lv0", "LVM-a", "sdb1")
	tr.dm("dm-1", "vg0-lv1", "LVM-b", "sdb1")
	tr.mount("/lv1", "ext4", "/dev/dm-1", "")
}

func TestJudgeNotes(t *testing.T) {
	tr := machine(t)
	besideMounted(tr)
	refusals, notes := tr.judge("sdb2", Intent{SharedDisk: true})
	assert.Empty(t, refusals)
	assert.Contains(t, strings.Join(notes, "\n"), "sdb1 is mounted on /mnt/x: it shares the disk")

	_, notes = tr.judge("sdc", Intent{Erase: []string{"sdd", "/dev/disk/by-id/none"}})
	assert.Equal(t, []string{"--erase sdd names nothing that this sweep uses", "--erase /dev/disk/by-id/none names nothing that this sweep uses"}, notes)

	require.NoError(t, os.Remove(filepath.Join(tr.root, tr.devPath["sdc"], "device/wwid")))
	refusals, notes = tr.judge("sdc", Intent{})
	assert.Empty(t, refusals)
	assert.Contains(t, strings.Join(notes, "\n"), "sdc has no WWID and no serial number")

	tr.md("md0", "sdd", "sde")
	tr.file(tr.devPath["md0"]+"/md/sync_action", "resync\n")
	refusals, notes = tr.judge("md0", Intent{})
	assert.Empty(t, refusals, "a resync is waited for")
	assert.Contains(t, strings.Join(notes, "\n"), "the array md0 is busy with a resync")
}

func TestJudgePrivilege(t *testing.T) {
	tr := machine(t)
	refusals, _ := tr.judge("sdb", Intent{}, WithEUID(1000))
	assert.Contains(t, text(refusals), "user id 1000 may not change device settings")
	assert.Contains(t, text(refusals), "sudo")
	refusals, _ = tr.judge("sdb", Intent{}, WithEUID(0))
	assert.Empty(t, refusals)
}

func TestJudgeErase(t *testing.T) {
	const size = 1000 << 20
	data := func(at int64) func(*tree) {
		return func(tr *tree) {
			f, err := os.OpenFile(filepath.Join(tr.root, "dev/sdb"), os.O_WRONLY, 0)
			require.NoError(tr.t, err)
			_, err = f.WriteAt([]byte("data"), at)
			require.NoError(tr.t, err)
			require.NoError(tr.t, f.Close())
		}
	}
	partitioned := func(tr *tree) { tr.partition("sdb", "sdb1", 1, 1, 10) }
	nameless := func(tr *tree) {
		require.NoError(tr.t, os.Remove(filepath.Join(tr.root, tr.devPath["sdb"], "device/wwid")))
	}
	for _, c := range []struct {
		name  string
		set   []func(*tree)
		erase string
		want  string // "" allowed
	}{
		{"no --erase", nil, "", "the sweep overwrites sdb, which holds nothing, and no --erase names it; add --erase /dev/disk/by-id/ata-DISK_sdb"},
		{"another disk", nil, "sdc", "no --erase names it"},
		{"a partition of it", []func(*tree){partitioned}, "sdb1", "no --erase names it"},
		{"blank, by name", nil, "sdb", ""},
		{"blank, by node", nil, "/dev/sdb", ""},
		{"blank, by path", []func(*tree){func(tr *tree) { tr.link("/dev/disk/by-path/pci-0-ata-2", "/dev/sdb") }}, "/dev/disk/by-path/pci-0-ata-2", ""},
		{"data at the start, by name", []func(*tree){data(4096)}, "sdb", "sdb holds unknown data (its first MiB is not zero), so its name alone does not do"},
		{"data at the end, by name", []func(*tree){data(size - 4)}, "/dev/sdb", "its last MiB is not zero"},
		{"data right before the last MiB", []func(*tree){data(size - edge - 4)}, "sdb", ""},
		{"partitions, by name", []func(*tree){partitioned}, "sdb", "sdb holds a partition table"},
		{"data, by path", []func(*tree){data(0), func(tr *tree) { tr.link("/dev/disk/by-path/pci-0-ata-2", "/dev/sdb") }}, "/dev/disk/by-path/pci-0-ata-2", "its name alone does not do"},
		{"data, by label", []func(*tree){data(0), func(tr *tree) { tr.link("/dev/disk/by-label/x", "/dev/sdb") }}, "/dev/disk/by-label/x", "its name alone does not do"},
		{"data, by uuid", []func(*tree){data(0), func(tr *tree) { tr.link("/dev/disk/by-uuid/x", "/dev/sdb") }}, "/dev/disk/by-uuid/x", "its name alone does not do"},
		{"data, through by-id to another place", []func(*tree){data(0), func(tr *tree) { tr.link("/dev/disk/by-uuid/x", "/dev/sdb") }}, "/dev/disk/by-id/../by-uuid/x", "its name alone does not do"},
		{"data, by id", []func(*tree){data(0)}, "/dev/disk/by-id/ata-DISK_sdb", ""},
		{"data, by a volume's name", []func(*tree){data(0), func(tr *tree) { tr.byID("dm-name-vg-lv", "sdb") }}, "/dev/disk/by-id/dm-name-vg-lv", "its name alone does not do"},
		{"data, by another's id", []func(*tree){data(0)}, "/dev/disk/by-id/ata-DISK_sdc", "no --erase names it"},
		{"data, by WWID", []func(*tree){data(0)}, "wwid:naa.5000c50000000002", ""},
		{"data, by another WWID", []func(*tree){data(0)}, "wwid:naa.5000c50000000003", "no --erase names it"},
		{"data, by serial", []func(*tree){data(0), func(tr *tree) { tr.file(tr.devPath["sdb"]+"/serial", "S123\n") }}, "serial:S123", ""},
		{"data, by name and size, though it has an identity", []func(*tree){data(0)}, "sdb:1048576000", "its name alone does not do"},
		{"no identity: name and size", []func(*tree){data(0), nameless}, "sdb:1048576000", ""},
		{"no identity: name and a wrong size", []func(*tree){data(0), nameless}, "sdb:1048576001", "no --erase names it (sdb:1048576001 does not)"},
		{"no identity: name", []func(*tree){data(0), nameless, func(tr *tree) {
			require.NoError(tr.t, os.Remove(filepath.Join(tr.root, "/dev/disk/by-id/ata-DISK_sdb")))
		}}, "sdb", "--erase sdb:1048576000"},
		{"cannot be read", []func(*tree){func(tr *tree) { require.NoError(tr.t, os.Remove(filepath.Join(tr.root, "/dev/sdb"))) }}, "sdb", "what is on it cannot be told"},
		// Field case 25.
		{"read-only", []func(*tree){func(tr *tree) { tr.file(tr.devPath["sdb"]+"/ro", "1\n") }}, "sdb", "sdb is read-only and the workload writes; blockdev --setrw /dev/sdb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := machine(t)
			for _, set := range c.set {
				set(tr)
			}
			in := Intent{Write: true}
			if c.erase != "" {
				in.Erase = []string{c.erase}
			}
			refusals, _ := tr.judge("sdb", in)
			if c.want == "" {
				assert.Empty(t, refusals)
				return
			}
			assert.Contains(t, text(refusals), c.want)
			assert.Len(t, refusals, 1)
		})
	}
	tr := machine(t)
	tr.file(tr.devPath["sdb"]+"/ro", "1\n")
	refusals, _ := tr.judge("sdb", Intent{})
	assert.Empty(t, refusals, "a read-only disk can be read")
}

func TestEraseArgument(t *testing.T) {
	tr := machine(t)
	tr.byID("wwn-0x5000c50000000002", "sdb")
	h := tr.host()
	d, err := h.Device("sdb")
	require.NoError(t, err)
	assert.Equal(t, "/dev/disk/by-id/ata-DISK_sdb", h.EraseArgument(d))
	require.NoError(t, os.RemoveAll(filepath.Join(tr.root, "/dev/disk/by-id")))
	assert.Equal(t, "wwid:naa.5000c50000000002", h.EraseArgument(d))
	tr.file(tr.devPath["sdb"]+"/device/wwid", "t10.ATA  x'y\n")
	d, err = h.Device("sdb")
	require.NoError(t, err)
	assert.Equal(t, `'wwid:t10.ATA  x'\''y'`, h.EraseArgument(d))
	assert.Equal(t, ByIdentity, h.Consent(d, []string{"wwid:t10.ATA x'y"}))
}

func TestRecheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*tree)
		target string
		after  func(*tree)
		want   string
	}{
		{"nothing happened", nil, "sdb", func(*tree) {}, ""},
		{"pulled", nil, "sdb", func(tr *tree) {
			require.NoError(tr.t, os.RemoveAll(filepath.Join(tr.root, tr.devPath["sdb"])))
			require.NoError(tr.t, os.Remove(filepath.Join(tr.root, "/sys/block/sdb")))
			require.NoError(tr.t, os.Remove(filepath.Join(tr.root, "/sys/class/block/sdb")))
		}, "sdb is gone (device lost)"},
		{"another drive under the letter", nil, "sdb", func(tr *tree) { tr.file(tr.devPath["sdb"]+"/device/wwid", "naa.5\n") },
			`sdb is now "wwid:naa.5", not "wwid:naa.5000c50000000002"`},
		{"another size", nil, "sdb", func(tr *tree) { tr.file(tr.devPath["sdb"]+"/size", "8\n") }, "now has 4096 bytes"},
		{"repartitioned", func(tr *tree) { tr.partition("sdb", "sdb1", 1, 1, 10) }, "sdb1", func(tr *tree) { tr.file(tr.devPath["sdb1"]+"/start", "4096\n") }, "now starts at byte 2097152"},
		{"offline", nil, "sdb", func(tr *tree) { tr.file(tr.devPath["sdb"]+"/device/state", "offline\n") }, "sdb is offline"},
		{"mounted meanwhile", nil, "sdb", func(tr *tree) { tr.mount("/x", "ext4", "/dev/sdb", "") }, "sdb is mounted on /x"},
		{"opened meanwhile", nil, "sdb", func(tr *tree) { tr.open(9, "qemu", "/dev/sdb", "02") }, "pid 9"},
		{"swapped to meanwhile", nil, "sdb", func(tr *tree) { tr.swap("/dev/sdb", "partition") }, "holds swap"},
		{"written to by our own runs", nil, "sdb", func(tr *tree) { tr.file("/dev/sdb", "data") }, ""},
		// Field case 5.
		{"degraded", raid, "md0", func(tr *tree) {
			tr.file(tr.devPath["md0"]+"/md/degraded", "1\n")
			tr.file(tr.devPath["md0"]+"/md/dev-sdc/state", "faulty\n")
		}, "the array md0 is degraded: 1 of its 2 members missing (faulty: sdc)"},
		{"a spare put in", raid, "md0", func(tr *tree) {
			tr.file(tr.devPath["md0"]+"/md/dev-sdd/state", "spare\n")
			tr.link(tr.devPath["md0"]+"/md/dev-sdd/block", tr.devPath["sdd"])
		}, "md0 now lies on sdb, sdc, sdd, not on sdb, sdc"},
		{"unmounted below a directory", func(tr *tree) { tr.mount("/x", "ext4", "/dev/sdb", "") }, "dir:/x/y", func(tr *tree) {
			tr.file("/proc/self/mountinfo", "")
			tr.mounts = 0
			tr.mount("/", "ext4", "/dev/sda1", "")
		}, "/x/y no longer lies on sdb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := machine(t)
			if c.before != nil {
				c.before(tr)
			}
			h := tr.host()
			s, err := h.Resolve(c.target)
			if dir, ok := strings.CutPrefix(c.target, "dir:"); ok {
				s, err = h.ResolveDirectory(dir)
			}
			require.NoError(t, err)
			in := Intent{Write: true, Erase: []string{"sdb"}}
			refusals, err := h.Recheck(context.Background(), s, in)
			require.NoError(t, err)
			assert.Empty(t, refusals)
			c.after(tr)
			refusals, err = h.Recheck(context.Background(), s, in)
			require.NoError(t, err)
			if c.want == "" {
				assert.Empty(t, refusals)
				return
			}
			assert.Contains(t, text(refusals), c.want)
		})
	}
}

func raid(tr *tree) { tr.md("md0", "sdb", "sdc") }

// A drive whose queue does not answer is refused, and hides no other.
func TestAStuckQueue(t *testing.T) {
	tr := machine(t)
	attribute := filepath.Join(tr.root, tr.devPath["sdc"], "queue/rotational")
	require.NoError(t, os.Remove(attribute))
	require.NoError(t, unix.Mkfifo(attribute, 0o600)) // opening it waits for a writer
	t.Cleanup(func() {
		f, err := os.OpenFile(attribute, os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	})
	h := tr.host()
	h.patience = time.Millisecond
	s, err := h.Resolve("sdc")
	require.NoError(t, err)
	assert.Equal(t, Identity("wwid:naa.5000c50000000003"), s.Device.Identity)
	refusals, _, err := h.Judge(context.Background(), s, Intent{})
	require.NoError(t, err)
	assert.Contains(t, text(refusals), "sdc does not answer")
	all, err := h.Devices()
	require.NoError(t, err)
	assert.Len(t, all, 5)
}

func TestUsersFlagsTheTargetsOwnStack(t *testing.T) {
	tr := machine(t)
	tr.md("md0", "sdb", "sdc")
	tr.mount("/r", "ext4", "/dev/md0", "")
	s, err := tr.host().ResolveDirectory("/r")
	require.NoError(t, err)
	onTarget, besides, err := tr.host().Users(s)
	require.NoError(t, err)
	assert.Empty(t, besides)
	require.Len(t, onTarget, 3)
	for _, u := range onTarget {
		assert.True(t, u.Own, u.Text())
	}
}

func TestEnvironment(t *testing.T) {
	tr := machine(t)
	raid(tr)
	tr.file("/proc/sys/kernel/osrelease", "6.1.0-57-amd64\n")
	tr.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
	tr.file("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil\n")
	tr.file(tr.devPath["sdb"]+"/queue/scheduler", "none [mq-deadline] kyber\n")
	tr.file(tr.devPath["md0"]+"/md/layout", "2\n")
	tr.mount("/r", "ext4", "/dev/md0", "", "rw,noatime")
	s, err := tr.host().ResolveDirectory("/r")
	require.NoError(t, err)
	env := tr.host().Environment(s)
	assert.Equal(t, "6.1.0-57-amd64", env["kernel"])
	assert.Equal(t, "performance, schedutil", env["cpu_governor"])
	assert.Equal(t, "rw,noatime", env["mount_options"])
	member := env["members"].([]map[string]any)[0]
	assert.Equal(t, "mq-deadline", member["scheduler"])
	assert.Equal(t, "ahci", member["driver"])
	assert.Equal(t, "3.0 Gbps", member["link_speed"])
	assert.Equal(t, "ST1000NM0033-9ZM", member["model"])
	array := env["arrays"].([]map[string]any)[0]
	assert.Equal(t, "raid5", array["level"])
	assert.Equal(t, "2", array["layout"])
	assert.Equal(t, []string{"sdb in_sync", "sdc in_sync"}, array["members"])
}
