package sgio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answers plays a device: the k-th command gets the k-th answer, the last one again and again.
type answers struct {
	sent []Command
	say  []func(*Command)
}

func (a *answers) Do(c *Command) error {
	a.say[min(len(a.sent), len(a.say)-1)](c)
	a.sent = append(a.sent, *c)
	return nil
}

func (a *answers) Close() error { return nil }

func check(t testing.TB, sense string, data ...byte) func(*Command) {
	b := unhex(t, sense)
	return func(c *Command) {
		c.Status, c.DriverStatus, c.Sense = 0, 0, b
		if len(b) > 0 {
			c.Status, c.DriverStatus = statusCheckCondition, driverSense
		}
		copy(c.Data, data)
	}
}

const (
	ataGood    = "7201001d0000000e090c000000000000000000004050"
	ataAborted = "720b00000000000e090c000400000000000000004051"
)

func TestDoATA(t *testing.T) {
	for name, c := range map[string]struct {
		sense  string
		target error
		text   string
	}{
		"good":            {ataGood, nil, ""},
		"aborted":         {ataAborted, nil, "SET FEATURES 82h: aborted command (0b/00/00), ATA status 51 error 04"},
		"SAS (case 12)":   {"7205200000000000", ErrNotATA, "SET FEATURES 82h: not an ATA device (illegal request: invalid command operation code (05/20/00))"},
		"SAS, fixed":      {"700005000000000a000000002000", ErrNotATA, ""},
		"bridge":          {"7205240000000000", ErrNotATA, ""},
		"zero sense":      {"000000000000000000", ErrNoAnswer, "SET FEATURES 82h: no ATA status came back"},
		"nothing at all":  {"", ErrNoAnswer, ""},
		"no taskfile":     {"7201001d00000000", ErrNoAnswer, ""},
		"busy data phase": {"7201001d0000000e090c000000000000000000004058", nil, "SET FEATURES 82h: recovered error: ATA pass-through information available (01/00/1d), ATA status 58 error 00"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &answers{say: []func(*Command){check(t, c.sense)}}
			err := SetWriteCacheATA(d, false, 0)
			if c.target != nil {
				assert.ErrorIs(t, err, c.target)
			}
			if c.text != "" {
				assert.EqualError(t, err, c.text)
			}
			if c.target == nil && c.text == "" {
				assert.NoError(t, err)
			}
		})
	}
}

func TestATATaskfiles(t *testing.T) {
	d := &answers{say: []func(*Command){check(t, ataGood)}}
	require.NoError(t, SetWriteCacheATA(d, true, 0))
	require.NoError(t, SetWriteCacheATA(d, false, 0))
	var ext Identity
	ext[83] = 0x6000
	require.NoError(t, FlushATA(d, ext, 0))
	require.NoError(t, FlushATA(d, Identity{}, 0))
	_, err := Identify(d, 0)
	require.ErrorIs(t, err, ErrNoAnswer)
	require.ErrorContains(t, err, "all zero")
	var got []string
	for _, c := range d.sent {
		got = append(got, fmt.Sprintf("% x", c.CDB))
	}
	assert.Equal(t, []string{
		"85 06 20 00 02 00 00 00 00 00 00 00 00 00 ef 00",
		"85 06 20 00 82 00 00 00 00 00 00 00 00 00 ef 00",
		"85 07 20 00 00 00 00 00 00 00 00 00 00 00 ea 00",
		"85 06 20 00 00 00 00 00 00 00 00 00 00 00 e7 00",
		"85 08 0e 00 00 00 01 00 00 00 00 00 00 00 ec 00",
	}, got)
	assert.Equal(t, FromDevice, d.sent[4].Direction)
}

func TestIdentityText(t *testing.T) {
	text := func(set map[int]uint16) string {
		var b strings.Builder
		for i := range 256 {
			end := " "
			if i%8 == 7 {
				end = "\n"
			}
			fmt.Fprintf(&b, "%04x%s", set[i], end)
		}
		return b.String()
	}
	on := map[int]uint16{82: 0x7469, 83: 0x7d09, 85: 0x7469, 86: 0xbc01, 87: 0x4163, 10: 0x2020, 11: 0x5a31, 27: 0x5741, 28: 0x4e20}
	id, err := ParseIdentityText(text(on))
	require.NoError(t, err)
	supported, isOn, known := id.WriteCache()
	assert.True(t, supported && isOn && known)
	assert.True(t, id.FlushExt())
	assert.Equal(t, "Z1", id.Serial())
	assert.Equal(t, "WAN", id.Model())

	on[85] = 0x7449
	id, err = ParseIdentityText(text(on))
	require.NoError(t, err)
	_, isOn, known = id.WriteCache()
	assert.True(t, known && !isOn)

	on[87] = 0
	id, err = ParseIdentityText(text(on))
	require.NoError(t, err)
	_, _, known = id.WriteCache()
	assert.False(t, known, "word 87 says that word 85 is not valid")

	for _, bad := range []string{"", text(nil), "zzzz " + text(on)[5:], text(on) + " 0000"} {
		_, err = ParseIdentityText(bad)
		assert.Error(t, err)
	}
}

func FuzzParseIdentityText(f *testing.F) {
	f.Add(strings.Repeat("4000 ", 256))
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseIdentityText(s)
		if err == nil {
			_, _, _ = id.WriteCache()
			_ = id.Serial() + id.Model() + id.Firmware()
		}
	})
}

func TestIdentify(t *testing.T) {
	data := make([]byte, 512)
	data[2*85] = 0x20
	d := &answers{say: []func(*Command){check(t, "", data...)}}
	id, err := Identify(d, 0)
	require.NoError(t, err)
	assert.EqualValues(t, 0x20, id[85])

	data[510], data[511] = 0xa5, 0x3b // 0x20 + 0xa5 + 0x3b = 0x100
	d = &answers{say: []func(*Command){check(t, "", data...)}}
	_, err = Identify(d, 0)
	require.NoError(t, err)
	data[0]++
	d = &answers{say: []func(*Command){check(t, "", data...)}}
	_, err = Identify(d, 0)
	require.ErrorIs(t, err, ErrNoAnswer)
	require.ErrorContains(t, err, "checksum")

	d = &answers{say: []func(*Command){func(c *Command) { c.Residual = 500 }}}
	_, err = Identify(d, 0)
	require.ErrorIs(t, err, ErrNoAnswer)
}
