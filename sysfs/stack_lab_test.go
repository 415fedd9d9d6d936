//go:build lab

package sysfs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Arrays and mappings before a real kernel.

func labSnapshot(t *testing.T, d Device) Snapshot {
	t.Helper()
	s, err := d.Snapshot(context.Background())
	require.NoError(t, err)
	return s
}

func labApply(t *testing.T, d Device, knob, level string) {
	t.Helper()
	effective, err := d.Apply(context.Background(), Setting{knob, level})
	require.NoError(t, err)
	require.Equal(t, level, effective, "%s of %s", knob, d.Name)
}

func carriers(t *testing.T, s Stack, knob string) []string {
	t.Helper()
	k, ok := LookupKnob(knob)
	require.True(t, ok)
	return names(s.Carriers(k))
}

// Two arrays on the partitions of the same disks, as in 2007: field cases 5, 21 and 34.
func TestLabSataTwoArraysOnTheSameDisks(t *testing.T) {
	ctx, h := context.Background(), NewHost("/")
	var first, second, disks []string
	for _, serial := range []string{"QDLAB-SATA-2", "QDLAB-SATA-3", "QDLAB-SATA-4"} {
		d := labDisk(t, serial)
		t.Cleanup(func() { wipe(t, d) })
		one, two := split(t, d)
		first, second, disks = append(first, one), append(second, two), append(disks, d.Name)
	}
	for node, level := range map[string]string{"/dev/md5": "5", "/dev/md1": "1"} {
		members := map[string][]string{"5": first, "1": second}[level]
		do(t, "wipefs", append([]string{"-a"}, members...)...)
		do(t, "mdadm", append([]string{"--create", node, "--run", "--assume-clean", "--bitmap=none", "--level=" + level, "--raid-devices=3"}, members...)...)
		undo(t, "mdadm", append([]string{"--zero-superblock"}, members...)...)
		undo(t, "mdadm", "--stop", node)
	}
	s, err := h.Resolve("/dev/md5")
	require.NoError(t, err)
	other, err := h.Resolve("/dev/md1")
	require.NoError(t, err)

	// What it is.
	assert.ElementsMatch(t, disks, names(s.Members))
	assert.Equal(t, append(names(s.Members), "md5"), names(s.Settable()))
	assert.Equal(t, []string{"md5"}, carriers(t, s, "stripe_cache_size"))
	assert.Equal(t, []string{"md5"}, carriers(t, s, "read_ahead_kb"))
	array := h.Arrays(s)[0]
	detail, err := exec.Command("mdadm", "--detail", "--export", "/dev/md5").Output()
	require.NoError(t, err)
	assert.Contains(t, string(detail), "MD_UUID="+array.UUID+"\n", "the kernel's own word, without udev")
	assert.Equal(t, Identity("wwid:md-uuid-"+array.UUID), s.Device.Identity)
	assert.Equal(t, 3, array.Present)
	for i, m := range s.Members {
		own := s.OwnPartitions(m)
		require.Len(t, own, 1)
		assert.Contains(t, first, own[0].Path, i)
	}

	// Who shares the disks.
	refusals, notes, err := h.Judge(ctx, s, Intent{})
	require.NoError(t, err)
	assert.Len(t, refusals, 3)
	assert.Contains(t, text(refusals), "is a member of the array md1, on a disk of the target; mdadm --stop /dev/md1, or sweep /dev/md1, or --allow shared-disk")
	assert.Empty(t, notes)
	both := Intent{Siblings: []Stack{s, other}}
	for _, target := range []Stack{s, other} {
		refusals, notes, err = h.Judge(ctx, target, both)
		require.NoError(t, err)
		assert.Empty(t, text(refusals))
		assert.Len(t, notes, 3)
	}

	// Its own settings. md takes 17 to 32768 stripes (the most is 384 MiB here, and takes its time) and 0 to 8192 threads, and calls the
	// second group_thread_cnt.
	d := s.Device
	before, snapshot := labAttributes(t, d), labSnapshot(t, d)
	for knob, levels := range map[string][]string{"stripe_cache_size": {"17", "1024"}, "group_thread_count": {"2", "1", "0"}, "read_ahead_kb": {"64", "8192"}, "max_sectors_kb": {"64"}} {
		for _, level := range levels {
			labApply(t, d, knob, level)
		}
	}
	for knob, level := range map[string]string{"stripe_cache_size": "32769", "group_thread_count": "8193", "nr_requests": "64"} {
		_, err := d.Apply(ctx, Setting{knob, level})
		assert.ErrorIs(t, err, ErrUnsupported, knob)
	}
	_, err = other.Device.Apply(ctx, Setting{"stripe_cache_size", "1024"})
	assert.ErrorContains(t, err, "a raid1 array has no stripe_cache_size")
	require.NoError(t, d.Restore(ctx, snapshot))
	assert.Equal(t, before, labAttributes(t, d))

	// Its limits stay as they are when those of its disks move.
	member := s.Members[0]
	of := labSnapshot(t, member)
	labApply(t, member, "max_sectors_kb", "8")
	moved, err := d.Differences(ctx, snapshot)
	require.NoError(t, err)
	assert.Empty(t, moved)
	require.NoError(t, member.Restore(ctx, of))

	// The disk minus its own partition is what others did.
	disk, err := OpenProbe(member)
	require.NoError(t, err)
	defer disk.Close()
	part, err := OpenProbe(s.OwnPartitions(member)[0])
	require.NoError(t, err)
	defer part.Close()
	others := func() uint64 {
		a, err := disk.Stat()
		require.NoError(t, err)
		b, err := part.Stat()
		require.NoError(t, err)
		return a.ReadSectors - b.ReadSectors
	}
	atFirst := others()
	_, _, err = h.edges(d)
	require.NoError(t, err)
	assert.Equal(t, atFirst, others(), "what goes through md5 is our own")
	beside, err := h.Device(filepath.Base(other.OwnPartitions(member)[0].Path))
	require.NoError(t, err)
	_, _, err = h.edges(beside)
	require.NoError(t, err)
	assert.EqualValues(t, 2*edge/512, others()-atFirst)

	// Read-only, and degraded.
	do(t, "mdadm", "--readonly", "/dev/md5")
	refusals = h.judgeReadOnly(s, Intent{Write: true})
	assert.Contains(t, text(refusals), "the array md5 is read-only and the workload writes; mdadm --readwrite /dev/md5")
	assert.Len(t, refusals, 1)
	do(t, "mdadm", "--readwrite", "/dev/md5")
	assert.Empty(t, h.judgeReadOnly(s, Intent{Write: true}))
	log, err := h.WatchKernel()
	require.NoError(t, err)
	defer log.Close()
	do(t, "mdadm", "/dev/md5", "--fail", s.OwnPartitions(member)[0].Path)
	refusals, err = h.Recheck(ctx, s, both)
	require.NoError(t, err)
	assert.Contains(t, text(refusals), "the array md5 is degraded: 1 of its 3 members missing (faulty: "+s.OwnPartitions(member)[0].Name+")")
	messages, _ := log.Messages()
	signs := h.Signs(member, Health{}, Health{}, messages)
	require.Len(t, signs, 1)
	assert.Contains(t, signs[0].Text, "Disk failure on "+s.OwnPartitions(member)[0].Name)
	assert.Empty(t, h.Signs(s.Members[1], Health{}, Health{}, messages))
}

