package workload

import (
	"bytes"
	"compress/flate"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"qdsweep/workload/ioengine"
)

// A sealed sector tells its place and its write, and any flipped bit undoes it.
func TestASectorSaysWhatItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := seal{rapid.Uint64().Draw(t, "key")}
		p := spot{rapid.IntRange(0, 1<<10).Draw(t, "file"), rapid.Int64Range(0, 1<<47).Draw(t, "sector")}
		w := rapid.Uint64().Draw(t, "write")
		b := s.sector(p, w)
		gotP, gotW, whole := s.read(&b)
		if !whole || gotP != p || gotW != w {
			t.Fatalf("%v %d became %v %d, %v", p, w, gotP, gotW, whole)
		}
		bit := rapid.IntRange(0, 8*sector-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		gotP, gotW, whole = s.read(&b)
		if whole && gotP == p && gotW == w {
			t.Fatalf("bit %d is none of it", bit)
		}
		if z := rapid.Uint64().Draw(t, "z"); unscramble(scramble(z)) != z {
			t.Fatalf("%#x does not come back", z)
		}
	})
}

// What is verified is as incompressible as what is not, and no sector comes twice.
func TestSealedDataIsIncompressible(t *testing.T) {
	s := seal{7}
	b := make([]byte, 256<<10)
	seen := map[string]bool{}
	for w := range uint64(20) {
		s.put(b, spot{0, 0}, w+1)
		for at := 0; at < len(b); at += sector {
			require.False(t, seen[string(b[at:at+sector])])
			seen[string(b[at:at+sector])] = true
		}
	}
	var packed bytes.Buffer
	w, _ := flate.NewWriter(&packed, flate.BestCompression)
	_, _ = w.Write(b)
	_ = w.Close()
	assert.GreaterOrEqual(t, packed.Len(), len(b))

	tail := make([]byte, 1000)
	s.put(tail, spot{0, 5}, 9)
	second := s.sector(spot{0, 6}, 9)
	assert.Equal(t, second[:1000-sector], tail[sector:], "cut short at the end")
}

// Whatever writes are in flight at once: what a block may hold is each write that was not over when another one began.
func TestTheLedgerKnowsWhatABlockMayHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const blocks = 4
		g, err := newLedger(1, 512, nil, span{bytes: blocks * 512})
		if err != nil {
			t.Fatal(err)
		}
		defer g.close()
		g.writes = rapid.SampledFrom([]uint64{0, 1<<31 - 3, 1<<33 - 2}).Draw(t, "before")
		type write struct {
			number      uint64
			begun, over int
		}
		all := map[int64][]*write{}
		flying := map[*write]int64{}
		now := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now++
			if len(flying) > 0 && rapid.Bool().Draw(t, "end") {
				var list []*write
				for w := range flying {
					list = append(list, w)
				}
				slices.SortFunc(list, func(a, b *write) int { return a.begun - b.begun })
				w := list[rapid.IntRange(0, len(list)-1).Draw(t, "which")]
				g.end(flying[w], w.number)
				w.over = now
				delete(flying, w)
				continue
			}
			b := rapid.Int64Range(0, blocks-1).Draw(t, "block")
			w := &write{number: g.begin(b), begun: now}
			all[b] = append(all[b], w)
			flying[w] = b
		}
		for b := range int64(blocks) {
			n, sole := 0, uint32(0)
			for _, w := range flying {
				if w == b {
					n++
				}
			}
			if n == 0 && len(all[b]) > 0 {
				sole = uint32(all[b][len(all[b])-1].number) & lowBits
			}
			if got := g.settled(b); got != 0 && got != sole {
				t.Fatalf("block %d is said to be settled at %d", b, got)
			}
		}
		for w, b := range flying {
			now++
			g.end(b, w.number)
			w.over = now
		}
		for b := range int64(blocks) {
			candidates := g.candidates(b, 0)
			for _, w := range all[b] {
				may := true
				for _, other := range all[b] {
					may = may && other.begun < w.over
				}
				if got := g.may(b, w.number); got != may {
					t.Fatalf("block %d: write %d may be there: %v, and the ledger says %v", b, w.number, may, got)
				}
				if may && !slices.Contains(candidates, w.number) {
					t.Fatalf("write %d is not among %v", w.number, candidates)
				}
			}
			if len(all[b]) == 0 && (g.last[b] != 0 || g.may(b, 1)) {
				t.Fatalf("block %d was never written", b)
			}
			if g.last[b]&busy != 0 {
				t.Fatalf("block %d is still busy", b)
			}
		}
	})
}

