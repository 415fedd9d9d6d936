package sysfs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	for _, c := range []struct {
		text  string
		bytes int64
		err   string
	}{
		{"MemTotal:       24684508 kB\nMemFree:        22978144 kB\n", 24684508 << 10, ""},
		{"MemFree: 1 kB\nMemTotal: 8 kB\n", 8 << 10, ""},
		{"MemFree: 1 kB\n", 0, "no MemTotal"},
		{"MemTotal: many\n", 0, `says "MemTotal: many"`},
		{"MemTotal: 0 kB\n", 0, "says"},
		{"", 0, "no MemTotal"},
	} {
		got, err := parseMemory(c.text)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.bytes, got)
	}
	here, err := NewHost("/").Memory()
	require.NoError(t, err)
	assert.Greater(t, here, int64(32<<20))
}
