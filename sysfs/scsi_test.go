package sysfs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

func TestSCSIGeneric(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb", Transport: "sas", NoSG: true}, systest.Disk{Name: "nvme0n1"}, systest.Disk{Name: "vda"},
		systest.Disk{Name: "sdc", Transport: "usb"})
	m.Partition("sda", 1, 1<<20, 8<<20)
	m.MD("md0", "raid0", "sda", "sdb")
	device := func(name string) sysfs.Device {
		d, err := m.Host().Device(name)
		require.NoError(t, err)
		return d
	}
	for name, want := range map[string]string{"sda": "sg0", "sda1": "sg0", "sdc": "sg4"} {
		g, err := device(name).Generic()
		require.NoError(t, err)
		assert.Equal(t, want, g.Name)
		assert.Equal(t, "/dev/"+want, g.Path)
		assert.Equal(t, 21, g.Major)
		assert.Regexp(t, `^\d+:0:0:0$`, device(name).SCSIAddress())
		f, err := device(name).OpenGeneric()
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(m.Root(), "dev", want), f.Name())
		require.NoError(t, f.Close())
	}
	_, err := device("sdb").Generic()
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "sdb has no sg node")
	_, err = device("sdb").OpenGeneric()
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.NotEmpty(t, device("sdb").SCSIAddress(), "SG_IO needs no sg node")
	for _, name := range []string{"nvme0n1", "vda", "md0"} {
		assert.Empty(t, device(name).SCSIAddress(), name)
	}
}

func TestMaxTransfer(t *testing.T) {
	for _, c := range []struct {
		what          string
		hw            int
		segments      string
		segment       string
		scatter       string
		block, queued int64
	}{
		{"AHCI in the lab", 128, "168", "65536", "32768", 128 << 10, 128 << 10},
		{"AHCI", 32767, "168", "65536", "32768", 168 << 16, 168 << 15},
		{"larger pieces in the sg driver", 32767, "168", "65536", "131072", 168 << 16, 168 << 17},
		{"the module is not there", 32767, "168", "65536", "", 168 << 16, 168 << 15},
		{"an old kernel, which does not say", 1280, "", "", "", 1280 << 10, 1280 << 10},
	} {
		m := systest.New(t, systest.Disk{Name: "sda", MaxHWSectorsKB: c.hw})
		for file, text := range map[string]string{"/sys/block/sda/queue/max_segments": c.segments, "/sys/block/sda/queue/max_segment_size": c.segment,
			"/sys/module/sg/parameters/scatter_elem_sz": c.scatter} {
			if text != "" {
				path := filepath.Join(m.Root(), file)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
			}
		}
		d, err := m.Host().Device("sda")
		require.NoError(t, err)
		assert.Equal(t, c.block, d.MaxTransfer(t.Context(), false), c.what)
		assert.Equal(t, c.queued, d.MaxTransfer(t.Context(), true), c.what)
	}
}
