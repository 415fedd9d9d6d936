// Package keeper holds the process that changes settings and puts them back, and both ends of the line to it: Start
// (main's end, a Client) and Serve (the process's end). It decides when a member is snapshotted, journalled, changed,
// verified and restored; what a setting is and how it is written is sysfs's. It knows no sweep, cell or workload.
//
// The order that everything here serves: the journal holds the original values, durably, before the first change, and
// until all of them read back. So whichever process dies, and wherever, somebody can still put the settings back: the
// keeper when main dies, a new keeper when the keeper dies, `qdsweep restore` when both do.
package keeper

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"qdsweep/sysfs"
)

// ErrKeeperDied is what every call returns once the keeper process is gone: Start another, and Recover.
var ErrKeeperDied = errors.New("the keeper process is gone")

// Member is a whole disk, or an md or dm device above some, by its kernel name and by what it must be.
type Member struct {
	Name     string
	Identity sysfs.Identity // "" of a device that has none: it is then known by its name, in this boot
}

// Key names a member in messages and files: its identity, or "name:sdh".
func (m Member) Key() string { return memberKey(m.Identity, m.Name) }

// Order is what one member is to be set to. With an empty Set nothing of it is set; it is recorded all the same, and
// compared when it is restored: another member's settings may move its own.
type Order struct {
	Member Member
	Set    []sysfs.Setting
}

// Applied is what became of one setting on one member.
type Applied struct {
	Member sysfs.Identity
	Name   string
	sysfs.Setting
	Effective   string // as read back; "" where it could not be
	Err         string // "" fine
	Unsupported bool   // this device cannot have it; nothing was changed
	NotTried    bool   // another one failed before; Err says which
}

// Restored is what became of one member's settings.
type Restored struct {
	Member sysfs.Identity
	Name   string
	Err    string   // "" all of it reads back, and the journal entry is gone
	ByHand []string // commands that do by hand what could not be done
	Stuck  bool     // the kernel did not come back from it in time
}

// Key names the member to a user: what `qdsweep restore --forget` takes.
func (r Restored) Key() string { return memberKey(r.Member, r.Name) }

// BusyError is a member that somebody else holds.
type BusyError struct {
	Key  string `json:"key"`
	Name string `json:"name"`
	PID  int    `json:"pid"`  // 0 unknown
	By   string `json:"by"`   // its command line, "" unknown
	Node bool   `json:"node"` // not a sweep: another program's flock on the device node

	Dying bool `json:"dying"` // a killed keeper, PID, with a thread in the kernel: it does nothing more but end
}

func (e *BusyError) Error() string {
	if e.Dying {
		return fmt.Sprintf("%s is held by a killed keeper, pid %d, that still has a command in the kernel; wait for it with --wait 10m", e.Name, e.PID)
	}
	who := "another process"
	if !e.Node {
		who = "another sweep"
	}
	if e.PID > 0 {
		who += fmt.Sprintf(", pid %d", e.PID)
		if e.By != "" {
			who += " (" + e.By + ")"
		}
	}
	return fmt.Sprintf("%s is held by %s; wait for it with --wait 10m", e.Name, who)
}

// UnrestoredError is a member that a sweep left changed, or with an array on it: what it has now must not be taken for its
// originals.
type UnrestoredError struct {
	Key    string    `json:"key"`
	Name   string    `json:"name"`
	Path   string    `json:"path"` // of the journal entry
	Taken  time.Time `json:"taken"`
	Damage string    `json:"damage"` // why the entry cannot be used, "" where it can
	Array  string    `json:"array"`  // of a sweep, and not taken down: the member is part of it
}

func (e *UnrestoredError) Error() string {
	if e.Damage != "" {
		return fmt.Sprintf("%s (%s) has a journal entry that cannot be used, %s: %s; look into it, then: qdsweep restore --forget '%s'",
			e.Name, e.Key, e.Path, e.Damage, e.Key)
	}
	if e.Array != "" {
		return fmt.Sprintf("%s is part of %s, which a sweep of %s made and did not take down (%s); first: qdsweep restore",
			e.Name, e.Array, e.Taken.Local().Format("2006-01-02 15:04"), e.Path)
	}
	return fmt.Sprintf("%s (%s) still has settings of a sweep of %s that did not end well, and its originals are in %s; first: qdsweep restore",
		e.Name, e.Key, e.Taken.Local().Format("2006-01-02 15:04"), e.Path)
}

// ChangedError is a name that is now another device.
type ChangedError struct {
	Name string `json:"name"`
	Want string `json:"want"`
	Got  string `json:"got"` // "" none or gone
}

func (e *ChangedError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("%s is gone, it was %s", e.Name, e.Want)
	}
	return fmt.Sprintf("%s is now %s, it was %s", e.Name, e.Got, e.Want)
}

// NotRestoredError says which members are not as they were.
type NotRestoredError struct {
	Members []Restored
}

func (e *NotRestoredError) Error() string {
	var b strings.Builder
	b.WriteString("NOT RESTORED")
	for _, m := range e.Members {
		fmt.Fprintf(&b, "\n  %s (%s): %s", m.Name, memberKey(m.Member, m.Name), m.Err)
		for _, c := range m.ByHand {
			fmt.Fprintf(&b, "\n    by hand: %s", c)
		}
	}
	b.WriteString("\n  try again with: qdsweep restore")
	return b.String()
}

// notRestored is the error for those that failed, nil for none.
func notRestored(all []Restored) error {
	var failed []Restored
	for _, r := range all {
		if r.Err != "" {
			failed = append(failed, r)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &NotRestoredError{Members: failed}
}