// labAttributes is everything writable of an array or a mapping, md/ too, read without the package's help.
func labAttributes(t *testing.T, d Device) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{"queue", "md"} {
		paths, err := filepath.Glob(d.SysDir() + "/" + dir + "/*")
		require.NoError(t, err)
		for _, p := range paths {
			if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() || info.Mode()&0o600 != 0o600 {
				continue
			}
			if filepath.Base(p) == "array_state" { // clean, active: as the last write is long ago or not
				continue
			}
			if b, err := os.ReadFile(p); err == nil {
				all[strings.TrimPrefix(p, d.SysDir()+"/")] = string(b)
			}
		}
	}
	require.Greater(t, len(all), 8)
	return all
}

// An array that lost what it keeps once: md says broken (since 5.4), and counts nothing as degraded.
func TestLabSataBrokenStripe(t *testing.T) {
	a, b := labDisk(t, "QDLAB-SATA-3"), labDisk(t, "QDLAB-SATA-4")
	do(t, "mdadm", "--create", "/dev/md0", "--run", "--level=0", "--raid-devices=2", a.Path, b.Path)
	undo(t, "mdadm", "--zero-superblock", a.Path, b.Path)
	undo(t, "mdadm", "--stop", "/dev/md0")
	h := NewHost("/")
	s, err := h.Resolve("/dev/md0")
	require.NoError(t, err)
	assert.Equal(t, 2, h.Arrays(s)[0].Present)
	assert.Empty(t, labJudge(t, "/dev/md0", Intent{}))
	_ = os.WriteFile(s.Device.SysDir()+"/md/dev-"+a.Name+"/state", []byte("faulty"), 0) // EBUSY, and broken all the same
	refusals, err := h.Recheck(context.Background(), s, Intent{})
	require.NoError(t, err)
	assert.Contains(t, text(refusals), "the array md0 is broken: it has lost a member, and its level (raid0) keeps nothing twice")
}

