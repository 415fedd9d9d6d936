package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/workload/ioengine"
)

// fileTarget stands for a device: a file of random bytes, known by its descriptor and size.
func fileTarget(t *testing.T, bytes int64) Target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	r := newRNG(1)
	b := make([]byte, bytes)
	fill(b, &r)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return Target{File: f, Name: "device", Bytes: bytes, LogicalBlock: 512}
}

// direct says whether the test's folder takes O_DIRECT; where it does not, tests do without.
func direct(t *testing.T) string {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "x"), os.O_CREATE|os.O_RDWR|unix.O_DIRECT, 0o600)
	if err == nil {
		f.Close()
	}
	return strconv.FormatBool(!errors.Is(err, unix.EINVAL))
}

func dirTarget(t *testing.T) Target {
	t.Helper()
	d, err := os.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return Target{Dir: d, Name: d.Name(), LogicalBlock: 512}
}

func spec(t testing.TB, typ string, pairs ...string) Spec {
	t.Helper()
	values := map[string]string{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		values[k] = v
	}
	s, wrong := NewSpec("w", typ, values)
	require.Empty(t, wrong)
	return s
}

func ask(s Spec, t Target, do string) reply {
	return request{Do: do, Spec: s, Directory: t.Dir != nil, Name: t.Name, Bytes: t.Bytes, LogicalBlock: t.LogicalBlock, Seed: 1}.
		serve([]*os.File{map[bool]*os.File{true: t.Dir, false: t.File}[t.Dir != nil]})
}

func ok(t *testing.T, r reply) []Result {
	t.Helper()
	require.Empty(t, r.Err)
	for _, result := range r.Results {
		require.Empty(t, result.Err)
		require.Zero(t, result.Errors)
		assert.Positive(t, result.Operations)
		assert.Greater(t, result.Window.End, result.Window.Start)
		assert.LessOrEqual(t, result.FirstDoneS, result.LastDoneS)
		assert.LessOrEqual(t, result.LastDoneS, result.Seconds())
		assert.LessOrEqual(t, result.Seconds(), result.Window.Seconds())
	}
	return r.Results
}

func TestEveryModeOnceThroughMovesEveryByte(t *testing.T) {
	const bytes = 1 << 20
	dio := direct(t)
	for _, engine := range ioengine.Names() {
		if engine == "sg" { // a file takes no commands: in the lab
			continue
		}
		for _, mode := range ioModes() {
			t.Run(engine+" "+mode, func(t *testing.T) {
				target := fileTarget(t, bytes)
				s := spec(t, "io", "mode="+mode, "engine="+engine, "runtime=0", "threads=2", "iodepth=4", "direct="+dio)
				results := ok(t, ask(s, target, "run"))
				require.Len(t, results, len(s.Phases()))
				var moved int64
				for i, r := range results {
					assert.Equal(t, s.Phases()[i], r.Phase)
					assert.Equal(t, engine, r.Engine)
					assert.Equal(t, 2, r.Threads)
					assert.Equal(t, ioengine.Depth(engine, 4), r.IODepth)
					assert.Equal(t, r.Bytes, r.Operations*4096)
					assert.Equal(t, r.Operations, r.Latency.Count)
					assert.Positive(t, r.SlowestBytesPerS)
					assert.LessOrEqual(t, r.Latency.P50US, r.Latency.P99US)
					assert.LessOrEqual(t, r.Latency.P99US, r.Latency.MaxUS*1.001)
					moved += r.Bytes / int64(len(r.Windows()))
				}
				want := int64(bytes)
				if mode == "randread+randwrite" {
					want *= 2
				}
				assert.Equal(t, want, moved)
			})
		}
	}
}

func TestARuntimeIsKept(t *testing.T) {
	target := fileTarget(t, 1<<20)
	for _, engine := range []string{"psync", "io_uring", "null"} {
		s := spec(t, "io", "engine="+engine, "runtime=300ms", "warmup=50ms", "direct="+direct(t))
		begin := Monotonic()
		r := ok(t, ask(s, target, "run"))[0]
		assert.Equal(t, int64(300*time.Millisecond), r.Window.End-r.Window.Start)
		assert.GreaterOrEqual(t, r.Window.Start-begin, int64(50*time.Millisecond), "the clock starts after the warm-up")
		assert.LessOrEqual(t, r.Window.End, Monotonic())
		assert.LessOrEqual(t, r.CPUUserS+r.CPUSysS, 3*0.3, "CPU of the window alone")
		assert.Positive(t, r.CPUUserS+r.CPUSysS)
	}
}

