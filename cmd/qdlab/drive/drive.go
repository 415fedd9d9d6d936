// Package drive models a hard disk: mechanism, command queue, write cache, read-ahead, and the ways in which real
// ones misbehave. It is a state machine in a time of its own, deterministic, that knows no SCSI, no kernel and no
// wall clock: the lab serves it to a kernel, and qdlab simulate asks the same code without one.
package drive

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Drive is one drive. It is not for use by several goroutines.
type Drive struct {
	model     Model
	mechanism mechanism
	media     Media
	cache     writeCache
	ahead     readAhead

	now     time.Duration
	number  uint64
	events  events
	active  []*Command // not yet carried out, in order of arrival
	hung    []*Command
	waiting int           // commands that have not come back
	done    []*Command    // came back since the last Run
	track   int           // where the head is
	free    time.Duration // the interface and its firmware are busy until then
	op      *operation

	deferred error // of a write that was acknowledged: the next Sync has it
}

// operation is what the mechanism does now: a command, or destaging a piece of the cache.
type operation struct {
	command *Command // nil: destaging
	lba     uint64
	sectors uint64
	start   time.Duration // the first sector begins to pass
}

// New is a drive just powered on, at time 0. The seed says where its spindle stands.
func New(m Model, media Media, seed uint64) *Drive {
	g := newGeometry(m)
	d := &Drive{model: m, media: media}
	d.mechanism = mechanism{geometry: g, curve: newCurve(m.Seek, g.tracks), settle: m.Seek.Settle, phase: rand.New(rand.NewPCG(seed, 0)).Float64()}
	d.cache = writeCache{size: uint64(m.Write.KB) << 10, on: m.Write.On}
	d.ahead = readAhead{limit: sectorsOf(m.Read.KB), keep: m.Read.Segments}
	return d
}

// Model is what the drive is made of.
func (d *Drive) Model() Model { return d.model }

// Outstanding is how many commands have not come back.
func (d *Drive) Outstanding() int { return d.waiting }

// WriteCache says whether writes are acknowledged early.
func (d *Drive) WriteCache() bool { return d.cache.on }

// SetWriteCache switches it for writes that come from now on. What is in the cache stays there until it is
// destaged: whoever switches it off submits a Sync and waits for it.
func (d *Drive) SetWriteCache(on bool) { d.cache.on = on && d.cache.size > 0 }

var errCommand = errors.New("not a command of this drive")

// Submit gives the drive a command, at a time not before the last Run's.
func (d *Drive) Submit(now time.Duration, c *Command) error {
	if now < d.now {
		return fmt.Errorf("%w: submitted at %v, after %v", errCommand, now, d.now)
	}
	if c.Kind != Sync && (c.Sectors == 0 || c.LBA > d.model.Sectors() || c.Sectors > d.model.Sectors()-c.LBA) {
		return fmt.Errorf("%w: %d sectors from %d on, of %d", errCommand, c.Sectors, c.LBA, d.model.Sectors())
	}
	if c.Kind == Write && uint64(len(c.Data)) != c.Sectors*SectorSize {
		return fmt.Errorf("%w: %d bytes for %d sectors", errCommand, len(c.Data), c.Sectors)
	}
	d.now = now
	c.Arrived, c.mark = now, d.cache.last
	d.waiting++
	d.active = append(d.active, c)
	d.free = max(d.free, now) + d.model.Interface.Overhead
	if c.Kind == Write {
		c.uncached = !d.cached(c)
		d.transfer(now, len(c.Data), d.writeRate())
	}
	d.schedule(d.free, received, c)
	return nil
}

// cached: the write is acknowledged when it is in the cache.
func (d *Drive) cached(c *Command) bool {
	if d.model.Quirks.TagsDefeatCache && d.waiting > 1 {
		return false
	}
	return d.cache.on && !c.FUA && uint64(len(c.Data)) <= d.cache.size
}

// writeRate is what the drive takes written data at, in byte/s.
func (d *Drive) writeRate() float64 {
	if slow := d.model.Quirks.TaggedWrites; slow.From > 0 && d.waiting >= slow.From {
		return min(slow.MBs, d.model.Interface.Rate) * 1e6
	}
	return d.model.Interface.Rate * 1e6
}

// transfer takes the interface for so many bytes, from now on at the earliest, and says when they are over.
func (d *Drive) transfer(now time.Duration, bytes int, rate float64) time.Duration {
	d.free = max(d.free, now) + seconds(float64(bytes)/rate)
	return d.free
}

// Never is the time of what does not happen.
const Never = time.Duration(math.MaxInt64)

