package sgio

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPassthroughIsTheKernels(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("offsets are those of 64-bit machines")
	}
	var p passthrough
	assert.EqualValues(t, 72, unsafe.Sizeof(p))
	assert.EqualValues(t, (nvmeIoctlAdmin>>16)&0x3fff, unsafe.Sizeof(p), "_IOWR has the size in it")
	assert.EqualValues(t, (nvmeIoctlIO>>16)&0x3fff, unsafe.Sizeof(p))
	assert.EqualValues(t, 4, unsafe.Offsetof(p.nsid))
	assert.EqualValues(t, 8, unsafe.Offsetof(p.cdw2))
	assert.EqualValues(t, 16, unsafe.Offsetof(p.metadata))
	assert.EqualValues(t, 24, unsafe.Offsetof(p.data))
	assert.EqualValues(t, 32, unsafe.Offsetof(p.metadataLen))
	assert.EqualValues(t, 36, unsafe.Offsetof(p.dataLen))
	assert.EqualValues(t, 40, unsafe.Offsetof(p.cdw10))
	assert.EqualValues(t, 44, unsafe.Offsetof(p.cdw11))
	assert.EqualValues(t, 64, unsafe.Offsetof(p.timeoutMS))
	assert.EqualValues(t, 68, unsafe.Offsetof(p.result))
}

// controller plays an NVMe controller: each command gets the next status and result.
type controller struct {
	sent []NVMeCommand
	say  []func(*NVMeCommand)
}

func (c *controller) Namespace() uint32 { return 7 }
func (c *controller) Close() error      { return nil }
func (c *controller) Do(cmd *NVMeCommand) error {
	c.sent = append(c.sent, *cmd)
	if len(c.say) > 0 {
		c.say[0](cmd)
		c.say = c.say[1:]
	}
	return nil
}

func TestNVMeCommands(t *testing.T) {
	d := &controller{say: []func(*NVMeCommand){
		func(c *NVMeCommand) { c.Data[525], c.Data[520] = 0x07, 0x5f },
		func(c *NVMeCommand) { c.Result = 1 },
		func(c *NVMeCommand) { c.Result = 4 },
	}}
	id, err := IdentifyController(d)
	require.NoError(t, err)
	assert.True(t, id.WriteCache())
	assert.True(t, id.CanSelect())
	on, err := WriteCacheNVMe(d)
	require.NoError(t, err)
	assert.True(t, on)
	can, err := WriteCacheChangeable(d)
	require.NoError(t, err)
	assert.True(t, can)
	require.NoError(t, SetWriteCacheNVMe(d, true))
	require.NoError(t, SetWriteCacheNVMe(d, false))
	require.NoError(t, FlushNVMe(d))

	type bits struct {
		io     bool
		opcode byte
		nsid   uint32
		cdw10  uint32
		cdw11  uint32
		data   int
	}
	var got []bits
	for _, c := range d.sent {
		got = append(got, bits{c.IO, c.Opcode, c.NSID, c.CDW10, c.CDW11, len(c.Data)})
	}
	assert.Equal(t, []bits{
		{opcode: 0x06, cdw10: 1, data: 4096},
		{opcode: 0x0a, cdw10: 0x006},
		{opcode: 0x0a, cdw10: 0x306},
		{opcode: 0x09, cdw10: 0x06, cdw11: 1}, // bit 31, SV, is not set: not across power cycles
		{opcode: 0x09, cdw10: 0x06, cdw11: 0},
		{io: true, nsid: 7},
	}, got)

	empty := Controller(make([]byte, 4096))
	assert.False(t, empty.WriteCache())
	assert.False(t, empty.CanSelect())
}

func TestNVMeStatusInWords(t *testing.T) {
	for status, c := range map[uint16]struct {
		text    string
		refused bool
	}{
		0x002: {"Set Features 06h: invalid field in the command (status 002h)", true},
		0x10e: {"Set Features 06h: the feature cannot be changed (status 10eh)", true},
		0x006: {"Set Features 06h: internal error (status 006h)", false},
		0x371: {"Set Features 06h: aborted by the host (status 371h)", false},
		0x7ff: {"Set Features 06h: status 7ffh", false},
	} {
		d := &controller{say: []func(*NVMeCommand){func(c *NVMeCommand) { c.Status = status }}}
		err := SetWriteCacheNVMe(d, false)
		assert.EqualError(t, err, c.text)
		assert.Equal(t, c.refused, RefusedNVMe(err), c.text)
	}
	assert.False(t, RefusedNVMe(errors.New("else")))
	assert.False(t, RefusedNVMe(nil))
}

func TestOpenNVMeIsForNamespaces(t *testing.T) {
	_, err := OpenNVMe("/nonexistent/nvme9n1")
	require.ErrorIs(t, err, unix.ENOENT)
	assert.ErrorContains(t, err, "/nonexistent/nvme9n1")
	_, err = OpenNVMe("/dev/null")
	require.ErrorIs(t, err, unix.ENOTTY)
	assert.ErrorContains(t, err, "/dev/null")
}
