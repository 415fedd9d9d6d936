package sysfs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var updateTrees = flag.Bool("update-trees", false, "write the golden files anew; look at them before you commit them")

// captured unpacks a tree that was captured in a guest of the lab (docs/lab.md says how) and is its host.
func captured(t *testing.T, name string) Host {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "trees", name+".tar.gz"))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	root := scratch(t)
	modes := map[string]os.FileMode{} // of attributes without a w: set once all is there
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(header.Name), header.Name)
		full := filepath.Join(root, header.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		switch header.Typeflag {
		case tar.TypeDir:
			require.NoError(t, os.MkdirAll(full, 0o755))
		case tar.TypeSymlink:
			require.NoError(t, os.Symlink(header.Linkname, full))
		default:
			text, err := io.ReadAll(archive)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(full, text, 0o644))
			modes[full] = header.FileInfo().Mode().Perm()
		}
	}
	for full, mode := range modes {
		require.NoError(t, os.Chmod(full, mode))
	}
	h := NewHost(root, WithEUID(0))
	h.pageKB = 4 // of the guest, whatever we run on
	return h
}

// What `qdsweep devices` says of the lab's guests, as text (a terminal of 120 columns, then -v) and as JSON.
func TestDevicesOfCapturedTrees(t *testing.T) {
	for _, name := range []string{"arrays", "lvm", "delay", "all"} {
		t.Run(name, func(t *testing.T) {
			infos, err := captured(t, name).Inventory(context.Background())
			require.NoError(t, err)
			var text, asJSON bytes.Buffer
			require.NoError(t, WriteInventory(&text, infos, 120, false))
			require.NoError(t, WriteInventory(&text, infos, 0, true))
			encoder := json.NewEncoder(&asJSON)
			encoder.SetIndent("", "  ")
			encoder.SetEscapeHTML(false)
			require.NoError(t, encoder.Encode(infos))
			golden(t, name+".txt", text.String())
			golden(t, name+".json", asJSON.String())
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "trees", name)
	if *updateTrees {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "%s; go test ./sysfs -run Captured -update-trees writes it anew", file)
}

// drives gives the names of the drives with these serials, which come up in no fixed order.
func drives(t *testing.T, h Host, serials ...string) []string {
	t.Helper()
	var found []string
	for _, serial := range serials {
		s, err := h.Resolve("serial:" + serial)
		require.NoError(t, err)
		found = append(found, s.Device.Name)
	}
	return found
}

func layers(s Stack) []string {
	var all []string
	for _, l := range s.Layers {
		all = append(all, l.Device.Name)
	}
	return all
}

func TestCapturedArraysOnPartitions(t *testing.T) {
	h := captured(t, "arrays")
	four := drives(t, h, "QDLAB-SATA-1", "QDLAB-SATA-2", "QDLAB-SATA-3", "QDLAB-SATA-4")
	for _, target := range []string{"md5", "/dev/md5", "wwid:md-uuid-5a5a5a5a:00000000:00000000:00000005"} {
		s, err := h.Resolve(target)
		require.NoError(t, err, target)
		assert.ElementsMatch(t, four, names(s.Members), target)
		assert.Len(t, s.Layers, 1+4, "the array and its partitions")
		assert.Equal(t, "raid5, clean, 512 KiB chunk, 4 members", s.Layers[0].Detail)
	}
	s, err := h.ResolveDirectory("/mnt/raid10")
	require.NoError(t, err)
	assert.Equal(t, "md10", s.Device.Name)
	assert.ElementsMatch(t, four, names(s.Members))
	assert.Equal(t, "/mnt/raid10", s.MountPoint)

	mirror, err := h.Resolve("md1")
	require.NoError(t, err)
	assert.ElementsMatch(t, four[:3], names(mirror.Members), "the faulty and the spare member are members: they are set and restored")
	a := h.Arrays(mirror)[0]
	assert.Equal(t, []string{four[1] + "3"}, a.Faulty)
	assert.Equal(t, []string{four[2] + "3"}, a.Spare)
	assert.Equal(t, 1, a.Degraded)
	assert.Equal(t, "frozen", a.Sync)
	assert.False(t, a.Syncing())
	for _, say := range []string{four[1] + "3 faulty", four[2] + "3 spare"} {
		assert.Contains(t, mirror.Layers[0].Detail, say)
	}
	assert.Contains(t, reasons(t, h, mirror, Intent{SharedDisk: true}), "md1 is degraded")

	// The 2007 set-up: what shares the disks is refused, but for targets of the same sweep.
	five, err := h.Resolve("md5")
	require.NoError(t, err)
	ten, err := h.Resolve("md10")
	require.NoError(t, err)
	assert.Contains(t, reasons(t, h, five, Intent{}), four[0]+"2 is a member of the array md10")
	assert.Empty(t, reasons(t, h, five, Intent{SharedDisk: true}))
	siblings := reasons(t, h, five, Intent{Siblings: []Stack{s, ten}})
	assert.NotContains(t, siblings, "md10", "the directory's own mount, too")
	assert.Contains(t, siblings, four[0]+"3 is a member of the array md1")
}

func reasons(t *testing.T, h Host, s Stack, in Intent) string {
	t.Helper()
	refusals, _, err := h.Judge(context.Background(), s, in)
	require.NoError(t, err)
	var all []string
	for _, r := range refusals {
		all = append(all, r.Reason)
	}
	return strings.Join(all, "\n")
}

func TestCapturedMappings(t *testing.T) {
	h := captured(t, "lvm")
	two := drives(t, h, "QDLAB-SATA-1", "QDLAB-SATA-2")
	secret, err := h.Resolve("/dev/mapper/secret")
	require.NoError(t, err)
	assert.ElementsMatch(t, two, names(secret.Members), "a striped volume has both drives")
	assert.Equal(t, []string{"dm-2", "dm-0"}, layers(secret), "crypt over LVM")
	assert.Contains(t, secret.Layers[0].Detail, "crypt")
	assert.Contains(t, secret.Layers[1].Detail, "LVM")
	directory, err := h.ResolveDirectory("/mnt/secret/some/where")
	require.NoError(t, err)
	assert.Equal(t, layers(secret), layers(directory))

	free, err := h.Resolve("/dev/qdlab/free")
	require.NoError(t, err)
	assert.Equal(t, two[:1], names(free.Members))
	assert.Contains(t, reasons(t, h, free, Intent{}), "(qdlab-data)", "the other volume shares the drive")
	assert.Empty(t, reasons(t, h, free, Intent{SharedDisk: true}))

	paths, err := h.Resolve("/dev/mapper/paths")
	require.NoError(t, err)
	assert.Contains(t, reasons(t, h, paths, Intent{SharedDisk: true}), "multipath")
	assert.ElementsMatch(t, drives(t, h, "QDLAB-SATA-3", "QDLAB-SATA-4"), names(paths.Members))
	path, err := h.Resolve(paths.Members[0].Name)
	require.NoError(t, err)
	assert.Contains(t, reasons(t, h, path, Intent{}), "under the mapping dm-3 (paths)")
}

func TestCapturedBuses(t *testing.T) {
	ctx := context.Background()
	h := captured(t, "all")
	for _, c := range []struct {
		serial, transport, driver string
		deepest                   int64
	}{
		{"QDLAB-SATA-1", "ata", "ahci", 32},
		{"QDLAB-SCSI-FULL", "scsi", "virtio_scsi", 256},
	} {
		s, err := h.Resolve("serial:" + c.serial)
		require.NoError(t, err)
		assert.Equal(t, c.transport, s.Device.Transport, c.serial)
		assert.Equal(t, c.driver, s.Device.Driver, c.serial)
		allowed, err := s.Device.Allowed(ctx, "queue_depth")
		require.NoError(t, err)
		assert.EqualValues(t, 1, allowed.Min, c.serial)
		assert.EqualValues(t, c.deepest, allowed.Max, c.serial)
		assert.True(t, allowed.Writable, c.serial)
	}
	devices, err := h.Devices()
	require.NoError(t, err)
	sticks := 0
	for _, d := range devices {
		if d.Transport != "usb" || d.Kind != KindDisk {
			continue
		}
		sticks++
		assert.Equal(t, "usb-storage", d.Driver)
		_, err := d.Allowed(ctx, "queue_depth")
		assert.ErrorIs(t, err, ErrUnsupported)
		assert.ErrorContains(t, err, "fixed by the driver (usb-storage)")
	}
	assert.Equal(t, 1, sticks)
	for _, serial := range []string{"QDLAB-NVME-1", "QDLAB-VIRTIO-1"} {
		s, err := h.Resolve("serial:" + serial)
		require.NoError(t, err)
		_, err = s.Device.Current(ctx, "queue_depth")
		assert.ErrorIs(t, err, ErrUnsupported, serial)
	}
	nvme, err := h.Resolve("/dev/nvme0n1")
	require.NoError(t, err)
	assert.Contains(t, reasons(t, h, nvme, Intent{SharedDisk: true}), "swap")
	celsius, ok := nvme.Device.Temperature(ctx)
	assert.True(t, ok)
	assert.InDelta(t, 49.85, celsius, 0.01)
	before := everyPath(t, h)
	_, err = h.Inventory(ctx)
	require.NoError(t, err)
	assert.Equal(t, before, everyPath(t, h), "looking makes no file (field case 9)")
}

// everyPath lists every path of a captured tree.
func everyPath(t *testing.T, h Host) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(h.Root(), func(p string, _ os.DirEntry, err error) error {
		all = append(all, p)
		return err
	}))
	return all
}
