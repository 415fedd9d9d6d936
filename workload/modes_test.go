package workload

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/workload/ioengine"
)

// tape is an engine that notes what it was asked to do, on its way to the real one.
type tape struct {
	ioengine.Engine
	ops []ioengine.Op
}

func (e *tape) Submit(ops []ioengine.Op) error {
	e.ops = append(e.ops, ops...)
	return e.Engine.Submit(ops)
}

// taped runs a phase of the null engine and gives what each lane did, of one pass.
func taped(t *testing.T, p *phase) [][]ioengine.Op {
	t.Helper()
	tapes := make([]*tape, len(p.lanes))
	for i, l := range p.lanes {
		l.watch = func(e ioengine.Engine) ioengine.Engine {
			tapes[i] = &tape{Engine: e}
			return tapes[i]
		}
	}
	ok(t, reply{Results: p.run()})
	var ops [][]ioengine.Op
	for _, e := range tapes {
		ops = append(ops, e.ops)
	}
	return ops
}

// Every mode, with real threads that share regions or do not: who reads and who writes, where, and how much of it.
func TestWhatEachModeDoes(t *testing.T) {
	const blocks, block = 4000, 4096
	for _, mode := range ioModes() {
		for _, c := range []struct{ threads, regions int }{{1, 1}, {4, 4}, {4, 2}, {5, 2}, {6, 1}} {
			t.Run(fmt.Sprintf("%s %d threads %d regions", mode, c.threads, c.regions), func(t *testing.T) {
				s := spec(t, "io", "mode="+mode, "engine=null", "runtime=0", "read_percent=30", "iodepth=4", fmt.Sprintf("threads=%d", c.threads), fmt.Sprintf("regions=%d", c.regions))
				p := ioPhase(s, Target{Bytes: blocks*block + 512, Name: "device"}, 1)
				lanes := taped(t, p)
				require.Len(t, lanes, c.threads*len(s.Phases()))
				var reads, writes int
				var seen [blocks + 1]int
				touched := map[int]map[int]bool{} // by region: the lanes that were in it
				regions := s.walkers()
				for i, ops := range lanes {
					group := i / c.threads
					last := int64(-1)
					for _, op := range ops {
						if op.Write {
							writes++
						} else {
							reads++
						}
						if s.apart() {
							require.Equal(t, group == 1, op.Write, "readers read and writers write")
						}
						n := op.Offset / block
						if n < blocks {
							require.EqualValues(t, block, op.Length)
						} else {
							require.EqualValues(t, 512, op.Length, "the tail, and nothing beyond")
						}
						require.Zero(t, op.Offset%block)
						seen[n]++
						if s.sequential() {
							require.Greater(t, op.Offset, last, "each thread goes forward")
							last = op.Offset
							r := min(int(n)*regions/blocks, regions-1)
							if touched[r] == nil {
								touched[r] = map[int]bool{}
							}
							touched[r][i] = true
						}
					}
				}
				total := reads + writes
				if s.sequential() {
					assert.Equal(t, 1, slices.Min(seen[:]), "everything, once")
					assert.Equal(t, 1, slices.Max(seen[:]))
					assert.Equal(t, blocks+1, total)
					for r, who := range touched {
						for i := range who {
							assert.Equal(t, r%c.regions, i%c.threads%c.regions, "threads stay in their region")
							assert.Equal(t, r/c.regions, i/c.threads, "readers and writers each in their own")
						}
					}
					assert.Len(t, touched, regions)
				} else {
					assert.Equal(t, blocks*len(s.Phases()), total, "as many as there are blocks")
					for i := range len(s.Phases()) {
						n := 0
						for _, ops := range lanes[i*c.threads : (i+1)*c.threads] {
							n += len(ops)
							assert.InDelta(t, blocks/c.threads, len(ops), 1, "equal shares")
						}
						assert.Equal(t, blocks, n)
					}
				}
				switch mode {
				case "read", "randread":
					assert.Zero(t, writes)
				case "write", "randwrite":
					assert.Zero(t, reads)
				case "rw", "randrw":
					assert.InDelta(t, 0.3, float64(reads)/float64(total), 0.03, "read_percent")
				default:
					assert.InDelta(t, 0.5, float64(reads)/float64(total), 0.001)
				}
			})
		}
	}
}

