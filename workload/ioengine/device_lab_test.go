//go:build lab

package ioengine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The conformance of the plain-file suite, and what only a block device does: ENOSPC at its end, EINVAL
// for what is not aligned.
func TestLabDelayEnginesOnADevice(t *testing.T) {
	models, err := filepath.Glob("/sys/block/sd*/device/model")
	require.NoError(t, err)
	node := ""
	for _, m := range models {
		if text, _ := os.ReadFile(m); strings.TrimSpace(string(text)) == "scsi_debug" {
			node = "/dev/" + strings.Split(m, "/")[3]
		}
	}
	require.NotEmpty(t, node)
	onEngines(t, func(t *testing.T, name string, depth int) {
		if name == "sg" {
			return // the played one, which is a file's; of the real one there are tests of its own
		}
		f, err := os.OpenFile(node, os.O_RDWR|unix.O_DIRECT, 0)
		require.NoError(t, err)
		defer f.Close()
		end, err := f.Seek(0, 2)
		require.NoError(t, err)
		e, arena := open(t, name, f, depth)
		one := func(op Op) int32 {
			require.NoError(t, e.Submit([]Op{op}))
			return all(t, e, 1)[0].Result
		}
		copy(arena.Buffer(0), "written")
		assert.EqualValues(t, testBlock, one(Op{Offset: end - testBlock, Length: testBlock, Write: true}))
		copy(arena.Buffer(0), "nothing")
		assert.EqualValues(t, testBlock, one(Op{Offset: end - testBlock, Length: testBlock}))
		assert.Equal(t, "written", string(arena.Buffer(0)[:7]))
		assert.EqualValues(t, 0, one(Op{Offset: end, Length: testBlock}))
		assert.EqualValues(t, -int32(unix.ENOSPC), one(Op{Offset: end, Length: testBlock, Write: true}))
		assert.EqualValues(t, -int32(unix.EINVAL), one(Op{Offset: 100, Length: testBlock}))
		assert.EqualValues(t, -int32(unix.EINVAL), one(Op{Length: 100}))
	})
}

// The guest's kernel has all of them, with everything that they can do.
func TestLabDelayAuto(t *testing.T) { assert.Equal(t, "io_uring", Auto(true)) }

// The suite itself, on the guest's kernel and its ext4.
func TestLabDelayConformance(t *testing.T) {
	t.Setenv("TMPDIR", "/scratch")
	t.Run("reads", TestReadsWhatIsThere)
	t.Run("writes", TestWritesReadBack)
	t.Run("short", TestTellsShortAndRefusedOperations)
	t.Run("batch", TestRefusedInTheMiddleOfABatch)
	t.Run("busy", TestKeepsItsDepthBusy)
	t.Run("closing", TestClosingGivesEverythingBack)
}
