package ioengine

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestArenaBuffersAreApartAndAligned(t *testing.T) {
	for _, c := range []struct{ slots, block int }{{1, 512}, {3, 512}, {4, 4096}, {2, 6000}, {1, 1 << 20}, {3, 1 << 20}, {128, 4096}, {5, 3 << 20}} {
		a, err := NewArena(c.slots, c.block)
		require.NoError(t, err)
		assert.Equal(t, c.slots, a.Slots())
		for s := range c.slots {
			b := a.Buffer(uint32(s))
			assert.Len(t, b, c.block)
			assert.Equal(t, c.block, cap(b), "no buffer reaches into the next one")
			assert.Zero(t, uintptr(unsafe.Pointer(&b[0]))%page)
			for i := range b {
				b[i] = byte(s + 1)
			}
		}
		for s := range c.slots {
			b := a.Buffer(uint32(s))
			assert.Equal(t, []byte{byte(s + 1), byte(s + 1)}, []byte{b[0], b[len(b)-1]}, "%d slots of %d", c.slots, c.block)
		}
		require.NoError(t, a.Close())
	}
}

// From half a megabyte on the kernel is asked for huge pages, and could give them: each of the buffers' is whole inside the mapping.
func TestLargeArenasAskForHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this kernel has no huge pages to ask for")
	}
	for _, c := range []struct {
		slots, block int
		huge         bool
	}{{1, 4096, false}, {32, 4096, false}, {128, 4096, true}, {1, 1 << 20, true}, {5, 1 << 20, true}, {33, 1 << 20, true}} {
		t.Run(fmt.Sprintf("%d of %d", c.slots, c.block), func(t *testing.T) {
			a, err := NewArena(c.slots, c.block)
			require.NoError(t, err)
			defer a.Close()
			begin := uintptr(unsafe.Pointer(&a.memory[0]))
			end := begin + uintptr(len(a.memory))
			from, to, advised := mappingOf(t, begin)
			assert.Equal(t, c.huge, advised)
			if c.huge {
				assert.Zero(t, begin%hugePage)
				assert.LessOrEqual(t, from, begin)
				assert.LessOrEqual(t, (end+hugePage-1)&^(hugePage-1), to)
			}
		})
	}
}

// mappingOf is the mapping at an address, and whether huge pages are asked for in it (proc_pid_smaps(5): hg).
func mappingOf(t *testing.T, address uintptr) (from, to uintptr, huge bool) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer f.Close()
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var low, high uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &low, &high); n == 2 {
			if inside = low <= address && address < high; inside {
				from, to = low, high
			}
		} else if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && inside {
			return from, to, strings.Contains(flags+" ", " hg ")
		}
	}
	t.Fatal("the arena is mapped nowhere")
	return 0, 0, false
}
