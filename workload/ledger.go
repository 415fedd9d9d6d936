package workload

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"qdsweep/workload/ioengine"
)

// mostVerified is how many blocks can be verified: the ledger takes 4 bytes of each, so 1 GiB at the most. In blocks of 4 KiB that is
// 1 TiB, of 1 MiB more than any drive.
const mostVerified = int64(1) << 28

// ledger knows the last write of every block, so that what is found there later can be told from an older write that
// it should have replaced. Its memory is bounded by the blocks, not by the writes.
type ledger struct {
	seal  seal
	block int64
	spans []span
	name  func(file int) string // for messages

	mu      sync.Mutex
	writes  uint64   // so far; each has the number it brought this to
	last    []uint32 // by block: the low bits of the number of its last write, and busy while one is in flight; 0: never written
	mapping []byte
	crowded map[int64]*crowd
	spare   []*crowd
}

// span is a part of a file, or of the device, that is written in blocks from its begin.
type span struct {
	file         int   // of the workload's files
	start, bytes int64 // in it
	first        int64 // number of its first block
}

// crowd is of a block that was written by several at once: nobody knows whose write is the last one then.
type crowd struct {
	flying []uint32 // the writes in flight
	either []uint32 // those that were when the last one was submitted, any of which may have come after it
}

const (
	busy    = uint32(1) << 31
	lowBits = busy - 1
)

func newLedger(seed uint64, block int64, name func(int) string, spans ...span) (*ledger, error) {
	g := &ledger{seal: seal{newRNG(seed, 4).state}, block: block, spans: spans, name: name, crowded: map[int64]*crowd{}}
	blocks := int64(0)
	for i := range g.spans {
		g.spans[i].first = blocks
		blocks += blocksOf(g.spans[i].bytes, block)
	}
	// Outside the heap: what is never written takes no memory.
	m, err := unix.Mmap(-1, 0, int(max(blocks, 1)*4), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map a ledger of %d blocks: %w", blocks, err)
	}
	g.mapping, g.last = m, unsafe.Slice((*uint32)(unsafe.Pointer(&m[0])), blocks)
	return g, nil
}

func (g *ledger) close() { _ = unix.Munmap(g.mapping) }

func blocksOf(bytes, block int64) int64 { return (bytes + block - 1) / block }

func (s span) blockAt(offset, block int64) int64 { return s.first + (offset-s.start)/block }

// begin is before a write is submitted; it gives the write its number.
func (g *ledger) begin(block int64) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes++
	if uint32(g.writes)&lowBits == 0 {
		g.writes++ // 0 is for what was never written
	}
	low := uint32(g.writes) & lowBits
	before := g.last[block]
	switch {
	case before&busy != 0:
		c := g.crowded[block]
		if c == nil {
			c = g.newCrowd()
			c.flying = append(c.flying, before&lowBits)
			g.crowded[block] = c
		}
		c.either = append(c.either[:0], c.flying...)
		c.flying = append(c.flying, low)
	case len(g.crowded) > 0:
		g.forgetCrowd(block)
	}
	g.last[block] = low | busy
	return g.writes
}

// end is after it was completed.
func (g *ledger) end(block int64, write uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.crowded) > 0 {
		if c := g.crowded[block]; c != nil {
			low := uint32(write) & lowBits
			for i, w := range c.flying {
				if w == low {
					c.flying[i] = c.flying[len(c.flying)-1]
					c.flying = c.flying[:len(c.flying)-1]
					break
				}
			}
			if len(c.flying) > 0 {
				return
			}
		}
	}
	g.last[block] &^= busy
}

// newCrowd and forgetCrowd use crowds again: nothing is collected while lanes run.
func (g *ledger) newCrowd() *crowd {
	if n := len(g.spare); n > 0 {
		c := g.spare[n-1]
		g.spare = g.spare[:n-1]
		return c
	}
	return &crowd{}
}

func (g *ledger) forgetCrowd(block int64) {
	if c := g.crowded[block]; c != nil {
		delete(g.crowded, block)
		c.flying, c.either = c.flying[:0], c.either[:0]
		g.spare = append(g.spare, c)
	}
}

