package sysfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

func TestReadTrimsAndNamesThePath(t *testing.T) {
	tr := newTree(t)
	tr.file("/sys/block/sda/queue/nr_requests", "64 \n")
	got, err := tr.host().Read("/sys/block/sda/queue/nr_requests")
	require.NoError(t, err)
	assert.Equal(t, "64", got)
	_, err = tr.host().Read("/sys/block/sda/queue/absent")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "/sys/block/sda/queue/absent")
	assert.NotContains(t, err.Error(), tr.root)
}

func TestWriteReplacesAndNeverCreates(t *testing.T) {
	tr := newTree(t)
	tr.file("/sys/block/sda/queue/nr_requests", "1024\n")
	h, ctx := tr.host(), context.Background()
	require.NoError(t, h.Write(ctx, "/sys/block/sda/queue/nr_requests", "64"))
	assert.Equal(t, "64\n", tr.read("/sys/block/sda/queue/nr_requests"))

	err := h.Write(ctx, "/sys/block/sda/device/queue_depth", "4")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, `write "4" to /sys/block/sda/device/queue_depth`)
	_, err = os.Stat(filepath.Join(tr.root, "/sys/block/sda/device"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestWriteGivesUpOnAStuckKernel(t *testing.T) {
	tr := newTree(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	h := tr.host(WithWriter(func(path, value string) error { <-release; return nil }))
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := h.Write(ctx, "/sys/block/sda/queue/max_sectors_kb", "8")
	assert.ErrorIs(t, err, ErrStuck)
	assert.ErrorIs(t, err, context.DeadlineExceeded)

	done, stop := context.WithCancel(context.Background())
	stop()
	err = h.Write(done, "/sys/block/sda/queue/max_sectors_kb", "8")
	assert.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, ErrStuck, "nothing was begun")
}

func TestReadWithinGivesUp(t *testing.T) {
	tr := newTree(t)
	tr.dir("/sys/block/sda/queue")
	// A FIFO nobody writes to holds up an open as a frozen queue holds up a read.
	fifo := filepath.Join(tr.root, "/sys/block/sda/queue/scheduler")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := tr.host().ReadWithin(ctx, "/sys/block/sda/queue/scheduler")
	assert.ErrorIs(t, err, ErrStuck)
	// Let the goroutine go.
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestWriterSeesLogicalPathAndErrno(t *testing.T) {
	tr := newTree(t)
	var path, value string
	h := tr.host(WithWriter(func(p, v string) error { path, value = p, v; return unix.EINVAL }))
	err := h.Write(context.Background(), "/sys/block/sda/device/queue_depth", "99")
	assert.Equal(t, "/sys/block/sda/device/queue_depth", path)
	assert.Equal(t, "99", value)
	assert.True(t, errors.Is(err, unix.EINVAL))
}

func TestOpenSG(t *testing.T) {
	tr := newTree(t)
	_, err := tr.host().OpenSG("/dev/sda")
	assert.ErrorContains(t, err, "a captured tree takes no commands")
	assert.NotErrorIs(t, err, ErrUnsupported, "a plan would refuse a drive that can")
	var node string
	_, err = tr.host(WithSG(func(n string) (sgio.Device, error) { node = n; return nil, nil })).OpenSG("/dev/sda")
	require.NoError(t, err)
	assert.Equal(t, "/dev/sda", node)
}

func TestHostFacts(t *testing.T) {
	tr := newTree(t)
	h := tr.host()
	assert.False(t, h.Live())
	assert.True(t, NewHost("/").Live())
	assert.Equal(t, tr.root, h.Root())
	_, err := h.BootID()
	assert.Error(t, err)
	tr.file("/proc/sys/kernel/random/boot_id", "0c3c8f2e-1\n")
	tr.file("/proc/sys/kernel/osrelease", "6.1.0-57-amd64\n")
	id, err := h.BootID()
	require.NoError(t, err)
	assert.Equal(t, "0c3c8f2e-1", id)
	assert.Equal(t, "6.1.0-57-amd64", h.KernelRelease())
}

func TestReadGivesAWholePage(t *testing.T) {
	tr := newTree(t)
	tr.file("/sys/class/ata_device/dev1.0/id", strings.Repeat("0040 ", 800))
	got, err := tr.host().Read("/sys/class/ata_device/dev1.0/id")
	require.NoError(t, err)
	assert.Len(t, strings.Fields(got), 800)
}
