package sweep

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMemoryFileIsTheSameOnTheNextKernel(t *testing.T) {
	for _, c := range []struct{ kib, want int64 }{
		{24684508, 48 << 30}, {24600000, 48 << 30}, // a machine with 24 GiB under two kernels
		{16303432, 32 << 30}, {8148056, 16 << 30}, {4 << 20, 8 << 30},
		{2027000, 2 * (2027000<<10>>26 + 1) << 26}, {486000, 1 << 30}, {1, 128 << 20},
	} {
		got := memoryFile(c.kib << 10)
		assert.Equal(t, c.want, got, "%d KiB", c.kib)
		assert.GreaterOrEqual(t, got, 2*c.kib<<10)
	}
}