// inMemory is a target in memory, where hundreds of passes cost nothing, and whether it takes O_DIRECT (from kernel 6.6 on).
func inMemory(t *testing.T, bytes int64) (device Target, direct string) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "qdsweep-test-")
	lacking(t, "a folder in /dev/shm", err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "device")
	require.NoError(t, os.WriteFile(path, make([]byte, bytes), 0o600))
	direct = "true"
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		direct = "false"
		f, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return Target{File: f, Name: "device", Bytes: bytes, LogicalBlock: 512}, direct
}

// folderOf is the folder in which a target's file is, as a target.
func folderOf(t *testing.T, device Target) Target {
	t.Helper()
	folder, err := os.Open(filepath.Dir(device.File.Name()))
	require.NoError(t, err)
	t.Cleanup(func() { folder.Close() })
	return Target{Dir: folder, Name: folder.Name(), LogicalBlock: 512}
}

// Every mode that writes, through every engine: what was written is found, all of it, whether threads and slots write the same blocks at
// once (24 blocks, 24 writes in flight) or not.
func TestVerifyFindsWhatWasWritten(t *testing.T) {
	small, dio := inMemory(t, 24*4096)
	large, _ := inMemory(t, 8<<20+512) // with a tail
	for _, engine := range []string{"psync", "libaio", "io_uring"} {
		if engine == "libaio" && dio == "false" {
			continue
		}
		for _, mode := range ioModes() {
			s := spec(t, "io", "mode="+mode, "engine="+engine, "threads=3", "iodepth=8", "verify=true", "runtime=300ms", "direct="+dio)
			if !s.Writes() {
				continue
			}
			t.Run(engine+" "+mode, func(t *testing.T) {
				results := ok(t, ask(s, small, "run"))
				assert.Positive(t, results[len(results)-1].Verified)
				if s.apart() {
					assert.Zero(t, results[0].Verified, "readers write nothing")
				}
				assert.Contains(t, s.Parameters(), "verify=true")
				if engine == "libaio" {
					return
				}
				s.Runtime = 0
				results = ok(t, ask(s, large, "run"))
				w := results[len(results)-1]
				assert.Positive(t, w.Verified)
				assert.LessOrEqual(t, w.Verified, int64(len(w.Windows()))*(8<<20+512))
				if mode == "write" || mode == "read+write" {
					assert.Equal(t, w.Bytes, w.Verified, "each block once a pass")
				}
			})
		}
	}
}

func TestVerifyOfDD(t *testing.T) {
	device, dio := inMemory(t, 8<<20)
	for _, to := range []Target{device, folderOf(t, device)} {
		for _, pairs := range [][]string{
			{"size=1000", "direct=false", "processes=3"}, {"size=1m", "block_size=64k", "processes=3", "direct=" + dio},
			{"size=100k", "block_size=64k", "sync=none"}, {"size=3m", "block_size=2m", "sync=dsync"},
		} {
			s := spec(t, "dd", append(pairs, "verify=true", "mode=write-read")...)
			r := ok(t, ask(s, to, "run"))
			assert.Equal(t, r[0].Bytes, r[0].Verified, "%v", pairs)
			assert.Zero(t, r[1].Verified)
			assert.Equal(t, s.SpaceNeeded(), aPass(r[0]).Bytes, "%v", pairs)
		}
	}
}

// damage runs a phase of writes, and does something to what was written before it is read back.
func damage(t *testing.T, p *phase, file string, do func(f *os.File)) Result {
	t.Helper()
	passes := 0
	p.written = func() {
		if passes++; passes > 1 {
			return
		}
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		require.NoError(t, err)
		do(f)
		require.NoError(t, f.Close())
	}
	r := p.run()
	return r[len(r)-1]
}

