package workload

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"qdsweep/workload/ioengine"
)

const (
	// Latencies from 1 ns to an hour, to three digits: 270 KiB a thread, of which only what is used becomes
	// resident. A coarser unit would be all that short latencies are told in.
	shortest = int64(1)
	longest  = int64(3600) * 1e9
)

// lane is one thread of a workload: its own descriptor, engine, buffers, offsets and histogram, so that
// its loop takes no lock and allocates nothing.
type lane struct {
	group  int // which result it belongs to
	number int
	what   string // for messages
	device bool   // whose size is known, so that nothing inside it can be missing
	engine string
	depth  int
	block  int64
	read   int // percent of operations that read: 100, 0, or a mix
	walk   walk
	rng    rng
	open   func() (*os.File, error)                   // nil: the null engine, which needs none
	scsi   func() (*ioengine.SCSI, []*os.File, error) // of engine sg
	sync   bool                                       // fsync at the end, inside the clock
	watch  func(ioengine.Engine) ioengine.Engine      // puts itself before the engine, nil: what is written is not verified
	work   func(stop *atomic.Bool)                    // what is done where it is no walk of reads or writes; nil: that
	sum    uint64                                     // of the characters read

	file  *os.File
	nodes []*os.File // of engine sg
	io    ioengine.Engine
	arena *ioengine.Arena

	ops    []ioengine.Op
	done   []ioengine.Completion
	flight []flight // by slot
	flying int
	broken bool // operations may still be in flight: nothing of it is given back

	latency           *hdrhistogram.Histogram
	waited            int64 // sum of the latencies, ns: the mean is exact
	bytes, operations int64
	earlier           int64 // operations of the passes before
	errors            int64
	over              int64 // errors that are no more than a record larger than the device takes
	last              int64 // last counted completion
	finished          int64 // when all was done, the final fsync included
	busy              int64 // from the starts of the passes to their ends, ns
	err               *failure
	cpu               cpuTime // of this thread
}

// flight is what is in flight in a slot.
type flight struct {
	issued, offset int64
	length         int32
	write          bool
}

// failure is the first thing that went wrong in a lane.
type failure struct {
	at    int64
	where int64 // offset of the operation, -1 for what has none
	errno syscall.Errno
	lost  bool
	text  string

	corrupt bool // all went well, and what is there is not what was written
}

// setup opens everything, on the lane's own thread: rings belong to the thread that made them.
func (l *lane) setup() error {
	fd := -1
	if l.open != nil {
		f, err := l.open()
		if err != nil {
			return err
		}
		l.file, fd = f, int(f.Fd())
		if err := goesPast(f, l.what, l.block); err != nil {
			return err
		}
	}
	arena, err := ioengine.NewArena(l.depth, int(l.block))
	if err != nil {
		return err
	}
	l.arena = arena
	if l.read < 100 {
		for slot := range l.depth {
			fill(arena.Buffer(uint32(slot)), &l.rng)
		}
	}
	c := ioengine.Config{FD: fd, Depth: l.depth, Arena: arena}
	if l.scsi != nil {
		if c.SCSI, l.nodes, err = l.scsi(); err != nil {
			return err
		}
	}
	if l.io, err = ioengine.Open(l.engine, c); err != nil {
		return err
	}
	if l.watch != nil {
		l.io = l.watch(l.io)
	}
	l.ops = make([]ioengine.Op, 0, l.depth)
	l.done = make([]ioengine.Completion, l.depth)
	l.flight = make([]flight, l.depth)
	if l.latency == nil { // further passes are counted in
		l.latency = hdrhistogram.New(shortest, longest, 3)
	}
	return nil
}

