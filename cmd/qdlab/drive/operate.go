package drive

import (
	"fmt"
	"time"
)

// retries is how many turns a drive spends on a sector before it gives it up.
const retries = 10

func (o operation) kind() Kind {
	if o.command == nil {
		return Write
	}
	return o.command.Kind
}

// candidate is what the mechanism could do next.
type candidate struct {
	operation
	arrived  time.Duration // of the command, or of the oldest that waits for the cache to be emptied
	position time.Duration
}

// begin gives the mechanism something to do, if it has nothing and there is any.
func (d *Drive) begin() {
	if d.op != nil {
		return
	}
	commands, waits := d.candidates()
	if !d.cache.empty() && (len(commands) == 0 || waits != Never) {
		// A piece is a track at most, so that others have their turn in between.
		lba, sectors := d.cache.next(d.mechanism.place(d.cache.writes[0].lba).perTrack)
		commands = append(commands, candidate{operation: operation{lba: lba, sectors: sectors}, arrived: waits})
	}
	if len(commands) == 0 {
		return
	}
	track, reading := d.head()
	chosen := d.choose(commands, track, reading)
	d.leaveTrack(chosen, reading)
	d.op = &chosen.operation
	d.op.start = d.start(chosen) + chosen.position
	end := d.op.start + d.mechanism.transfer(chosen.lba, chosen.sectors)
	if d.bad(chosen.kind(), chosen.lba, chosen.sectors) != nil {
		end += retries * d.model.Revolution()
	}
	d.schedule(end, finished, nil)
}

// start is when the mechanism can set out. The firmware needs its time for a command, none to go on destaging.
func (d *Drive) start(c candidate) time.Duration {
	if c.command == nil {
		return d.now
	}
	return d.now + d.model.Queue.Turnaround
}

// candidates are the commands that the mechanism could carry out now; waits is the arrival of the oldest command
// that cannot go on before something is destaged, Never if there is none.
func (d *Drive) candidates() (commands []candidate, waits time.Duration) {
	waits = Never
	for i, c := range d.active {
		switch {
		case !c.received || d.behind(i):
		case c.Kind == Sync, c.Kind == Write && !c.uncached, c.Kind == Write && d.cache.overlaps(c.LBA, c.Sectors):
			waits = min(waits, c.Arrived)
		default:
			commands = append(commands, candidate{operation: operation{command: c, lba: c.LBA, sectors: c.Sectors}, arrived: c.Arrived})
		}
	}
	return commands, waits
}

// continues is what the head is about to read of its own accord, from the first sector that memory does not have.
type continues struct {
	from, next uint64
	reading    bool
}

// head is where it is, and what it reads meanwhile.
func (d *Drive) head() (track int, c continues) {
	if !d.ahead.growing {
		return d.track, c
	}
	end, reading := d.ahead.reached(d.mechanism.geometry, d.now+d.model.Queue.Turnaround, d.model.Sectors())
	c = continues{from: d.ahead.from, next: end, reading: reading}
	return d.mechanism.place(min(end, d.model.Sectors()-1)).track, c
}

// choose is the candidate that is next by the drive's order, with its position filled in.
func (d *Drive) choose(commands []candidate, track int, c continues) candidate {
	best, bestCost := -1, 0.0
	for i := range commands {
		x := &commands[i]
		if x.command != nil && x.command.Kind == Read && d.ahead.growing && c.from <= x.lba && x.lba <= c.next && c.next < x.lba+x.sectors {
			// Its beginning is in memory or just passing.
			x.sectors -= c.next - x.lba
			x.lba = c.next
		}
		x.position = d.mechanism.position(d.start(*x), track, x.lba, x.kind() == Write)
		waited := 0.0
		if x.arrived != Never {
			waited = (d.now - x.arrived).Seconds()
		}
		var cost float64
		switch d.model.Queue.Order {
		case FirstCome:
			cost = -waited
		case Shortest:
			cost = x.position.Seconds() - d.model.Queue.Ageing*waited
		case Badly:
			cost = -x.position.Seconds() - d.model.Queue.Ageing*waited
		}
		if best < 0 || cost < bestCost {
			best, bestCost = i, cost
		}
	}
	return commands[best]
}

// leaveTrack ends the reading ahead.
func (d *Drive) leaveTrack(chosen candidate, c continues) {
	if d.ahead.growing {
		d.ahead.stop(c.next)
	}
	last := chosen.lba + chosen.sectors - 1
	d.track = d.mechanism.place(last).track
}

// finish carries out what the mechanism has just done.
func (d *Drive) finish() {
	op := d.op
	d.op = nil
	if op.command == nil {
		err := d.cache.take(op.sectors, d.store)
		if d.deferred == nil {
			d.deferred = err
		}
		return
	}
	c := op.command
	switch c.Err = d.bad(c.Kind, c.LBA, c.Sectors); {
	case c.Err != nil:
		d.answer(d.now, c)
	case c.Kind == Write:
		d.ahead.drop(c.LBA, c.Sectors)
		c.Err = d.store(c.LBA, c.Data)
		d.answer(d.now, c)
	default:
		d.fill(c)
		d.ahead.start(d.now, c.LBA, c.LBA+c.Sectors)
		// The interface has carried the data while they passed, unless it is the slower of the two.
		at := d.transfer(op.start, len(c.Data), d.model.Interface.Rate*1e6)
		d.answer(max(at, d.now), c)
	}
}

func (d *Drive) store(lba uint64, data []byte) error {
	if err := d.bad(Write, lba, uint64(len(data))/SectorSize); err != nil {
		return err
	}
	if _, err := d.media.WriteAt(data, int64(lba*SectorSize)); err != nil {
		return fmt.Errorf("write %d bytes at sector %d: %w", len(data), lba, err)
	}
	return nil
}

// PowerCut takes the power away at a time: what is neither on the media nor has just passed under the head is lost.
// The drive is off then; New with the same media is the next power-on.
func (d *Drive) PowerCut(at time.Duration) error {
	d.Run(at)
	op := d.op
	if op == nil || op.kind() == Read || at < op.start {
		return nil
	}
	passed := d.mechanism.passed(op.lba, at-op.start, op.sectors, true)
	if op.command == nil {
		return d.cache.take(passed, d.store)
	}
	return d.store(op.lba, op.command.Data[:passed*SectorSize])
}
