package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs/systest"
)

// A resume that finds a torn end and rescued rows fails at its kth operation on a file of rows, for every k there is; the next one finishes the sweep, each run exactly
// once, and nothing measured is lost.
func TestResumeFailsAnywhere(t *testing.T) {
	dead := errors.New("the disk is gone")
	for k := 1; ; k++ {
		require.Less(t, k, 100)
		b := newBench(t, "{queue_depth: [1, 2, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
		appends := 0
		b.results = []results.Option{results.WithHook(func(op string) error {
			if op == "write" {
				if appends++; appends == 2 {
					return unix.ENOSPC
				}
			}
			return nil
		})}
		b.run() // the second run is rescued, the third remaining
		measured := b.rows()[0].Started
		f, err := os.OpenFile(filepath.Join(b.out, results.FileName), os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		_, err = f.WriteString("1,torn")
		require.NoError(t, err)
		require.NoError(t, f.Close())

		n, at := 0, ""
		b.results = []results.Option{results.WithHook(func(op string) error {
			if n++; n >= k { // and nothing gets to the disk any more, as when the machine goes down
				if at == "" {
					at = op
				}
				return dead
			}
			return nil
		})}
		_, _ = b.again(nil)
		b.results = nil
		o, rows := b.resumed(nil)
		what := fmt.Sprintf("operation %d, %s", k, at)
		assert.Equal(t, "3 planned = 3 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining", o.Audit.String(), what)
		b.exactlyOnce(rows, 3)
		assert.Equal(t, measured, rows[0].Started, what)
		rescued, err := filepath.Glob(filepath.Join(b.state, "rescued", "*"))
		require.NoError(t, err)
		assert.Empty(t, rescued, what)
		torn, err := os.ReadFile(filepath.Join(b.out, results.FileName+results.TornSuffix))
		require.NoError(t, err, what)
		assert.Contains(t, string(torn), "1,torn")
		if at == "" {
			t.Logf("%d operations", k-1)
			return
		}
	}
}
