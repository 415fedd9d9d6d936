package ioengine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	testBlock  = 4096
	testBlocks = 64
)

// onEngines runs one test over every engine that moves data, at several depths. An engine that the
// kernel forbids is a failure here, not a skip: CI runs where they all are.
func onEngines(t *testing.T, f func(t *testing.T, name string, depth int)) {
	for _, name := range Names() {
		if name == "null" {
			continue
		}
		for _, depth := range []int{1, 2, 32} {
			depth = Depth(name, depth)
			t.Run(fmt.Sprintf("%s/%d", name, depth), func(t *testing.T) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				f(t, name, depth)
			})
		}
	}
}

// directFile is a file of random blocks, opened with O_DIRECT where the file system can.
func directFile(t *testing.T, flags int) (*os.File, []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	content := make([]byte, testBlock*testBlocks)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(content)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := os.OpenFile(path, flags|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) { // tmpfs before 6.6
		f, err = os.OpenFile(path, flags, 0)
	}
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f, content
}

func open(t *testing.T, name string, f *os.File, depth int) (Engine, *Arena) {
	t.Helper()
	arena, err := NewArena(depth, testBlock)
	require.NoError(t, err)
	var e Engine
	if name == "sg" { // a file takes no commands
		e, _, err = play(t, f, depth, arena)
	} else {
		e, err = Open(name, Config{FD: int(f.Fd()), Depth: depth, Arena: arena})
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, e.Close())
		assert.NoError(t, arena.Close())
	})
	return e, arena
}

// all reaps everything in flight.
func all(t *testing.T, e Engine, n int) []Completion {
	t.Helper()
	done := make([]Completion, 64)
	var got []Completion
	for len(got) < n {
		k, err := e.Reap(1, done)
		require.NoError(t, err)
		require.Positive(t, k, "Reap(1) gives at least one")
		got = append(got, done[:k]...)
	}
	k, err := e.Reap(0, done)
	require.NoError(t, err)
	require.Zero(t, k, "nothing more than was submitted")
	return got
}

func TestReadsWhatIsThere(t *testing.T) {
	onEngines(t, func(t *testing.T, name string, depth int) {
		f, content := directFile(t, os.O_RDONLY)
		e, arena := open(t, name, f, depth)
		for at := 0; at < testBlocks; at += depth {
			var ops []Op
			n := min(depth, testBlocks-at)
			for s := range n {
				ops = append(ops, Op{Offset: int64(at+s) * testBlock, Length: testBlock, Slot: uint32(s)})
			}
			require.NoError(t, e.Submit(ops))
			seen := map[uint32]bool{}
			for _, c := range all(t, e, n) {
				require.EqualValues(t, testBlock, c.Result)
				require.False(t, seen[c.Slot], "each slot once")
				seen[c.Slot] = true
				want := content[(at+int(c.Slot))*testBlock:][:testBlock]
				require.True(t, bytes.Equal(want, arena.Buffer(c.Slot)), "block %d", at+int(c.Slot))
			}
		}
	})
}

func TestWritesReadBack(t *testing.T) {
	onEngines(t, func(t *testing.T, name string, depth int) {
		f, _ := directFile(t, os.O_RDWR)
		e, arena := open(t, name, f, depth)
		var ops []Op
		for s := range depth {
			copy(arena.Buffer(uint32(s)), bytes.Repeat([]byte{byte(s + 1)}, testBlock))
			ops = append(ops, Op{Offset: int64(depth-1-s) * testBlock, Length: testBlock, Slot: uint32(s), Write: true})
		}
		require.NoError(t, e.Submit(ops))
		for _, c := range all(t, e, depth) {
			require.EqualValues(t, testBlock, c.Result)
		}
		got, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		for s := range depth {
			assert.Equal(t, bytes.Repeat([]byte{byte(s + 1)}, testBlock), got[(depth-1-s)*testBlock:][:testBlock])
		}
	})
}

// What a drive that is gone answers (0 bytes), a tail, and refusals are completions, never hidden.
func TestTellsShortAndRefusedOperations(t *testing.T) {
	onEngines(t, func(t *testing.T, name string, depth int) {
		f, _ := directFile(t, os.O_RDONLY)
		require.NoError(t, os.Truncate(f.Name(), testBlock+512))
		e, _ := open(t, name, f, depth)
		one := func(op Op) int32 {
			require.NoError(t, e.Submit([]Op{op}))
			return all(t, e, 1)[0].Result
		}
		assert.EqualValues(t, 512, one(Op{Offset: testBlock, Length: testBlock}), "the tail")
		assert.EqualValues(t, 0, one(Op{Offset: 2 * testBlock, Length: testBlock}), "beyond the end")
		assert.EqualValues(t, -int32(syscall.EBADF), one(Op{Length: testBlock, Write: true}), "opened read-only")
		assert.EqualValues(t, testBlock, one(Op{Length: testBlock}), "the engine works on after an error")
	})
}

