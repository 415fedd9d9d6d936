package sweep

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs/systest"
)

// failing makes queue_depth of a disk refuse every write from one run to another, which is as before.
func failing(b *bench, from, until int) func(Event) {
	return func(e Event) {
		if e.Kind != RunBegan || e.Run.Index != from && e.Run.Index != until {
			return
		}
		errno := unix.EIO
		if e.Run.Index == until {
			errno = 0
		}
		b.machine.Fail("/sys/block/sda/device/queue_depth", errno)
	}
}

func TestFailuresInARowEndASweep(t *testing.T) {
	const depths = "{queue_depth: [1, 2, 3, 4, 5, 6, 7, 8]}"
	for name, c := range map[string]struct {
		limit, from, until int
		audit, stopped     string
	}{
		"as many as allowed": {3, 2, 0, "8 planned = 1 ok + 3 failed + 0 suspect + 0 skipped + 4 remaining", "3 runs failed in a row (--max-failures 3), the last: not applied: "},
		"the default":        {0, 2, 0, "8 planned = 1 ok + 5 failed + 0 suspect + 0 skipped + 2 remaining", "5 runs failed in a row (--max-failures 5)"},
		"one less":           {3, 2, 4, "8 planned = 6 ok + 2 failed + 0 suspect + 0 skipped + 0 remaining", ""},
		"at the very end":    {3, 6, 0, "8 planned = 5 ok + 3 failed + 0 suspect + 0 skipped + 0 remaining", ""},
		"the first ends it":  {1, 3, 4, "8 planned = 2 ok + 1 failed + 0 suspect + 0 skipped + 5 remaining", "1 run failed in a row (--max-failures 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, depths, systest.Disk{Name: "sda", QueueDepth: 32})
			b.profile = strings.Replace(b.profile, "150ms", "20ms", 1)
			b.failures, b.observe = c.limit, failing(b, c.from, c.until)
			o, err := b.execute(context.Background())
			require.NoError(t, err)
			assert.Equal(t, c.audit, o.Audit.String())
			assert.Equal(t, ExitIncomplete, o.ExitCode())
			if c.stopped == "" {
				assert.Empty(t, o.Stopped)
			}
			assert.Contains(t, o.Stopped, c.stopped)
			assert.Equal(t, "32", b.machine.Get("/sys/block/sda/device/queue_depth"))
		})
	}
}

// A broken drive costs its own runs and no other's, though theirs come in between.
func TestFailuresInARowAreATargets(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 3, 4]}", systest.Disk{Name: "sda", QueueDepth: 32}, systest.Disk{Name: "sdb", QueueDepth: 32})
	b.profile = strings.Replace(b.profile, "{device: sda}", "{devices: [sda, sdb]}", 1)
	b.profile = strings.Replace(b.profile, "order: sequential", "order: interleaved\nseed: 3", 1)
	b.profile = strings.Replace(b.profile, "150ms", "20ms", 1)
	b.failures = 2
	b.machine.Fail("/sys/block/sda/device/queue_depth", unix.EIO)
	o, err := b.execute(context.Background())
	require.NoError(t, err)
	assert.Equal(t, "8 planned = 4 ok + 2 failed + 0 suspect + 0 skipped + 2 remaining", o.Audit.String())
	assert.Contains(t, o.Stopped, "(sda): 2 runs failed in a row")
	assert.NotContains(t, o.Stopped, "(sdb)")
}

// What is planned as skipped neither is a failure nor shows that the target works.
func TestSkippedRunsCountNoFailures(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 99, 3, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.profile = strings.Replace(b.profile, "150ms", "20ms", 1) + "unsupported: skip\n"
	b.failures = 4
	b.machine.Fail("/sys/block/sda/device/queue_depth", unix.EIO)
	o, err := b.execute(context.Background())
	require.NoError(t, err)
	assert.Equal(t, "5 planned = 0 ok + 4 failed + 0 suspect + 1 skipped + 0 remaining", o.Audit.String())
}