// LVM on dm-crypt, with a file system on it.
func TestLabAllVolumeOnAnEncryptedDrive(t *testing.T) {
	ctx, h := context.Background(), NewHost("/")
	drive := labDisk(t, "QDLAB-VIRTIO-1")
	t.Cleanup(func() { wipe(t, drive) })
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(strings.Repeat("k", 64)), 0o600))
	do(t, "cryptsetup", "open", "--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "512", "--key-file", key, drive.Path, "qdlab-secret")
	undo(t, "cryptsetup", "close", "qdlab-secret")
	const config = "activation{udev_sync=0 udev_rules=0} devices{obtain_device_list_from_udev=0 external_device_info_source=\"none\"}"
	lvm := func(args ...string) { t.Helper(); do(t, "lvm", append(args, "--config", config)...) }
	lvm("pvcreate", "-f", "-y", "/dev/mapper/qdlab-secret")
	lvm("vgcreate", "qdlabc", "/dev/mapper/qdlab-secret")
	lvm("lvcreate", "-y", "-Zn", "-Wn", "-L", "32M", "-n", "one", "qdlabc")
	t.Cleanup(func() { lvm("vgchange", "-an", "qdlabc") })
	do(t, "mkfs.ext4", "-q", "-F", "/dev/mapper/qdlabc-one")
	dir := mountOn(t, "/dev/mapper/qdlabc-one")

	s, err := h.ResolveDirectory(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{drive.Name}, names(s.Members))
	require.Len(t, s.Layers, 2)
	assert.Equal(t, "LVM volume qdlabc-one", s.Layers[0].Detail)
	assert.Equal(t, "crypt qdlab-secret", s.Layers[1].Detail)
	assert.Equal(t, []string{drive.Name, s.Layers[1].Device.Name, s.Device.Name}, names(s.Settable()))
	assert.Equal(t, []string{s.Device.Name}, carriers(t, s, "read_ahead_kb"))
	refusals, _, err := h.Judge(ctx, s, Intent{Write: true, NeedKnobs: true})
	require.NoError(t, err)
	assert.Empty(t, text(refusals))
	for _, d := range s.Settable()[1:] {
		before, snapshot := labAttributes(t, d), labSnapshot(t, d)
		labApply(t, d, "read_ahead_kb", "2048")
		labApply(t, d, "max_sectors_kb", "64")
		labApply(t, d, "rotational", map[string]string{"0\n": "1", "1\n": "0"}[before["queue/rotational"]])
		require.NoError(t, d.Restore(ctx, snapshot))
		assert.Equal(t, before, labAttributes(t, d))
	}
}

func TestLabAllMultipathIsRefused(t *testing.T) {
	drive := labDisk(t, "QDLAB-NVME-1")
	table := fmt.Sprintf("0 %d multipath 0 0 1 1 round-robin 0 1 1 %s 1000", drive.Bytes/512, drive.Path)
	do(t, "dmsetup", "create", "qdlab-paths", "--noudevsync", "--noudevrules", "-u", "mpath-qdlab", "--table", table)
	undo(t, "dmsetup", "remove", "--noudevsync", "qdlab-paths")
	do(t, "dmsetup", "mknodes")
	got := labJudge(t, "/dev/mapper/qdlab-paths", Intent{SharedDisk: true})
	assert.Contains(t, got, "is a dm-multipath map: settings of a path below it fail with EIO; multipath -f qdlab-paths")
	assert.Contains(t, labJudge(t, drive.Name, Intent{SharedDisk: true}), "(qdlab-paths)")
}

// md keeps the name of a member that was pulled, and takes it for whole until it writes to it.
func TestLabDelayArrayWithoutOneOfItsDrives(t *testing.T) {
	ctx, h := context.Background(), NewHost("/")
	all, err := h.Devices()
	require.NoError(t, err)
	var nodes []string
	var pulled Device
	for _, d := range all {
		if d.Driver == "scsi_debug" && len(nodes) < 2 {
			nodes, pulled = append(nodes, d.Path), d
		}
	}
	require.Len(t, nodes, 2)
	host := pulled.scsiHost()
	do(t, "mdadm", append([]string{"--create", "/dev/md0", "--run", "--assume-clean", "--bitmap=none", "--level=1", "--raid-devices=2"}, nodes...)...)
	t.Cleanup(func() { // the array goes first, so that the drive gets its letter back
		do(t, "mdadm", "--stop", "/dev/md0")
		require.NoError(t, os.WriteFile("/sys/class/scsi_host/"+host+"/scan", []byte("- - -"), 0))
		require.Eventually(t, func() bool { _, err := os.Stat(pulled.Path); return err == nil }, 30*time.Second, 50*time.Millisecond)
		do(t, "mdadm", append([]string{"--zero-superblock"}, nodes...)...)
	})
	before, err := h.Resolve("/dev/md0")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(pulled.SysDir()+"/device/delete", []byte("1"), 0))
	require.Eventually(t, func() bool { _, err := h.Device(pulled.Name); return err != nil }, 30*time.Second, 50*time.Millisecond)

	refusals, err := h.Recheck(ctx, before, Intent{})
	require.NoError(t, err)
	assert.Contains(t, text(refusals), pulled.Name+" is gone (device lost)")
	s, err := h.Resolve("/dev/md0")
	require.NoError(t, err)
	assert.Len(t, s.Members, 1)
	assert.Contains(t, s.Layers[0].Detail, pulled.Name+" gone")
	assert.Contains(t, labJudge(t, "/dev/md0", Intent{}), "the array md0 has lost "+pulled.Name+": gone from the machine, and md has not noticed")
	do(t, "mdadm", "/dev/md0", "--fail", "detached", "--remove", "detached") // what the refusal says
	assert.Contains(t, labJudge(t, "/dev/md0", Intent{}), "the array md0 is degraded: 1 of its 2 members missing")
}
