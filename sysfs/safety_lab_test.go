//go:build lab

package sysfs

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The safety gate before a real kernel: what it says of a disk that is really mounted, swapped to,
// assembled or held open, and that it lets go of it afterwards.

// labDisk finds a drive by its serial, blank: a test before may have left something.
func labDisk(t *testing.T, serial string) Device {
	t.Helper()
	s, err := NewHost("/").Resolve("serial:" + serial)
	require.NoError(t, err)
	wipe(t, s.Device)
	return s.Device
}

// wipe takes the partitions away and zeroes what is looked at.
func wipe(t *testing.T, d Device) {
	t.Helper()
	f, err := os.OpenFile(d.Path, os.O_WRONLY|unix.O_EXCL, 0)
	require.NoError(t, err, "somebody still has %s", d.Name)
	defer f.Close()
	zero := make([]byte, edge)
	for _, at := range []int64{0, d.Bytes - edge} {
		_, err := f.WriteAt(zero, at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
	require.NoError(t, unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0))
}

func do(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
}

func undo(t *testing.T, name string, args ...string) {
	t.Helper()
	t.Cleanup(func() { do(t, name, args...) })
}

func labJudge(t *testing.T, target string, in Intent) string {
	t.Helper()
	h := NewHost("/")
	s, err := h.Resolve(target)
	if st, statErr := os.Stat(target); statErr == nil && st.IsDir() {
		s, err = h.ResolveDirectory(target)
	}
	require.NoError(t, err)
	refusals, _, err := h.Judge(context.Background(), s, in)
	require.NoError(t, err)
	return text(refusals)
}

// split makes two partitions of a drive.
func split(t *testing.T, d Device) (one, two string) {
	t.Helper()
	cmd := exec.Command("sfdisk", "--no-tell-kernel", "--label=gpt", d.Path)
	cmd.Stdin = strings.NewReader("size=64MiB\nsize=64MiB\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	f, err := os.Open(d.Path)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0))
	require.NoError(t, f.Close())
	parts, err := d.Partitions()
	require.NoError(t, err)
	require.Len(t, parts, 2)
	return parts[0].Path, parts[1].Path
}

func mountOn(t *testing.T, node string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a b!")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, unix.Mount(node, dir, "ext4", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

func TestLabSataDriveAsItIs(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-1")
	assert.Equal(t, "QEMU HARDDISK", d.Model)
	assert.Equal(t, "QDLAB-SATA-1", d.Serial)
	assert.Equal(t, Identity("wwid:naa.5000c5000abc0001"), d.Identity)
	assert.Equal(t, "ata", d.Transport)
	assert.Equal(t, "ahci", d.Driver)
	assert.Regexp(t, `^0000:00:[0-9a-f]{2}\.[0-7] 8086:2922$`, d.Controller)
	assert.Regexp(t, `^[0-9.]+ Gbps$`, d.LinkSpeed)
	assert.NotEmpty(t, d.Firmware)
	assert.NotEmpty(t, d.ataDevice())
	assert.EqualValues(t, 512<<20, d.Bytes)
	assert.Equal(t, KindDisk, d.Kind)
}

func TestLabAllDrivesAsTheyAre(t *testing.T) {
	h := NewHost("/")
	for serial, want := range map[string]struct{ transport, driver, model string }{
		"QDLAB-SATA-3":   {"ata", "ahci", "QEMU HARDDISK"},
		"QDLAB-NVME-1":   {"nvme", "nvme", "QEMU NVMe Ctrl"},
		"QDLAB-VIRTIO-1": {"virtio", "virtio_blk", ""},
	} {
		s, err := h.Resolve("serial:" + serial)
		require.NoError(t, err)
		d := s.Device
		assert.Equal(t, want, struct{ transport, driver, model string }{d.Transport, d.Driver, d.Model}, serial)
		assert.NotEmpty(t, d.Identity, serial)
		assert.Equal(t, []string{d.Name}, names(s.Members))
		assert.Empty(t, labJudge(t, d.Name, Intent{}), serial)
	}
	all, err := h.Devices()
	require.NoError(t, err)
	debug := 0
	identities := map[Identity]bool{}
	for _, d := range all {
		if d.Model == "scsi_debug" {
			debug++
			assert.Equal(t, "scsi", d.Transport)
			assert.Equal(t, "scsi_debug", d.Driver)
			assert.False(t, d.Libata())
			identities[d.Identity] = true
		}
	}
	assert.Equal(t, 4, debug)
	assert.Len(t, identities, 4)
}

func TestLabSataBlankAndNot(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-3") // it has no WWN: t10
	write := func(erase string) string { return labJudge(t, d.Name, Intent{Write: true, Erase: []string{erase}}) }
	assert.Empty(t, labJudge(t, d.Name, Intent{}))
	assert.Empty(t, write(d.Name))
	assert.Contains(t, labJudge(t, d.Name, Intent{Write: true}), "no --erase names it")

	f, err := os.OpenFile(d.Path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("unknown"), d.Bytes-512)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	assert.Contains(t, write(d.Path), "its last MiB is not zero")

	do(t, "mkfs.ext4", "-q", "-F", d.Path)
	assert.Contains(t, write(d.Name), "a signature of ext4")
	assert.Contains(t, write("/dev/./"+d.Name), "a signature of ext4")
	assert.Empty(t, write("serial:QDLAB-SATA-3"))
	assert.Empty(t, write(string(d.Identity)))
	assert.Empty(t, write(squeeze(string(d.Identity))))
	assert.Contains(t, write("serial:QDLAB-SATA-4"), "no --erase names it")
	wipe(t, d)

	split(t, d)
	assert.Contains(t, write(d.Name), "a partition table (gpt)")
	wipe(t, d)
	assert.Empty(t, write(d.Name))
}

func TestLabSataMounted(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-3")
	one, two := split(t, d)
	do(t, "mkfs.ext4", "-q", "-F", one)
	shared := Intent{SharedDisk: true}
	assert.Empty(t, labJudge(t, one, Intent{}))
	dir := mountOn(t, one)
	name := filepath.Base(one)
	for _, target := range []string{one, d.Path} {
		assert.Contains(t, labJudge(t, target, shared), name+" is mounted on "+dir, target)
	}
	assert.Contains(t, labJudge(t, two, Intent{}), "--allow shared-disk")
	assert.Empty(t, labJudge(t, two, shared))
	assert.Empty(t, labJudge(t, dir, Intent{Write: true, NeedKnobs: true}))

	s, err := NewHost("/").ResolveDirectory(dir)
	require.NoError(t, err)
	assert.Equal(t, name, s.Device.Name)
	assert.Equal(t, dir, s.MountPoint)
	assert.Equal(t, []string{d.Name}, names(s.Members))
	refusals, err := NewHost("/").Recheck(context.Background(), s, Intent{Write: true})
	require.NoError(t, err)
	assert.Empty(t, refusals)
}

// A mount that only another process sees keeps the disk busy all the same.
func TestLabSataMountedInAnotherNamespace(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-3")
	do(t, "mkfs.ext4", "-q", "-F", d.Path)
	dir := t.TempDir()
	holder(t, "unshare -m sh -c 'mount -t ext4 "+d.Path+" "+dir+" && echo ready && exec cat'")
	assert.Contains(t, labJudge(t, d.Name, Intent{}), "in the mount namespace of pid")
}

// holder starts a shell that prints a line when it has what it should hold, and ends with the test.
func holder(t *testing.T, script string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // cat ends when its input does
		assert.NoError(t, in.Close())
		_, _ = io.Copy(io.Discard, out)
		assert.NoError(t, cmd.Wait())
	})
	line := make([]byte, len("ready\n"))
	_, err = io.ReadFull(out, line)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(line))
	return cmd.Process.Pid
}

