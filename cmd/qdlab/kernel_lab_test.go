//go:build lab

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The lab's own tests: the guests are what the rest of the project's lab tests take them for.

const (
	labPatience = 5 * time.Second
	labPoll     = 10 * time.Millisecond
)

// driveFolder finds a drive of the guest by serial and gives its folder below /sys/block.
func driveFolder(t *testing.T, serial string) string {
	t.Helper()
	node, err := driveBySerial(serial)
	require.NoError(t, err)
	return "/sys/block/" + filepath.Base(node)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// write is one write(2) to an attribute, as the kernel sees it.
func write(t *testing.T, name, value string) error {
	t.Helper()
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = file.WriteString(value + "\n")
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

func TestLabSataQueueDepth(t *testing.T) {
	depth := driveFolder(t, "QDLAB-SATA-1") + "/device/queue_depth"
	require.Equal(t, "32", read(t, depth))
	for _, refused := range []string{"0", "33", "64"} {
		require.ErrorIs(t, write(t, depth, refused), unix.EINVAL, "queue_depth %s", refused)
		assert.Equal(t, "32", read(t, depth))
	}
	for _, level := range []string{"1", "2", "31", "32"} {
		require.NoError(t, write(t, depth, level))
		assert.Equal(t, level, read(t, depth))
	}
}

func TestLabSataWriteCacheMovesIdentify(t *testing.T) {
	node, err := driveBySerial("QDLAB-SATA-2")
	require.NoError(t, err)
	before := word85(t, node)
	for _, state := range []struct {
		flag  string
		bit   string
		cache string
	}{{"-W0", "0", "write through"}, {"-W1", "1", "write back"}} {
		out, err := exec.Command("hdparm", state.flag, node).CombinedOutput()
		require.NoError(t, err, "%s", out)
		word := word85(t, node)
		assert.Equal(t, state.bit == "1", word&(1<<5) != 0, "word 85 is %#04x after %s", word, state.flag)
		require.Eventually(t, func() bool { return read(t, driveFolder(t, "QDLAB-SATA-2")+"/queue/write_cache") == state.cache }, labPatience, labPoll)
	}
	assert.Equal(t, before, word85(t, node))
}

// word85 reads IDENTIFY word 85, of which bit 5 says that the write cache is on.
func word85(t *testing.T, node string) uint16 {
	t.Helper()
	out, err := exec.Command("hdparm", "--Istdout", node).Output()
	require.NoError(t, err)
	words := regexp.MustCompile(`\b[0-9a-f]{4}\b`).FindAllString(strings.SplitN(string(out), "\n", 3)[2], -1)
	require.Len(t, words, 256)
	word, err := strconv.ParseUint(words[85], 16, 16)
	require.NoError(t, err)
	return uint16(word)
}

// kernelLog is what the kernel has said since the last call, in this test.
func kernelLog(t *testing.T) func() string {
	t.Helper()
	log, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(log) })
	_, err = unix.Seek(log, 0, unix.SEEK_END)
	require.NoError(t, err)
	return func() string {
		var said strings.Builder
		record := make([]byte, 8<<10) // one read gives one record
		for {
			n, err := unix.Read(log, record)
			if err != nil {
				require.ErrorIs(t, err, unix.EAGAIN)
				return said.String()
			}
			said.Write(record[:n])
		}
	}
}

// directRead reads 4 KiB at a sector, past the page cache: read-ahead would meet a bad sector on its own.
func directRead(t *testing.T, node string, sector int64) error {
	t.Helper()
	file, err := os.OpenFile(node, os.O_RDONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(page) }()
	_, err = file.ReadAt(page, sector*512)
	return err
}

