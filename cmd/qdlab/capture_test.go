package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machineTree makes a small machine: a disk behind a driver, and what is of no use.
func machineTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/devices/pci0/0000:00:1f.2/vendor":                         "0x8086\n",
		"sys/devices/pci0/0000:00:1f.2/resource0":                      "memory",
		"sys/devices/pci0/0000:00:1f.2/other/attribute":                "not the disk's",
		"sys/devices/pci0/0000:00:1f.2/host0/block/sda/size":           "1024\n",
		"sys/devices/pci0/0000:00:1f.2/host0/block/sda/sda1/partition": "1\n",
		"sys/devices/pci0/0000:00:1f.2/host0/block/sda/power/control":  "on\n",
		"sys/bus/pci/drivers/ahci/module":                              "deep in what a link leads to",
		"proc/self/mountinfo":                                          "1 1 0:1 / / rw - rootfs rootfs rw\n",
		"proc/cpuinfo":                                                 "not asked for",
		"dev/null":                                                     "no node: left out",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "sys/devices/pci0/0000:00:1f.2/host0/block/sda/delete"), nil, 0o200))
	for name, target := range map[string]string{
		"sys/block/sda":                        "../devices/pci0/0000:00:1f.2/host0/block/sda",
		"sys/class/block/sda1":                 "../../devices/pci0/0000:00:1f.2/host0/block/sda/sda1",
		"sys/devices/pci0/0000:00:1f.2/driver": "../../../bus/pci/drivers/ahci",
		"dev/disk/by-id/ata-one":               "../../sda",
		"dev/stdin":                            "/proc/self/fd/0",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.Symlink(target, filepath.Join(root, name)))
	}
	return root
}

func TestCapture(t *testing.T) {
	root := machineTree(t)
	c, err := captureMachine(root)
	require.NoError(t, err)
	var names []string
	for name := range c.entries {
		names = append(names, name)
	}
	disk := "sys/devices/pci0/0000:00:1f.2/host0/block/sda"
	assert.ElementsMatch(t, []string{
		"sys/block", "sys/block/sda", "sys/class/block", "sys/class/block/sda1",
		disk, disk + "/size", disk + "/delete", disk + "/sda1", disk + "/sda1/partition",
		"sys/devices/pci0", "sys/devices/pci0/0000:00:1f.2", "sys/devices/pci0/0000:00:1f.2/host0", "sys/devices/pci0/0000:00:1f.2/host0/block",
		"sys/devices/pci0/0000:00:1f.2/vendor", "sys/devices/pci0/0000:00:1f.2/driver", "sys/bus/pci/drivers/ahci",
		"proc/self/mountinfo", "dev/disk/by-id/ata-one",
	}, names)
	assert.Equal(t, "1024\n", string(c.entries[disk+"/size"].content))
	assert.Equal(t, fs.FileMode(0o200), c.entries[disk+"/delete"].mode, "what is only to be written is there, and empty")
	assert.Equal(t, "../devices/pci0/0000:00:1f.2/host0/block/sda", c.entries["sys/block/sda"].link)
	assert.True(t, c.entries["sys/bus/pci/drivers/ahci"].mode.IsDir(), "the name of the driver is the end of the link")

	var first, second bytes.Buffer
	require.NoError(t, c.writeArchive(&first))
	again, err := captureMachine(root)
	require.NoError(t, err)
	require.NoError(t, again.writeArchive(&second))
	assert.Equal(t, first.Bytes(), second.Bytes(), "the same machine, the same archive")
}
