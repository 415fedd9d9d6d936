//go:build lab

package sgio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// labNode finds a drive by what IDENTIFY says, which needs no more than this package.
func labNode(t *testing.T, serial string) string {
	t.Helper()
	nodes, _ := filepath.Glob("/dev/sd?")
	for _, node := range nodes {
		d, err := Open(node)
		require.NoError(t, err)
		id, err := Identify(d, 0)
		require.NoError(t, d.Close())
		if err == nil && id.Serial() == serial {
			return node
		}
		t.Logf("%s: %q, %v", node, id.Serial(), err)
	}
	require.FailNow(t, "no drive "+serial)
	return ""
}

func TestLabSataATACommands(t *testing.T) {
	d, err := Open(labNode(t, "QDLAB-SATA-1"))
	require.NoError(t, err)
	defer d.Close()
	for _, on := range []bool{false, true, false, true} {
		id, err := Identify(d, 0)
		require.NoError(t, err)
		require.NoError(t, FlushATA(d, id, 0))
		require.NoError(t, SetWriteCacheATA(d, on, 0))
		require.NoError(t, FlushATA(d, id, 0))
		id, err = Identify(d, 0)
		require.NoError(t, err)
		_, isOn, known := id.WriteCache()
		assert.True(t, known)
		assert.Equal(t, on, isOn)
	}
	texts, _ := filepath.Glob("/sys/class/ata_device/*/id")
	for _, p := range texts {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		if id, err := ParseIdentityText(string(b)); err == nil && strings.HasPrefix(id.Serial(), "QDLAB") {
			_, _, known := id.WriteCache()
			assert.True(t, known, p)
		}
	}
}
