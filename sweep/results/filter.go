package results

import (
	"hash/maphash"
	"strconv"
)

// filter remembers in a fixed 4 MiB which runs are in the file (a Bloom
// filter): never wrong when it says no, wrong for one run in 200,000 when it says
// maybe with a million of them in it. That keeps the memory of a sweep's last run
// what it was at its first.
type filter struct {
	bits []uint64
	seed [2]maphash.Seed
}

const (
	filterBits = 1 << 25
	filterKeys = 8
)

func (s *filter) add(run string, attempt int) {
	if s.bits == nil {
		s.bits = make([]uint64, filterBits/64)
		s.seed = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	}
	for at := range s.places(run, attempt) {
		s.bits[at/64] |= 1 << (at % 64)
	}
}

func (s *filter) mayHave(run string, attempt int) bool {
	if s.bits == nil {
		return false
	}
	for at := range s.places(run, attempt) {
		if s.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

func (s *filter) places(run string, attempt int) func(func(uint64) bool) {
	key := run + "\x00" + strconv.Itoa(attempt)
	a, b := maphash.String(s.seed[0], key), maphash.String(s.seed[1], key)|1
	return func(yield func(uint64) bool) {
		for i := range uint64(filterKeys) {
			if !yield((a + i*b) % filterBits) {
				return
			}
		}
	}
}
