package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
	"qdsweep/sysfs/systest"
	"qdsweep/workload"
)

func specOf(t *testing.T, typ string, values map[string]string) workload.Spec {
	t.Helper()
	s, wrong := workload.NewSpec("w", typ, values)
	require.Empty(t, wrong)
	return s
}

// A figure that the members had no part in says so: where direct I/O or an empty page cache was promised it is suspect.
func TestBytesThatTheMembersDidNotMove(t *testing.T) {
	io := func(mode, direct, runtime string) workload.Spec {
		return specOf(t, "io", map[string]string{"mode": mode, "direct": direct, "runtime": runtime})
	}
	dd := func(mode string) workload.Spec {
		return specOf(t, "dd", map[string]string{"mode": mode, "sync": "none"})
	}
	const mb = 1_000_000
	for name, c := range map[string]struct {
		spec          workload.Spec
		phase         string
		read, written int64 // of 100 MB
		reason        string
		wrong         bool
	}{
		"dd read":                 {dd("read"), "read", 100 * mb, 0, "", false},
		"dd read ahead":           {dd("read"), "read", 101 * mb, 0, "", false},
		"dd read of a cached":     {dd("read"), "read", 40 * mb, 900 * mb, "cached: the members read 40 of 100 MB", true},
		"dd write to the cache":   {dd("write-read"), "write", 900 * mb, 12_340_000, "cached: the members wrote 12.3 of 100 MB", false},
		"buffered, again":         {io("read", "false", "30s"), "read", 1 * mb, 0, "cached: the members read 1 of 100 MB", false},
		"buffered, at random":     {io("randread", "false", "0"), "randread", 63 * mb, 0, "cached: the members read 63 of 100 MB", false},
		"direct":                  {io("randread", "true", "30s"), "randread", 100 * mb, 0, "", false},
		"direct that is not":      {io("randread", "true", "30s"), "randread", 0, 900 * mb, "cached: the members read 0 of 100 MB", true},
		"direct writes that miss": {io("write", "true", "30s"), "write", 900 * mb, 50 * mb, "cached: the members wrote 50 of 100 MB", true},
		"readers apart":           {io("read+write", "true", "30s"), "read+write/r", 100 * mb, 0, "", false},
		"writers apart":           {io("read+write", "true", "30s"), "read+write/w", 100 * mb, 1 * mb, "cached: the members wrote 1 of 100 MB", true},
		"a mix":                   {io("randrw", "true", "30s"), "randrw", 50 * mb, 50 * mb, "", false},
		"removing moves nothing":  {dd("write-read"), "remove", 0, 0, "", false},
	} {
		p := phase{spec: c.spec, result: workload.Result{Phase: c.phase, Engine: "psync", Bytes: 100 * mb}, seen: summary{counted: true, read: c.read, written: c.written}}
		if c.phase == "remove" {
			p.result.Bytes = 0
		}
		reason, wrong := cached(p)
		assert.Equal(t, c.reason, reason, name)
		assert.Equal(t, c.wrong, wrong, name)
		p.seen.counted = false
		reason, _ = cached(p)
		assert.Empty(t, reason, "counters that stand still say nothing")
		p.seen.counted, p.result.Engine = true, "null"
		reason, _ = cached(p)
		assert.Empty(t, reason, "the null engine moves nothing")
	}
}

// A buffered read that found its file in the page cache is caught also where counters cannot tell, by what was seen there.
func TestWhatStayedInThePageCache(t *testing.T) {
	p := phase{result: workload.Result{Phase: "read", Bytes: 100e6}, seen: summary{counted: true}}
	reason, wrong := resident(p)
	assert.Equal(t, []any{"", false}, []any{reason, wrong})
	p.result.Resident = 4e6
	reason, wrong = resident(p)
	assert.Equal(t, []any{"cached: 4 MB could not be dropped from the page cache before they were read", false}, []any{reason, wrong})
	p.result.Resident = 6e6
	_, wrong = resident(p)
	assert.True(t, wrong)
	p.seen.counted = false
	_, wrong = resident(p)
	assert.False(t, wrong, "on tmpfs there is no disk to read from")
}

// How much was read back is in the rows of what wrote it.
func TestTheRowOfAVerifiedPhase(t *testing.T) {
	p := phase{spec: specOf(t, "dd", map[string]string{"mode": "write-read", "verify": "true"}), result: workload.Result{Phase: "write", Verified: 12_300_000}}
	assert.Equal(t, "verified: 12.3 MB", verified(p))
	p.result.VerifiedInMemory = 4_000_000
	assert.Equal(t, "verified: 12.3 MB, 4 MB of it by the page cache, from which it could not be dropped", verified(p))
	p.result.Phase = "read"
	assert.Empty(t, verified(p))
	p.result.Phase, p.spec.Verify = "write", false
	assert.Empty(t, verified(p))
}

