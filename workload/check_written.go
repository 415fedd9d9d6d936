package workload

import (
	"bytes"
	"fmt"
	"math/bits"
)

// check compares what is found with what was written.
type check struct {
	ledger *ledger
	sole   uint32 // the low bits of the one write that may be found, where it is known; else the ledger says

	bytes int64 // looked at
	bad   int64 // blocks that differ
	last  int64 // the last of them
	first *difference
}

// difference is the first byte of a sector that is not what it should be.
type difference struct {
	file            int
	offset          int64 // of the byte
	found, expected byte
	bytes, bits     int    // of its sector that differ
	write, writes   uint64 // the one that belongs there, of how many
	zeros           bool

	other uint64 // the write that the sector holds instead, 0: none of this phase
	where spot   // where that one belongs
}

// piece looks at what was read from offset on, in whole sectors but for the end of everything. Blocks never written are not looked at.
func (c *check) piece(b []byte, s span, offset int64) {
	for len(b) > 0 {
		n := min(len(b), sector)
		block := s.blockAt(offset, c.ledger.block)
		p := spot{s.file, offset / sector}
		if n < sector {
			c.part(b, p, offset, block)
		} else if at, w, whole := c.ledger.seal.read((*[sector]byte)(b)); !whole || at != p || !c.fits(block, w) {
			c.differs(b[:n], p, offset, block, at, w)
		}
		c.bytes += int64(n)
		offset += int64(n)
		b = b[n:]
	}
}

func (c *check) fits(block int64, w uint64) bool {
	if c.sole != 0 {
		return uint32(w)&lowBits == c.sole
	}
	return c.ledger.may(block, w)
}

// part looks at a last sector that is cut short.
func (c *check) part(b []byte, p spot, offset, block int64) {
	for _, w := range c.ledger.candidates(block, c.sole) {
		want := c.ledger.seal.sector(p, w)
		if bytes.Equal(want[:len(b)], b) {
			return
		}
	}
	c.differs(b, p, offset, block, spot{}, 0)
}

// differs notes a sector that is not right. at and w are where it says that it belongs and which write it is, w 0 where it says nothing.
func (c *check) differs(b []byte, p spot, offset, block int64, at spot, w uint64) {
	if c.bad == 0 || c.last != block {
		c.bad++
		c.last = block
	}
	if c.first != nil && (c.first.file < p.file || c.first.file == p.file && c.first.offset <= offset) {
		return
	}
	var nearest *difference
	for _, candidate := range c.ledger.candidates(block, c.sole) {
		d := difference{file: p.file, write: candidate}
		want := c.ledger.seal.sector(p, candidate)
		for i, x := range b {
			if x == want[i] {
				continue
			}
			if d.bytes == 0 {
				d.offset, d.found, d.expected = offset+int64(i), x, want[i]
			}
			d.bytes++
			d.bits += bits.OnesCount8(x ^ want[i])
		}
		if d.bytes > 0 && (nearest == nil || d.bytes < nearest.bytes) {
			nearest = &d
		}
	}
	if nearest == nil {
		return
	}
	nearest.writes, nearest.zeros = c.ledger.written(), len(bytes.Trim(b, "\x00")) == 0
	if w != 0 && w <= nearest.writes {
		nearest.other, nearest.where = w, at
	}
	c.first = nearest
}

// with adds up what two checks of different blocks found.
func (c *check) with(o check) {
	c.bytes += o.bytes
	c.bad += o.bad
	if o.first != nil && (c.first == nil || o.first.file < c.first.file || o.first.file == c.first.file && o.first.offset < c.first.offset) {
		c.first = o.first
	}
}

func (d *difference) text(name func(file int) string) string {
	text := fmt.Sprintf("byte %d of %s is 0x%02x and should be 0x%02x", d.offset, name(d.file), d.found, d.expected)
	write := fmt.Sprintf("write %d of the phase's %d", d.write, d.writes)
	here := spot{d.file, d.offset / sector}
	switch {
	case d.other != 0 && d.where == here:
		return fmt.Sprintf("%s: its sector holds write %d, and %s came after it: stale, a lost write", text, d.other, write)
	case d.other != 0:
		return fmt.Sprintf("%s: its sector should hold %s and holds write %d, which went to %d of %s: misdirected", text, write, d.other, d.where.sector*sector, name(d.where.file))
	case d.zeros:
		return fmt.Sprintf("%s: its sector is zeros where %s belongs", text, write)
	case d.bytes > sector/4:
		return fmt.Sprintf("%s: its sector should hold %s and is nothing that this phase wrote (%d bytes differ)", text, write, d.bytes)
	case d.bits == 1:
		return fmt.Sprintf("%s: 1 bit of its sector differs from %s", text, write)
	default:
		return fmt.Sprintf("%s: %d bits of its sector differ from %s", text, d.bits, write)
	}
}
