//go:build lab

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cutPower does not return: the test goes on in its next boot, at its beginning.
func cutPower(t *testing.T) {
	t.Helper()
	out, err := exec.Command("qdlab", "cut").CombinedOutput()
	t.Fatalf("the power was not cut: %v, %s", err, out)
}

// writeSynced writes a file so that it is there after a power cut.
func writeSynced(t *testing.T, name, text string) {
	t.Helper()
	file, err := os.Create(name)
	require.NoError(t, err)
	_, err = file.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, file.Sync())
	require.NoError(t, file.Close())
	dir, err := os.Open(filepath.Dir(name))
	require.NoError(t, err)
	require.NoError(t, dir.Sync())
	require.NoError(t, dir.Close())
}

// What was synced is there after a power cut, what was only written is not; disks and arrays too are as the
// drives had them.
func TestLabCutLosesWhatWasNotSynced(t *testing.T) {
	kept := os.Getenv("QDLAB_KEPT")
	bootID := read(t, "/proc/sys/kernel/random/boot_id")
	one, err := driveBySerial("QDLAB-SATA-3")
	require.NoError(t, err)
	two, err := driveBySerial("QDLAB-SATA-4")
	require.NoError(t, err)
	switch os.Getenv("QDLAB_BOOT") {
	case "1":
		mustRun(t, "mdadm", "--create", "/dev/md9", "--run", "--level=1", "--raid-devices=2", "--assume-clean", "--bitmap=none",
			"--uuid=00112233:44556677:8899aabb:ccddeeff", one, two)
		require.NoError(t, os.WriteFile("/tmp/in-memory", []byte("gone"), 0o644))
		writeSynced(t, filepath.Join(kept, "synced"), bootID)
		require.NoError(t, os.WriteFile(filepath.Join(kept, "written"), []byte(bootID), 0o644)) // ext4 writes it out after 30 s
		cutPower(t)
	case "2":
		first := read(t, filepath.Join(kept, "synced"))
		require.Len(t, first, len(bootID))
		require.NotEqual(t, bootID, first, "another boot")
		text, _ := os.ReadFile(filepath.Join(kept, "written"))
		require.NotContains(t, string(text), first)
		require.NoFileExists(t, "/tmp/in-memory")
		require.NoDirExists(t, "/sys/block/md9", "nothing assembles arrays here")
		require.Contains(t, mustRun(t, "mdadm", "--examine", one), "00112233:44556677:8899aabb:ccddeeff")
		mustRun(t, "mdadm", "--zero-superblock", one, two)
		writeSynced(t, filepath.Join(kept, "second"), bootID)
		if os.Getenv("QDSWEEP_CHAOS") != "long" { // each boot costs ten seconds
			return
		}
		cutPower(t)
	default:
		assert.Equal(t, "3", os.Getenv("QDLAB_BOOT"))
		assert.NotEqual(t, bootID, read(t, filepath.Join(kept, "second")))
		out, _ := exec.Command("mdadm", "--examine", one).CombinedOutput()
		assert.NotContains(t, string(out), "00112233", "cleared before the second cut")
	}
}

// The tests after one that was cut run in its last boot, as in a first one.
func TestLabCutTheRestOfTheListGoesOn(t *testing.T) {
	assert.Equal(t, "1", os.Getenv("QDLAB_BOOT"))
	entries, err := os.ReadDir(os.Getenv("QDLAB_KEPT"))
	require.NoError(t, err)
	assert.Empty(t, entries)
	others, err := filepath.Glob(filepath.Join(scratchFolder, "kept", "*", "synced"))
	require.NoError(t, err)
	for _, other := range others { // only where the test above ran before
		assert.False(t, strings.HasPrefix(read(t, other), read(t, "/proc/sys/kernel/random/boot_id")))
	}
}
