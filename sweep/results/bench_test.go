package results

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkAppend is one run of one row, with its fsync and without, to a file that has ten rows and to one that has a million: it must not
// matter.
func BenchmarkAppend(b *testing.B) {
	for _, rows := range []int{10, 1_000_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			f, err := Open(b.TempDir(), sweepName)
			require.NoError(b, err)
			defer f.Close()
			toDisk := f.sync
			f.sync = func() error { return nil }
			phases := min(rows, 1000)
			for i := range rows / phases {
				require.NoError(b, f.Append(aRun(i, 1, phases)))
			}
			next := rows
			one := func(b *testing.B) {
				for b.Loop() {
					if err := f.Append(aRun(next, 1, 1)); err != nil {
						require.NoError(b, err)
					}
					next++
				}
			}
			require.NoError(b, toDisk())
			b.Run("fsync=no", one)
			f.sync = toDisk
			b.Run("fsync=yes", one)
		})
	}
}
