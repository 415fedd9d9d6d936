package sysfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

func watch(t *testing.T, h sysfs.Host) *sysfs.KernelLog {
	t.Helper()
	l, err := h.WatchKernel()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

func TestKernelLogIsReadFromNowOn(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"})
	m.KernelSays("ata1.00: NCQ disabled due to excessive errors")
	l := watch(t, m.Host())
	texts, lost := l.Messages()
	assert.Empty(t, texts, "what was before is not of this run")
	assert.False(t, lost)

	m.KernelSays("one; with a semicolon")
	m.ProgramSays("ata1.00: NCQ disabled due to excessive errors")
	m.KernelSays("two")
	texts, lost = l.Messages()
	assert.Equal(t, []string{"one; with a semicolon", "two"}, texts, "no program speaks for the kernel")
	assert.False(t, lost)
	texts, _ = l.Messages()
	assert.Empty(t, texts)

	require.NoError(t, l.Close())
	require.NoError(t, l.Close(), "closing twice")
	texts, _ = l.Messages()
	assert.Empty(t, texts)
}

func TestKernelLogThatIsNotThere(t *testing.T) {
	_, err := sysfs.NewHost(t.TempDir()).WatchKernel()
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "/dev/kmsg")
}

// More than one read gives, and lines that a read cuts in two.
func TestKernelLogOfManyMessages(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"})
	l := watch(t, m.Host())
	var want []string
	var file strings.Builder
	for i := range 3000 {
		text := fmt.Sprintf("message %d %s", i, strings.Repeat("x", i%97))
		want = append(want, text)
		fmt.Fprintf(&file, "6,%d,%d,-,caller=T1;%s\n SUBSYSTEM=scsi\n DEVICE=+scsi:0:0:0:0\n", i, i, text)
	}
	f, err := os.OpenFile(filepath.Join(m.Root(), "dev/kmsg"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString(file.String() + "6,3000,1,-;half a li")
	require.NoError(t, err)
	texts, lost := l.Messages()
	assert.Equal(t, want, texts)
	assert.False(t, lost)
	_, err = f.WriteString("ne\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	texts, _ = l.Messages()
	assert.Equal(t, []string{"half a line"}, texts)
}

// A node that gives one record a read, and EPIPE for what was overwritten, is the kernel's own: see the lab. Here, one that fails.
func TestKernelLogThatCannotBeRead(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"})
	require.NoError(t, os.Remove(filepath.Join(m.Root(), "dev/kmsg")))
	require.NoError(t, unix.Mkfifo(filepath.Join(m.Root(), "dev/kmsg"), 0o600))
	_, err := m.Host().WatchKernel()
	require.ErrorIs(t, err, unix.ESPIPE)
}
