package drive

import (
	"container/heap"
	"fmt"
	"time"
)

// Kind is what a command does.
type Kind uint8

const (
	Read  Kind = iota
	Write      // of Data
	Sync       // SYNCHRONIZE CACHE: done when all that was acknowledged before is on the media
)

// Command is one command, from Submit until it comes back from Run.
type Command struct {
	Kind    Kind
	LBA     uint64
	Sectors uint64
	Data    []byte // of a write, before; of a read, afterwards
	FUA     bool   // a write is on the media when it comes back (force unit access)

	Err      error         // *BadSectorError, or one of the media
	Done     time.Duration // when it came back
	Arrived  time.Duration
	received bool   // the drive has it, and a write's data
	uncached bool   // a write that goes to the media by itself
	mark     uint64 // of a Sync: the last write that it waits for
}

// BadSectorError is a sector that cannot be read or written.
type BadSectorError struct {
	LBA   uint64
	Write bool
}

func (e *BadSectorError) Error() string {
	if e.Write {
		return fmt.Sprintf("sector %d cannot be written", e.LBA)
	}
	return fmt.Sprintf("sector %d cannot be read", e.LBA)
}

// conflicts: the order of the two matters to what is read.
func (c *Command) conflicts(with *Command) bool {
	return (c.Kind == Write || with.Kind == Write) && c.LBA < with.LBA+with.Sectors && with.LBA < c.LBA+c.Sectors
}

// event is something that happens at a time.
type event struct {
	at      time.Duration
	number  uint64 // of two at a time, the one decided on first comes first
	what    happening
	command *Command
}

type happening uint8

const (
	received happening = iota // a command is in the drive
	finished                  // the mechanism is done with its operation
	answered                  // a command comes back
)

// events is a heap (container/heap).
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (d *Drive) schedule(at time.Duration, what happening, c *Command) {
	d.number++
	heap.Push(&d.events, event{at: at, number: d.number, what: what, command: c})
}
