package md

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"qdsweep/sysfs"
)

// idleLimit is how long an array may be neither complete nor busy with becoming so: the sync starts a moment after the array does.
const idleLimit = time.Minute

// awaitSync waits until parity or mirrors are made: nothing is missing, and nothing is busy any more (Documentation/admin-guide/md.rst).
// It takes hours on big drives, and ends with ctx. One that has not moved for stall (0: for ever) is given up: a drive of it does not answer, or it waits for
// another array that does not end.
func (m machine) awaitSync(ctx context.Context, d sysfs.Device, stall time.Duration, progress func(Progress)) error {
	idle, moved, done := time.Now(), time.Now(), -1.0
	for {
		a := m.host.Arrays(sysfs.Stack{Device: d, Layers: []sysfs.Layer{{Device: d}}})[0]
		step := "initial sync of " + d.Name
		if a.SyncDone != done {
			moved, done = time.Now(), a.SyncDone
		}
		switch {
		case len(a.Faulty) > 0:
			return fmt.Errorf("%s: failed members: %s; the kernel log says why (dmesg)", step, strings.Join(a.Faulty, ", "))
		case slices.Contains([]string{"", "clear", "inactive", "broken"}, a.State):
			return fmt.Errorf("%s: the array is %q", step, a.State)
		case a.Syncing():
			idle = time.Now()
		case a.Degraded == 0 && m.attribute(ctx, d, "resync_start") == "none":
			progress(Progress{Step: step, Done: 1})
			return nil
		case time.Since(idle) > idleLimit:
			return fmt.Errorf("%s: it does not go on: %d of %d members missing, sync_action %q", step, a.Degraded, a.Disks, a.Sync)
		}
		if a.Delayed {
			step += ", which waits for another array on the same disks"
		}
		if stall > 0 && time.Since(moved) >= stall {
			return fmt.Errorf("%s: it has not moved for %v; cat /proc/mdstat shows how far it is", step, stall)
		}
		progress(Progress{Step: step, Done: a.SyncDone, Left: a.SyncLeft})
		if err := wait(ctx, 2*m.moment); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
}