// Field case 37, and a node that is in no /dev any more.
func TestLabSataOpenElsewhere(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-3")
	one, two := split(t, d)
	t.Run("for reading", func(t *testing.T) {
		holder(t, "exec 3<"+d.Path+"; echo ready; cat")
		assert.Empty(t, labJudge(t, d.Name, Intent{}))
	})
	t.Run("for writing", func(t *testing.T) {
		pid := holder(t, "exec 3<>"+d.Path+"; echo ready; exec cat")
		for _, target := range []string{d.Path, one} {
			got := labJudge(t, target, Intent{SharedDisk: true})
			assert.Contains(t, got, d.Name+" is open for writing in pid")
			assert.Contains(t, got, "cat")
			assert.Empty(t, labJudge(t, target, Intent{OwnPIDs: []int{pid}}))
		}
	})
	t.Run("another partition", func(t *testing.T) {
		holder(t, "exec 3<>"+two+"; echo ready; exec cat")
		assert.Contains(t, labJudge(t, one, Intent{}), "--allow shared-disk")
		assert.Empty(t, labJudge(t, one, Intent{SharedDisk: true}))
		assert.Contains(t, labJudge(t, d.Path, Intent{SharedDisk: true}), "is open for writing")
	})
	t.Run("by a node made elsewhere and deleted", func(t *testing.T) {
		node := filepath.Join(t.TempDir(), "node")
		require.NoError(t, unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(uint32(d.Major), uint32(d.Minor)))))
		holder(t, "exec 3<>"+node+"; rm "+node+"; echo ready; exec cat")
		assert.Contains(t, labJudge(t, d.Name, Intent{}), d.Name+" is open for writing in pid")
	})
	assert.Empty(t, labJudge(t, d.Name, Intent{}))
}

