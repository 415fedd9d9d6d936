package workload

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// phase is lanes that start together and are timed by one window. Readers and writers that are told
// apart are two groups of one phase.
type phase struct {
	names   []string // a result each, by lane.group
	target  Target
	spec    Spec
	lanes   []*lane
	runtime time.Duration // 0: until the walks end
	warmup  time.Duration
	ground  func() (resident int64, err error) // before each pass, outside the clock: what every pass begins with; bytes that stayed in the page cache

	spans   []span // what is written and to be verified; none: nothing
	seed    uint64 // of what is written there
	written func() // between writing and reading back, for tests that change what is there

	passes      []Window
	cpu         cpuTime
	first, last []int64 // by group: from the start to the first and the last lane done, summed over the passes
	resident    int64
	verified    int64 // bytes read back and compared
	inMemory    int64 // of these, bytes that stayed in the page cache
}

// A phase that goes once through is repeated until it was timed for so long, at most so often, and no more is begun after so long. Starting the threads, the one
// operation that came at a bad moment, and a drive that wakes up are some 100 us a pass: of a shorter phase they are what is measured.
const (
	shortestTimed = 100 * time.Millisecond
	mostPasses    = 1000
	mostEffort    = 10 * time.Second // what lies between the passes included: making the ground, opening an engine
)

// run does the phase, as often as it takes to time it. Each pass begins from the same ground, and what lies between two is in no clock.
func (p *phase) run() []Result {
	defer quiet(len(p.lanes))()
	var g *ledger
	if len(p.spans) > 0 {
		var err error
		if g, err = newLedger(p.seed, p.spec.BlockSize, p.nameOf, p.spans...); err != nil {
			return p.failed(err)
		}
		defer g.close()
		for i, l := range p.lanes {
			g.watch(l, i%len(p.spans))
		}
	}
	begin := make([]walk, len(p.lanes))
	for i, l := range p.lanes {
		begin[i] = l.walk
	}
	for {
		if p.ground != nil {
			left, err := p.ground()
			if err != nil {
				return p.failed(err)
			}
			p.resident += left
		}
		w, cpu, err := p.pass()
		if err != nil {
			return p.failed(err)
		}
		if f := p.firstFailure(); f != nil {
			return p.broke(w, f)
		}
		p.add(w, cpu)
		if g != nil {
			if p.written != nil {
				p.written()
			}
			if f := p.readBack(g); f != nil {
				return p.broke(w, p.told(f))
			}
		}
		if p.enough() {
			return p.results()
		}
		if err := p.flush(); err != nil {
			return p.failed(err)
		}
		for i, l := range p.lanes {
			l.walk.again(begin[i])
		}
	}
}

// enough says that no further pass is needed: a runtime is what was asked for, however short.
func (p *phase) enough() bool {
	var timed int64
	for _, w := range p.passes {
		timed += w.End - w.Start
	}
	idle := true
	for _, l := range p.lanes {
		idle = idle && l.operations == 0
	}
	tried := nanotime()-p.passes[0].Start >= int64(mostEffort) || len(p.passes) >= mostPasses
	return p.runtime > 0 || idle || tried || timed >= int64(shortestTimed) || p.spec.Engine == "null"
}

