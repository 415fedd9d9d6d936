package sweep

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// sampleEvery is the mean time between two looks at the members (design section 7). Each is jittered by up to half of it, so that sampling
// cannot fall into step with a drive that completes commands at a steady pace.
const sampleEvery = 10 * time.Millisecond

// minSamples is how many looks a window needs before an observed depth is reported: fewer say nothing.
const minSamples = 20

// maxBuckets bounds the observer's memory: 8192 buckets a member are under 1 MiB however long a run takes, and at most 1/4096 of
// a window is lost at each of its edges.
const maxBuckets = 8192

// probe is one member's counters; *sysfs.Probe is the real one.
type probe interface {
	Busy() (n int, ok bool)
	Stat() (sysfs.DiskStat, error)
	Close() error
}

// bucket holds what a number of neighbouring samples saw. From and to are CLOCK_MONOTONIC nanoseconds of its first and last sample,
// first and last the kernel's counters at these two instants.
type bucket struct {
	from, to    int64
	samples     int64
	busySum     int64
	busyMax     int
	first, last sysfs.DiskStat
}

// series is the history of one member during a run. When it is full, neighbours are merged and each further bucket takes twice as many samples.
type series struct {
	buckets []bucket
	per     int64 // samples a bucket
}

func (s *series) add(at int64, busy int, st sysfs.DiskStat) {
	if s.per == 0 {
		s.per = 1
	}
	if n := len(s.buckets); n > 0 && s.buckets[n-1].samples < s.per {
		b := &s.buckets[n-1]
		b.to, b.last = at, st
		b.samples++
		b.busySum += int64(busy)
		b.busyMax = max(b.busyMax, busy)
		return
	}
	if len(s.buckets) >= maxBuckets {
		s.halve()
	}
	s.buckets = append(s.buckets, bucket{from: at, to: at, samples: 1, busySum: int64(busy), busyMax: busy, first: st, last: st})
}

func (s *series) halve() {
	half := s.buckets[:0]
	for i := 0; i+1 < len(s.buckets); i += 2 {
		a, b := s.buckets[i], s.buckets[i+1]
		half = append(half, bucket{from: a.from, to: b.to, samples: a.samples + b.samples, busySum: a.busySum + b.busySum,
			busyMax: max(a.busyMax, b.busyMax), first: a.first, last: b.last})
	}
	s.buckets, s.per = half, s.per*2
}

// seen is what one member did inside a window.
type seen struct {
	samples  int64
	depth    float64 // mean of what the device had outstanding
	depthMax int
	queued   float64 // Δtime_in_queue ÷ elapsed: the block layer's, requests waiting for the device included
	requests uint64  // completed, and the sectors moved by them: from idle to idle around the window where that can be
	sectors  uint64
	read     uint64 // sectors read and written from the look before the window to the one after it: at least those of the window
	written  uint64
	counted  bool // the kernel counts what the member does at all
}

// within adds up the buckets that lie wholly inside w. between is from the end of the phase before to the begin of the phase after: what
// lies beyond is another phase's.
func (s *series) within(w, between workload.Window) seen {
	var v seen
	v.read, v.written, v.counted = s.moved(w)
	var first, last *bucket
	var busy int64
	for i := range s.buckets {
		b := &s.buckets[i]
		if b.from < w.Start || b.to > w.End {
			continue
		}
		if first == nil {
			first = b
		}
		last = b
		v.samples += b.samples
		busy += b.busySum
		v.depthMax = max(v.depthMax, b.busyMax)
	}
	if v.samples == 0 {
		return v
	}
	v.depth = float64(busy) / float64(v.samples)
	if elapsed := last.to - first.from; elapsed > 0 {
		v.queued = float64(s.timeInQueue(first.from, last.to)) * 1e6 / float64(elapsed)
	}
	a, b := first.first, last.last
	if idleA, idleB, ok := s.idleAround(w, between); ok {
		a, b = idleA, idleB
	}
	v.requests = b.ReadIOs - a.ReadIOs + b.WriteIOs - a.WriteIOs
	v.sectors = b.ReadSectors - a.ReadSectors + b.WriteSectors - a.WriteSectors
	return v
}

