package sweep

import (
	"context"
	"fmt"
	"time"
)

// resyncStep is how often a resyncing array is looked at again.
const resyncStep = time.Second

// waitForResync waits once, at most one run's timeout, until no array of the target is resyncing, recovering or being checked: its I/O would be
// in the figures. After that its runs are remaining, and the reason names the array (field case 38).
func (s *Sweep) waitForResync(ctx context.Context) error {
	until := time.Now().Add(s.timeout())
	said := false
	for {
		array, action := s.host.Resyncing(s.plan.Targets[0].Stack)
		if array == "" {
			return nil
		}
		if !said {
			s.note("waiting for %s: its sync_action is %s", array, action)
			said = true
		}
		if time.Now().After(until) {
			return &errEnd{fmt.Sprintf("%s: waited %v (the timeout of one run) for its %s to end; cat /proc/mdstat shows how far it is", array, s.timeout(), action)}
		}
		if err := pause(ctx, resyncStep); err != nil {
			return err
		}
	}
}