// A phase too short to time says so, and its figures are those of all its passes.
func TestTheRowOfARepeatedPhase(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda"})
	b.profile = strings.Replace(b.profile, "runtime: 150ms", "runtime: 0s", 1)
	_, rows := b.run()
	require.Len(t, rows, 1)
	r := rows[0]
	assert.Equal(t, "ok", r.Status)
	require.Regexp(t, `^repeated: \d+ passes of ([0-9]+|[0-9]\.[0-9])(ms|µs): one is too short to time$`, r.Reason)
	var passes int64
	_, err := fmt.Sscanf(r.Reason, "repeated: %d passes", &passes)
	require.NoError(t, err)
	bytes, _ := r.Bytes.Get()
	seconds, _ := r.Seconds.Get()
	rate, _ := r.MBPerS.Get()
	assert.Equal(t, passes<<20, bytes)
	assert.GreaterOrEqual(t, seconds, 0.1)
	assert.InEpsilon(t, float64(bytes)/seconds/1e6, rate, 1e-4)
	assert.Empty(t, repeated(workload.Result{Window: workload.Window{End: 1}}))
}

// What is in force is each workload's own: one operation at a time is a depth of 1, whatever iodepth says.
func TestAxesInForce(t *testing.T) {
	c := Cell{{"queue_depth", "4"}, {"iodepth", "32"}, {"scheduler", "none"}, {"threads", "2"}}
	effective := map[string]string{"queue_depth": "4", "scheduler": "mq-deadline"}
	for want, w := range map[string]workload.Spec{
		"iodepth=32;scheduler=mq-deadline;threads=2": specOf(t, "io", map[string]string{"engine": "io_uring", "iodepth": "32", "threads": "2"}),
		"iodepth=1;scheduler=mq-deadline;threads=2":  specOf(t, "io", map[string]string{"engine": "psync", "iodepth": "32", "threads": "2"}),
		"scheduler=mq-deadline":                      specOf(t, "dd", nil),
	} {
		assert.Equal(t, want, axesInForce(c, effective, &w))
	}
	assert.Equal(t, "iodepth=32;threads=2", axesInForce(c, nil, nil), "nothing was set, no workload ran")
}

func TestMegabytes(t *testing.T) {
	assert.Equal(t, []string{"0", "0.000512", "8.39", "4360", "1230000"}, []string{megabytes(0), megabytes(512), megabytes(8_388_608), megabytes(4_364_500_992), megabytes(1_234_567_000_000)})
}

func TestReasonsOfAPhase(t *testing.T) {
	assert.Equal(t, "nothing done: x", failureOf(workload.Result{Err: "x", Idle: true}))
	assert.Equal(t, "verify failed: x", failureOf(workload.Result{Err: "x", Corrupt: true}))
	assert.Equal(t, "error: x", failureOf(workload.Result{Err: "x"}))
	assert.Equal(t, results.DeviceLost, results.CodeOf(failureOf(workload.Result{Err: "device lost: x", Lost: true})))
}

// A failed row says in which phase, with which workers, how many operations failed; and no rate.
func TestTheRowOfAFailedPhase(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda"})
	b.profile = "version: 1\nname: bench\ntarget: {device: sda}\nmatrix: {queue_depth: [1]}\nrepeats: 1\nsettle: 0s\n" +
		"workloads: [{name: r, type: dd, mode: read, size: 64k, block_size: 4k, processes: 2}]\n"
	b.observe = once(working(1), func() {
		require.NoError(t, os.Truncate(filepath.Join(b.machine.Root(), "dev/sda"), 0))
	})
	_, rows := b.run()
	require.Len(t, rows, 1)
	r := rows[0]
	assert.Equal(t, []string{"failed", "r", "read", "psync"}, []string{r.Status, r.Workload, r.Phase, r.Engine})
	for want, n := range map[string]results.Int{"2": r.Threads, "1": r.IODepth, "4096": r.BlockSize} {
		assert.Equal(t, want, n.String())
	}
	errors, _ := r.Errors.Get()
	assert.Positive(t, errors)
	assert.Equal(t, []string{"", "", "", "", ""}, []string{r.MBPerS.String(), r.IOPS.String(), r.Seconds.String(), r.Bytes.String(), r.Operations.String()})
}

// Field case 5: an array that lost a member during the run fails its rows, without a rate.
func TestAnArrayLosesAMember(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb"})
	b.machine.MD("md0", "raid1", "sda", "sdb")
	b.profile = strings.Replace(b.profile, "device: sda", "device: md0", 1)
	b.observe = once(working(1), func() { b.machine.Set("/sys/block/md0/md/degraded", "1\n") })
	o, rows := b.run()
	require.Len(t, rows, 1)
	assert.Equal(t, []string{"failed", "r", "randread", "degraded: md0 has lost 1 of its 2 members"}, []string{rows[0].Status, rows[0].Workload, rows[0].Phase, rows[0].Reason})
	assert.Equal(t, []string{"", "", ""}, []string{rows[0].IOPS.String(), rows[0].Bytes.String(), rows[0].LatMeanUS.String()})
	assert.True(t, rows[0].Restored)
	assert.Equal(t, 1, o.Audit.Remaining, "no further run on that array")
}

