package workload

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// lacking skips a test for what the machine really lacks: the privilege, the device, the kernel's support of it. Any other error is
// the test's. In CI, which is root on a machine of its own, nothing may be lacking.
func lacking(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	lacks := os.Geteuid() != 0
	for _, errno := range []error{unix.EPERM, unix.EACCES, unix.ENODEV, unix.ENXIO, fs.ErrNotExist} {
		lacks = lacks || errors.Is(err, errno)
	}
	if os.Getenv("CI") == "" && lacks {
		t.Skipf("%s: %v", what, err)
	}
	require.NoError(t, err, what)
}

// onLoop is a loop device of zeros, and the file under it.
func onLoop(t *testing.T, bytes int) (device *os.File, under string) {
	t.Helper()
	under = filepath.Join(t.TempDir(), "under")
	require.NoError(t, os.WriteFile(under, make([]byte, bytes), 0o600))
	name, err := loopDevice(t, under)
	lacking(t, "a loop device", err)
	device, err = os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { device.Close() })
	return device, under
}