func at(t *testing.T, f *os.File, offset int64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	_, err := f.ReadAt(b, offset)
	require.NoError(t, err)
	return b
}

// One flipped bit is found wherever it is, and named; so are writes that went elsewhere, or nowhere.
func TestVerifyFindsDamage(t *testing.T) {
	target, dio := inMemory(t, 4<<20)
	for _, engine := range []string{"psync", "io_uring"} {
		for _, mode := range []string{"write", "randwrite", "rw", "randread+randwrite"} {
			s := spec(t, "io", "mode="+mode, "engine="+engine, "threads=2", "iodepth=4", "verify=true", "runtime=0", "direct="+dio)
			var block int64 // one that was written
			var found, was byte
			for name, c := range map[string]struct {
				do   func(p *phase, f *os.File)
				want func() string
			}{
				"a bit": {func(p *phase, f *os.File) {
					b := at(t, f, block*4096+1234, 1)
					was, found = b[0], b[0]^0x10
					_, err := f.WriteAt([]byte{found}, block*4096+1234)
					require.NoError(t, err)
				}, func() string {
					return fmt.Sprintf(`^1 of \d+ blocks of 4k differ, read back: byte %d of device is 0x%02x and should be 0x%02x: 1 bit of its sector differs from write \d+ of the phase's \d+$`,
						block*4096+1234, found, was)
				}},
				"a bit of the seal": {func(p *phase, f *os.File) {
					b := at(t, f, block*4096+5, 1)
					was, found = b[0], b[0]^1
					_, err := f.WriteAt([]byte{found}, block*4096+5)
					require.NoError(t, err)
				}, func() string {
					return fmt.Sprintf(`byte %d of device is 0x%02x and should be 0x%02x: 1 bit of its sector`, block*4096+5, found, was)
				}},
				"zeros": {func(p *phase, f *os.File) {
					_, err := f.WriteAt(make([]byte, sector), block*4096+512)
					require.NoError(t, err)
				}, func() string {
					return fmt.Sprintf(`byte %d of device is 0x00 and should be .*: its sector is zeros where write \d+ of the phase's \d+ belongs`, block*4096+512)
				}},
				"never arrived": {func(p *phase, f *os.File) {
					r := newRNG(99)
					b := make([]byte, 4096)
					fill(b, &r)
					_, err := f.WriteAt(b, block*4096)
					require.NoError(t, err)
				}, func() string {
					return fmt.Sprintf(`^1 of \d+ .* byte %d of device .* is nothing that this phase wrote \(5\d\d bytes differ\)`, block*4096)
				}},
				"misdirected": {func(p *phase, f *os.File) {
					_, err := f.WriteAt(at(t, f, block*4096, 4096), (block+1)*4096)
					require.NoError(t, err)
				}, func() string {
					return fmt.Sprintf(`byte %d of device .* its sector should hold write \d+ of the phase's \d+ and holds write \d+, which went to %d of device: misdirected`, (block+1)*4096, block*4096)
				}},
				"misdirected a sector": {func(p *phase, f *os.File) {
					_, err := f.WriteAt(at(t, f, block*4096, 512), block*4096+3*512)
					require.NoError(t, err)
				}, func() string {
					return fmt.Sprintf(`byte %d of device .* which went to %d of device: misdirected`, block*4096+3*512, block*4096)
				}},
			} {
				t.Run(engine+" "+mode+" "+name, func(t *testing.T) {
					p := ioPhase(s, target, 5)
					r := damage(t, p, target.File.Name(), func(f *os.File) {
						g := p.lanes[0].io.(*sealing).ledger
						block = 0
						for g.last[block] == 0 || g.last[block+1] == 0 {
							block++
						}
						c.do(p, f)
					})
					assert.Regexp(t, c.want(), r.Err)
					assert.True(t, r.Corrupt)
					assert.Zero(t, r.Bytes)
					assert.Zero(t, r.Errno)
				})
			}
		}
	}
}

