package workload

import (
	"math/bits"
	"sync/atomic"
)

// rng is splitmix64: two multiplications a number, and any two seeds give unrelated sequences.
type rng struct{ state uint64 }

// newRNG makes a generator from a seed and the place it is for, so that no two threads, phases or
// purposes draw the same numbers.
func newRNG(seed uint64, place ...uint64) rng {
	r := rng{seed}
	for _, p := range place {
		r.state = r.next() ^ (p+1)*0xd1342543de82ef95
	}
	return r
}

func (r *rng) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is uniform in [0, n). The bias of the multiplication is n ÷ 2^64.
func (r *rng) below(n uint64) uint64 {
	hi, _ := bits.Mul64(r.next(), n)
	return hi
}

// region is a range of blocks that threads walk from its begin to its end, once or round and round.
// Threads that share one take its next block in turn, as sgp_dd's do.
type region struct {
	first, blocks int64 // in blocks from the begin of the target
	tail          int64 // bytes of a last, shorter block (once through only)
	cursor        atomic.Int64
}

// walk gives one thread its offsets.
type walk struct {
	random bool
	rng    rng
	block  int64
	offset int64 // of everything, in bytes: where a process's range of a device begins
	blocks int64 // random: blocks of the target
	left   int64 // operations left to give; once through in random order has as many as there are blocks
	region *region
	shared bool // with other threads
	around bool // begin again at the end of the region
	at     int64
}

const unlimited = int64(1) << 62

// next is the next operation's place and length; false: there is none any more.
func (w *walk) next() (offset, length int64, ok bool) {
	if w.random {
		if w.left == 0 {
			return 0, 0, false
		}
		w.left--
		return w.offset + int64(w.rng.below(uint64(w.blocks)))*w.block, w.block, true
	}
	r := w.region
	n := w.at
	if w.shared {
		n = r.cursor.Add(1) - 1
	} else {
		w.at++
	}
	if n >= r.blocks {
		switch {
		case w.around && w.shared:
			n %= r.blocks
		case w.around:
			n, w.at = 0, 1
		case n == r.blocks && r.tail > 0:
			return w.offset + (r.first+n)*w.block, r.tail, true
		default:
			return 0, 0, false
		}
	}
	return w.offset + (r.first+n)*w.block, w.block, true
}

// again makes the walk begin anew, as it was before its first step; a random one goes on to other places.
// Threads that share a region must all stand still.
func (w *walk) again(begin walk) {
	begin.rng = w.rng
	*w = begin
	if w.region != nil {
		w.region.cursor.Store(0)
	}
}

// regions splits bytes into n disjoint regions of whole blocks, the last one with the tail, if it is wanted.
func regions(bytes, block int64, n int, tail bool) []*region {
	blocks := bytes / block
	made := make([]*region, n)
	for i := range made {
		first := blocks * int64(i) / int64(n)
		made[i] = &region{first: first, blocks: blocks*int64(i+1)/int64(n) - first}
	}
	if tail {
		made[n-1].tail = bytes % block
	}
	return made
}