// The monthly check of arrays likes to begin in the night, and so in a run.
func TestAnArrayBeginsToSync(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb"})
	b.machine.MD("md0", "raid1", "sda", "sdb")
	b.profile = strings.Replace(b.profile, "device: sda", "device: md0", 1)
	b.observe = once(working(1), func() { b.machine.Set("/sys/block/md0/md/sync_action", "check\n") })
	_, rows := b.run()
	require.Len(t, rows, 1)
	assert.Equal(t, []string{"suspect", "foreign I/O: md0 began a check"}, []string{rows[0].Status, rows[0].Reason})
	assert.NotEmpty(t, rows[0].IOPS.String())
}

// A worker that is slower than slow is a rate of 0, not an unknown one.
func TestTheSlowestDidNothing(t *testing.T) {
	var r results.Row
	(&Sweep{}).fill(&r, nil, phase{spec: specOf(t, "io", nil), result: workload.Result{Bytes: 4096, Operations: 1, Threads: 2, Window: workload.Window{End: 1e9}}})
	assert.Equal(t, "0", r.MBPerSSlowest.String())
	assert.Empty(t, r.ObservedDepth.String())
	assert.Empty(t, r.QueuedDepth.String())
}

// What each worker got is in the row, in their order.
func TestBytesOfEachWorker(t *testing.T) {
	var r results.Row
	(&Sweep{}).fill(&r, nil, phase{spec: specOf(t, "io", nil), result: workload.Result{Bytes: 12288, PerThreadBytes: []int64{8192, 0, 4096}, Window: workload.Window{End: 1e9}}})
	assert.Equal(t, "8192;0;4096", r.BytesPerThread)
}

// Counters that stand still are no measurement of 0.
func TestADepthOfCountersThatStandStill(t *testing.T) {
	var r results.Row
	p := phase{spec: specOf(t, "io", nil), result: workload.Result{Bytes: 4096, Window: workload.Window{End: 1e9}}, seen: summary{enough: true, samples: 100}}
	(&Sweep{}).fill(&r, nil, p)
	assert.Empty(t, r.ObservedDepth.String())
	assert.Empty(t, r.QueuedDepth.String())
	p.seen.depth, p.seen.depthMax = 3, 4 // device_busy is not the block layer's
	(&Sweep{}).fill(&r, nil, p)
	assert.Equal(t, "3", r.ObservedDepth.String())
	assert.Empty(t, r.QueuedDepth.String())
}

// A machine that was suspended in a run has rows that are suspect, and its wall clock was not set: it went on.
func TestTheClocksOfARun(t *testing.T) {
	at := clocks{time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC), 100 * time.Second, 500 * time.Second}
	for name, c := range map[string]struct {
		wall, monotonic, boot time.Duration // that passed
		suspect, remarks      []string
	}{
		"nothing":                    {time.Minute, time.Minute, time.Minute, nil, nil},
		"set back":                   {time.Minute - time.Hour, time.Minute, time.Minute, nil, []string{"clock stepped: by -1h0m0s"}},
		"suspended":                  {3 * time.Hour, time.Minute, 3 * time.Hour, []string{"suspended: for 2h59m0s"}, nil},
		"suspended, and set forward": {4 * time.Hour, time.Minute, 3 * time.Hour, []string{"suspended: for 2h59m0s"}, []string{"clock stepped: by 1h0m0s"}},
	} {
		tx := &transaction{clocks: at}
		var remarks []string
		tx.judgeClocks(&remarks, clocks{at.wall.Add(c.wall), at.monotonic + c.monotonic, at.boot + c.boot})
		assert.Equal(t, c.suspect, tx.suspect, name)
		assert.Equal(t, c.remarks, remarks, name)
	}
}

// What the clocks say comes to be in the rows.
func TestASuspendedRunIsSuspect(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32})
	_, rows := b.run()
	require.Equal(t, results.OK, rows[0].Status, "%s", rows[0].Reason)
	s := &Sweep{profile: b.read(), host: b.host}
	plan, err := NewPlan(t.Context(), s.profile, s.host, PlanOptions{})
	require.NoError(t, err)
	s.plan = plan
	s.makeHolds()
	for r := range plan.Runs() {
		tx := &transaction{run: r, at: s.holds[0], restored: true, clocks: runClocks(), phases: []phase{{spec: plan.Profile.Workloads[0], result: workload.Result{Phase: "randread"}}}}
		tx.clocks.boot -= time.Hour
		tx.clocks.wall = tx.clocks.wall.Add(-time.Hour)
		rows := s.rows(tx)
		assert.Equal(t, results.Suspect, rows[0].Status)
		assert.Contains(t, rows[0].Reason, "suspended: for 1h0m0s")
		assert.NotContains(t, rows[0].Reason, "clock stepped")
	}
}