// slow is an engine of one IOPS and less: it completes when told.
type slow struct {
	complete chan int
	slots    []uint32
	length   uint32
}

func (e *slow) Submit(ops []ioengine.Op) error {
	for _, op := range ops {
		e.slots, e.length = append(e.slots, op.Slot), op.Length
	}
	return nil
}

func (e *slow) Reap(_ int, done []ioengine.Completion) (int, error) {
	n := <-e.complete
	for i := range n {
		done[i] = ioengine.Completion{Slot: e.slots[0], Result: int32(e.length)}
		e.slots = e.slots[1:]
	}
	return n, nil
}
func (e *slow) Close() error { return nil }

// Only completions inside the window count, nothing is submitted after it, and what is in flight is
// waited for.
func TestOperationsThatEndAfterTheWindowDoNotCount(t *testing.T) {
	s := spec(t, "io", "engine=null", "iodepth=4", "runtime=1s")
	p := ioPhase(s, Target{Bytes: 1 << 20}, 1)
	l := p.lanes[0]
	require.NoError(t, l.setup())
	e := &slow{complete: make(chan int, 8)}
	l.io = e
	now := nanotime()
	e.complete <- 3 // in time
	e.complete <- 1
	var stop = new(atomic.Bool)
	done := make(chan struct{})
	w := Window{now, now + int64(200*time.Millisecond)}
	go func() { l.loop(w, stop); close(done) }()
	sleepUntil(w.End+1, nil)
	e.complete <- 4 // too late
	<-done
	assert.EqualValues(t, 4, l.operations)
	assert.Zero(t, l.flying)
	assert.Nil(t, l.err)
}

// outcome is what a phase makes of lanes that were run by hand.
func outcome(p *phase, w Window) []Result {
	if f := p.firstFailure(); f != nil {
		return p.broke(w, f)
	}
	p.add(w, cpuTime{})
	return p.results()
}

func TestNothingDoneIsAnError(t *testing.T) {
	s := spec(t, "io", "engine=null", "mode=randwrite", "runtime=1s")
	p := ioPhase(s, Target{Bytes: 1 << 20}, 1)
	for _, l := range p.lanes {
		require.NoError(t, l.setup())
	}
	r := outcome(p, Window{0, 1e9})[0]
	assert.Contains(t, r.Err, "not one operation was completed in 1s")
	assert.True(t, r.Idle)
}

// Once through, a worker is done when its fsync is: first and last done belong to the same clock as the window.
func TestDoneIncludesTheFsync(t *testing.T) {
	p := ddPhase(spec(t, "dd", "engine=null", "processes=2"), Target{Bytes: 1 << 20}, "write", 1)
	for i, l := range p.lanes {
		require.NoError(t, l.setup())
		l.operations, l.bytes, l.last, l.finished = 1, 1<<19, 1e9, int64(i+3)*1e9
		require.NoError(t, l.latency.RecordValue(1000))
		l.waited = 1000
	}
	r := outcome(p, Window{0, 4e9})[0]
	assert.Equal(t, []float64{3, 4}, []float64{r.FirstDoneS, r.LastDoneS})
	assert.Equal(t, float64(1<<19)/4, r.SlowestBytesPerS)
	assert.Equal(t, 1.0, r.Latency.MeanUS)
}

// witness looks at the moment of submission.
type witness struct {
	ioengine.Engine
	lane  *lane
	began int64
	near  int // submissions that were stamped nearer to themselves than to the begin of the round
}

func (e *witness) Submit(ops []ioengine.Op) error {
	now, issued := nanotime(), e.lane.flight[ops[0].Slot].issued
	if now-issued < issued-e.began {
		e.near++
	}
	defer func() { e.began = nanotime() }()
	return e.Engine.Submit(ops)
}