// smartd opens a disk for writing and closes it at once: no reason to end a night.
func TestLabSataOpenForAMoment(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-3")
	cmd := exec.Command("sh", "-c", "exec 3<>"+d.Path+"; echo ready; sleep 0.5")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	require.NoError(t, err)
	assert.Empty(t, labJudge(t, d.Name, Intent{}))
	require.NoError(t, cmd.Wait())
}

func TestLabSataArray(t *testing.T) {
	a, b := labDisk(t, "QDLAB-SATA-3"), labDisk(t, "QDLAB-SATA-4")
	one, two := split(t, a)
	do(t, "mdadm", "--create", "/dev/md7", "--run", "--level=1", "--raid-devices=2", "--assume-clean", "--bitmap=none", one, b.Path)
	undo(t, "mdadm", "--stop", "/dev/md7")
	shared := Intent{SharedDisk: true}
	for target, used := range map[string]string{one: one, a.Path: one, b.Path: b.Path} {
		assert.Contains(t, labJudge(t, target, shared), filepath.Base(used)+" is a member of the array md7", target)
	}
	assert.Contains(t, labJudge(t, two, Intent{}), "--allow shared-disk")
	assert.Empty(t, labJudge(t, two, shared))
	assert.Empty(t, labJudge(t, "/dev/md7", Intent{}))

	s, err := NewHost("/").Resolve("/dev/md7")
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{a.Name, b.Name}, names(s.Members))
	assert.Contains(t, s.Layers[0].Detail, "raid1, clean")

	// Field case 5: a member fails.
	do(t, "mdadm", "/dev/md7", "--fail", b.Path)
	refusals, err := NewHost("/").Recheck(context.Background(), s, Intent{})
	require.NoError(t, err)
	assert.Contains(t, text(refusals), "the array md7 is degraded: 1 of its 2 members missing (faulty: "+b.Name+")")
}

func TestLabSataSwap(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-3")
	one, two := split(t, d)
	do(t, "wipefs", "-a", one) // the array of another test was here
	do(t, "mkswap", one)
	assert.Contains(t, labJudge(t, one, Intent{Write: true, Erase: []string{one}}), "a signature of swap")
	do(t, "swapon", one)
	undo(t, "swapoff", one)
	for _, target := range []string{one, two, d.Path} {
		assert.Contains(t, labJudge(t, target, Intent{SharedDisk: true}), filepath.Base(one)+" holds swap", target)
	}
}

