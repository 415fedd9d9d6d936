package workload

import (
	"sync/atomic"

	"qdsweep/workload/ioengine"
)

// stdioBuffer is what the C library's stdio collects before it calls the kernel: st_blksize, which is 4096 on every common file system.
const stdioBuffer = 4096

// pool is how much different data is written in turn. It is more than what a file system compresses at once (btrfs 128 KiB, ZFS as much by
// default), so that none finds in it what it has seen already.
const pool = 256 << 10

// poolSlots is how many buffers hold a pool.
func poolSlots(block int64) int { return int(max(pool/block, 1)) }

// one does one operation with one of the lane's buffers and waits for it; false: it went wrong, and why is noted.
func (l *lane) one(write bool, slot int, offset, length int64) bool {
	l.flight[slot] = flight{offset: offset, length: int32(length), write: write}
	l.ops = append(l.ops[:0], ioengine.Op{Offset: offset, Length: uint32(length), Slot: uint32(slot), Write: write})
	err := l.io.Submit(l.ops)
	if err == nil {
		_, err = l.io.Reap(1, l.done)
	}
	if err != nil {
		l.abandon(err)
		return false
	}
	if result := l.done[0].Result; result != l.flight[slot].length {
		l.complain(uint32(slot), result, nanotime())
		return false
	}
	return true
}

// did counts an operation that was begun at an instant and is over now.
func (l *lane) did(begun, bytes int64) {
	now := nanotime()
	l.bytes += bytes
	l.operations++
	l.last = now
	took := min(now-begun, longest)
	l.waited += took
	_ = l.latency.RecordValue(took)
}

// writeChunks writes the file chunk by chunk.
func (l *lane) writeChunks() {
	for slot := 0; ; slot = (slot + 1) % l.depth {
		offset, length, ok := l.walk.next()
		if !ok {
			return
		}
		stamp(l.arena.Buffer(uint32(slot))[:length], &l.rng)
		begun := nanotime()
		if !l.one(true, slot, offset, length) {
			return
		}
		l.did(begun, length)
	}
}

// rewrite reads each chunk, changes something in each of its sectors and writes it back where it was. Its bytes are counted once, as
// bonnie counts them.
func (l *lane) rewrite() {
	buffer := l.arena.Buffer(0)
	for {
		offset, length, ok := l.walk.next()
		if !ok {
			return
		}
		begun := nanotime()
		if !l.one(false, 0, offset, length) {
			return
		}
		stamp(buffer[:length], &l.rng)
		if !l.one(true, 0, offset, length) {
			return
		}
		l.did(begun, length)
	}
}

// seek reads chunks at random, as long as there are tickets, which all seekers take from one roll; with each tenth the chunk is changed and
// written back.
func (l *lane) seek(tickets *atomic.Int64, seeks, chunks int64, stop *atomic.Bool) {
	buffer := l.arena.Buffer(0)
	for !stop.Load() {
		ticket := tickets.Add(1)
		if ticket > seeks {
			return
		}
		offset := int64(l.rng.below(uint64(chunks))) * l.block
		begun, bytes := nanotime(), l.block
		if !l.one(false, 0, offset, l.block) {
			return
		}
		if ticket%10 == 0 {
			stamp(buffer, &l.rng)
			if !l.one(true, 0, offset, l.block) {
				return
			}
			bytes += l.block
		}
		l.did(begun, bytes)
	}
}

// chars is a buffer that characters are put into, or got from, one call each, as putc and getc do. What that costs, and no more, is what the
// phases of that name add to those of whole chunks.
type chars struct {
	memory []byte
	at     int
}

// put says whether the buffer is full.
//
//go:noinline
func (c *chars) put(b byte) bool {
	c.memory[c.at] = b
	c.at++
	return c.at == len(c.memory)
}

// get is the next character, -1 where the buffer has none any more.
//
//go:noinline
func (c *chars) get() int {
	if c.at == len(c.memory) {
		return -1
	}
	b := c.memory[c.at]
	c.at++
	return int(b)
}

// putChars writes a file of so many bytes, character by character. An operation is a full buffer, which goes to the kernel.
func (l *lane) putChars(bytes int64) {
	out := chars{memory: l.arena.Buffer(0)}
	source := 1 // of the buffers, the first is what the characters are put into
	for offset := int64(0); offset < bytes; source = source%(l.depth-1) + 1 {
		length := min(stdioBuffer, bytes-offset)
		from := l.arena.Buffer(uint32(source))[:length]
		stamp(from, &l.rng)
		for _, c := range from {
			if out.put(c) {
				break
			}
		}
		out.at = 0
		begun := nanotime()
		if !l.one(true, 0, offset, length) {
			return
		}
		l.did(begun, length)
		offset += length
	}
}

// getChars reads a file of so many bytes, character by character.
func (l *lane) getChars(bytes int64) {
	sum := 0
	in := chars{}
	for offset := int64(0); ; {
		c := in.get()
		if c >= 0 {
			sum += c
			continue
		}
		length := min(stdioBuffer, bytes-offset)
		if length == 0 {
			break
		}
		begun := nanotime()
		if !l.one(false, 0, offset, length) {
			return
		}
		l.did(begun, length)
		in = chars{memory: l.arena.Buffer(0)[:length]}
		offset += length
	}
	l.sum += uint64(sum) // so that no compiler can leave it out
}
