package keeper

import (
	"time"

	"qdsweep/sysfs"
)

// State is what became of a journal entry. The words are part of the JSON output.
type State string

// The states of an entry.
const (
	StateRestored     State = "restored"      // all reads back that is ours to write; the entry is gone
	StateRemoved      State = "removed"       // a folder or an array of ours, or what went with one; and its entry
	StateForgotten    State = "forgotten"     // the entry was dropped because the user said so
	StateWouldRestore State = "would restore" // dry run
	StateTakeDown     State = "take down"     // an array of ours: held, for the caller of RestoreJournal to take it down
	StateBusy         State = "busy"          // a live sweep has it; PID says which
	StateGone         State = "gone"          // the drive or the folder's file system is not there; kept
	StateLeft         State = "left"          // cannot be done without the user; kept
	StateFailed       State = "not restored"  // should have gone back and did not; kept
)

// RestoreOptions say what RestoreJournal does.
type RestoreOptions struct {
	DryRun bool          // change nothing
	Forget []string      // drop these entries instead of restoring anything: identities, as EntryOutcome.Key has them
	Wait   time.Duration // for a sweep that has the drive
}

// EntryOutcome is what became of one journal entry, with what a user needs to know about it.
type EntryOutcome struct {
	Key   string    `json:"key"`   // the identity; what --forget takes
	Name  string    `json:"name"`  // the kernel's name when the entry was made; a folder's path; what an array is of
	Now   string    `json:"now"`   // the name now, "" not there
	Path  string    `json:"path"`  // of the entry
	Sweep string    `json:"sweep"` // "" unknown
	Taken time.Time `json:"taken"`
	State State     `json:"state"`

	Moved  []sysfs.Moved `json:"moved,omitempty"`   // what was (or, in a dry run, is) not as the journal says
	Notes  []string      `json:"notes,omitempty"`   // "queue_depth is 32, journal says 31: left alone"
	Reason string        `json:"reason,omitempty"`  // why it is not restored
	ByHand []string      `json:"by_hand,omitempty"` // commands that do what could not be done
	Next   string        `json:"next,omitempty"`    // what to type
	PID    int           `json:"pid,omitempty"`     // of the sweep that has it
	Array  *Array        `json:"array,omitempty"`   // of StateTakeDown, and in a dry run: what it takes to take it down
}

// RestoreExit is the exit status of `qdsweep restore`: 0 nothing left, 3 a live sweep has something, 4 entries left
// that are not ours to write, or (dry run) would be restored, 5 one that should have gone back did not.
func RestoreExit(all []EntryOutcome) int {
	exit := map[State]int{StateFailed: 5, StateTakeDown: 5, StateBusy: 3, StateGone: 4, StateLeft: 4, StateWouldRestore: 4}
	worst := 0
	for _, rank := range []int{4, 3, 5} { // ascending
		for _, o := range all {
			if exit[o.State] == rank {
				worst = rank
			}
		}
	}
	return worst
}