// A latency is from submission to completion: making the data of a large block is not in it.
func TestLatencyBeginsAtSubmission(t *testing.T) {
	s := spec(t, "io", "engine=null", "mode=write", "block_size=16m", "iodepth=4", "runtime=0")
	p := ioPhase(s, Target{Bytes: 1 << 30}, 1)
	l := p.lanes[0]
	require.NoError(t, l.setup())
	defer l.close()
	w := &witness{Engine: l.io, lane: l, began: nanotime()}
	l.io = w
	l.loop(Window{0, noTime}, new(atomic.Bool))
	require.Nil(t, l.err)
	assert.Greater(t, w.near, 8, "of 16 rounds")
}

// What the drive said has errnos of its own, whose ordinary texts mislead.
func TestErrnosInWords(t *testing.T) {
	assert.Equal(t, "EIO (input/output error)", explain(unix.EIO))
	assert.Equal(t, "ENODATA (medium error: the drive cannot read or write this place)", explain(unix.ENODATA))
	assert.Contains(t, explain(9999), "errno 9999")
	assert.Equal(t, "open /dev/sdx: permission denied (EACCES)", failureOf(fmt.Errorf("open /dev/sdx: %w", unix.EACCES)).text)
}

// Neighbours that the kernel merged fail together: the place to tell is the lowest.
func TestTheLowestOfMergedOperationsIsTold(t *testing.T) {
	var l lane
	l.fail(7, 300, unix.ENODATA, "at 300", false)
	l.fail(7, 100, unix.ENODATA, "at 100", false)
	l.fail(7, 200, unix.ENODATA, "at 200", false)
	l.fail(8, 0, unix.ENODATA, "later", false)
	assert.Contains(t, l.err.text, "at 100: ENODATA")
}

// Field case 25: a write workload that wrote nothing is an error, not 0 MB/s.
func TestWritingNothingIsAnError(t *testing.T) {
	t.Run("size 0", func(t *testing.T) {
		r := ask(spec(t, "io", "mode=write"), Target{File: fileTarget(t, 4096).File, Name: "device", LogicalBlock: 512}, "run")
		assert.Contains(t, r.Results[0].Err, "no size")
	})
	t.Run("read-only", func(t *testing.T) {
		if os.Geteuid() == 0 {
			// Root writes to a file of mode 0400; what a read-only device gives it is tested in the lab.
			target := fileTarget(t, 1<<20)
			busy, err := os.OpenFile(target.File.Name(), os.O_RDONLY, 0)
			require.NoError(t, err)
			defer busy.Close()
			exe, err := os.Open("/proc/self/exe") // ETXTBSY: a file that nobody may write now
			require.NoError(t, err)
			defer exe.Close()
			target.File = exe
			r := ask(spec(t, "io", "mode=write", "runtime=0", "direct=false"), target, "run").Results[0]
			assert.Equal(t, int(syscall.ETXTBSY), r.Errno)
			assert.Zero(t, r.Operations)
			return
		}
		target := fileTarget(t, 1<<20)
		require.NoError(t, os.Chmod(target.File.Name(), 0o400))
		r := ask(spec(t, "io", "mode=write", "runtime=0", "direct=false"), target, "run").Results[0]
		assert.Equal(t, int(syscall.EACCES), r.Errno)
	})
}

// Field case 19, in the worker: reads of 0 bytes inside the device end the phase at once, as lost and
// without numbers.
func TestADeviceThatShrankToNothingIsLost(t *testing.T) {
	for _, engine := range []string{"psync", "libaio", "io_uring"} {
		t.Run(engine, func(t *testing.T) {
			target := fileTarget(t, 1<<20)
			require.NoError(t, os.Truncate(target.File.Name(), 0))
			s := spec(t, "io", "engine="+engine, "runtime=1h", "threads=2", "iodepth=2")
			r := ask(s, target, "run").Results[0]
			assert.True(t, r.Lost)
			assert.Contains(t, r.Err, "device lost: read of 4096 bytes at")
			assert.Contains(t, r.Err, "gave 0 bytes")
			assert.Zero(t, r.Bytes)
			assert.Zero(t, r.Operations)
			assert.Zero(t, r.Latency)
			assert.Positive(t, r.Errors)
		})
	}
}