func TestLabSataBadSectorsMakeTheKernelGiveUpNCQ(t *testing.T) {
	const gaveUp = "NCQ disabled due to excessive errors"
	node, err := driveBySerial("QDLAB-SATA-BAD")
	require.NoError(t, err)
	depth := driveFolder(t, "QDLAB-SATA-BAD") + "/device/queue_depth"
	log := kernelLog(t)
	require.NoError(t, directRead(t, node, faultFirst-8))
	require.NotContains(t, log(), "failed command", "sound below the first zone")
	t.Cleanup(func() { // NCQ comes back with a depth above 1 that is another one
		assert.NoError(t, write(t, depth, "31"))
		assert.NoError(t, write(t, depth, "32"))
	})
	const zone = faultFirst + (faultZones-1)*zoneApart
	require.NoError(t, directRead(t, node, zone), "the fifth attempt succeeds")
	said := log()
	assert.Contains(t, said, gaveUp)
	assert.Equal(t, 4, strings.Count(said, "failed command: READ FPDMA QUEUED"))
	assert.Equal(t, "32", read(t, depth), "which shows nothing of it")
	require.NoError(t, directRead(t, node, zone), "a zone works once")
	assert.Empty(t, log())

	require.NoError(t, write(t, depth, "31"))
	require.ErrorIs(t, directRead(t, node, faultEver), unix.EIO)
	assert.Contains(t, log(), gaveUp, "again: the depth had switched it on")
}

func TestLabSataHasIdentitiesOfBothKinds(t *testing.T) {
	for serial, identity := range map[string]string{
		"QDLAB-SATA-1": "naa.5000c5000abc0001",
		"QDLAB-SATA-3": "t10.ATA     QEMU HARDDISK                           QDLAB-SATA-3",
	} {
		assert.Equal(t, identity, read(t, driveFolder(t, serial)+"/device/wwid"))
	}
}

// raid makes an array /dev/md9 for this test.
func raid(t *testing.T, level string, members ...string) {
	t.Helper()
	args := []string{"--create", "/dev/md9", "--run", "--level=" + level, fmt.Sprintf("--raid-devices=%d", len(members)), "--assume-clean"}
	if level != "0" {
		args = append(args, "--bitmap=none")
	}
	mustRun(t, "mdadm", append(args, members...)...)
	t.Cleanup(func() {
		mustRun(t, "mdadm", "--stop", "/dev/md9")
		mustRun(t, "mdadm", append([]string{"--zero-superblock"}, members...)...)
	})
	assert.Equal(t, "raid"+level, read(t, "/sys/block/md9/md/level"))
	slaves, err := filepath.Glob("/sys/block/md9/slaves/*")
	require.NoError(t, err)
	assert.Len(t, slaves, len(members))
}

func TestLabSataBuildsRAID(t *testing.T) {
	one, err := driveBySerial("QDLAB-SATA-3")
	require.NoError(t, err)
	two, err := driveBySerial("QDLAB-SATA-4")
	require.NoError(t, err)
	raid(t, "1", one, two)
}

// An array over drives with a latency: a chunk is read from one member, in its 10 ms.
func TestLabDelayBuildsRAID(t *testing.T) {
	found, err := filepath.Glob("/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/sd*")
	require.NoError(t, err)
	require.Len(t, found, 4)
	var members []string
	for _, dir := range found {
		members = append(members, "/dev/"+filepath.Base(dir))
	}
	raid(t, "5", members...)
	started := time.Now()
	require.NoError(t, directRead(t, "/dev/md9", 0))
	assert.GreaterOrEqual(t, time.Since(started), 10*time.Millisecond)
}

func TestLabDelayDrives(t *testing.T) {
	models, err := filepath.Glob("/sys/block/sd*/device/model")
	require.NoError(t, err)
	require.Len(t, models, 4)
	serials := map[string]bool{}
	for _, model := range models {
		device := filepath.Dir(model)
		assert.Equal(t, "scsi_debug", read(t, model))
		assert.Equal(t, "64", read(t, device+"/queue_depth"))
		assert.True(t, strings.HasPrefix(read(t, device+"/wwid"), "naa."))
		serials[diskSerial(filepath.Dir(device))] = true
	}
	assert.Len(t, serials, 4, "each has a serial of its own: %v", serials)
	assert.Equal(t, "10000000", read(t, "/sys/module/scsi_debug/parameters/ndelay"))
}

