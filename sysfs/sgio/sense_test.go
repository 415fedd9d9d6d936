package sgio

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestParseSense(t *testing.T) {
	for name, c := range map[string]struct {
		sense string
		ok    bool
		want  string
	}{
		"libata, success":       {"7201001d0000000e090c00000000000000000000" + "4050", true, "recovered error: ATA pass-through information available (01/00/1d), ATA status 50 error 00"},
		"libata, aborted":       {"720b00000000000e090c00040000000000000000" + "4051", true, "aborted command (0b/00/00), ATA status 51 error 04"},
		"fixed pass-through":    {"f00001005040010a00000000001d00000000", true, "recovered error: ATA pass-through information available (01/00/1d), ATA status 50 error 00"},
		"SAS, 72h":              {"7205200000000000", true, "illegal request: invalid command operation code (05/20/00)"},
		"SAS, 70h":              {"70000500000000" + "0a000000002000000000", true, "illegal request: invalid command operation code (05/20/00)"},
		"short, but says it":    {"72052000", true, "illegal request: invalid command operation code (05/20/00)"},
		"deferred":              {"7303" + "0000" + "00000000", true, "medium error (03/00/00), of an earlier command"},
		"zero":                  {"0000000000000000", false, ""},
		"nothing":               {"", false, ""},
		"vendor format":         {"7f0500000000", false, ""},
		"descriptor cut off":    {"7201001d0000000e090c0000", true, "recovered error: ATA pass-through information available (01/00/1d)"},
		"descriptor after one":  {"7201001d0000001a" + "000a80000000000000000000" + "090c00000000000000000000" + "4050", true, "recovered error: ATA pass-through information available (01/00/1d), ATA status 50 error 00"},
		"length of zero in one": {"7201001d00000004" + "00000000", true, "recovered error: ATA pass-through information available (01/00/1d)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, ok := ParseSense(unhex(t, c.sense))
			require.Equal(t, c.ok, ok)
			if ok {
				assert.Equal(t, c.want, s.String())
			}
		})
	}
}

func TestCommandErr(t *testing.T) {
	for name, c := range map[string]struct {
		cmd  Command
		want string
	}{
		"good":             {Command{}, ""},
		"good, with sense": {Command{DriverStatus: driverSense, Status: 2, Sense: []byte{0x72, 1, 0, 0x1d}}, ""},
		"timed out":        {Command{HostStatus: 3}, "X: the adapter says timed out (DID_TIME_OUT)"},
		"busy":             {Command{Status: 8}, "X: busy, without sense"},
		"silent check":     {Command{Status: 2}, "X: check condition, without sense"},
		"zero sense":       {Command{Status: 2, Sense: make([]byte, 18)}, "X: check condition, without sense"},
		"driver":           {Command{DriverStatus: 6}, "X: the kernel says timed out"},
		"refused":          {Command{Status: 2, Sense: []byte{0x72, 5, 0x39, 0}}, "X: illegal request: saving parameters not supported (05/39/00)"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cmd.Name = "X"
			if c.want == "" {
				assert.NoError(t, c.cmd.Err())
			} else {
				assert.EqualError(t, c.cmd.Err(), c.want)
			}
		})
	}
}

func FuzzParseSense(f *testing.F) {
	f.Add(unhex(f, "7201001d0000000e090c000000000000000000004050"))
	f.Add(unhex(f, "f00001005040010a00000000001d00000000"))
	f.Add([]byte{0x72, 5, 0x20, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := ParseSense(b)
		if !ok {
			require.Equal(t, Sense{}, s)
		}
		_ = s.String()
		c := Command{Name: "X", Status: 2, Sense: b}
		if c.Err() == nil {
			require.True(t, ok, "success needs sense that says so")
		}
		if ataResult(&c) == nil {
			require.NotNil(t, s.ATA, "success of a pass-through needs its taskfile")
		}
	})
}
