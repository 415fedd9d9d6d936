package sweep

import (
	"math/rand/v2"
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
}

// within adds up the buckets that lie wholly inside w.
func (s *series) within(w workload.Window) seen {
	var v seen
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
		v.queued = float64(last.last.TimeInQueueMS-first.first.TimeInQueueMS) * 1e6 / float64(elapsed)
	}
	a, b := first.first, last.last
	if idleA, idleB, ok := s.idleAround(w); ok {
		a, b = idleA, idleB
	}
	v.requests = b.ReadIOs - a.ReadIOs + b.WriteIOs - a.WriteIOs
	v.sectors = b.ReadSectors - a.ReadSectors + b.WriteSectors - a.WriteSectors
	return v
}

// idleAround is the last look before the window, and the first one after it, at which nothing was in flight. The kernel counts a request's sectors
// a moment before it counts the request, so only between idle moments does their ratio hold exactly; what lies between such a moment and the window
// is the same workload's warm-up and its last requests.
func (s *series) idleAround(w workload.Window) (before, after sysfs.DiskStat, ok bool) {
	found := false
	for i := len(s.buckets) - 1; i >= 0 && !found; i-- {
		b := &s.buckets[i]
		switch {
		case b.to <= w.Start && b.last.InFlight == 0:
			before, found = b.last, true
		case b.from <= w.Start && b.first.InFlight == 0:
			before, found = b.first, true
		}
	}
	if !found {
		return before, after, false
	}
	for i := range s.buckets {
		b := &s.buckets[i]
		switch {
		case b.from >= w.End && b.first.InFlight == 0:
			return before, b.first, true
		case b.to >= w.End && b.last.InFlight == 0:
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

func openProbes(members []sysfs.Device) (names []string, probes []probe, err error) {
	for _, d := range members {
		p, err := sysfs.OpenProbe(d)
		if err != nil {
			closeProbes(probes)
			return nil, nil, err
		}
		names, probes = append(names, d.Name), append(probes, p)
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
}

func (o *observer) summarise(w workload.Window) summary {
	var out summary
	var requests, sectors uint64
	for i := range o.history {
		v := o.history[i].within(w)
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
