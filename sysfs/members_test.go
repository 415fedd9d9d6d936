package sysfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A spare and a faulty member hold no data, but for the other partitions of their disks.
func TestDataMembers(t *testing.T) {
	tr := newTree(t)
	for n, name := range []string{"sda", "sdb", "sdc", "sdd"} {
		tr.sata(name, n+1, 100)
		tr.partition(name, name+"1", 1, 1, 40)
	}
	tr.partition("sdc", "sdc2", 2, 41, 40)
	tr.md("md0", "sda1", "sdb1", "sdc1", "sdd1")
	state := func(member, state string) { tr.file(tr.devPath["md0"]+"/md/dev-"+member+"/state", state+"\n") }
	data := func(target string) []string {
		s, err := tr.host().Resolve(target)
		require.NoError(t, err)
		return names(tr.host().DataMembers(s))
	}
	for _, member := range []string{"sda1", "sdb1", "sdc1", "sdd1"} {
		state(member, "in_sync")
	}
	assert.Equal(t, []string{"sda", "sdb", "sdc", "sdd"}, data("md0"))
	state("sdc1", "spare")
	state("sdd1", "faulty")
	assert.Equal(t, []string{"sda", "sdb"}, data("md0"))
	assert.Equal(t, []string{"sdc"}, data("sdc2"), "which no array has")
	tr.md("md1", "md0", "sdc2")
	assert.Equal(t, []string{"sda", "sdb", "sdc"}, data("md1"), "by its other partition")
}

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