// Threads that share a region take its next block in turn: none waits for another, none goes twice, round and round.
func TestSharedRegionsAreTakenInTurn(t *testing.T) {
	s := spec(t, "io", "mode=read", "engine=null", "runtime=1s", "threads=3", "regions=1")
	p := ioPhase(s, Target{Bytes: 100 * 4096}, 1)
	var mu sync.Mutex
	var seen [100]int
	var all sync.WaitGroup
	for _, l := range p.lanes {
		all.Go(func() {
			for range 2500 {
				at, _, _ := l.walk.next()
				mu.Lock()
				seen[at/4096]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	assert.Equal(t, 75, slices.Min(seen[:]))
	assert.Equal(t, 75, slices.Max(seen[:]))
}

// late is a drive of a few operations a second.
type late struct {
	ioengine.Engine
	takes time.Duration
	asked int
}

func (e *late) Submit(ops []ioengine.Op) error {
	e.asked += len(ops)
	return e.Engine.Submit(ops)
}

func (e *late) Reap(least int, done []ioengine.Completion) (int, error) {
	time.Sleep(e.takes)
	return e.Engine.Reap(least, done)
}

// A phase of a runtime ends on time though no operation does: its window is exact, what ends later does not count and nothing more is begun.
func TestASlowDriveIsTimedExactly(t *testing.T) {
	for name, c := range map[string]struct {
		runtime time.Duration
		done    int64
	}{"some": {500 * time.Millisecond, 2}, "none": {100 * time.Millisecond, 0}} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, "io", "engine=null", "runtime="+FormatDuration(c.runtime), "threads=2")
			p := ioPhase(s, Target{Bytes: 1 << 20, Name: "device"}, 1)
			drives := make([]*late, 2)
			for i, l := range p.lanes {
				l.watch = func(e ioengine.Engine) ioengine.Engine {
					drives[i] = &late{Engine: e, takes: 400 * time.Millisecond}
					return drives[i]
				}
			}
			begin := nanotime()
			r := p.run()[0]
			assert.Equal(t, int64(c.runtime), r.Window.End-r.Window.Start)
			assert.Less(t, nanotime()-begin, int64(2*time.Second), "with what was in flight, and no later")
			assert.Equal(t, c.done, r.Operations)
			assert.Equal(t, c.done == 0, r.Idle)
			for _, d := range drives {
				assert.EqualValues(t, 1+c.done/2, d.asked, "nothing is begun after the window")
			}
			if c.done > 0 {
				assert.InDelta(t, 0.4, r.FirstDoneS, 0.09)
				assert.LessOrEqual(t, r.LastDoneS, r.Seconds())
				assert.Equal(t, []int64{4096, 4096}, r.PerThreadBytes)
			}
		})
	}
}

// A full file system is ENOSPC, whether the kernel takes none of a write or a part of it.
func TestAFullFileSystemIsTold(t *testing.T) {
	dir := t.TempDir()
	lacking(t, "mount a small file system", unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1000k"))
	defer func() { assert.NoError(t, exec.Command("umount", dir).Run()) }()
	folder, err := os.Open(dir)
	require.NoError(t, err)
	defer folder.Close()
	target := Target{Dir: folder, Name: dir, LogicalBlock: 512}
	for _, block := range []string{"4k", "300k"} {
		for _, typ := range []string{"dd", "io"} {
			s := spec(t, typ, "mode=write", "size=2m", "block_size="+block, "direct=false", "engine=psync")
			s.Runtime = 0
			if typ == "io" { // a file with a hole, as nobody lays it out
				require.NoError(t, os.WriteFile(filepath.Join(dir, "w.0"), nil, 0o600))
			}
			r := ask(s, target, "run").Results[0]
			assert.Equal(t, int(unix.ENOSPC), r.Errno, "%s of %s: %s", typ, block, r.Err)
			assert.Contains(t, r.Err, "ENOSPC")
			assert.Zero(t, r.Bytes)
			require.NoError(t, os.Remove(filepath.Join(dir, "w.0")))
		}
		_, err := os.Stat(filepath.Join(dir, "w.0"))
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
	s := spec(t, "io", "mode=read", "size=2m", "direct=false", "engine=psync")
	assert.Contains(t, ask(s, target, "prepare").Err, "no space left on device")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left, "half a file does not keep it full")
}

// A file system that takes O_DIRECT and goes through the page cache all the same is refused, not measured.
func TestDirectMeansDirect(t *testing.T) {
	lacking(t, "mkfs.ext4", unix.Access("/sbin/mkfs.ext4", unix.X_OK))
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 32<<20))
	out, err := exec.Command("/sbin/mkfs.ext4", "-q", "-b", "1024", image).CombinedOutput()
	require.NoError(t, err, string(out))
	device, err := loopDevice(t, image)
	lacking(t, "a loop device", err)
	for options, want := range map[string]string{"data=ordered": "", "data=journal": "takes no direct I/O on it, and would go through the page cache"} {
		dir := t.TempDir()
		lacking(t, "mount ext4", unix.Mount(device, dir, "ext4", 0, options))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // where the test ends before it does so itself
		folder, err := os.Open(dir)
		require.NoError(t, err)
		s := spec(t, "io", "mode=randwrite", "size=1m", "engine=psync", "runtime=0")
		target := Target{Dir: folder, Name: dir, LogicalBlock: 512}
		assert.Empty(t, ask(s, target, "prepare").Err)
		r := ask(s, target, "run").Results[0]
		var st unix.Statx_t
		_ = unix.Statx(unix.AT_FDCWD, filepath.Join(dir, "w.0"), 0, unix.STATX_DIOALIGN, &st)
		switch {
		case st.Mask&unix.STATX_DIOALIGN == 0:
			t.Log("this kernel does not tell")
		case want == "":
			assert.Empty(t, r.Err)
		default:
			assert.Contains(t, r.Err, "w.0 in "+dir)
			assert.Contains(t, r.Err, want)
			s.Direct = false
			assert.Empty(t, ask(s, target, "run").Results[0].Err)
		}
		folder.Close()
		require.NoError(t, exec.Command("umount", dir).Run())
	}
}
