package sweep

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs/systest"
)

// hanging makes the n-th operation of that kind on the results never return, until the test ends.
func hanging(t *testing.T, operation string, n int) (hung <-chan struct{}, option results.Option) {
	hold, reached := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(hold) })
	return reached, results.WithHook(func(op string) error {
		if op == operation {
			if n--; n == 0 {
				close(reached)
				<-hold
			}
		}
		return nil
	})
}

// The disk of the output folder does not come back from a write, or a sync: the drive has its settings, the rows are saved elsewhere, and the sweep ends.
func TestOutputDiskHangs(t *testing.T) {
	for _, operation := range []string{"write", "sync"} {
		t.Run(operation, func(t *testing.T) {
			b := newBench(t, "{queue_depth: [1, 2, 3, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
			before := b.machine.Settings("sda")
			n := map[string]int{"write": 2, "sync": 3}[operation] // of the second run; a new file is synced, too
			_, hang := hanging(t, operation, n)
			b.results, b.outputs = []results.Option{hang}, 300*time.Millisecond
			o, err := b.execute(context.Background())
			require.NoError(t, err)
			assert.Equal(t, ExitIncomplete, o.ExitCode(), "%+v", o)
			assert.Equal(t, "4 planned = 2 ok + 0 failed + 0 suspect + 0 skipped + 2 remaining", o.Audit.String())
			assert.Contains(t, o.Stopped, "results.csv: the disk did not answer for ")
			assert.True(t, o.Silent)
			assert.Equal(t, before, b.machine.Settings("sda"))
			rescued, err := filepath.Glob(filepath.Join(b.state, "rescued", "*.csv"))
			require.NoError(t, err)
			require.Len(t, rescued, 1)
			text, err := os.ReadFile(rescued[0])
			require.NoError(t, err)
			assert.Equal(t, 1, strings.Count(string(text), ",queue_depth=2#1,"))
		})
	}
}

// Ctrl-C while it hangs: the sweep ends soon, restored, with the signal's code, and nothing measured is lost.
func TestInterruptedWhileTheOutputDiskHangs(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 3]}", systest.Disk{Name: "sda", QueueDepth: 32})
	hung, hang := hanging(t, "write", 1)
	b.results, b.outputs = []results.Option{hang}, time.Second
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { <-hung; cancel(&SignalError{unix.SIGINT}) }()
	o, err := b.execute(ctx)
	require.NoError(t, err)
	assert.Equal(t, 130, o.ExitCode())
	assert.Equal(t, "3 planned = 1 ok + 0 failed + 0 suspect + 0 skipped + 2 remaining", o.Audit.String())
	assert.Equal(t, "32", b.machine.Get("/sys/block/sda/device/queue_depth"))
}
