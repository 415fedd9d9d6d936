package sweep

import (
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
	"qdsweep/workload"
)

// steady fills a series with a look each 10 ms: a constant depth, so many requests of so many sectors a look.
func steady(n int, depth int, requests, sectors uint64) *series {
	s := &series{}
	for i := range n {
		at := int64(i) * int64(sampleEvery)
		s.add(at, depth, sysfs.DiskStat{ReadIOs: uint64(i) * requests, ReadSectors: uint64(i) * sectors, TimeInQueueMS: uint64(i) * 10 * 40})
	}
	return s
}

// always is the neighbourhood of a phase that is alone.
func always() workload.Window { return between(workload.Window{}, nil) }

func TestWithinCountsOnlyTheWindow(t *testing.T) {
	s := &series{}
	for i := range 300 {
		busy := 31 // before and after the window something else goes on
		if i >= 100 && i < 200 {
			busy = 4
		}
		s.add(int64(i)*1000, busy, sysfs.DiskStat{ReadIOs: uint64(i), ReadSectors: uint64(i) * 16, InFlight: busy})
	}
	v := s.within(workload.Window{Start: 100_000, End: 199_000}, always())
	assert.EqualValues(t, 100, v.samples)
	assert.Equal(t, 4.0, v.depth)
	assert.Equal(t, 4, v.depthMax)
	assert.EqualValues(t, 99, v.requests, "never idle: what is counted lies inside")
	assert.EqualValues(t, 99*16, v.sectors)
}

func TestQueuedDepthIsTimeInQueueOverElapsed(t *testing.T) {
	v := steady(100, 8, 1, 8).within(workload.Window{Start: 0, End: 1 << 60}, always())
	assert.InDelta(t, 40, v.queued, 1e-9, "400 ms in queue each 10 ms are 40 requests")
	assert.Equal(t, 8.0, v.depth, "the device's depth is another thing")
}

// Of a phase of several passes, what lies between them is not its own, and what was moved is told once.
func TestWhatAPhaseOfSeveralPassesDid(t *testing.T) {
	s := &series{}
	for i := range 100 {
		busy := 0
		if i%20 < 10 { // ten looks of a pass, ten of making the ground
			busy = 2 + i/20 // deeper from pass to pass
		}
		s.add(int64(i)*int64(sampleEvery), busy, sysfs.DiskStat{ReadIOs: uint64(i), ReadSectors: uint64(i) * 8})
	}
	r := workload.Result{}
	for i := range 5 {
		r.Passes = append(r.Passes, workload.Window{Start: int64(i) * 20 * int64(sampleEvery), End: int64(i)*20*int64(sampleEvery) + 9*int64(sampleEvery)})
	}
	r.Window = workload.Window{Start: 0, End: r.Passes[4].End}
	v := s.over(r, []workload.Result{r})
	assert.EqualValues(t, 50, v.samples)
	assert.InDelta(t, 4, v.depth, 1e-9)
	assert.Equal(t, 6, v.depthMax)
	assert.EqualValues(t, 89*8, v.read)
	assert.True(t, v.counted)

	for i := range r.Passes { // too short to be seen
		r.Passes[i].End = r.Passes[i].Start + 1000
	}
	v = s.over(r, []workload.Result{r})
	assert.Zero(t, v.samples)
	assert.EqualValues(t, 89*8, v.read, "what was moved is known all the same")
}

func TestLongRunsKeepTheirMeansInBoundedMemory(t *testing.T) {
	const n = 20 * maxBuckets
	s := steady(n, 7, 2, 32)
	assert.LessOrEqual(t, len(s.buckets), maxBuckets)
	v := s.within(workload.Window{Start: 0, End: 1 << 60}, always())
	assert.EqualValues(t, n, v.samples)
	assert.Equal(t, 7.0, v.depth)
	assert.Equal(t, 16*v.requests, v.sectors)
	half := s.within(workload.Window{Start: 0, End: int64(n/2) * int64(sampleEvery)}, always())
	assert.InDelta(t, n/2, half.samples, n/1000)
}

// The sectors of a request are counted before the request is: between two busy moments the ratio can be off by one request.
func TestRequestSizeIsTakenFromIdleToIdle(t *testing.T) {
	s := &series{}
	s.add(0, 0, sysfs.DiskStat{ReadIOs: 10, ReadSectors: 1000})
	s.add(10, 4, sysfs.DiskStat{ReadIOs: 10, ReadSectors: 1016, InFlight: 4}) // one request's sectors, not yet the request
	s.add(20, 4, sysfs.DiskStat{ReadIOs: 14, ReadSectors: 1080, InFlight: 4})
	s.add(30, 0, sysfs.DiskStat{ReadIOs: 18, ReadSectors: 1128})
	v := s.within(workload.Window{Start: 5, End: 25}, always())
	assert.EqualValues(t, 2, v.samples, "the depth is taken inside the window alone")
	assert.EqualValues(t, 8, v.requests)
	assert.EqualValues(t, 8*16, v.sectors)
}