func TestLabAllHasEveryBus(t *testing.T) {
	for _, serial := range []string{"QDLAB-SATA-1", "QDLAB-SATA-4", "QDLAB-NVME-1", "QDLAB-VIRTIO-1", "QDLAB-USB-1", "QDLAB-SCSI-FULL", scratchSerial} {
		assert.NotEmpty(t, driveFolder(t, serial))
	}
	_, err := os.Stat(driveFolder(t, "QDLAB-NVME-1") + "/device/queue_depth")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestLabAllUSBStick(t *testing.T) {
	dir := driveFolder(t, "QDLAB-USB-1")
	driver, err := filepath.EvalSymlinks(dir + "/device/../../../driver")
	require.NoError(t, err)
	assert.Equal(t, "usb-storage", filepath.Base(driver))
	assert.Equal(t, "1", read(t, dir+"/device/queue_depth"))
	info, err := os.Stat(dir + "/device/queue_depth")
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o444), info.Mode().Perm(), "usb-storage cannot change it")
}

// Eleven answers TASK SET FULL lower the depth by one, and are no error for whoever reads.
func TestLabAllQueueFullLowersTheDepth(t *testing.T) {
	node, err := driveBySerial("QDLAB-SCSI-FULL")
	require.NoError(t, err)
	depth := driveFolder(t, "QDLAB-SCSI-FULL") + "/device/queue_depth"
	require.Equal(t, "128", read(t, depth))
	t.Cleanup(func() { assert.NoError(t, write(t, depth, "128")) })
	answers := 0
	for ; read(t, depth) == "128"; answers++ {
		require.Less(t, answers, fullReads/4)
		require.NoError(t, directRead(t, node, int64(fullReads-1-answers)*fullApart+faultFirst), "the command is repeated")
		time.Sleep(80 * time.Millisecond) // 16 jiffies: the SCSI layer takes those within as one event
	}
	assert.Equal(t, "127", read(t, depth))
	assert.GreaterOrEqual(t, answers, 11)
}

// nvmeCache is what the drive says of feature 06h: "0" off, "1" on.
func nvmeCache(t *testing.T, node string) string {
	t.Helper()
	out, err := exec.Command("nvme", "get-feature", node, "-f", "6", "-H").CombinedOutput()
	require.NoError(t, err, "%s", out)
	found := regexp.MustCompile(`Current value:\s*(?:0x)?0*([01])\b`).FindSubmatch(out)
	require.NotNil(t, found, "%s", out)
	return string(found[1])
}

// The write cache is the controller's: the command is refused when it names a namespace, as nvme does for nvme0n1.
func TestLabAllNVMeWriteCacheMoves(t *testing.T) {
	node, err := driveBySerial("QDLAB-NVME-1")
	require.NoError(t, err)
	node = strings.TrimSuffix(node, "n1")
	require.Equal(t, "1", nvmeCache(t, node))
	for _, value := range []string{"0", "1"} {
		out, err := exec.Command("nvme", "set-feature", node, "-f", "6", "-v", value).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, value, nvmeCache(t, node))
	}
}

func TestLabAllVirtioCacheTypeMoves(t *testing.T) {
	dir := driveFolder(t, "QDLAB-VIRTIO-1")
	require.Equal(t, "write back", read(t, dir+"/cache_type"))
	for _, value := range []string{"write through", "write back"} {
		require.NoError(t, write(t, dir+"/cache_type", value))
		assert.Equal(t, value, read(t, dir+"/cache_type"))
		assert.Equal(t, value, read(t, dir+"/queue/write_cache"))
	}
}

