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

// drive finds a drive of the guest by serial and gives its folder below /sys/block.
func drive(t *testing.T, serial string) string {
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
	depth := drive(t, "QDLAB-SATA-1") + "/device/queue_depth"
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
		require.Eventually(t, func() bool { return read(t, drive(t, "QDLAB-SATA-2")+"/queue/write_cache") == state.cache }, labPatience, labPoll)
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

func TestLabSataHasIdentitiesOfBothKinds(t *testing.T) {
	for serial, identity := range map[string]string{
		"QDLAB-SATA-1": "naa.5000c5000abc0001",
		"QDLAB-SATA-3": "t10.ATA     QEMU HARDDISK                           QDLAB-SATA-3",
	} {
		assert.Equal(t, identity, read(t, drive(t, serial)+"/device/wwid"))
	}
}

func TestLabSataBuildsRAID(t *testing.T) {
	one, err := driveBySerial("QDLAB-SATA-3")
	require.NoError(t, err)
	two, err := driveBySerial("QDLAB-SATA-4")
	require.NoError(t, err)
	out, err := exec.Command("mdadm", "--create", "/dev/md9", "--run", "--level=1", "--raid-devices=2", "--assume-clean", "--bitmap=none", one, two).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() {
		out, err := exec.Command("mdadm", "--stop", "/dev/md9").CombinedOutput()
		assert.NoError(t, err, "%s", out)
		out, err = exec.Command("mdadm", "--zero-superblock", one, two).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	})
	assert.Equal(t, "raid1", read(t, "/sys/block/md9/md/level"))
	slaves, err := filepath.Glob("/sys/block/md9/slaves/*")
	require.NoError(t, err)
	assert.Len(t, slaves, 2)
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
	for _, serial := range []string{"QDLAB-SATA-1", "QDLAB-SATA-4", "QDLAB-NVME-1", "QDLAB-VIRTIO-1", scratchSerial} {
		assert.NotEmpty(t, drive(t, serial))
	}
	_, err := os.Stat(drive(t, "QDLAB-NVME-1") + "/device/queue_depth")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestLabRootIsOnADisk(t *testing.T) {
	var root unix.Stat_t
	require.NoError(t, unix.Stat("/", &root))
	assert.Equal(t, read(t, drive(t, "QDLAB-SATA-1")+"/dev"), fmt.Sprintf("%d:%d", unix.Major(root.Dev), unix.Minor(root.Dev)))
}

// The environment that every lab test may rely on.
func TestLabSataEnvironment(t *testing.T) {
	assert.Equal(t, 0, os.Geteuid())
	assert.Equal(t, "sata", os.Getenv("QDLAB_GUEST"))
	assert.True(t, strings.HasPrefix(t.TempDir(), scratchFolder), "temporary files are on ext4: %s", os.TempDir())
	_, err := os.Stat("guests.go")
	assert.NoError(t, err, "the working folder is the package's")
	for _, name := range []string{"mdadm", "hdparm", "blkid", "lsblk", "mkfs.ext4", "sfdisk", "sg_modes", "pvcreate", "dmsetup", "modprobe", "mkswap"} {
		_, err := exec.LookPath(name)
		assert.NoError(t, err)
	}
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "direct"), os.O_CREATE|os.O_RDWR|unix.O_DIRECT, 0o600)
	require.NoError(t, err, "O_DIRECT works there")
	require.NoError(t, file.Close())
}
