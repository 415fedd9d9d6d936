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
	"golang.org/x/sys/unix"
)

// Arrays, mappings, and what the kernel does behind our back, before a real kernel.

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

func TestLabAllTemperature(t *testing.T) {
	ctx := context.Background()
	celsius, ok := labDisk(t, "QDLAB-NVME-1").Temperature(ctx)
	assert.True(t, ok)
	assert.InDelta(t, 49.85, celsius, 1e-9, "QEMU's 323 K")
	for _, serial := range []string{"QDLAB-SATA-3", "QDLAB-VIRTIO-1"} {
		_, ok = labDisk(t, serial).Temperature(ctx)
		assert.False(t, ok, serial)
	}
	health := labDisk(t, "QDLAB-NVME-1").Health(ctx)
	assert.Equal(t, "live", health.State)
}

// Field case 3: the drive's sectors from here on fail, and libata gives NCQ up. queue_depth does not tell.
func TestLabSataSignsOfADriveWithoutNCQ(t *testing.T) {
	ctx, h := context.Background(), NewHost("/")
	bad, err := h.Resolve("serial:QDLAB-SATA-BAD")
	require.NoError(t, err)
	d, good := bad.Device, labDisk(t, "QDLAB-SATA-1")
	again := func() { // a depth above 1 that is another one switches NCQ on again
		for _, depth := range []string{"31", "32"} {
			require.NoError(t, h.Write(ctx, d.SysDir()+"/device/queue_depth", depth))
		}
	}
	again()
	t.Cleanup(again)
	log, err := h.WatchKernel()
	require.NoError(t, err)
	defer log.Close()
	before, goodBefore := d.Health(ctx), good.Health(ctx)
	assert.Equal(t, "running", before.State)
	assert.NotEmpty(t, before.Errors)
	assert.Equal(t, "0", before.SpeedDowns)
	assert.Regexp(t, ` Gbps$`, before.LinkSpeed)

	// What a sweep does is no sign.
	labApply(t, good, "write_cache", "off")
	labApply(t, good, "queue_depth", "1")
	labApply(t, good, "queue_depth", "32")
	labApply(t, good, "write_cache", "on")
	messages, lost := log.Messages()
	assert.False(t, lost)
	assert.Empty(t, h.Signs(good, goodBefore, good.Health(ctx), messages), messages)

	file, err := os.OpenFile(d.Path, os.O_RDONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer file.Close()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(page) }()
	_, err = file.ReadAt(page, 112<<20)
	require.ErrorIs(t, err, unix.EIO)

	messages, lost = log.Messages()
	assert.False(t, lost)
	signs := h.Signs(d, before, d.Health(ctx), messages)
	t.Logf("%q", signs)
	require.Len(t, signs, 2)
	assert.Equal(t, NCQOff, signs[0].Kind)
	assert.Regexp(t, `^ata\d+\.00: NCQ disabled due to excessive errors$`, signs[0].Text)
	assert.Equal(t, ErrorHandling, signs[1].Kind)
	assert.Equal(t, "32", h.text(d.SysDir()+"/device/queue_depth"))
	assert.Empty(t, h.Signs(good, goodBefore, good.Health(ctx), messages))
	signs = h.Signs(d, before, d.Health(ctx), nil)
	require.Len(t, signs, 1, "without the log the error record tells of errors")
	assert.Contains(t, signs[0].Text, "(ering)")
}

// A medium error of one of four drives on the same driver.
func TestLabDelaySignsOfAMediumError(t *testing.T) {
	ctx, h := context.Background(), NewHost("/")
	all, err := h.Devices()
	require.NoError(t, err)
	var drives []Device
	for _, d := range all {
		if d.Driver == "scsi_debug" {
			drives = append(drives, d)
		}
	}
	require.Len(t, drives, 4)
	const options = "/sys/bus/pseudo/drivers/scsi_debug/opts"
	was, err := os.ReadFile(options)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(options, []byte("2"), 0)) // a medium error at sector 0x1234
	t.Cleanup(func() { assert.NoError(t, os.WriteFile(options, was[:len(was)-1], 0)) })
	log, err := h.WatchKernel()
	require.NoError(t, err)
	defer log.Close()
	before := drives[2].Health(ctx)
	file, err := os.OpenFile(drives[2].Path, os.O_RDONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer file.Close()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(page) }()
	_, err = file.ReadAt(page, 0x1230*512)
	require.Error(t, err)
	messages, _ := log.Messages()
	for i, d := range drives {
		signs := h.Signs(d, before, d.Health(ctx), messages)
		if i != 2 {
			assert.Empty(t, signs, d.Name)
			continue
		}
		require.Len(t, signs, 1, "%q", messages)
		assert.Equal(t, ErrorHandling, signs[0].Kind)
		assert.Contains(t, signs[0].Text, "["+d.Name+"]")
	}
}

// The log begins now, holds what the kernel says and no program, and says when something was overwritten.
func TestLabSataKernelLog(t *testing.T) {
	h := NewHost("/")
	log, err := h.WatchKernel()
	require.NoError(t, err)
	defer log.Close()
	help := func() { require.NoError(t, os.WriteFile("/proc/sysrq-trigger", []byte("h"), 0)) }
	require.NoError(t, os.WriteFile("/dev/kmsg", []byte("ata1.00: NCQ disabled due to excessive errors"), 0))
	help()
	messages, lost := log.Messages()
	assert.False(t, lost)
	require.Len(t, messages, 1, "%q", messages)
	assert.Contains(t, messages[0], "sysrq: HELP")
	messages, lost = log.Messages()
	assert.False(t, lost)
	assert.Empty(t, messages)

	const limit = "/proc/sys/kernel/printk_devkmsg"
	was, err := os.ReadFile(limit)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(limit, []byte("on\n"), 0))
	t.Cleanup(func() { assert.NoError(t, os.WriteFile(limit, was, 0)) })
	writer, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer writer.Close()
	for range 2000 { // more than fits
		_, err := writer.Write([]byte("<15>" + strings.Repeat("x", 900)))
		require.NoError(t, err)
	}
	help()
	start := time.Now()
	messages, lost = log.Messages()
	t.Logf("reading a full log took %v", time.Since(start).Round(time.Millisecond))
	assert.True(t, lost)
	require.NotEmpty(t, messages)
	assert.Contains(t, messages[len(messages)-1], "sysrq: HELP")
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