// Next is when Run has something to do, unless another command comes: Never if it has not.
func (d *Drive) Next() time.Duration {
	if len(d.events) == 0 {
		return Never
	}
	return d.events[0].at
}

// Run lets the drive work until a time, and gives the commands that came back, in their order.
func (d *Drive) Run(until time.Duration) []*Command {
	for len(d.events) > 0 && d.events[0].at <= until {
		e := heap.Pop(&d.events).(event)
		d.now = e.at
		switch e.what {
		case received:
			d.receive(e.command)
		case finished:
			d.finish()
		case answered:
			e.command.Done = e.at
			d.waiting--
			d.done = append(d.done, e.command)
		}
		d.admit()
		d.begin()
	}
	d.now = max(d.now, until)
	done := d.done
	d.done = nil
	return done
}

func (d *Drive) receive(c *Command) {
	c.received = true
	for _, lba := range d.model.Quirks.HangAt {
		if c.Kind != Sync && c.LBA <= lba && lba < c.LBA+c.Sectors {
			d.leave(c)
			d.hung = append(d.hung, c)
			return
		}
	}
}

// Release gives the commands that hang, and forgets them.
func (d *Drive) Release() []*Command {
	hung := d.hung
	d.hung = nil
	d.waiting -= len(hung)
	return hung
}

// leave: the command has been carried out, in the order that the data show.
func (d *Drive) leave(c *Command) {
	if i := slices.Index(d.active, c); i >= 0 {
		d.active = slices.Delete(d.active, i, i+1)
	}
}

// answer sends a command back at a time.
func (d *Drive) answer(at time.Duration, c *Command) {
	d.leave(c)
	d.schedule(at, answered, c)
}

// behind: an earlier command must be carried out before this one.
func (d *Drive) behind(i int) bool {
	for _, earlier := range d.active[:i] {
		if earlier.conflicts(d.active[i]) {
			return true
		}
	}
	return false
}

// admit does what needs no mechanism: writes that the cache has room for, reads of what is in memory, Syncs with
// nothing left to wait for.
func (d *Drive) admit() {
	full := false // what finds no room is first when there is some: a smaller write behind it waits, too
	for i := 0; i < len(d.active); i++ {
		c := d.active[i]
		if !c.received || d.op != nil && d.op.command == c || d.behind(i) {
			continue
		}
		at := Never
		switch {
		case c.Kind == Sync:
			if d.cache.destaged(c.mark) {
				c.Err, d.deferred = d.deferred, nil
				at = d.now
			}
		case c.Kind == Write && !c.uncached:
			if !d.cache.on { // switched off meanwhile
				c.uncached = true
				continue
			}
			if full = full || !d.cache.room(len(c.Data)); !full {
				d.cache.add(c.LBA, c.Data)
				d.ahead.drop(c.LBA, c.Sectors)
				at = d.now
			}
		case c.Kind == Read && d.bad(Read, c.LBA, c.Sectors) == nil && d.inMemory(c):
			d.fill(c)
			at = d.transfer(d.now, len(c.Data), d.model.Interface.Rate*1e6)
		}
		if at != Never {
			d.answer(at, c)
			i = -1 // others may have waited for it
			full = false
		}
	}
}

// inMemory: the read needs no mechanism.
func (d *Drive) inMemory(c *Command) bool {
	if d.cache.holds(c.LBA, c.Sectors) || d.ahead.holds(c.LBA, c.Sectors) {
		return true
	}
	if !d.ahead.growing || c.LBA < d.ahead.from {
		return false
	}
	end, _ := d.ahead.reached(d.mechanism.geometry, d.now, d.model.Sectors())
	return c.LBA+c.Sectors <= end
}

// fill gives a read its data: the media's, and over them what is not there yet.
func (d *Drive) fill(c *Command) {
	c.Data = make([]byte, c.Sectors*SectorSize)
	if _, err := d.media.ReadAt(c.Data, int64(c.LBA*SectorSize)); err != nil {
		c.Err = fmt.Errorf("read %d sectors from %d on: %w", c.Sectors, c.LBA, err)
	}
	d.cache.overlay(c.LBA, c.Data)
}

// bad is the sector at which reading or writing these fails.
func (d *Drive) bad(kind Kind, lba, sectors uint64) error {
	for _, b := range d.model.Quirks.BadSectors {
		if b.Write == (kind == Write) && lba <= b.LBA && b.LBA < lba+sectors {
			return &BadSectorError{LBA: b.LBA, Write: b.Write}
		}
	}
	return nil
}
