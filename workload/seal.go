package workload

import (
	"encoding/binary"
	"math/bits"
)

// seal is what a sector holds that was written to be verified: 64 words, of which the first two, scrambled, say where it
// belongs and which write of the phase it is, and the others follow from them. So every sector can be made again from the seed,
// its place and its write, none is like another, and one that is found in the wrong place, or is an old one, says so itself.
type seal struct{ key uint64 }

// spot is a sector of a workload's n-th file, or of the device.
type spot struct {
	file   int
	sector int64
}

func (p spot) number() uint64 { return uint64(p.file)<<48 | uint64(p.sector) }

func spotOf(number uint64) spot { return spot{int(number >> 48), int64(number & (1<<48 - 1))} }

// put fills b, of whole sectors but for a last one that may be cut short, as write w of what lies from p on.
func (s seal) put(b []byte, p spot, w uint64) {
	for n := p.number(); len(b) >= sector; n++ {
		s.one((*[sector]byte)(b), n, w)
		b = b[sector:]
		p.sector++
	}
	if len(b) > 0 {
		last := s.sector(p, w)
		copy(b, last[:])
	}
}

func (s seal) one(b *[sector]byte, number, w uint64) {
	first := scramble(number ^ s.key)
	second := scramble(w ^ bits.RotateLeft64(first, 23) ^ s.key)
	binary.LittleEndian.PutUint64(b[0:], first)
	binary.LittleEndian.PutUint64(b[8:], second)
	r := rng{second}
	for at := 16; at < sector; at += 8 {
		binary.LittleEndian.PutUint64(b[at:], r.next())
	}
}

// sector is a sector as it should be.
func (s seal) sector(p spot, w uint64) (b [sector]byte) {
	s.one(&b, p.number(), w)
	return b
}

// read takes a sector's own word for where it belongs and which write it is; whole says that all of it agrees.
func (s seal) read(b *[sector]byte) (p spot, w uint64, whole bool) {
	first, second := binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:])
	r := rng{second}
	for at := 16; at < sector; at += 8 {
		if binary.LittleEndian.Uint64(b[at:]) != r.next() {
			return spot{}, 0, false
		}
	}
	return spotOf(unscramble(first) ^ s.key), unscramble(second) ^ bits.RotateLeft64(first, 23) ^ s.key, true
}

// scramble is the finish of splitmix64: every number to another one, without a pattern.
func scramble(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unscramble is its way back: the multipliers' inverses modulo 2^64, and the shifts undone.
func unscramble(z uint64) uint64 {
	z = (z ^ z>>31 ^ z>>62) * 0x319642b2d24d8ec3
	z = (z ^ z>>27 ^ z>>54) * 0x96de1b173f119089
	return z ^ z>>30 ^ z>>60
}