func (l *lane) close() {
	if l.broken {
		return // the kernel may still write into the buffers: they stay mapped until the process ends
	}
	if l.io != nil {
		_ = l.io.Close()
	}
	if l.arena != nil {
		_ = l.arena.Close()
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	closeAll(l.nodes)
}

// run keeps the depth busy until the window ends or the walk does, then waits for what is in flight.
// Only what completes inside the window counts: what began before it does, what ends after it does not.
func (l *lane) run(w Window, stop *atomic.Bool) {
	begin := cpuTimeOf(unix.RUSAGE_THREAD)
	if l.work != nil {
		l.work(stop)
	} else {
		l.loop(w, stop)
	}
	if l.err == nil && l.sync && l.file != nil {
		if err := l.flush(); err != nil {
			l.fail(nanotime(), -1, errnoOf(err), fmt.Sprintf("fsync of %s", l.what), false)
		}
	}
	l.finished = nanotime()
	l.cpu = l.cpu.plus(cpuTimeOf(unix.RUSAGE_THREAD).minus(begin))
	if l.err != nil {
		stop.Store(true)
	}
}

func (l *lane) loop(w Window, stop *atomic.Bool) {
	now := nanotime()
	l.ops = l.ops[:0]
	for slot := range l.depth {
		if !l.issue(uint32(slot), now) {
			break
		}
	}
	for {
		if len(l.ops) > 0 {
			if l.read < 100 {
				l.stampTimes() // making the data took time, and is no latency of the device
			}
			if err := l.io.Submit(l.ops); err != nil {
				l.abandon(err)
				return
			}
			l.ops = l.ops[:0]
		}
		if l.flying == 0 {
			return
		}
		n, err := l.io.Reap(1, l.done)
		now = nanotime()
		if err != nil {
			l.abandon(err)
			return
		}
		more := now < w.End && l.err == nil && !stop.Load()
		for i := range l.done[:n] {
			slot, result := l.done[i].Slot, l.done[i].Result
			l.flying--
			if result != l.flight[slot].length {
				l.complain(slot, result, now)
				more = false
				continue
			}
			if now >= w.Start && now < w.End {
				l.bytes += int64(result)
				l.operations++
				l.last = now
				took := min(now-l.flight[slot].issued, longest)
				l.waited += took
				_ = l.latency.RecordValue(took)
			}
			if more {
				l.issue(slot, now)
			}
		}
	}
}

// issue puts the walk's next operation into a free slot.
func (l *lane) issue(slot uint32, now int64) bool {
	offset, length, ok := l.walk.next()
	if !ok {
		return false
	}
	write := l.read == 0 || l.read < 100 && int(l.rng.below(100)) >= l.read
	if write {
		stamp(l.arena.Buffer(slot)[:length], &l.rng)
	}
	l.flight[slot] = flight{issued: now, offset: offset, length: int32(length), write: write}
	l.ops = append(l.ops, ioengine.Op{Offset: offset, Length: uint32(length), Slot: slot, Write: write})
	l.flying++
	return true
}

// stampTimes makes now the moment at which the operations are submitted.
func (l *lane) stampTimes() {
	now := nanotime()
	for i := range l.ops {
		l.flight[l.ops[i].Slot].issued = now
	}
}

// complain is about an operation that did not do what it should. 0 bytes inside a device is how a drive
// that was pulled reads, and ENOSPC inside it how it writes.
func (l *lane) complain(slot uint32, result int32, now int64) {
	l.errors++
	f := l.flight[slot]
	did := "read"
	if f.write {
		did = "write"
	}
	text := fmt.Sprintf("%s of %d bytes at %d of %s", did, f.length, f.offset, l.what)
	switch {
	case result < 0:
		l.fail(now, f.offset, syscall.Errno(-result), l.explained(slot, text), false)
	case result == 0:
		l.fail(now, f.offset, 0, text+" gave 0 bytes", l.device)
	default:
		l.fail(now, f.offset, l.whyShort(slot, result), fmt.Sprintf("%s gave only %d bytes", text, result), false)
	}
}

// whyShort asks for the rest of what came short: the kernel gives what it could do, and says why it was no more only to
// who tries on. A full file system and a bad place below the page cache are told so.
func (l *lane) whyShort(slot uint32, result int32) syscall.Errno {
	if l.file == nil || l.scsi != nil {
		return 0
	}
	f := l.flight[slot]
	rest := l.arena.Buffer(slot)[result:f.length]
	var err error
	if f.write {
		_, err = unix.Pwrite(int(l.file.Fd()), rest, f.offset+int64(result))
	} else {
		_, err = unix.Pread(int(l.file.Fd()), rest, f.offset+int64(result))
	}
	if errno := errnoOf(err); errno != unix.EINVAL { // which is of an odd place past the page cache, and no reason
		return errno
	}
	return 0
}

func (l *lane) abandon(err error) {
	l.broken = l.flying > 0
	l.errors++
	l.fail(nanotime(), -1, errnoOf(err), fmt.Sprintf("%s, thread %d: %v", l.what, l.number, err), false)
}

// fail keeps the first failure. Of those that came at once it keeps the lowest offset: the kernel merges neighbours into
// one request, which fails from the bad place to its end.
func (l *lane) fail(at, where int64, errno syscall.Errno, text string, lost bool) {
	if l.err != nil && (l.err.at != at || l.err.errno != errno || l.err.where <= where) {
		return
	}
	if errno != 0 {
		text += ": " + explain(errno)
	}
	l.err = &failure{at: at, where: where, errno: errno, text: text, lost: lost || goneBy(errno)}
}

// goneBy says that an errno is that of a device which is there no more.
func goneBy(errno syscall.Errno) bool {
	return errno == unix.ENODEV || errno == unix.ENXIO || errno == unix.ENOMEDIUM
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return 0
}

// noTime is the end of a window that ends with the work.
const noTime = int64(math.MaxInt64)

// serve is what a lane's goroutine does.
func (l *lane) serve(ready chan<- error, start <-chan Window, stop *atomic.Bool, worked, closed func()) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer closed()
	defer l.close()
	ready <- l.setup()
	w, ok := <-start
	if ok {
		l.run(w, stop)
	}
	worked()
}
