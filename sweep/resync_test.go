package sweep

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qdsweep/sysfs/systest"
)

func arrayBench(t *testing.T) *bench {
	b := newBench(t, "{queue_depth: [1, 4]}", systest.Disk{Name: "sda", QueueDepth: 32}, systest.Disk{Name: "sdb", QueueDepth: 32})
	b.machine.MD("md0", "raid1", "sda", "sdb")
	b.on("md0")
	return b
}

// Field case 38: sync_action says resync for hours. The wait ends with one run's timeout and names the array; its runs are remaining.
func TestAResyncThatDoesNotEnd(t *testing.T) {
	b := arrayBench(t)
	b.profile += "timeout: 1s\n"
	b.machine.Set("/sys/block/md0/md/sync_action", "resync\n")
	o, rows := b.run()
	assert.Empty(t, rows)
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	assert.Equal(t, "2 planned = 0 ok + 0 failed + 0 suspect + 0 skipped + 2 remaining", o.Audit.String())
	assert.Contains(t, o.Stopped, "md0")
	assert.Contains(t, o.Stopped, "resync")
	assert.Contains(t, o.Stopped, "/proc/mdstat")
	assert.Empty(t, b.machine.Writes(), "no setting was touched")
}

// A resync that ends is waited for, and then the runs are done.
func TestAResyncThatEnds(t *testing.T) {
	b := arrayBench(t)
	b.machine.Set("/sys/block/md0/md/sync_action", "resync\n")
	b.observe = once(func(e Event) bool { return e.Kind == Note && e.Text == "waiting for md0: its sync_action is resync" },
		func() { b.machine.Set("/sys/block/md0/md/sync_action", "idle\n") })
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode())
	assert.Len(t, rows, 2)
}