// pass does everything once: all opened and resident first, then a barrier, then the clock.
func (p *phase) pass() (Window, cpuTime, error) {
	ready := make(chan error, len(p.lanes))
	start := make(chan Window, len(p.lanes))
	var stop atomic.Bool
	var work, lanes sync.WaitGroup
	work.Add(len(p.lanes))
	lanes.Add(len(p.lanes))
	for _, l := range p.lanes {
		go l.serve(ready, start, &stop, work.Done, lanes.Done)
	}
	defer lanes.Wait()
	var errs []error
	for range p.lanes {
		errs = append(errs, <-ready)
	}
	if err := errors.Join(errs...); err != nil {
		close(start)
		return Window{}, cpuTime{}, first(errs)
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()

	before, earlier := processTime(), p.ofThreads()
	now := nanotime()
	w := Window{Start: now + int64(p.warmup), End: noTime}
	if p.runtime > 0 {
		w.End = w.Start + int64(p.runtime)
	}
	for range p.lanes {
		start <- w
	}
	var after cpuTime
	if p.runtime > 0 {
		if p.warmup > 0 {
			sleepUntil(w.Start, done)
			before = processTime()
		}
		sleepUntil(w.End, done)
		after = processTime()
		<-done
	} else {
		<-done
		after = processTime()
		w.End = w.Start
		for _, l := range p.lanes {
			w.End = max(w.End, l.finished)
		}
		if p.lanes[0].engine != "io_uring" { // nobody works for the threads, and getting them to start and end is none of it
			return w, p.ofThreads().minus(earlier), nil
		}
	}
	return w, after.minus(before), nil
}

// add counts a pass in.
func (p *phase) add(w Window, cpu cpuTime) {
	if p.first == nil {
		p.first, p.last = make([]int64, len(p.names)), make([]int64, len(p.names))
	}
	p.passes = append(p.passes, w)
	p.cpu = p.cpu.plus(cpu)
	for i := range p.names {
		firstDone, lastDone := int64(math.MaxInt64), w.Start
		for _, l := range p.lanes {
			if l.group != i {
				continue
			}
			end, finished := w.End, l.last
			if p.runtime == 0 {
				end, finished = l.finished, l.finished // its fsync included, as in the window
			}
			l.busy += end - w.Start
			if l.operations > l.earlier {
				firstDone, lastDone = min(firstDone, finished), max(lastDone, finished)
			}
		}
		if firstDone <= lastDone {
			p.first[i] += firstDone - w.Start
			p.last[i] += lastDone - w.Start
		}
	}
	for _, l := range p.lanes {
		l.earlier = l.operations
	}
}

// broke is the results of a phase in which something went wrong, a group a result: that, and no numbers.
func (p *phase) broke(w Window, f *failure) []Result {
	w.End = max(w.Start, min(w.End, f.at))
	results := p.blank()
	if p.overLimit(f, results) {
		return results
	}
	for i := range results {
		r := &results[i]
		r.Window, r.Err, r.Errno, r.Lost, r.Corrupt = w, f.text, int(f.errno), f.lost, f.corrupt
		for _, l := range p.lanes {
			if l.group == i {
				r.Errors += l.errors
			}
		}
	}
	return results
}

// results sums the lanes up, over all passes, a group a result.
func (p *phase) results() []Result {
	results := p.blank()
	var all int64
	for _, l := range p.lanes {
		all += l.cpu.sum()
	}
	for i := range results {
		r := &results[i]
		r.Window = Window{p.passes[0].Start, p.passes[len(p.passes)-1].End}
		if len(p.passes) > 1 {
			r.Passes = p.passes
		}
		latency, waited := hdrhistogram.New(shortest, longest, 3), int64(0)
		slowest, share := math.Inf(1), int64(0)
		for _, l := range p.lanes {
			if l.group != i {
				continue
			}
			r.Bytes += l.bytes
			r.Operations += l.operations
			r.PerThreadBytes = append(r.PerThreadBytes, l.bytes)
			latency.Merge(l.latency)
			waited += l.waited
			share += l.cpu.sum()
			if l.busy > 0 {
				slowest = min(slowest, float64(l.bytes)/time.Duration(l.busy).Seconds())
			}
		}
		if r.Operations == 0 {
			r.Err = fmt.Sprintf("%s: not one operation was completed in %s", r.Phase, FormatDuration(time.Duration(r.Window.End-r.Window.Start)))
			r.Idle = true
			continue
		}
		if !math.IsInf(slowest, 1) {
			r.SlowestBytesPerS = slowest
		}
		r.FirstDoneS, r.LastDoneS = time.Duration(p.first[i]).Seconds(), time.Duration(p.last[i]).Seconds()
		r.Latency = summary(latency, waited)
		if reads, _ := p.spec.PhaseReads(r.Phase); reads {
			r.Resident = p.resident
		}
		if _, writes := p.spec.PhaseReads(r.Phase); writes {
			r.Verified, r.VerifiedInMemory = p.verified, min(p.inMemory, p.verified)
		}
		// The process does nothing else, and kernel threads that work for it (io_uring's) are counted.
		// Of groups, each gets its threads' share.
		part := 1.0
		if len(results) > 1 && all > 0 {
			part = float64(share) / float64(all)
		}
		r.CPUUserS, r.CPUSysS = p.cpu.user.Seconds()*part, p.cpu.system.Seconds()*part
	}
	return results
}

func (p *phase) blank() []Result {
	results := make([]Result, len(p.names))
	for i := range results {
		results[i] = Result{Phase: p.names[i], Engine: p.lanes[0].engine, BlockSize: p.spec.BlockSize, IODepth: p.lanes[0].depth}
		for _, l := range p.lanes {
			if l.group == i {
				results[i].Threads++
			}
		}
	}
	return results
}

// failed is the result of a phase that could not begin.
func (p *phase) failed(err error) []Result {
	f := p.told(failureOf(err))
	results := p.blank()
	now := nanotime()
	for i := range results {
		results[i].Window = Window{now, now}
		results[i].Err, results[i].Errno, results[i].Lost = f.text, int(f.errno), f.lost
	}
	return results
}

func failureOf(err error) *failure {
	var l lane
	errno := errnoOf(err)
	l.fail(nanotime(), -1, errno, "", false)
	l.err.text = err.Error()
	if errno != 0 {
		l.err.text += " (" + nameOf(errno) + ")"
	}
	return l.err
}

// firstFailure is the one that came first; whether the device is gone is asked of it and of the device.
func (p *phase) firstFailure() *failure {
	var first *failure
	lost := false
	for _, l := range p.lanes {
		if l.err == nil {
			continue
		}
		lost = lost || l.err.lost
		if first == nil || l.err.at < first.at {
			first = l.err
		}
	}
	if first != nil {
		first.lost = lost
		return p.told(first)
	}
	return nil
}

// told is a failure as it is told: whether the device is gone is asked of it, too.
func (p *phase) told(f *failure) *failure {
	if f.lost = f.lost || p.target.gone(f.errno); f.lost {
		f.text = "device lost: " + f.text
	}
	return f
}

// nameOf is a file of the workload, or its device, for messages.
func (p *phase) nameOf(file int) string {
	if p.target.Dir == nil {
		return p.target.Name
	}
	return p.spec.file(file) + " in " + p.target.Name
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func summary(h *hdrhistogram.Histogram, waited int64) Latency {
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	return Latency{
		MeanUS: float64(waited) / float64(h.TotalCount()) / 1000,
		P50US:  us(h.ValueAtQuantile(50)), P95US: us(h.ValueAtQuantile(95)),
		P99US: us(h.ValueAtQuantile(99)), P999US: us(h.ValueAtQuantile(99.9)),
		MaxUS: us(h.Max()), Count: h.TotalCount(),
	}
}

// ofThreads is the CPU time of the lanes' own threads up to now, as of the last pass that they ended.
func (p *phase) ofThreads() (t cpuTime) {
	for _, l := range p.lanes {
		t = t.plus(l.cpu)
	}
	return t
}

// quiet keeps the Go runtime out of the measurement: no collection begins while lanes run (they allocate
// nothing), and there is a P for each lane, since a lane keeps its P while it waits in the kernel.
func quiet(lanes int) (restore func()) {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(math.MaxInt64)
	processors := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(processors, runtime.NumCPU()) + lanes)
	return func() {
		runtime.GOMAXPROCS(processors)
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}
