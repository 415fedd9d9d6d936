package sgio

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// What scsi_debug answers, and a SAS disk with a block descriptor and DPOFUA set.
	tenNoDescriptor  = "001a000000000000" + "88120400ffff0000ffffffff8014000000000000"
	tenDescriptor    = "00220010" + "00000008" + "0000000000000200" + "88120400ffff0000ffffffff8014000000000000"
	sixNoDescriptor  = "17001000" + "081204000000000000000000000000000000" + "0000"
	refusedOperation = "7205200000000000"
	refusedField     = "7205240000000000"
	attention        = "7206290000000000"
)

func TestParseModePage(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		six  bool
		want string
	}{
		"10, no descriptor": {tenNoDescriptor, false, ""},
		"10, descriptor":    {tenDescriptor, false, ""},
		"6":                 {sixNoDescriptor, true, ""},
		"another page":      {"000a0000000000000a020000", false, "no mode page 08h in the answer"},
		"after another":     {"00160000000000000a020000" + "080a04000000000000000000", false, ""},
		"after a subpage":   {"00180000000000004a010002ffff" + "080a04000000000000000000", false, ""},
		"cut off":           {"0008000000000000" + "0812", false, "mode page 08h is cut off"},
		"no header":         {"0000", false, "mode data of 2 bytes, shorter than its header"},
		"descriptors lie":   {"001a00000000ffff" + "88120400", false, "no mode page 08h in the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ParseModePage(unhex(t, c.data), c.six, CachingPage)
			if c.want != "" {
				assert.EqualError(t, err, c.want)
				return
			}
			require.NoError(t, err)
			assert.True(t, p.WCE())
			assert.False(t, p.WithWCE(false).WCE())
			assert.True(t, p.WCE(), "WithWCE copies")
			assert.Equal(t, p, p.WithWCE(false).WithWCE(true))
		})
	}
}

func TestReadAndWriteModePage(t *testing.T) {
	d := &answers{say: []func(*Command){
		check(t, attention),
		check(t, "", unhex(t, tenDescriptor)...),
		check(t, ""),
	}}
	p, err := ReadModePage(d, CachingPage, CurrentValues, 0)
	require.NoError(t, err)
	require.NoError(t, WriteModePage(d, p.WithWCE(false), 0))
	require.Len(t, d.sent, 3)
	assert.Equal(t, "5a 08 08 00 00 00 00 00 fc 00", fmt.Sprintf("% x", d.sent[1].CDB))
	assert.Equal(t, "55 10 00 00 00 00 00 00 1c 00", fmt.Sprintf("% x", d.sent[2].CDB), "PF, not SP")
	assert.Equal(t, "0000000000000000"+"08120000ffff0000ffffffff8014000000000000", fmt.Sprintf("%x", d.sent[2].Data),
		"no length, no DPOFUA, no block descriptor, no PS, WCE off and nothing else changed")
}

func TestReadModePageFallsBackToSixBytes(t *testing.T) {
	d := &answers{say: []func(*Command){
		check(t, refusedOperation), check(t, refusedField),
		check(t, "", unhex(t, sixNoDescriptor)...),
		check(t, ""),
	}}
	p, err := ReadModePage(d, CachingPage, ChangeableValues, 0)
	require.NoError(t, err)
	assert.Equal(t, "1a 08 48 00 fc 00", fmt.Sprintf("% x", d.sent[2].CDB))
	require.NoError(t, WriteModePage(d, p, 0))
	assert.Equal(t, "15 10 00 00 18 00", fmt.Sprintf("% x", d.sent[3].CDB))
}

func TestReadModePageAsksASilentDeviceOnce(t *testing.T) {
	d := &answers{say: []func(*Command){func(c *Command) { c.HostStatus = 3 }}}
	_, err := ReadModePage(d, CachingPage, CurrentValues, 0)
	assert.ErrorContains(t, err, "timed out")
	assert.Len(t, d.sent, 1)
}

func TestSynchronizeCache(t *testing.T) {
	d := &answers{say: []func(*Command){check(t, refusedOperation)}}
	var sense *SenseError
	require.ErrorAs(t, SynchronizeCache(d, 0), &sense)
	assert.True(t, sense.Illegal())
}

func FuzzParseModePage(f *testing.F) {
	f.Add(unhex(f, tenDescriptor), false)
	f.Add(unhex(f, sixNoDescriptor), true)
	f.Fuzz(func(t *testing.T, b []byte, six bool) {
		p, err := ParseModePage(b, six, CachingPage)
		if err != nil {
			return
		}
		require.Equal(t, byte(CachingPage), p.Data[0]&0x7f)
		require.Len(t, p.Data, 2+int(p.Data[1]))
		back, err := ParseModePage(fix(p.WithWCE(false).selectData(), six), six, CachingPage)
		require.NoError(t, err)
		require.False(t, back.WCE())
	})
}

// fix puts the length into a parameter list, which MODE SELECT leaves zero.
func fix(b []byte, six bool) []byte {
	if six {
		b[0] = byte(min(len(b)-1, 255))
		return b
	}
	b[0], b[1] = byte((len(b)-2)>>8), byte(len(b)-2)
	return b
}
