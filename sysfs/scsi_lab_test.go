//go:build lab

package sysfs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What stands in /dev under the name of a disk's sg node, and is none, or another disk's, takes no commands of ours.
func TestLabSataSGNodes(t *testing.T) {
	h := NewHost("/")
	devices, err := h.Devices()
	require.NoError(t, err)
	var disks []Device
	for _, d := range devices {
		if d.Transport == "ata" {
			disks = append(disks, d)
		}
	}
	require.NotEmpty(t, disks)
	d := disks[0]
	g, err := d.Generic()
	require.NoError(t, err)
	f, err := d.OpenGeneric()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, int64(128<<10), d.MaxTransfer(t.Context(), false))

	require.NoError(t, os.Rename(g.Path, g.Path+".away"))
	defer os.Rename(g.Path+".away", g.Path)
	for what, number := range map[string]uint64{"another disk's": unix.Mkdev(uint32(g.Major), uint32(g.Minor+1)), "the null device": unix.Mkdev(1, 3)} {
		require.NoError(t, unix.Mknod(g.Path, unix.S_IFCHR|0o600, int(number)))
		_, err = d.OpenGeneric()
		assert.ErrorContains(t, err, g.Path+" is not the character device", what)
		require.NoError(t, os.Remove(g.Path))
	}
	_, err = d.OpenGeneric()
	assert.ErrorIs(t, err, os.ErrNotExist)
}
