package sweep

import (
	"iter"
	"math/bits"
	"math/rand/v2"
	"strconv"
)

// The values of order in a profile.
const (
	Interleaved = "interleaved" // every replicate holds each cell once, shuffled
	Sequential  = "sequential"  // every replicate holds each cell once, in the matrix's own order
)

// Run is one execution of one cell.
type Run struct {
	ID        string `json:"run"`   // cell#replicate: "queue_depth=1;write_cache=off#2"
	Index     int    `json:"index"` // its place in the sweep, counting from 1
	Cell      Cell   `json:"-"`
	Replicate int    `json:"replicate"`      // counting from 1
	Attempt   int    `json:"-"`              // counting from 1
	Skip      string `json:"skip,omitempty"` // why it will not work: it is planned as skipped

	number int32 // of its cell in the walk
}

// order yields the runs of a sweep: its replicates one after another, each shuffled by the seed and its own number, so
// that drift, heat and a resync fall on all cells alike, and so that a sweep stopped after any replicate is balanced.
// The numbers of the cells are shuffled, four bytes each; a cell is made when its turn comes. Where the target is built, which
// is hard to change, the cells of each of its levels come together, the levels in an order of their own.
func order(m Matrix, seed uint64, shuffled bool, replicates int, skip func(w *walk, i int) string) iter.Seq[Run] {
	return func(yield func(Run) bool) {
		w := m.walk()
		numbers := make([]int32, w.size())
		levels := m.hardLevels()
		index := 0
		for replicate := 1; replicate <= replicates; replicate++ {
			for i := range numbers {
				numbers[i] = int32(i)
			}
			if shuffled {
				shuffle(numbers, seed, uint64(replicate))
			}
			if len(levels) > 1 {
				w.together(numbers, orderOfLevels(len(levels), seed, shuffled, replicate), levels)
			}
			suffix := "#" + strconv.Itoa(replicate)
			for _, number := range numbers {
				i := int(number)
				if w.excluded(i) {
					continue
				}
				index++
				cell := w.cell(i)
				run := Run{ID: cell.String() + suffix, Index: index, Cell: cell, Replicate: replicate, Attempt: 1, number: number}
				if skip != nil {
					run.Skip = skip(w, i)
				}
				if !yield(run) {
					return
				}
			}
		}
	}
}

// shuffle is Fisher and Yates' with a generator whose numbers are fixed for ever (PCG-DXSM): resume, and whoever is
// given a seed, must get the same order from another build. rand.Shuffle does not promise that.
func shuffle(numbers []int32, seed, stream uint64) {
	source := rand.NewPCG(seed, stream)
	for i := len(numbers) - 1; i > 0; i-- {
		j := below(source, uint64(i+1))
		numbers[i], numbers[j] = numbers[j], numbers[i]
	}
}

// levelStream tells the shuffle of the hard levels from that of the cells: the high half of its generator's seed.
const levelStream = 1 << 63

// orderOfLevels is the place of each hard level in a replicate. The shuffle is another one than the cells', of the same seed:
// how many cells there are changes nothing in it.
func orderOfLevels(n int, seed uint64, shuffled bool, replicate int) []int32 {
	levels := make([]int32, n)
	for i := range levels {
		levels[i] = int32(i)
	}
	if shuffled {
		shuffle(levels, seed, levelStream|uint64(replicate))
	}
	place := make([]int32, n)
	for i, level := range levels {
		place[level] = int32(i)
	}
	return place
}

// together brings the cells of each hard level together, in the order of place, and leaves their order among themselves.
func (w *walk) together(numbers, place []int32, levels []string) {
	number := map[string]int{}
	for i, l := range levels {
		number[l] = i
	}
	of := func(i int32) int32 { return place[number[w.levelAt(int(i), w.matrix.hard)]] }
	begin := make([]int, len(levels)+1)
	for _, i := range numbers {
		begin[of(i)+1]++
	}
	for i := range levels {
		begin[i+1] += begin[i]
	}
	sorted := make([]int32, len(numbers))
	for _, i := range numbers {
		group := of(i)
		sorted[begin[group]] = i
		begin[group]++
	}
	copy(numbers, sorted)
}

// below is an even choice of 0 … n-1 (Lemire's multiplication, with rejection).
func below(source *rand.PCG, n uint64) uint64 {
	high, low := bits.Mul64(source.Uint64(), n)
	for threshold := -n % n; low < threshold; {
		high, low = bits.Mul64(source.Uint64(), n)
	}
	return high
}