func TestLabSataMapping(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-3")
	do(t, "modprobe", "dm_mod")
	for name, table := range map[string]string{"qdlab-a": "0 2048 linear " + d.Path + " 4096", "qdlab-b": "0 2048 linear " + d.Path + " 8192"} {
		do(t, "dmsetup", "create", name, "--noudevsync", "--noudevrules", "--table", table)
		undo(t, "dmsetup", "remove", "--noudevsync", name)
	}
	do(t, "dmsetup", "mknodes") // there is no udev
	assert.Contains(t, labJudge(t, d.Name, Intent{SharedDisk: true}), "is under the mapping dm-")
	s, err := NewHost("/").Resolve("/dev/mapper/qdlab-a")
	require.NoError(t, err)
	assert.Equal(t, []string{d.Name}, names(s.Members))
	assert.Contains(t, labJudge(t, "/dev/mapper/qdlab-a", Intent{}), "(qdlab-b)", "the other one shares the disk")
	assert.Empty(t, labJudge(t, "/dev/mapper/qdlab-a", Intent{SharedDisk: true}))
}

func TestLabSataLVM(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-3")
	do(t, "modprobe", "dm_mod")
	const config = "activation{udev_sync=0 udev_rules=0} devices{obtain_device_list_from_udev=0 external_device_info_source=\"none\"}"
	lvm := func(args ...string) { t.Helper(); do(t, "lvm", append(args, "--config", config)...) }
	lvm("pvcreate", "-f", "-y", d.Path)
	lvm("vgcreate", "qdlab", d.Path)
	assert.Contains(t, labJudge(t, d.Name, Intent{Write: true, Erase: []string{d.Name}}), "a signature of LVM2_member")
	lvm("lvcreate", "-y", "-Zn", "-Wn", "-L", "32M", "-n", "one", "qdlab")
	t.Cleanup(func() { lvm("vgchange", "-an", "qdlab") })
	assert.Contains(t, labJudge(t, d.Name, Intent{SharedDisk: true}), "(qdlab-one); lvchange -an /dev/mapper/qdlab-one")
	s, err := NewHost("/").Resolve("/dev/mapper/qdlab-one")
	require.NoError(t, err)
	assert.Equal(t, []string{d.Name}, names(s.Members))
	assert.True(t, strings.HasPrefix(string(s.Device.Identity), "wwid:dm-uuid-LVM-"))
	assert.Empty(t, labJudge(t, s.Device.Name, Intent{}))
}

func TestLabSataOffline(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-4")
	s, err := NewHost("/").Resolve(d.Name)
	require.NoError(t, err)
	state := d.SysDir() + "/device/state"
	require.NoError(t, NewHost("/").Write(context.Background(), state, "offline"))
	t.Cleanup(func() { assert.NoError(t, NewHost("/").Write(context.Background(), state, "running")) })
	refusals, err := NewHost("/").Recheck(context.Background(), s, Intent{})
	require.NoError(t, err)
	assert.Contains(t, text(refusals), d.Name+" is offline")
}

func TestLabSataLoopOnTheDisk(t *testing.T) {
	d := labDisk(t, "QDLAB-SATA-3")
	out, err := exec.Command("losetup", "-f", "--show", d.Path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	loop := strings.TrimSpace(string(out))
	undo(t, "losetup", "-d", loop)
	assert.Contains(t, labJudge(t, d.Name, Intent{SharedDisk: true}), d.Name+" is used by "+filepath.Base(loop))
}

func TestLabRootDiskIsRefused(t *testing.T) {
	s, err := NewHost("/").Resolve("serial:QDLAB-SATA-1")
	require.NoError(t, err)
	got := labJudge(t, s.Device.Name, Intent{SharedDisk: true})
	assert.Contains(t, got, s.Device.Name+" holds the root file system")
	assert.Empty(t, labJudge(t, "serial:QDLAB-SATA-2", Intent{}))
	assert.Empty(t, labJudge(t, t.TempDir(), Intent{Write: true}))
}