// A drive that was pulled before the phase began is lost as well.
func TestADeviceThatOpensNoMoreIsLost(t *testing.T) {
	p := ioPhase(spec(t, "io", "engine=null"), Target{Bytes: 1 << 20, Name: "/dev/sdx"}, 1)
	for errno, lost := range map[syscall.Errno]bool{syscall.ENXIO: true, syscall.ENODEV: true, syscall.EACCES: false} {
		r := p.failed(fmt.Errorf("open /dev/sdx: %w", errno))[0]
		assert.Equal(t, lost, r.Lost)
		assert.Equal(t, lost, strings.HasPrefix(r.Err, "device lost: open /dev/sdx: "), r.Err)
	}
}

func TestAShortReadIsAnError(t *testing.T) {
	target := fileTarget(t, 1<<20)
	require.NoError(t, os.Truncate(target.File.Name(), 4096+512))
	s := spec(t, "io", "mode=read", "engine=psync", "runtime=0")
	r := ask(s, target, "run").Results[0]
	assert.False(t, r.Lost)
	assert.Equal(t, "read of 4096 bytes at 4096 of device gave only 512 bytes", r.Err)
}

// Field case 6, in the worker: EIO ends the phase, with its errno and without numbers.
func TestAnErrorOfTheDeviceIsTold(t *testing.T) {
	s := spec(t, "io", "engine=null", "iodepth=2", "runtime=1h")
	p := ioPhase(s, Target{Bytes: 1 << 20, Name: "/dev/sdx"}, 1)
	l := p.lanes[0]
	require.NoError(t, l.setup())
	l.io = &failing{Engine: l.io, after: 1000, result: -int32(syscall.EIO)}
	stop := new(atomic.Bool)
	l.run(Window{0, noTime}, stop)
	assert.True(t, stop.Load(), "the other threads stop too")
	r := outcome(p, Window{1, noTime})[0]
	assert.Equal(t, int(syscall.EIO), r.Errno)
	assert.False(t, r.Lost)
	assert.Regexp(t, `^read of 4096 bytes at \d+ of /dev/sdx: EIO \(input/output error\)$`, r.Err)
	assert.Zero(t, r.Operations)
	assert.NotEqual(t, noTime, r.Window.End, "the window ends with the error")
	for errno, lost := range map[syscall.Errno]bool{unix.ENODEV: true, unix.ENXIO: true, unix.EIO: false, unix.ENOSPC: false} {
		l.err = nil
		l.fail(1, 0, errno, "x", false)
		assert.Equal(t, lost, l.err.lost, errno.Error())
	}
}

type failing struct {
	ioengine.Engine
	after  int
	result int32
}

func (e *failing) Reap(least int, done []ioengine.Completion) (int, error) {
	n, err := e.Engine.Reap(least, done)
	if e.after -= n; e.after <= 0 {
		for i := range done[:n] {
			done[i].Result = e.result
		}
	}
	return n, err
}

// A read-only workload cannot write, whatever happens: its descriptor is read-only.
func TestAReaderOpensReadOnly(t *testing.T) {
	assert.Equal(t, unix.O_RDONLY|unix.O_DIRECT, spec(t, "io").openFlags(true, false))
	assert.Equal(t, unix.O_WRONLY|unix.O_DIRECT|unix.O_DSYNC, spec(t, "io", "mode=write", "sync=dsync").openFlags(false, true))
	assert.Equal(t, unix.O_RDWR|unix.O_DIRECT, spec(t, "io", "mode=randrw").openFlags(true, true))
	p := ioPhase(spec(t, "io", "engine=psync"), fileTarget(t, 1<<20), 1)
	f, err := p.lanes[0].open()
	require.NoError(t, err)
	defer f.Close()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	require.NoError(t, err)
	assert.Equal(t, unix.O_RDONLY, flags&unix.O_ACCMODE)
}

func TestMixedIOKeepsItsShare(t *testing.T) {
	s := spec(t, "io", "mode=randrw", "read_percent=70", "engine=null", "runtime=0", "size=64m")
	p := ioPhase(s, Target{Bytes: 64 << 20}, 1)
	l := p.lanes[0]
	require.NoError(t, l.setup())
	reads := 0
	const n = 10000
	for range n {
		require.True(t, l.issue(0, 0))
		if !l.flight[0].write {
			reads++
		}
		l.ops = l.ops[:0]
	}
	assert.InDelta(t, 0.7*n, reads, 200)
}