// A phase begins a moment after another one, so that no look in between finds the device idle: the other's requests are not taken for its own.
func TestRequestSizeIsOfOnePhase(t *testing.T) {
	s := &series{}
	s.add(0, 0, sysfs.DiskStat{})
	s.add(10, 1, sysfs.DiskStat{WriteIOs: 100, WriteSectors: 100 * 1024, InFlight: 1})
	s.add(20, 1, sysfs.DiskStat{WriteIOs: 200, WriteSectors: 200 * 1024, InFlight: 1})
	for i := range uint64(30) {
		s.add(30+10*int64(i), 1, sysfs.DiskStat{WriteIOs: 200, WriteSectors: 200 * 1024, ReadIOs: 1 + i, ReadSectors: 8 + 8*i, InFlight: 1})
	}
	s.add(400, 0, sysfs.DiskStat{WriteIOs: 200, WriteSectors: 200 * 1024, ReadIOs: 31, ReadSectors: 31 * 8})
	write, read := workload.Result{Window: workload.Window{Start: 5, End: 22}}, workload.Result{Window: workload.Window{Start: 25, End: 390}}
	o := &observer{history: []series{*s}}
	v := o.summarise(read, write, read)
	assert.Equal(t, 4.0, v.requestKB)
	assert.EqualValues(t, 31*8*512, v.read)
	assert.Equal(t, 512.0, o.summarise(write, write, read).requestKB)
}

// The kernel prints time_in_queue with 32 bits.
func TestQueuedDepthWhenTheCounterBeginsAgain(t *testing.T) {
	s := &series{}
	for i := range 100 {
		s.add(int64(i)*int64(sampleEvery), 8, sysfs.DiskStat{ReadIOs: 1, TimeInQueueMS: uint64(uint32(1<<32 - 20_000 + i*400))})
	}
	assert.InDelta(t, 40, s.within(workload.Window{Start: 0, End: 1 << 60}, always()).queued, 1e-9)
}

// What the members moved is taken from the look before the window to the look after it: never less than the window's.
func TestMovedIsNeverLessThanTheWindows(t *testing.T) {
	s := &series{}
	for i := range uint64(50) {
		s.add(int64(i)*10, 1, sysfs.DiskStat{ReadIOs: i, ReadSectors: i * 8, WriteIOs: i, WriteSectors: i * 2})
	}
	v := s.within(workload.Window{Start: 95, End: 301}, always())
	assert.EqualValues(t, (31-9)*8, v.read)
	assert.EqualValues(t, (31-9)*2, v.written)
	assert.True(t, v.counted)
	assert.False(t, steady(0, 0, 0, 0).within(workload.Window{End: 1}, always()).counted)
	still := &series{}
	still.add(1, 0, sysfs.DiskStat{})
	assert.False(t, still.within(workload.Window{End: 1}, always()).counted, "counters that never moved count nothing")
}

// With queue/iostats 0 the kernel's counters stand still: what is read from them is not reported as a 0.
func TestMembersThatAreNotCounted(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb"})
	require.NoError(t, os.WriteFile(filepath.Join(m.Root(), "sys/block/sdb/queue/iostats"), []byte("0\n"), 0o644))
	var members []sysfs.Device
	for _, name := range []string{"sda", "sdb"} {
		d, err := m.Host().Device(name)
		require.NoError(t, err)
		members = append(members, d)
	}
	_, probes, err := openProbes(members)
	require.NoError(t, err)
	defer closeProbes(probes)
	assert.IsType(t, &sysfs.Probe{}, probes[0])
	assert.IsType(t, uncounted{}, probes[1])
	_, ok := uncounted{probes[0], false}.Busy()
	assert.False(t, ok, "inflight stands still too")
}

func TestFewSamplesSayNothing(t *testing.T) {
	o := &observer{history: []series{*steady(minSamples-1, 3, 1, 8)}}
	assert.False(t, o.summarise(workload.Result{Window: workload.Window{End: 1 << 60}}).enough)
	o = &observer{history: []series{*steady(minSamples, 3, 1, 8)}}
	assert.True(t, o.summarise(workload.Result{Window: workload.Window{End: 1 << 60}}).enough)
}

func TestMembersTogether(t *testing.T) {
	o := &observer{history: []series{*steady(100, 2, 1, 16), *steady(50, 6, 3, 16)}}
	v := o.summarise(workload.Result{Window: workload.Window{End: 1 << 60}})
	assert.Equal(t, 4.0, v.depth, "the mean of the members")
	assert.Equal(t, 6, v.depthMax, "the largest of the members")
	assert.EqualValues(t, 50, v.samples, "of the member with the fewest")
	assert.InDelta(t, (99*16+49*16)/2.0/(99+49*3), v.requestKB, 1e-9, "over all requests, not a mean of means")
}

type countingProbe struct{ looks atomic.Int64 }

func (p *countingProbe) Busy() (int, bool)             { return 5, true }
func (p *countingProbe) Stat() (sysfs.DiskStat, error) { p.looks.Add(1); return sysfs.DiskStat{}, nil }
func (p *countingProbe) Close() error                  { return nil }

func TestObserverSamplesUntilItIsFinished(t *testing.T) {
	p := &countingProbe{}
	began := workload.Monotonic()
	o := observe([]string{"sda"}, []probe{p})
	for p.looks.Load() < 5 { // it does look; how fast is the machine's business
		runtime.Gosched()
	}
	o.finish()
	looks := p.looks.Load()
	v := o.summarise(workload.Result{Window: workload.Window{Start: began, End: workload.Monotonic() + 1}})
	require.EqualValues(t, looks, v.samples)
	assert.Equal(t, 5, v.depthMax)
	assert.Zero(t, o.summarise(workload.Result{Window: workload.Window{Start: 0, End: began - 1}}).samples)
}