// A write that was lost leaves the one before it: right in itself, and not the last.
func TestVerifyFindsALostWrite(t *testing.T) {
	target, dio := inMemory(t, 1<<20)
	s := spec(t, "io", "mode=write", "engine=io_uring", "iodepth=4", "verify=true", "runtime=0", "direct="+dio)
	p := ioPhase(s, target, 5)
	var old []byte
	passes := 0
	p.written = func() {
		f, err := os.OpenFile(target.File.Name(), os.O_RDWR, 0)
		require.NoError(t, err)
		defer f.Close()
		if passes++; passes == 1 {
			old = at(t, f, 40960, 4096)
			p.passes[0].End = p.passes[0].Start + 1 // so that there is a second one, however slow this machine is
			return
		}
		_, err = f.WriteAt(old, 40960)
		require.NoError(t, err)
	}
	r := p.run()[0]
	assert.True(t, r.Corrupt)
	assert.Regexp(t, `^1 of 256 blocks of 4k differ, read back: byte 409(6[89]|7\d) of device is .*: its sector holds write 11, and write 267 of the phase's 512 came after it: stale, a lost write$`, r.Err)
}

// The number of all blocks that differ is told, and the lowest of them.
func TestVerifyCountsWhatDiffers(t *testing.T) {
	dir := dirTarget(t)
	s := spec(t, "dd", "size=2m", "block_size=64k", "processes=2", "verify=true", "direct=false", "engine=psync")
	p := ddPhase(s, dir, "write", 1)
	p.ground = func() (int64, error) { return p.clear("write") }
	r := damage(t, p, filepath.Join(dir.Name, "w.1"), func(f *os.File) {
		for _, offset := range []int64{1 << 20, 1<<20 + 5000, 65536 + 7, 1<<20 + 1<<19} {
			_, err := f.WriteAt([]byte{at(t, f, offset, 1)[0] ^ 0x80}, offset)
			require.NoError(t, err)
		}
	})
	assert.Regexp(t, `^3 of 64 blocks of 64k differ, read back: byte 65543 of w.1 in `, r.Err)
}

// What is read in a mix is compared as well, while it runs.
func TestVerifyOfReadsInAMix(t *testing.T) {
	s := spec(t, "io", "mode=randrw", "engine=null", "iodepth=4", "runtime=1h", "block_size=4k")
	p := ioPhase(s, Target{Bytes: 64 << 10, Name: "device"}, 1)
	g, err := newLedger(1, 4096, p.nameOf, span{bytes: 64 << 10})
	require.NoError(t, err)
	defer g.close()
	l := p.lanes[0]
	g.watch(l, 0)
	disk := &memory{content: make([]byte, 64<<10)}
	watch := l.watch
	l.watch = func(e ioengine.Engine) ioengine.Engine {
		disk.Engine, disk.lane = e, l
		return watch(disk)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, l.setup())
	defer l.close()
	disk.rot = 1000
	l.run(Window{0, noTime}, new(atomic.Bool))
	require.NotNil(t, l.err)
	assert.True(t, l.err.corrupt)
	assert.Regexp(t, `^a read of the phase gave something else than it had written there: byte \d+ of device is .*: 1 bit of its sector differs from write \d+`, l.err.text)
	assert.Greater(t, disk.reads, 500, "and before, all was well")
}

// memory is a disk that forgets a bit after a while.
type memory struct {
	ioengine.Engine
	lane       *lane
	content    []byte
	rot, reads int
}

func (m *memory) Submit(ops []ioengine.Op) error {
	for _, op := range ops {
		b := m.lane.arena.Buffer(op.Slot)[:op.Length]
		if op.Write {
			copy(m.content[op.Offset:], b)
			continue
		}
		copy(b, m.content[op.Offset:])
		if m.reads++; m.reads >= m.rot {
			b[700] ^= 4
		}
	}
	return m.Engine.Submit(ops)
}