// timeInQueue is the growth of the kernel's counter between two looks, in ms. It is printed with 32 bits and so begins again after 50 days of one
// request, or 37 hours of a full queue.
func (s *series) timeInQueue(from, to int64) (ms uint64) {
	var before *sysfs.DiskStat
	for i := range s.buckets {
		b := &s.buckets[i]
		if b.from < from || b.to > to {
			continue
		}
		if before != nil {
			ms += uint64(uint32(b.first.TimeInQueueMS - before.TimeInQueueMS))
		}
		ms += uint64(uint32(b.last.TimeInQueueMS - b.first.TimeInQueueMS))
		before = &b.last
	}
	return ms
}

// moved is what the member read and wrote, in sectors, from the last look before the window to the first one after it. counted is false of a
// device whose counters have stood at 0 since it came up (as some kernels' multipath NVMe heads').
func (s *series) moved(w workload.Window) (read, written uint64, counted bool) {
	if len(s.buckets) == 0 {
		return 0, 0, false
	}
	before, after := s.buckets[0].first, s.buckets[len(s.buckets)-1].last
	for i := range s.buckets {
		b := &s.buckets[i]
		if b.from <= w.Start {
			before = b.first
		}
		if b.to <= w.Start {
			before = b.last
		}
	}
	for i := len(s.buckets) - 1; i >= 0; i-- {
		b := &s.buckets[i]
		if b.to >= w.End {
			after = b.last
		}
		if b.from >= w.End {
			after = b.first
		}
	}
	return after.ReadSectors - before.ReadSectors, after.WriteSectors - before.WriteSectors, after.ReadIOs+after.WriteIOs > 0
}

// idleAround is the last look before the window, and the first one after it, at which nothing was in flight. The kernel counts a request's sectors
// a moment before it counts the request, so only between idle moments does their ratio hold exactly; what lies between such a moment and the window
// is the same workload's warm-up and its last requests.
func (s *series) idleAround(w, between workload.Window) (before, after sysfs.DiskStat, ok bool) {
	found := false
	for i := len(s.buckets) - 1; i >= 0 && !found; i-- {
		b := &s.buckets[i]
		switch {
		case b.to <= w.Start && b.to >= between.Start && b.last.InFlight == 0:
			before, found = b.last, true
		case b.from <= w.Start && b.from >= between.Start && b.first.InFlight == 0:
			before, found = b.first, true
		}
	}
	if !found {
		return before, after, false
	}
	for i := range s.buckets {
		b := &s.buckets[i]
		switch {
		case b.from >= w.End && b.from <= between.End && b.first.InFlight == 0:
			return before, b.first, true
		case b.to >= w.End && b.to <= between.End && b.last.InFlight == 0:
			return before, b.last, true
		}
	}
	return before, after, false
}

// observer samples the members from the moment it is started until it is stopped. The workload says afterwards, by the same clock,
// when its timed windows were.
type observer struct {
	members []string
	probes  []probe
	history []series
	stop    chan struct{}
	done    chan struct{}
}

// uncounted is a member whose statistics are switched off (queue/iostats 0): then stat and inflight stand still, and only device_busy is true.
type uncounted struct {
	probe
	deviceBusy bool
}

func (u uncounted) Busy() (int, bool) {
	if !u.deviceBusy {
		return 0, false
	}
	return u.probe.Busy()
}

func (u uncounted) Stat() (sysfs.DiskStat, error) { return sysfs.DiskStat{}, nil }

func isCounted(d sysfs.Device) bool {
	text, err := d.Host().Read(d.SysDir() + "/queue/iostats")
	return err != nil || strings.TrimSpace(text) != "0"
}

func openProbes(members []sysfs.Device) (names []string, probes []probe, err error) {
	for _, d := range members {
		p, err := sysfs.OpenProbe(d)
		if err != nil {
			closeProbes(probes)
			return nil, nil, err
		}
		names = append(names, d.Name)
		if isCounted(d) {
			probes = append(probes, p)
			continue
		}
		_, err = d.Host().Read(d.SysDir() + "/device/device_busy")
		probes = append(probes, uncounted{p, err == nil})
	}
	return names, probes, nil
}

