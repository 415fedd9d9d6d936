package workload

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// aPass is what one pass of a phase did, which each does alike.
func aPass(r Result) Result {
	n := int64(len(r.Windows()))
	r.Bytes, r.Operations = r.Bytes/n, r.Operations/n
	return r
}

// A phase that is too short to time is repeated: only time in its passes counts, and all that they did.
func TestAPhaseTooShortIsRepeated(t *testing.T) {
	for name, set := range map[string]func(s *Spec){"dd": func(*Spec) {}, "io": func(s *Spec) { s.Threads = 2 }, "io shared": func(s *Spec) { s.Threads, s.Regions = 3, 1 }} {
		typ, _, _ := strings.Cut(name, " ")
		s := spec(t, typ, "mode=write", "size=512k", "block_size=4k", "direct=false")
		if typ == "io" {
			s.Runtime, s.Engine = 0, "psync"
		}
		set(&s)
		device, _ := inMemory(t, 4096)
		target := folderOf(t, device)
		require.Empty(t, ask(s, target, "prepare").Err)
		r := ok(t, ask(s, target, "run"))[0]
		n := int64(len(r.Passes))
		require.Greater(t, n, int64(1))
		assert.Equal(t, Window{r.Passes[0].Start, r.Passes[n-1].End}, r.Window)
		assert.True(t, slices.IsSortedFunc(r.Passes, func(a, b Window) int { return int(a.End - b.Start) }), "one after another")
		assert.Equal(t, n*512<<10, r.Bytes)
		assert.Equal(t, n*128, r.Operations)
		assert.Equal(t, r.Operations, r.Latency.Count)
		assert.GreaterOrEqual(t, r.Seconds(), shortestTimed.Seconds())
		last := Result{Passes: r.Passes[:n-1]}
		assert.Less(t, last.Seconds(), shortestTimed.Seconds(), "no pass more than it takes")
		assert.Less(t, r.Seconds(), r.Window.Seconds(), "what lies between passes is not timed")
		total := int64(0)
		for _, bytes := range r.PerThreadBytes {
			total += bytes
		}
		assert.Equal(t, r.Bytes, total)
		assert.LessOrEqual(t, r.SlowestBytesPerS*float64(r.Threads), float64(r.Bytes)/r.FirstDoneS)
	}
}

func TestAPhaseLongEnoughIsNotRepeated(t *testing.T) {
	target := fileTarget(t, 1<<20)
	memory, dio := inMemory(t, 1<<20)
	r := ok(t, ask(spec(t, "io", "engine=psync", "runtime=90ms", "direct="+dio), memory, "run"))[0]
	assert.Empty(t, r.Passes, "a runtime is what was asked for")
	assert.Equal(t, 0.09, r.Seconds())

	s := spec(t, "io", "engine=psync", "runtime=0", "direct=false", "block_size=64k")
	p := ioPhase(s, target, 1)
	now := nanotime()
	p.add(Window{now, now + int64(shortestTimed) - 1}, cpuTime{})
	p.lanes[0].operations = 1
	assert.False(t, p.enough())
	p.add(Window{now + 1e9, now + 1e9 + 1}, cpuTime{})
	assert.True(t, p.enough(), "the passes together")

	p = ioPhase(s, target, 1)
	p.lanes[0].operations = 1
	p.add(Window{nanotime() - int64(mostEffort), nanotime()}, cpuTime{})
	p.passes[0].End = p.passes[0].Start + 1
	assert.True(t, p.enough(), "not for ever, where the ground takes long to make")
}

// Every pass begins as the first one did: what is written anew is not there, what is read is not in the page cache.
func TestEachPassBeginsFromTheSameGround(t *testing.T) {
	target := dirTarget(t)
	s := spec(t, "dd", "mode=write", "size=64k", "block_size=4k", "engine=psync")
	p := ddPhase(s, target, "write", 1)
	file := filepath.Join(target.Name, "w.0")
	begun := 0
	p.ground = func() (int64, error) {
		begun++
		left, err := p.clear("write")
		assert.NoFileExists(t, file)
		return left, err
	}
	r := ok(t, reply{Results: p.run()})[0]
	assert.Len(t, r.Windows(), begun)

	s = spec(t, "dd", "mode=read", "size=1m", "block_size=64k", "engine=psync")
	begun = 0
	p = ddPhase(s, target, "read", 1)
	require.NoError(t, os.Remove(file))
	require.NoError(t, prepare(s, target, 1))
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	p.ground = func() (int64, error) {
		begun++
		before, _ := cached(f)
		left, err := p.clear("read")
		after, _ := cached(f)
		assert.Zero(t, left)
		assert.Zero(t, after)
		if begun > 1 {
			assert.EqualValues(t, 1<<20, before, "the pass before has read it")
		}
		return left, err
	}
	r = ok(t, reply{Results: p.run()})[0]
	require.Len(t, r.Windows(), begun)
	assert.Zero(t, r.Resident)
}

