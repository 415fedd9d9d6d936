package sweep

import (
	"context"
	"fmt"
	"slices"
	"time"

	"qdsweep/sysfs"
)

// resyncStep is how often a resyncing array is looked at again.
const resyncStep = time.Second

// waitForResync waits once, at most one run's timeout, until no array of the target is resyncing, recovering or being checked: its I/O would be
// in the figures. After that its runs are remaining, and the reason names the array (field case 38).
func (s *Sweep) waitForResync(ctx context.Context, h *hold) error {
	until := time.Now().Add(s.timeout())
	said := false
	for {
		array, action := s.resyncing(h)
		if array == "" {
			return nil
		}
		if !said {
			s.note("waiting for %s: its sync_action is %s", array, action)
			said = true
		}
		if time.Now().After(until) {
			return &errEnd{reason: fmt.Sprintf("%s: waited %v (the timeout of one run) for its %s to end; cat /proc/mdstat shows how far it is", array, s.timeout(), action)}
		}
		if err := pause(ctx, resyncStep); err != nil {
			return err
		}
	}
}

// resyncing names an array that does I/O of its own on the target's members: one of the target, or of another target on the same disks.
func (s *Sweep) resyncing(h *hold) (array, action string) {
	for _, other := range s.holds {
		if other == h || sharesMember(h.stack, other.stack) {
			if array, action = s.host.Resyncing(other.stack); array != "" {
				return array, action
			}
		}
	}
	return "", ""
}

func sharesMember(a, b sysfs.Stack) bool {
	return slices.ContainsFunc(a.Members, func(m sysfs.Device) bool {
		return slices.ContainsFunc(b.Members, func(d sysfs.Device) bool { return d.Name == m.Name })
	})
}