// settled is a block's only possible write, by its low bits; 0 while there is none, or several.
func (g *ledger) settled(block int64) uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.last[block]
	if w&busy != 0 || len(g.crowded) > 0 && g.crowded[block] != nil {
		return 0
	}
	return w
}

// may says whether a block may hold a write, once nothing is in flight.
func (g *ledger) may(block int64, write uint64) bool {
	low := uint32(write) & lowBits
	if write == 0 || write > g.writes {
		return false
	}
	if g.last[block] == low {
		return true
	}
	if c := g.crowded[block]; c != nil {
		for _, w := range c.either {
			if w == low {
				return true
			}
		}
	}
	return false
}

// candidates are the numbers of the writes that a block may hold, the likeliest first; where sole is not 0, of that one alone. Only low bits
// are kept: of more than 2^31 writes several have the same.
func (g *ledger) candidates(block int64, sole uint32) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	lows := []uint32{sole}
	if sole == 0 {
		lows[0] = g.last[block] & lowBits
		if c := g.crowded[block]; c != nil {
			lows = append(lows, c.either...)
		}
	}
	var all []uint64
	for _, low := range lows {
		w := g.writes&^uint64(lowBits) | uint64(low)
		if w > g.writes {
			w -= uint64(busy)
		}
		for ; w > 0 && w <= g.writes; w -= uint64(busy) { // below 0 is above all
			all = append(all, w)
		}
	}
	return all
}

func (g *ledger) written() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes
}

func (g *ledger) blocksWritten() (n int64) {
	for _, w := range g.last {
		if w != 0 {
			n++
		}
	}
	return n
}

// sealing is a lane's engine when what it writes is to be verified: it seals each write right before it is submitted, and holds
// reads of what was written in this phase against it. Without verify there is none, so that it costs nothing.
type sealing struct {
	ioengine.Engine
	lane   *lane
	ledger *ledger
	span   span
	number []uint64 // by slot: of the write, or, of a read, what it should find (0: nothing that is known)
}

// watch has a lane write into a span.
func (g *ledger) watch(l *lane, n int) {
	l.watch = func(e ioengine.Engine) ioengine.Engine {
		return &sealing{Engine: e, lane: l, ledger: g, span: g.spans[n], number: make([]uint64, l.depth)}
	}
}

func (e *sealing) Submit(ops []ioengine.Op) error {
	wrote := false
	for i := range ops {
		op := &ops[i]
		block := e.span.blockAt(op.Offset, e.ledger.block)
		if !op.Write {
			e.number[op.Slot] = uint64(e.ledger.settled(block))
			continue
		}
		wrote = true
		e.number[op.Slot] = e.ledger.begin(block)
		e.ledger.seal.put(e.lane.arena.Buffer(op.Slot)[:op.Length], spot{e.span.file, op.Offset / sector}, e.number[op.Slot])
	}
	if wrote {
		e.lane.stampTimes() // sealing took time, and is no latency of the device
	}
	return e.Engine.Submit(ops)
}

func (e *sealing) Reap(least int, done []ioengine.Completion) (int, error) {
	n, err := e.Engine.Reap(least, done)
	for i := range done[:n] {
		slot := done[i].Slot
		f := &e.lane.flight[slot]
		block := e.span.blockAt(f.offset, e.ledger.block)
		switch {
		case f.write:
			e.ledger.end(block, e.number[slot])
		case e.number[slot] != 0 && done[i].Result == f.length:
			e.compare(slot, block, f)
		}
	}
	return n, err
}

// compare holds what was read against what was written there, unless another write came in between.
func (e *sealing) compare(slot uint32, block int64, f *flight) {
	if e.ledger.settled(block) != uint32(e.number[slot]) {
		return
	}
	c := check{ledger: e.ledger, sole: uint32(e.number[slot])}
	if c.piece(e.lane.arena.Buffer(slot)[:f.length], e.span, f.offset); c.bad > 0 && e.lane.err == nil {
		e.lane.err = &failure{at: nanotime(), where: f.offset, corrupt: true,
			text: "a read of the phase gave something else than it had written there: " + c.first.text(e.ledger.name)}
	}
}
