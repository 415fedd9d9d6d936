package sysfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	s, err := parseStat("   1  2  3  4  5  6  7  8  9  10  11  12  13  14  15  16  17\n")
	require.NoError(t, err)
	assert.Equal(t, DiskStat{ReadIOs: 1, ReadMerges: 2, ReadSectors: 3, ReadMS: 4, WriteIOs: 5, WriteMerges: 6, WriteSectors: 7, WriteMS: 8,
		InFlight: 9, BusyMS: 10, TimeInQueueMS: 11, DiscardIOs: 12, DiscardMerges: 13, DiscardSectors: 14, DiscardMS: 15, FlushIOs: 16, FlushMS: 17}, s)
	s, err = parseStat("1 2 3 4 5 6 7 8 9 10 11")
	require.NoError(t, err)
	assert.EqualValues(t, 11, s.TimeInQueueMS)
	for _, bad := range []string{"", "1 2 3", "1 2 3 4 5 6 7 8 9 10 x"} {
		_, err = parseStat(bad)
		assert.Error(t, err, bad)
	}
}

func TestParseInflight(t *testing.T) {
	n, ok := parseInflight("       3       4\n")
	assert.True(t, ok)
	assert.Equal(t, 7, n)
	for _, bad := range []string{"", "1", "1 2 3", "a b"} {
		_, ok = parseInflight(bad)
		assert.False(t, ok, bad)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("   1  2  3  4  5  6  7  8  9  10  11  12  13  14  15  16  17\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parseStat(text)
		_, _ = parseInflight(text)
	})
}

func TestProbeReadsAgainAndAgain(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "sys/block/vda")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "device"), 0o755))
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	put("stat", "1 2 3 4 5 6 7 8 9 10 11")
	put("inflight", "       3       4\n")
	d := Device{Name: "vda", host: NewHost(root), dir: "/sys/block/vda"}

	p, err := OpenProbe(d)
	require.NoError(t, err)
	n, ok := p.Busy()
	assert.True(t, ok)
	assert.Equal(t, 7, n)
	put("inflight", "       0       1\n")
	n, ok = p.Busy()
	assert.True(t, ok)
	assert.Equal(t, 1, n)
	put("stat", "7 2 3 4 5 6 7 8 9 10 11")
	s, err := p.Stat()
	require.NoError(t, err)
	assert.EqualValues(t, 7, s.ReadIOs)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	_, ok = p.Busy()
	assert.False(t, ok)

	put("device/device_busy", "12\n")
	p, err = OpenProbe(d)
	require.NoError(t, err)
	n, ok = p.Busy()
	assert.True(t, ok)
	assert.Equal(t, 12, n, "what the device has, where the kernel shows it")
	require.NoError(t, p.Close())

	_, err = OpenProbe(Device{Name: "sdz", host: NewHost(root), dir: "/sys/block/sdz"})
	assert.ErrorContains(t, err, "sdz")
}
