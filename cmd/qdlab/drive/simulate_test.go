package drive

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plain is a desktop drive of 2007, small.
func plain() Model {
	return Model{
		Name: "plain", Shows: "a test", Vendor: "QDLAB", Product: "PLAIN", SizeMB: 256, Speed: 1, RPM: 7200,
		Seek:      Seek{Track: 800 * time.Microsecond, Average: 8500 * time.Microsecond, Full: 17 * time.Millisecond, Settle: 500 * time.Microsecond},
		Media:     MediaRate{Zones: 8, Outer: 65, Inner: 35},
		Interface: Interface{Rate: 300, Overhead: 100 * time.Microsecond},
		Queue:     Queue{Tags: 32, Order: Shortest, Ageing: 0.02},
		Write:     WriteCache{KB: 8192, On: true},
		Read:      ReadAhead{KB: 256, Segments: 8},
	}
}

func simulate(t *testing.T, m Model, w Workload) Result {
	t.Helper()
	require.NoError(t, m.check())
	if w.Length == 0 {
		w.Length = 40 * time.Second
	}
	r, err := Simulate(m, w)
	require.NoError(t, err)
	t.Logf("write %-5t random %-5t depth %-2d %7.1f IOPS %6.2f MB/s, longest %v", w.Write, w.Random, w.Depth, r.IOPS, r.MBs, r.Longest)
	return r
}

func with(m Model, change func(*Model)) Model {
	change(&m)
	return m
}

func TestReorderingMakesRandomReadsFaster(t *testing.T) {
	read := func(order Order, depth int) float64 {
		m := with(plain(), func(m *Model) { m.Queue.Order = order })
		return simulate(t, m, Workload{Random: true, Block: 4096, Depth: depth}).IOPS
	}
	one := read(Shortest, 1)
	assert.InDelta(t, 80, one, 8, "8.3 ms / 2 and the average seek")
	assert.GreaterOrEqual(t, read(Shortest, 31)/one, 1.4)
	assert.InDelta(t, 1, read(FirstCome, 31)/read(FirstCome, 1), 0.05)
	assert.Less(t, read(Badly, 31)/read(Badly, 1), 0.8)
	// More tags never make a drive that reorders slower.
	last := one
	for _, depth := range []int{2, 4, 8, 16, 31} {
		now := read(Shortest, depth)
		if depth == 2 { // where one is under way and one waits, there is no choice
			assert.InEpsilon(t, one, now, 0.05)
		} else {
			assert.Greater(t, now, 1.1*last, "depth %d", depth)
		}
		last = now
	}
}

func TestTheWriteCacheHelpsUntilItIsFull(t *testing.T) {
	write := func(on bool, warmup, length time.Duration) float64 {
		m := with(plain(), func(m *Model) { m.Write.On = on })
		return simulate(t, m, Workload{Write: true, Random: true, Block: 4096, Depth: 1, Warmup: warmup, Length: length}).IOPS
	}
	off := write(false, 0, 60*time.Second)
	assert.GreaterOrEqual(t, write(true, 0, 200*time.Millisecond), 3*off)
	assert.InEpsilon(t, off, write(true, 30*time.Second, 60*time.Second), 0.15, "in the long run")
}

func TestSequentialRates(t *testing.T) {
	sequential := func(write, cache bool, depth int, region int64) float64 {
		m := with(plain(), func(m *Model) { m.Write.On = cache })
		return simulate(t, m, Workload{Write: write, Block: 128 << 10, Depth: depth, Region: region, Warmup: time.Second, Length: 4 * time.Second}).MBs
	}
	const outer, turn, change = 32 << 20, 1 / 120.0, 0.0013 // the first zone; s, s from one track to the next
	want := 65 * turn / (turn + change)
	assert.InEpsilon(t, want, sequential(false, true, 1, outer), 0.02, "reads, by reading ahead")
	assert.InEpsilon(t, want, sequential(false, true, 4, outer), 0.02, "reads, by the queue")
	assert.InEpsilon(t, want, sequential(true, true, 1, outer), 0.03, "writes, by the cache")
	assert.InEpsilon(t, want, sequential(true, false, 4, outer), 0.05, "writes, by the queue: where they go round, by the shortest way")
	// Without either, each write comes when its sector has just gone by.
	assert.InEpsilon(t, 0.131072/(0.131072/65+turn+change/4), sequential(true, false, 1, outer), 0.03)
	// All zones are as large as each other, so the slow ones take longer.
	all := 0.0
	for zone := range 8 {
		all += (turn + change) / turn / (65 - 30*float64(zone)/7) / 8
	}
	assert.InEpsilon(t, 1/all, sequential(false, true, 1, 0), 0.05)
}

func TestSpeedDividesAllTimes(t *testing.T) {
	slow := simulate(t, plain(), Workload{Random: true, Block: 4096, Depth: 4})
	fast := simulate(t, with(plain(), func(m *Model) { m.Speed = 10 }), Workload{Random: true, Block: 4096, Depth: 4})
	assert.InEpsilon(t, 10*slow.IOPS, fast.IOPS, 1e-9)
	assert.InEpsilon(t, slow.Longest/10, fast.Longest, 1e-6)
}

func TestTheSameSeedGivesTheSameTimes(t *testing.T) {
	run := func(seed uint64) Result {
		r, err := Simulate(plain(), Workload{Random: true, Write: true, Block: 4096, Depth: 7, Length: 5 * time.Second, Seed: seed})
		require.NoError(t, err)
		return r
	}
	assert.Equal(t, run(1), run(1))
	assert.NotEqual(t, run(1), run(2))
}