// Of several writes that a block may hold, the one that comes nearest is the one that belongs there; and of several places, the lowest is told.
func TestTheNearestWriteAndTheLowestPlace(t *testing.T) {
	g, err := newLedger(1, 512, func(file int) string { return fmt.Sprintf("file %d", file) }, span{bytes: 4096}, span{file: 1, bytes: 4096})
	require.NoError(t, err)
	defer g.close()
	a, b := g.begin(3), g.begin(3)
	g.end(3, b)
	g.end(3, a)
	found := g.seal.sector(spot{0, 3}, a)
	c := check{ledger: g}
	c.piece(found[:], g.spans[0], 3*512)
	assert.Zero(t, c.bad, "either may have come last")
	found[100] ^= 3
	c.piece(found[:], g.spans[0], 3*512)
	require.EqualValues(t, 1, c.bad)
	assert.Equal(t, []any{a, 2, int64(3*512 + 100)}, []any{c.first.write, c.first.bits, c.first.offset})
	assert.Contains(t, c.first.text(g.name), "byte 1636 of file 0 is")

	for _, d := range []difference{{file: 0, offset: 1700}, {file: 1, offset: 5}} {
		one := c
		one.with(check{bad: 2, bytes: 512, first: &d})
		assert.Equal(t, c.first, one.first)
		assert.EqualValues(t, 3, one.bad)
		other := check{bad: 2, first: &d}
		other.with(c)
		assert.Equal(t, c.first, other.first)
	}
}

// Sealing what is written takes time that is no latency of the device either.
func TestLatencyBeginsAtSubmissionWithVerify(t *testing.T) {
	s := spec(t, "io", "engine=null", "mode=write", "block_size=4m", "iodepth=4", "runtime=0")
	p := ioPhase(s, Target{Bytes: 256 << 20}, 1)
	g, err := newLedger(1, 4<<20, p.nameOf, span{bytes: 256 << 20})
	require.NoError(t, err)
	defer g.close()
	l := p.lanes[0]
	g.watch(l, 0)
	watch := l.watch
	var w *witness
	l.watch = func(e ioengine.Engine) ioengine.Engine {
		w = &witness{Engine: e, lane: l, began: nanotime()}
		return watch(w)
	}
	require.NoError(t, l.setup())
	defer l.close()
	l.loop(Window{0, noTime}, new(atomic.Bool))
	require.Nil(t, l.err)
	assert.Greater(t, w.near, 8, "of 16 rounds")
}

// An error while reading back is an error with its errno, as in the phase itself.
func TestReadingBackMayFail(t *testing.T) {
	target := fileTarget(t, 1<<20)
	s := spec(t, "io", "mode=write", "engine=psync", "verify=true", "runtime=0", "direct="+direct(t))
	p := ioPhase(s, target, 5)
	r := damage(t, p, target.File.Name(), func(f *os.File) { require.NoError(t, f.Truncate(500<<10)) })
	assert.Equal(t, "read back of 1048576 bytes at 0 of device gave only 512000 bytes", r.Err)
	assert.False(t, r.Corrupt)
	p = ioPhase(s, target, 5)
	r = damage(t, p, target.File.Name(), func(f *os.File) { require.NoError(t, f.Truncate(0)) })
	assert.True(t, r.Lost)
}

func TestVerifyOnlyWhatIsWritten(t *testing.T) {
	for want, s := range map[string]Spec{
		`verify: "true" is for workloads that write`:     spec(t, "io", "mode=randread", "verify=true"),
		`verify: "true" is for workloads that write, `:   spec(t, "dd", "mode=read", "verify=true", "size=1m"),
		`verify: "true" has nothing to read back`:        spec(t, "io", "mode=randrw", "verify=true", "engine=null"),
		`are more than the 268435456 whose last`:         spec(t, "io", "mode=randrw", "verify=true"),
		`300000000 blocks of 4k are more than the 26843`: spec(t, "dd", "verify=true", "block_size=4k", "size=409600000000", "processes=3"),
	} {
		assert.ErrorContains(t, s.CheckTarget(2<<40, 512, false), want)
	}
	assert.NoError(t, spec(t, "io", "mode=randrw", "verify=true").CheckTarget(1<<40, 512, false))
	assert.NoError(t, spec(t, "io", "mode=randrw", "verify=true", "block_size=64k").CheckTarget(2<<40, 512, false))
	s := spec(t, "io", "mode=randrw", "verify=true", "runtime=10s")
	d, known := s.Estimate()
	assert.True(t, known)
	assert.Equal(t, 2*s.Runtime, d)
}

