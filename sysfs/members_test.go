package sysfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemberNames(t *testing.T) {
	tr := newTree(t)
	tr.sata("sda", 1, 100)
	tr.sata("sdb", 2, 100)
	tr.partition("sda", "sda1", 1, 1, 50)
	tr.md("md0", "sda1", "sdb")
	names := func(name string) []string {
		d, err := tr.host().Device(name)
		require.NoError(t, err)
		return d.MemberNames()
	}
	assert.Equal(t, []string{"sda1", "sdb"}, names("md0"))
	assert.Empty(t, names("sda1"), "a partition has a disk, and no members")
	assert.Empty(t, names("sdb"))

	require.NoError(t, os.RemoveAll(filepath.Join(tr.root, tr.devPath["sdb"])))
	assert.Equal(t, []string{"sda1", "sdb"}, names("md0"), "the array still names what was pulled")
}
