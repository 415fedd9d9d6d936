package sweep

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
	"qdsweep/sysfs/md"
)

// DefaultStateDir holds the journal and the locks.
const DefaultStateDir = "/var/lib/qdsweep"

// Restore puts back what dead sweeps left changed, by a keeper of its own, as a run's settings are put back.
func Restore(ctx context.Context, stateDir string, o keeper.RestoreOptions) (found []keeper.EntryOutcome, err error) {
	if os.Geteuid() != 0 {
		return nil, &RefusedError{[]sysfs.Refusal{{Reason: "settings can only be put back by root", Fix: "sudo qdsweep restore"}}}
	}
	k, err := keeper.Start(ctx, keeper.Options{StateDir: stateDir, Log: os.Stderr})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w; nothing was put back", cause)
		}
		return nil, err
	}
	defer k.Close()
	found, err = k.RestoreJournal(ctx, o)
	h := sysfs.NewHost("/")
	for i := range found {
		if found[i].Array != nil {
			takeDown(ctx, h, k, &found[i])
		}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		// What the keeper has begun it ends, and Close waits for that; only waiting for a sweep is given up.
		err = fmt.Errorf("%w; what was being put back is, or is still in the journal: sudo qdsweep restore --dry-run", cause)
	}
	return found, err
}

// takeDown takes down an array that a dead sweep left, whose lock the keeper holds; of a dry run it says what would be done. A keeper never takes arrays down.
func takeDown(ctx context.Context, h sysfs.Host, k *keeper.Client, o *keeper.EntryOutcome) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeDownLimit)
	defer cancel()
	record := recordOf(*o.Array)
	switch o.State {
	case keeper.StateWouldRestore:
		left, err := md.Look(ctx, h, record)
		o.Notes = append(o.Notes, left...)
		if err != nil {
			o.Notes = append(o.Notes, err.Error())
		}
	case keeper.StateTakeDown:
		did, err := md.TakeDown(ctx, h, record)
		o.Notes = append(o.Notes, did...)
		if err == nil {
			err = k.Array(ctx, *o.Array, false)
		}
		if err != nil {
			o.State, o.Reason, o.Next = keeper.StateFailed, err.Error(), "sudo qdsweep restore"
			return
		}
		o.State, o.Next = keeper.StateRemoved, ""
	}
}

// WriteRestored says of each journal entry what became of it, what state the drive is in, and what to type.
func WriteRestored(w io.Writer, found []keeper.EntryOutcome) error {
	var b strings.Builder
	if len(found) == 0 {
		b.WriteString("nothing to restore: the journal is empty\n")
	}
	for _, o := range found {
		name := o.Name
		if o.Now != "" {
			name = o.Now
		}
		if name != o.Key {
			name += " (" + o.Key + ")"
		}
		state := string(o.State)
		if o.State == keeper.StateFailed {
			state = "NOT RESTORED"
		}
		fmt.Fprintf(&b, "%-13s %s", state, name)
		if o.Reason != "" {
			fmt.Fprintf(&b, ": %s", o.Reason)
		}
		b.WriteByte('\n')
		for _, m := range o.Moved {
			fmt.Fprintf(&b, "  %s\n", m)
		}
		for _, n := range o.Notes {
			fmt.Fprintf(&b, "  %s\n", n)
		}
		for _, c := range o.ByHand {
			fmt.Fprintf(&b, "  by hand: %s\n", c)
		}
		if pid := fmt.Sprintf("pid %d", o.PID); o.PID != 0 && !strings.Contains(o.Reason, pid) {
			fmt.Fprintf(&b, "  the sweep that has it is %s\n", pid)
		}
		if o.Next != "" {
			fmt.Fprintf(&b, "  next: %s\n", o.Next)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