// What cannot be dropped is told, whichever way the kernel has to tell it.
func TestWhatStaysInThePageCacheIsTold(t *testing.T) {
	target := fileTarget(t, 8<<20)
	mapped, err := unix.Mmap(int(target.File.Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_SHARED) // somebody else has it mapped
	require.NoError(t, err)
	touched := 0
	for i := 0; i < len(mapped); i += 4096 {
		touched += int(mapped[i])
	}
	require.Positive(t, touched)
	look := func() (int64, int64) {
		left, err := target.forget("")
		require.NoError(t, err)
		other, err := mincore(target.File)
		require.NoError(t, err)
		return left, other
	}
	left, other := look()
	assert.GreaterOrEqual(t, left, int64(1<<20))
	assert.Less(t, left, int64(8<<20))
	assert.Equal(t, left, other)
	s := spec(t, "io", "mode=read", "engine=psync", "runtime=0", "direct=false")
	r := ok(t, ask(s, target, "run"))[0]
	assert.GreaterOrEqual(t, r.Resident, int64(len(r.Windows()))<<20)
	s.Mode = "write"
	assert.Zero(t, ok(t, ask(s, target, "run"))[0].Resident, "writes are none the faster for it")

	require.NoError(t, unix.Munmap(mapped))
	left, other = look()
	assert.Zero(t, left)
	assert.Zero(t, other)
}

// Of a device with more pages than there is time for, chunks stand for the whole.
func TestThePageCacheOfAHugeFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "huge"))
	require.NoError(t, err)
	defer f.Close()
	const size = 257 << 30
	require.NoError(t, f.Truncate(size))
	begin := time.Now()
	n, err := mincore(f)
	require.NoError(t, err)
	assert.Zero(t, n)
	t.Logf("%v", time.Since(begin))
	assert.EqualValues(t, 6, mulDiv(1<<62, 12, 1<<63))
}

// Of workers that share their blocks one may find none left in a pass: when the first one was done is not when that one looked.
func TestAWorkerWithNothingToDoInAPassIsNotTheFirstDone(t *testing.T) {
	s := spec(t, "io", "engine=psync", "mode=read", "runtime=0", "direct=false", "block_size=64k", "threads=2", "regions=1")
	p := ioPhase(s, fileTarget(t, 1<<20), 1)
	pass := func(begin int64, operations, finished [2]int64) {
		for i, l := range p.lanes {
			l.operations += operations[i]
			l.finished = begin + finished[i]
		}
		p.add(Window{begin, begin + max(finished[0], finished[1])}, cpuTime{})
	}
	pass(1000, [2]int64{8, 8}, [2]int64{300, 400})
	pass(9000, [2]int64{16, 0}, [2]int64{500, 2})
	assert.Equal(t, []int64{300 + 500}, p.first)
	assert.Equal(t, []int64{400 + 500}, p.last)
}

// What a direct write leaves in the drive's own cache is written to the medium before the next pass, as it is before the first.
func TestEachPassBeginsWithTheDrivesCacheWritten(t *testing.T) {
	f, _ := onLoop(t, 1<<20)
	device := f.Name()
	flushes := func() int64 { // Documentation/block/stat.rst: the 16th
		text, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/stat")
		require.NoError(t, err)
		n, err := strconv.ParseInt(strings.Fields(string(text))[15], 10, 64)
		require.NoError(t, err)
		return n
	}
	target := Target{File: f, Name: device, Bytes: 1 << 20, LogicalBlock: 512}
	for _, typ := range []string{"io", "dd"} {
		s := spec(t, typ, "mode=write", "direct=true", "sync=none", "size=64k", "block_size=4k", "engine=psync")
		s.Runtime = 0
		before := flushes()
		n := len(ok(t, ask(s, target, "run"))[0].Windows())
		require.Greater(t, n, 1, typ)
		assert.GreaterOrEqual(t, flushes()-before, int64(n-1), typ)
	}
}

// The CPU time of a phase is its threads': what it takes to get them to start, pass by pass, is in no window and so in no CPU time.
func TestCPUOfShortPassesIsNoMoreThanTheThreadsHad(t *testing.T) {
	memory, dio := inMemory(t, 64<<10)
	r := ok(t, ask(spec(t, "io", "mode=read", "engine=psync", "runtime=0", "block_size=4k", "direct="+dio), memory, "run"))[0]
	require.Greater(t, len(r.Passes), 10)
	assert.LessOrEqual(t, r.CPUUserS+r.CPUSysS, r.Seconds()*1.05, "one thread, in %d passes", len(r.Passes))
	assert.Positive(t, r.CPUUserS+r.CPUSysS)
}