// One refused operation in the middle of a batch neither hides the others nor loses itself.
func TestRefusedInTheMiddleOfABatch(t *testing.T) {
	onEngines(t, func(t *testing.T, name string, depth int) {
		if depth < 3 {
			return
		}
		f, _ := directFile(t, os.O_RDONLY)
		e, _ := open(t, name, f, depth)
		var ops []Op
		for s := range depth {
			ops = append(ops, Op{Offset: int64(s) * testBlock, Length: testBlock, Slot: uint32(s), Write: s == 1})
		}
		require.NoError(t, e.Submit(ops))
		for _, c := range all(t, e, depth) {
			want := int32(testBlock)
			if c.Slot == 1 {
				want = -int32(syscall.EBADF)
			}
			assert.Equal(t, want, c.Result, "slot %d", c.Slot)
		}
	})
}

// A slot is free as soon as its completion was given, and slots run past each other in any order.
func TestKeepsItsDepthBusy(t *testing.T) {
	onEngines(t, func(t *testing.T, name string, depth int) {
		f, content := directFile(t, os.O_RDONLY)
		e, arena := open(t, name, f, depth)
		r := rand.New(rand.NewPCG(1, 2))
		at := make([]int, depth)
		next := func(s uint32) Op {
			at[s] = r.IntN(testBlocks)
			return Op{Offset: int64(at[s]) * testBlock, Length: testBlock, Slot: s}
		}
		var ops []Op
		for s := range depth {
			ops = append(ops, next(uint32(s)))
		}
		require.NoError(t, e.Submit(ops))
		done := make([]Completion, depth)
		for total := 0; total < 5000; {
			n, err := e.Reap(1, done)
			require.NoError(t, err)
			ops = ops[:0]
			for _, c := range done[:n] {
				require.EqualValues(t, testBlock, c.Result)
				require.True(t, bytes.Equal(content[at[c.Slot]*testBlock:][:64], arena.Buffer(c.Slot)[:64]))
				ops = append(ops, next(c.Slot))
			}
			total += n
			require.NoError(t, e.Submit(ops))
		}
		all(t, e, depth)
	})
}

// In steady state an operation allocates nothing.
func TestNoAllocations(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f, _ := directFile(t, os.O_RDONLY)
			depth := Depth(name, 8)
			e, _ := open(t, name, f, depth)
			ops, done := make([]Op, depth), make([]Completion, depth)
			for i := range ops {
				ops[i] = Op{Length: testBlock, Slot: uint32(i)}
			}
			allocs := testing.AllocsPerRun(200, func() {
				if e.Submit(ops) != nil {
					t.Fatal("submit")
				}
				for n := 0; n < depth; {
					k, err := e.Reap(1, done)
					if err != nil {
						t.Fatal(err)
					}
					n += k
				}
			})
			assert.Zero(t, allocs)
		})
	}
}

func TestAutoTakesWhatWorks(t *testing.T) {
	for _, direct := range []bool{true, false} {
		name := Auto(direct)
		assert.Contains(t, Names(), name)
		assert.NotContains(t, []string{"null", "sg"}, name)
		assert.NoError(t, Probe(name))
	}
	assert.ErrorContains(t, Probe("mmap"), `no engine "mmap": psync, libaio, io_uring, sg, null`)
	assert.ErrorContains(t, Probe("sg"), "it drives SCSI and SATA disks alone")
}

func TestDepth(t *testing.T) {
	assert.Equal(t, 1, Depth("psync", 32))
	assert.Equal(t, 32, Depth("libaio", 32))
	assert.Equal(t, 32, Depth("io_uring", 32))
	assert.Equal(t, 32, Depth("sg", 32))
}

func TestClosingGivesEverythingBack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	before := count()
	for range 40 { // more than the 16 rings that a thread can register
		for _, name := range Names() {
			if name != "sg" {
				require.NoError(t, Probe(name))
			}
		}
	}
	assert.Equal(t, before, count())
}

func BenchmarkEngines(b *testing.B) {
	for _, name := range Names() {
		if name == "sg" {
			continue
		}
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			zero, err := os.Open("/dev/zero")
			require.NoError(b, err)
			defer zero.Close()
			arena, err := NewArena(1, 512)
			require.NoError(b, err)
			defer arena.Close()
			e, err := Open(name, Config{FD: int(zero.Fd()), Depth: 1, Arena: arena})
			require.NoError(b, err)
			defer e.Close()
			ops, done := []Op{{Length: 512}}, make([]Completion, 1)
			b.ReportAllocs()
			for b.Loop() {
				_ = e.Submit(ops)
				_, _ = e.Reap(1, done)
			}
		})
	}
}