func TestDirectoryWorkloads(t *testing.T) {
	target := dirTarget(t)
	dio := direct(t)
	file := filepath.Join(target.Name, "w.0")

	t.Run("io lays its file out once", func(t *testing.T) {
		s := spec(t, "io", "size=1m", "runtime=0", "engine=psync", "direct="+dio)
		require.Empty(t, ask(s, target, "prepare").Err)
		before, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Len(t, before, 1<<20)
		require.Empty(t, ask(s, target, "prepare").Err)
		after, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, before, after)
		assert.EqualValues(t, 1<<20, aPass(ok(t, ask(s, target, "run"))[0]).Bytes)
		require.NoError(t, os.Remove(file))
	})
	t.Run("dd writes, reads and removes", func(t *testing.T) {
		s := spec(t, "dd", "mode=write-read-remove", "size=1000k", "block_size=64k", "processes=3")
		require.Empty(t, ask(s, target, "prepare").Err)
		for range 2 { // again: the same, from no file
			results := ok(t, ask(s, target, "run"))
			require.Len(t, results, 3)
			for i, phase := range []string{"write", "read", "remove"} {
				assert.Equal(t, phase, results[i].Phase)
				assert.Equal(t, "psync", results[i].Engine)
				assert.Equal(t, 3, results[i].Threads)
			}
			assert.EqualValues(t, 3*1000<<10, aPass(results[0]).Bytes)
			assert.EqualValues(t, 3*16, aPass(results[1]).Operations)
			assert.EqualValues(t, 3, results[2].Operations)
			left, err := os.ReadDir(target.Name)
			require.NoError(t, err)
			assert.Empty(t, left)
		}
	})
	t.Run("dd read finds files", func(t *testing.T) {
		s := spec(t, "dd", "mode=read", "size=100k", "processes=2")
		require.Empty(t, ask(s, target, "prepare").Err)
		assert.EqualValues(t, 200<<10, aPass(ok(t, ask(s, target, "run"))[0]).Bytes)
	})
	t.Run("a name is not a path", func(t *testing.T) {
		s := spec(t, "dd", "size=4k", "block_size=4k")
		s.Name = "../a b/ü"
		ok(t, ask(s, target, "run"))
		_, err := os.Stat(filepath.Join(target.Name, "%2e%2e%2fa%20b%2f%c3%bc.0"))
		assert.NoError(t, err)
	})
	t.Run("a link is not followed", func(t *testing.T) {
		s := spec(t, "io", "size=4k", "runtime=0")
		s.Name = "link"
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(target.Name, "link.0")))
		assert.Contains(t, ask(s, target, "prepare").Err, "too many levels of symbolic links")
	})
}

// The loop allocates nothing: the difference of two runs, one a hundred times longer, is none.
func TestNoAllocationsPerOperation(t *testing.T) {
	s := spec(t, "io", "engine=null", "iodepth=8", "mode=randrw", "runtime=1s", "block_size=512")
	p := ioPhase(s, Target{Bytes: 1 << 30}, 1)
	l := p.lanes[0]
	require.NoError(t, l.setup())
	stop := new(atomic.Bool)
	l.walk.left = 100
	allocs := testing.AllocsPerRun(10, func() {
		l.walk.left = 20000
		l.loop(Window{0, noTime}, stop)
	})
	assert.Zero(t, allocs)
}

func BenchmarkNullEngine(b *testing.B) {
	for _, c := range []struct{ name, mode string }{{"read", "randread"}, {"write", "randwrite"}} {
		b.Run(c.name, func(b *testing.B) {
			s, _ := NewSpec("w", "io", map[string]string{"engine": "null", "iodepth": "32", "mode": c.mode})
			p := ioPhase(s, Target{Bytes: 1 << 30}, 1)
			l := p.lanes[0]
			if err := l.setup(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			l.walk.left = int64(b.N)
			b.ResetTimer()
			l.loop(Window{0, noTime}, new(atomic.Bool))
		})
	}
}