func closeProbes(probes []probe) {
	for _, p := range probes {
		p.Close()
	}
}

// observe starts sampling.
func observe(names []string, probes []probe) *observer {
	o := &observer{members: names, probes: probes, history: make([]series, len(probes)), stop: make(chan struct{}), done: make(chan struct{})}
	o.look() // at rest, before the workload
	go o.loop()
	return o
}

// look takes one sample of every member.
func (o *observer) look() {
	for i, p := range o.probes {
		busy, ok := p.Busy()
		st, err := p.Stat()
		if !ok || err != nil {
			continue // a device that went away has no samples; the workload says that it is lost
		}
		o.history[i].add(workload.Monotonic(), busy, st)
	}
}

func (o *observer) loop() {
	defer close(o.done)
	timer := time.NewTimer(rand.N(sampleEvery))
	defer timer.Stop()
	for {
		select {
		case <-o.stop:
			return
		case <-timer.C:
		}
		o.look()
		timer.Reset(sampleEvery/2 + rand.N(sampleEvery))
	}
}

// finish stops sampling; the history stays readable.
func (o *observer) finish() {
	close(o.stop)
	<-o.done
	o.look() // the workload is over: at rest again
}

// summary is what the members did together in a window: the mean of the mean depths, the largest largest, sizes over all requests.
type summary struct {
	samples            int64 // of the member with the fewest
	depth, queued      float64
	depthMax           int
	requestKB          float64
	enough, anyRequest bool
	read, written      int64 // bytes, over all members: at least what they moved in the window
	counted            bool  // the kernel counts what they do, on every member
}

// between is the time in which w is the only phase: phases of one workload may follow each other faster than the members are looked at.
func between(w workload.Window, all []workload.Result) workload.Window {
	b := workload.Window{Start: math.MinInt64, End: math.MaxInt64}
	for _, r := range all {
		for _, other := range r.Windows() {
			if other.End <= w.Start {
				b.Start = max(b.Start, other.End)
			}
			if other.Start >= w.End {
				b.End = min(b.End, other.Start)
			}
		}
	}
	return b
}

// over is within, of a phase of several passes: what was seen in each of them, and what was moved from the begin of the first to the end of the
// last. Between passes nothing is read, and what is written are folders and journals.
func (s *series) over(r workload.Result, phases []workload.Result) seen {
	passes := r.Windows()
	if len(passes) == 1 {
		return s.within(passes[0], between(passes[0], phases))
	}
	var all seen
	for _, w := range passes {
		if w.End-w.Start < int64(sampleEvery) {
			continue // two looks do not fit in
		}
		v := s.within(w, between(w, phases))
		if v.samples == 0 {
			continue
		}
		part := float64(v.samples) / float64(all.samples+v.samples)
		all.depth += (v.depth - all.depth) * part
		all.queued += (v.queued - all.queued) * part
		all.depthMax = max(all.depthMax, v.depthMax)
		all.samples += v.samples
		all.requests += v.requests
		all.sectors += v.sectors
	}
	all.read, all.written, all.counted = s.moved(r.Window)
	return all
}

// summarise is what the members did in the window of one of the workload's phases.
func (o *observer) summarise(r workload.Result, phases ...workload.Result) summary {
	out := summary{counted: len(o.history) > 0}
	var requests, sectors uint64
	for i := range o.history {
		v := o.history[i].over(r, phases)
		out.read += int64(v.read) * 512
		out.written += int64(v.written) * 512
		out.counted = out.counted && v.counted
		if i == 0 || v.samples < out.samples {
			out.samples = v.samples
		}
		out.depth += v.depth
		out.queued += v.queued
		out.depthMax = max(out.depthMax, v.depthMax)
		requests += v.requests
		sectors += v.sectors
	}
	if n := float64(len(o.history)); n > 0 {
		out.depth /= n
		out.queued /= n
	}
	if requests > 0 {
		out.anyRequest = true
		out.requestKB = float64(sectors) / 2 / float64(requests)
	}
	out.enough = out.samples >= minSamples
	return out
}
