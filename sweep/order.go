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
}

// order yields the runs of a sweep: its replicates one after another, each shuffled by the seed and its own number, so
// that drift, heat and a resync fall on all cells alike, and so that a sweep stopped after any replicate is balanced.
// The numbers of the cells are shuffled, four bytes each; a cell is made when its turn comes.
func order(m Matrix, seed uint64, shuffled bool, replicates int, skip func(w *walk, i int) string) iter.Seq[Run] {
	return func(yield func(Run) bool) {
		w := m.walk()
		numbers := make([]int32, w.size())
		index := 0
		for replicate := 1; replicate <= replicates; replicate++ {
			for i := range numbers {
				numbers[i] = int32(i)
			}
			if shuffled {
				shuffle(numbers, seed, replicate)
			}
			suffix := "#" + strconv.Itoa(replicate)
			for _, number := range numbers {
				i := int(number)
				if w.excluded(i) {
					continue
				}
				index++
				cell := w.cell(i)
				run := Run{ID: cell.String() + suffix, Index: index, Cell: cell, Replicate: replicate, Attempt: 1}
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
func shuffle(numbers []int32, seed uint64, replicate int) {
	source := rand.NewPCG(seed, uint64(replicate))
	for i := len(numbers) - 1; i > 0; i-- {
		j := below(source, uint64(i+1))
		numbers[i], numbers[j] = numbers[j], numbers[i]
	}
}

// below is an even choice of 0 … n-1 (Lemire's multiplication, with rejection).
func below(source *rand.PCG, n uint64) uint64 {
	high, low := bits.Mul64(source.Uint64(), n)
	for threshold := -n % n; low < threshold; {
		high, low = bits.Mul64(source.Uint64(), n)
	}
	return high
}
