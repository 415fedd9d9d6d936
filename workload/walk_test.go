package workload

import (
	"bytes"
	"compress/flate"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Random offsets are aligned, inside, uniform over the whole target, and different in every thread.
func TestRandomOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := int64(512) << rapid.IntRange(0, 11).Draw(t, "block")
		bytes := block*rapid.Int64Range(1, 1<<20).Draw(t, "blocks") + rapid.Int64Range(0, block-1).Draw(t, "tail")
		seed := rapid.Uint64().Draw(t, "seed")
		s := Spec{Type: "io", Mode: "randread", Engine: "null", BlockSize: block, IODepth: 1, Threads: 2, Runtime: 1}
		p := ioPhase(s, Target{Bytes: bytes}, seed)
		same := 0
		for range 200 {
			a, n, ok := p.lanes[0].walk.next()
			b, _, _ := p.lanes[1].walk.next()
			if !ok || n != block || a%block != 0 || a < 0 || a+n > bytes {
				t.Fatalf("offset %d, %d bytes of %d", a, n, bytes)
			}
			if a == b {
				same++
			}
		}
		if bytes/block > 10000 && same > 5 {
			t.Fatalf("two threads had %d of 200 offsets in common", same)
		}
		again := ioPhase(s, Target{Bytes: bytes}, seed)
		other := ioPhase(s, Target{Bytes: bytes}, seed)
		for range 50 {
			a, _, _ := again.lanes[1].walk.next()
			b, _, _ := other.lanes[1].walk.next()
			if a != b {
				t.Fatal("a seed gives the same offsets each time")
			}
		}
	})
}

func TestRandomOffsetsAreUniform(t *testing.T) {
	const cells, draws = 64, 64 * 4000
	w := walk{random: true, block: 4096, blocks: cells, rng: newRNG(7, 0), left: unlimited}
	var seen [cells]int
	for range draws {
		at, _, _ := w.next()
		seen[at/4096]++
	}
	chi := 0.0
	for _, n := range seen {
		d := float64(n) - draws/cells
		chi += d * d / (draws / cells)
	}
	// 63 degrees of freedom: 103.4 is the 99.9 % point.
	assert.Less(t, chi, 103.4)
}

// Once through, sequential walks touch every byte exactly once, whatever the regions and threads.
func TestSequentialOnceThroughCoversEverythingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threads := rapid.IntRange(1, 9).Draw(t, "threads")
		s := Spec{Type: "io", Mode: "read", Engine: "null", BlockSize: 4096, IODepth: 1, Threads: threads,
			Regions: rapid.IntRange(1, threads).Draw(t, "regions")}
		size := 4096*rapid.Int64Range(int64(threads), 200).Draw(t, "blocks") + 512*rapid.Int64Range(0, 7).Draw(t, "tail")
		p := ioPhase(s, Target{Bytes: size}, 1)
		seen := make([]byte, size)
		for busy := true; busy; { // the threads in turn
			busy = false
			for _, l := range p.lanes {
				at, n, ok := l.walk.next()
				if !ok {
					continue
				}
				busy = true
				for i := at; i < at+n; i++ {
					seen[i]++
				}
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("byte %d of %d: %d times", i, size, n)
			}
		}
	})
}

func TestSequentialGoesRoundAndRound(t *testing.T) {
	for _, threads := range []int{1, 2} { // alone, and sharing the region
		s := Spec{Type: "io", Mode: "read", Engine: "null", BlockSize: 4096, IODepth: 1, Threads: threads, Regions: 1, Runtime: 1}
		p := ioPhase(s, Target{Bytes: 3*4096 + 512}, 1)
		var got []int64
		for i := range 7 {
			at, n, ok := p.lanes[i%threads].walk.next()
			require.True(t, ok)
			require.EqualValues(t, 4096, n)
			got = append(got, at/4096)
		}
		assert.Equal(t, []int64{0, 1, 2, 0, 1, 2, 0}, got)
	}
}

func TestReadersAndWritersWalkRegionsOfTheirOwn(t *testing.T) {
	s := Spec{Type: "io", Mode: "read+write", Engine: "null", BlockSize: 4096, IODepth: 1, Threads: 2, Runtime: 1}
	p := ioPhase(s, Target{Bytes: 4 * 8 * 4096}, 1)
	require.Len(t, p.lanes, 4)
	for i, l := range p.lanes {
		assert.Equal(t, i/2, l.group)
		assert.Equal(t, 100-100*(i/2), l.read)
		assert.EqualValues(t, 8*i, l.walk.region.first)
		assert.EqualValues(t, 8, l.walk.region.blocks)
	}
}

// dd's processes have disjoint ranges of a device.
func TestProcessesHaveRangesOfTheirOwn(t *testing.T) {
	s := Spec{Type: "dd", Mode: "write", Engine: "null", BlockSize: 1 << 20, Processes: 3}
	p := ddPhase(s, Target{Bytes: 10<<20 + 512}, "write", 1)
	end := int64(0)
	for _, l := range p.lanes {
		for {
			at, n, ok := l.walk.next()
			if !ok {
				break
			}
			assert.Equal(t, end, at)
			end = at + n
		}
	}
	assert.LessOrEqual(t, end, int64(10<<20+512))
	assert.Greater(t, end, int64(10<<20-3*4096))
}

func TestStampMakesEverySectorNew(t *testing.T) {
	r := newRNG(3)
	b := make([]byte, 64<<10)
	fill(b, &r)
	seen := map[string]bool{}
	for range 50 {
		stamp(b, &r)
		for at := 0; at < len(b); at += sector {
			s := string(b[at : at+sector])
			require.False(t, seen[s], "a sector came twice")
			seen[s] = true
		}
	}
	var packed bytes.Buffer
	w, _ := flate.NewWriter(&packed, flate.BestCompression)
	_, _ = w.Write(b)
	_ = w.Close()
	assert.GreaterOrEqual(t, packed.Len(), len(b), "incompressible")
}
