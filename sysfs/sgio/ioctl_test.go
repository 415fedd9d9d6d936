package sgio

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestHeaderIsTheKernels(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("offsets are those of 64-bit machines")
	}
	var h Header
	assert.EqualValues(t, 88, unsafe.Sizeof(h))
	assert.EqualValues(t, 4, unsafe.Offsetof(h.Direction))
	assert.EqualValues(t, 8, unsafe.Offsetof(h.CmdLen))
	assert.EqualValues(t, 12, unsafe.Offsetof(h.DataLen))
	assert.EqualValues(t, 16, unsafe.Offsetof(h.Data))
	assert.EqualValues(t, 24, unsafe.Offsetof(h.Cmd))
	assert.EqualValues(t, 32, unsafe.Offsetof(h.Sense))
	assert.EqualValues(t, 40, unsafe.Offsetof(h.TimeoutMS))
	assert.EqualValues(t, 56, unsafe.Offsetof(h.UserPtr))
	assert.EqualValues(t, 64, unsafe.Offsetof(h.Status))
	assert.EqualValues(t, 67, unsafe.Offsetof(h.SenseLen))
	assert.EqualValues(t, 68, unsafe.Offsetof(h.HostStatus))
	assert.EqualValues(t, 70, unsafe.Offsetof(h.DriverStatus))
	assert.EqualValues(t, 72, unsafe.Offsetof(h.Residual))
	assert.EqualValues(t, 80, unsafe.Offsetof(h.Information))
}

func TestOpenAndDoNameTheNode(t *testing.T) {
	_, err := Open("/nonexistent/sdz")
	require.ErrorIs(t, err, unix.ENOENT)
	assert.ErrorContains(t, err, "/nonexistent/sdz")

	d, err := Open("/dev/null")
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	_, err = Identify(d, 0)
	require.ErrorIs(t, err, unix.ENOTTY)
	assert.ErrorContains(t, err, "send IDENTIFY DEVICE to /dev/null")
	assert.ErrorContains(t, d.Do(&Command{Name: "short", CDB: []byte{1}}), "1 bytes")
}