// The kernel's sensor of an NVMe drive. There is none of a SATA drive here: drivetemp asks SATA drives only, and
// QEMU's says in IDENTIFY word 93 that it is a parallel one.
func TestLabAllNVMeTemperature(t *testing.T) {
	found, err := filepath.Glob(driveFolder(t, "QDLAB-NVME-1") + "/device/hwmon*")
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, "nvme", read(t, found[0]+"/name"))
	assert.Equal(t, "49850", read(t, found[0]+"/temp1_input"), "323 K in thousandths of a degree Celsius")
}

func mustRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return string(out)
}

// Everything that dm can put on a drive here: LVM, dm-crypt, and a multipath map over two paths.
func TestLabSataDeviceMapper(t *testing.T) {
	one, err := driveBySerial("QDLAB-SATA-3")
	require.NoError(t, err)
	two, err := driveBySerial("QDLAB-SATA-2") // mkfs.xfs wants 300 MB
	require.NoError(t, err)
	cleanUp := func(name string, args ...string) { t.Cleanup(func() { mustRun(t, name, args...) }) }
	cleanUp("wipefs", "-a", one, two)

	mustRun(t, "pvcreate", "-f", "-y", one)
	mustRun(t, "vgcreate", "qdlab", one)
	mustRun(t, "lvcreate", "-y", "-Zn", "-Wn", "-L", "64M", "-n", "data", "qdlab")
	cleanUp("vgremove", "-f", "-y", "qdlab")
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(strings.Repeat("k", 64)), 0o600))
	mustRun(t, "cryptsetup", "open", "--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "512", "--key-file", key, "/dev/mapper/qdlab-data", "secret")
	cleanUp("cryptsetup", "close", "secret")
	assert.Contains(t, mustRun(t, "dmsetup", "table", "secret"), "crypt aes-xts-plain64")
	mustRun(t, "mkfs.xfs", "-q", "-K", "-f", two)
	require.NoError(t, os.MkdirAll("/mnt/xfs", 0o755))
	mustRun(t, "mount", "-t", "xfs", two, "/mnt/xfs")
	mustRun(t, "umount", "/mnt/xfs")

	sectors := read(t, driveFolder(t, "QDLAB-SATA-2")+"/size")
	mustRun(t, "dmsetup", "create", "paths", "--table", "0 "+sectors+" multipath 0 0 1 1 round-robin 0 1 1 "+two+" 1000")
	cleanUp("dmsetup", "remove", "paths")
	assert.Contains(t, mustRun(t, "dmsetup", "status", "paths"), "multipath")
}

func TestLabRootIsOnADisk(t *testing.T) {
	var root unix.Stat_t
	require.NoError(t, unix.Stat("/", &root))
	assert.Equal(t, read(t, driveFolder(t, "QDLAB-SATA-1")+"/dev"), fmt.Sprintf("%d:%d", unix.Major(root.Dev), unix.Minor(root.Dev)))
}

// The environment that every lab test may rely on.
func TestLabSataEnvironment(t *testing.T) {
	assert.Equal(t, 0, os.Geteuid())
	assert.Equal(t, "sata", os.Getenv("QDLAB_GUEST"))
	assert.True(t, strings.HasPrefix(t.TempDir(), scratchFolder), "temporary files are on ext4: %s", os.TempDir())
	_, err := os.Stat("guests.go")
	assert.NoError(t, err, "the working folder is the package's")
	for _, name := range []string{"mdadm", "hdparm", "blkid", "lsblk", "mkfs.ext4", "sfdisk", "sg_modes", "pvcreate", "dmsetup", "modprobe", "mkswap",
		"nvme", "sdparm", "mkfs.xfs", "cryptsetup", "wipefs"} {
		_, err := exec.LookPath(name)
		assert.NoError(t, err)
	}
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "direct"), os.O_CREATE|os.O_RDWR|unix.O_DIRECT, 0o600)
	require.NoError(t, err, "O_DIRECT works there")
	require.NoError(t, file.Close())
}
