package workload

import (
	"encoding/binary"
)

const sector = 512

// fill makes a buffer incompressible.
func fill(b []byte, r *rng) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.next())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(r.next())
	}
}

// stamp makes every sector of a buffer another one than before, at the price of one store a sector:
// drives, arrays and file systems that compress or look for blocks that they have already must find
// nothing. The place of the stamp moves, so that no part of a sector stays as it was.
func stamp(b []byte, r *rng) {
	n := r.next()
	place := int(n>>58) * 8 // one of the sector's 64 words
	for at := place; at+8 <= len(b); at += sector {
		n += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(b[at:], n*0xbf58476d1ce4e5b9)
	}
}
