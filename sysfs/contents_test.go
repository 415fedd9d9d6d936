package sysfs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fakeBlkid answers as blkid would; the real one is met below and in the lab.
func fakeBlkid(t *testing.T, script string) Option {
	t.Helper()
	program := filepath.Join(t.TempDir(), "blkid")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	return WithBlkid(program)
}

func TestContents(t *testing.T) {
	for _, c := range []struct {
		name   string
		script string
		want   Contents
		text   string
		err    string
	}{
		{"nothing", "exit 2", Contents{}, "nothing", ""},
		{"a file system", `echo DEVNAME=/dev/sdb; echo LABEL=x; echo TYPE=ext4; echo USAGE=filesystem; echo PART_ENTRY_SCHEME=gpt`,
			Contents{Signatures: []string{"ext4"}}, "a signature of ext4", ""},
		{"a table", "echo PTUUID=1; echo PTTYPE=gpt", Contents{PartitionTable: "gpt", IDs: []string{"gpt 1"}}, "a partition table (gpt)", ""},
		{"one of them", "echo UUID=a-b; echo TYPE=ext4; echo PTTYPE=dos; echo PTUUID=2; echo PART_ENTRY_UUID=3", Contents{Signatures: []string{"ext4"}, PartitionTable: "dos",
			IDs: []string{"ext4 a-b", "dos 2"}}, "a signature of ext4 and a partition table (dos)", ""},
		{"both", "echo TYPE=iso9660; echo PTTYPE=dos", Contents{Signatures: []string{"iso9660"}, PartitionTable: "dos"},
			"a signature of iso9660 and a partition table (dos)", ""},
		{"several kinds", "exit 8", Contents{Signatures: []string{"several kinds at once"}}, "a signature of several kinds at once", ""},
		{"blkid cannot open it", "echo error: no such file >&2; exit 2", Contents{}, "", "no such file"},
		{"blkid fails", "exit 4", Contents{}, "", "exit status 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			tr.sata("sdb", 2, 10)
			h := tr.host(fakeBlkid(t, c.script))
			d, err := h.Device("sdb")
			require.NoError(t, err)
			got, err := h.Contents(context.Background(), d)
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.text, got.Text())
			assert.Equal(t, c.text == "nothing", got.Blank())
		})
	}
}

func TestContentsWithoutBlkidStillSeesData(t *testing.T) {
	tr := newTree(t)
	tr.sata("sdb", 2, 10)
	tr.file("/dev/sdb", string(make([]byte, 600))+"x")
	h := tr.host(WithBlkid("/nonexistent/blkid"))
	d, err := h.Device("sdb")
	require.NoError(t, err)
	c, err := h.Contents(context.Background(), d)
	require.NoError(t, err)
	assert.True(t, c.FirstNonZero)
	assert.False(t, c.LastNonZero)
	assert.False(t, c.Blank())
}

// The last MiB of a disk beyond 4 TiB: an offset that needs all its bits.
func TestContentsAtTheEndOfALargeDisk(t *testing.T) {
	tr := newTree(t)
	const mib = 5 << 20
	tr.sata("sdb", 2, mib)
	f, err := os.OpenFile(filepath.Join(tr.root, "dev/sdb"), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("x"), mib<<20-1)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	d, err := tr.host().Device("sdb")
	require.NoError(t, err)
	c, err := tr.host().Contents(context.Background(), d)
	require.NoError(t, err)
	assert.Equal(t, Contents{LastNonZero: true}, c)
}

func TestContentsOfATinyPartition(t *testing.T) {
	tr := newTree(t)
	tr.sata("sdb", 2, 10)
	tr.partition("sdb", "sdb4", 4, 1, 1)
	tr.file(tr.devPath["sdb4"]+"/size", "2\n") // an extended partition
	tr.file("/dev/sdb4", string(make([]byte, 1023))+"x")
	d, err := tr.host().Device("sdb4")
	require.NoError(t, err)
	c, err := tr.host().Contents(context.Background(), d)
	require.NoError(t, err)
	assert.True(t, c.FirstNonZero && c.LastNonZero)
	assert.Equal(t, "unknown data (its first and last MiB are not zero)", c.Text())
}

func TestContentsByTheRealBlkid(t *testing.T) {
	tr := newTree(t)
	tr.sata("sdb", 2, 10)
	node := filepath.Join(tr.root, "dev/sdb")
	require.NoError(t, os.Truncate(node, 10<<20))
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := exec.Command("mkswap", node).CombinedOutput()
	require.NoError(t, err, string(out))
	h := tr.host(WithBlkid("blkid"))
	d, err := h.Device("sdb")
	require.NoError(t, err)
	c, err := h.Contents(context.Background(), d)
	require.NoError(t, err)
	assert.Equal(t, []string{"swap"}, c.Signatures)
}

func TestContentsThatCannotBeTold(t *testing.T) {
	tr := newTree(t)
	tr.sata("sdb", 2, 10)
	d, err := tr.host().Device("sdb")
	require.NoError(t, err)
	node := filepath.Join(tr.root, "dev/sdb")
	require.NoError(t, os.Remove(node))
	_, err = tr.host().Contents(context.Background(), d)
	assert.ErrorIs(t, err, os.ErrNotExist)

	require.NoError(t, unix.Mkfifo(node, 0o600))
	_, err = tr.host().Contents(context.Background(), d)
	assert.ErrorContains(t, err, "not what stands for a device")

	require.NoError(t, os.Remove(node))
	tr.file("/dev/sdb", "")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = tr.host(fakeBlkid(t, "exec sleep 5")).Contents(ctx, d)
	assert.Error(t, err)
}
