// Package scsi is a SCSI disk over a modelled drive (SPC-4, SBC-3): command descriptor blocks and data in, data,
// status and sense out, in the drive's own time. It knows no kernel and no wall clock: whoever serves it brings both.
package scsi

import (
	"errors"
	"slices"
	"time"

	"qdsweep/cmd/qdlab/drive"
)

// Status is the status byte of SAM-5.
type Status byte

const (
	Good           Status = 0x00
	CheckCondition Status = 0x02
	Busy           Status = 0x08
	TaskSetFull    Status = 0x28
)

// Task is one command, from Submit until it comes back from Run.
type Task struct {
	CDB []byte
	Out []byte // from the host
	ID  uint16 // the caller's

	Status Status
	In     []byte // to the host, who may have room for less
	Sense  []byte // of CheckCondition, fixed format
}

// Identity is what tells the drive from another of its model.
type Identity struct {
	Serial string
	// Saved is the write cache as MODE SELECT has saved it, nil: never. Save keeps it for the next power-on.
	Saved *bool
	Save  func(writeCache bool) error
}

// Target is the disk. It is not for use by several goroutines.
type Target struct {
	model     drive.Model
	identity  Identity
	media     drive.Media
	drive     *drive.Drive
	seed      uint64
	attention sense // the first command after power-on has it
	waiting   map[*drive.Command]*Task
	answered  []*Task // without the drive
}

// New is a disk just powered on.
func New(m drive.Model, media drive.Media, identity Identity, seed uint64) *Target {
	t := &Target{model: m, identity: identity, media: media, seed: seed}
	t.powerOn()
	return t
}

func (t *Target) powerOn() {
	m := t.model
	if m.Caching.Savable && t.identity.Saved != nil {
		m.Write.On = *t.identity.Saved && m.Write.KB > 0
	}
	t.drive = drive.New(m, t.media, t.seed)
	t.waiting, t.answered = map[*drive.Command]*Task{}, nil
	t.attention = sensePowerOn
}

// PowerCycle takes the power away at a time and gives it back. The tasks that had not come back are given as those of
// a drive that has been reset.
func (t *Target) PowerCycle(at time.Duration) ([]*Task, error) {
	done := t.Run(at)
	err := t.drive.PowerCut(at)
	var dropped []*Task
	for _, task := range t.waiting {
		task.fail(sensePowerOn)
		dropped = append(dropped, task)
	}
	slices.SortFunc(dropped, func(a, b *Task) int { return int(a.ID) - int(b.ID) })
	t.powerOn()
	return append(done, dropped...), err
}

// Release gives the tasks that hang, as aborted.
func (t *Target) Release(at time.Duration) []*Task {
	done := t.Run(at)
	for _, c := range t.drive.Release() {
		task := t.waiting[c]
		delete(t.waiting, c)
		task.fail(senseAborted)
		done = append(done, task)
	}
	return done
}

// WriteCache is the drive's state, whatever its pages say.
func (t *Target) WriteCache() bool { return t.drive.WriteCache() }

// Outstanding is how many tasks have not come back.
func (t *Target) Outstanding() int { return len(t.waiting) + len(t.answered) }

// Next is when Run has something to do, unless another task comes.
func (t *Target) Next() time.Duration {
	if len(t.answered) > 0 {
		return 0
	}
	return t.drive.Next()
}

// Run lets the disk work until a time, and gives the tasks that came back.
func (t *Target) Run(until time.Duration) []*Task {
	done := t.answered
	t.answered = nil
	for _, c := range t.drive.Run(until) {
		task := t.waiting[c]
		delete(t.waiting, c)
		switch {
		case c.Err != nil:
			task.fail(senseOf(c.Err))
		case c.Kind == drive.Read:
			task.In = c.Data
		}
		done = append(done, task)
	}
	return done
}

// Submit gives the disk a task, at a time not before the last Run's. What is wrong with it comes back as its status.
func (t *Target) Submit(now time.Duration, task *Task) {
	command, err := t.start(task)
	if err == nil && command != nil {
		if command.Sectors == 0 && command.Kind != drive.Sync {
			command = nil // a transfer of nothing is no error
		} else {
			t.waiting[command] = task
			if err = t.drive.Submit(now, command); err == nil {
				return
			}
			delete(t.waiting, command)
		}
	}
	var refused sense
	switch {
	case errors.Is(err, errFull):
		task.Status = TaskSetFull
	case errors.Is(err, errBusy):
		task.Status = Busy
	case errors.As(err, &refused):
		task.fail(refused)
	case err != nil: // what start let pass the drive must take
		task.fail(senseInternal)
	}
	t.answered = append(t.answered, task)
}

func (task *Task) fail(s sense) {
	task.Status, task.Sense, task.In = CheckCondition, s.bytes(), nil
}

// start carries a task out, or gives the drive's command that does.
func (t *Target) start(task *Task) (*drive.Command, error) {
	operation, err := lookup(task.CDB)
	if err != nil {
		return nil, err
	}
	if t.attention != (sense{}) && !operation.always {
		reported := t.attention
		t.attention = sense{}
		return nil, reported
	}
	return operation.start(t, task)
}

var (
	errFull = errors.New("task set full")
	errBusy = errors.New("busy")
)

// room: the drive takes one command more.
func (t *Target) room() error {
	outstanding := t.drive.Outstanding()
	full := t.model.Queue.Tags
	if limit := t.model.Quirks.QueueFullOver; limit > 0 {
		full = min(full, limit)
	}
	if limit := t.model.Quirks.BusyOver; limit > 0 && outstanding >= limit {
		return errBusy
	}
	if outstanding >= full {
		return errFull
	}
	return nil
}