// Where the page cache cannot be dropped it is memory that answers, and no drive: what is read back out of it proves less, and is told.
func TestVerifyOutOfThePageCacheIsTold(t *testing.T) {
	target := fileTarget(t, 8<<20)
	mapped, err := unix.Mmap(int(target.File.Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_SHARED) // somebody else has it mapped
	require.NoError(t, err)
	touched := 0
	for i := 0; i < len(mapped); i += 4096 {
		touched += int(mapped[i])
	}
	require.Positive(t, touched)
	s := spec(t, "io", "mode=write", "engine=psync", "runtime=0", "direct=false", "verify=true", "block_size=64k")
	r := ok(t, ask(s, target, "run"))[0]
	passes := int64(len(r.Windows()))
	assert.Equal(t, passes*8<<20, r.Verified)
	assert.GreaterOrEqual(t, r.VerifiedInMemory, passes<<20)
	assert.Less(t, r.VerifiedInMemory, passes*8<<20)
	require.NoError(t, unix.Munmap(mapped))
	r = ok(t, ask(s, target, "run"))[0]
	assert.Zero(t, r.VerifiedInMemory)
}

// Through a loop device: the bit flips in the file that is under it.
func TestVerifyThroughALoopDevice(t *testing.T) {
	f, under := onLoop(t, 16<<20)
	target := Target{File: f, Name: f.Name(), Bytes: 16 << 20, LogicalBlock: 512}
	for _, direct := range []string{"true", "false"} {
		s := spec(t, "io", "mode=randwrite", "engine=psync", "verify=true", "runtime=0", "block_size=8k", "direct="+direct)
		r := ok(t, reply{Results: ioPhase(s, target, 3).run()})[0]
		assert.Positive(t, r.Verified)
		p := ioPhase(s, target, 3)
		var where int64
		r = damage(t, p, under, func(file *os.File) {
			g := p.lanes[0].io.(*sealing).ledger
			for where = 0; g.last[where/8192] == 0; where += 8192 {
			}
			where += 8191
			require.NoError(t, unix.Fsync(int(f.Fd()))) // through the page cache of the device, into the file
			_, err := file.WriteAt([]byte{at(t, file, where, 1)[0] ^ 1}, where)
			require.NoError(t, err)
		})
		assert.Contains(t, r.Err, fmt.Sprintf("byte %d of %s is", where, f.Name()), "direct %s", direct)
		assert.Contains(t, r.Err, "1 bit of its sector differs")
	}
}

// With verify the loop allocates nothing either, once it has gone round.
func TestNoAllocationsWithVerify(t *testing.T) {
	s := spec(t, "io", "engine=null", "iodepth=8", "mode=randrw", "runtime=1s", "block_size=512")
	p := ioPhase(s, Target{Bytes: 64 << 10}, 1) // 128 blocks: often several writes at once
	g, err := newLedger(1, 512, p.nameOf, span{bytes: 64 << 10})
	require.NoError(t, err)
	defer g.close()
	l := p.lanes[0]
	g.watch(l, 0)
	watch := l.watch
	l.watch = func(e ioengine.Engine) ioengine.Engine {
		return watch(&memory{Engine: e, lane: l, content: make([]byte, 64<<10), rot: 1 << 60})
	}
	require.NoError(t, l.setup())
	defer l.close()
	l.walk.left = 100000
	l.loop(Window{0, noTime}, new(atomic.Bool))
	require.Nil(t, l.err)
	allocs := testing.AllocsPerRun(10, func() {
		l.walk.left = 20000
		l.loop(Window{0, noTime}, new(atomic.Bool))
	})
	assert.Zero(t, allocs)
}

func BenchmarkVerify(b *testing.B) {
	s, _ := NewSpec("w", "io", map[string]string{"engine": "null", "iodepth": "32", "mode": "randwrite"})
	p := ioPhase(s, Target{Bytes: 1 << 30}, 1)
	g, err := newLedger(1, 4096, p.nameOf, span{bytes: 1 << 30})
	require.NoError(b, err)
	defer g.close()
	g.watch(p.lanes[0], 0)
	require.NoError(b, p.lanes[0].setup())
	b.ReportAllocs()
	b.SetBytes(4096)
	p.lanes[0].walk.left = int64(b.N)
	b.ResetTimer()
	p.lanes[0].loop(Window{0, noTime}, new(atomic.Bool))
}
