package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/workload"
)

// ownColumns are the axes that have columns of their own in the CSV; the others share `axes`.
func ownColumns() []string {
	return []string{"raid_level", "queue_depth", "write_cache", "max_sectors_kb"}
}

// exercised is the share of the effective depth that must have been seen in the device, else the depth was not exercised (design section 7).
const exercised = 0.8

// clockStep is how far wall clock and monotonic clock may drift apart over a run before the row says that the clock was stepped.
const clockStep = time.Second

func failureOf(r workload.Result) string {
	if r.Lost {
		return results.DeviceLost.With(strings.TrimPrefix(r.Err, string(results.DeviceLost)+": "))
	}
	if r.Idle {
		return results.NothingDone.With(r.Err)
	}
	if r.Corrupt {
		return results.VerifyFailed.With(r.Err)
	}
	return results.Error.With(r.Err)
}

// clocks are the three that tell what happened to a run's time: the machine's own as people set it, one that nobody sets, and one that goes on while the machine
// is suspended besides.
type clocks struct {
	wall            time.Time // without a monotonic part
	monotonic, boot time.Duration
}

func runClocks() clocks {
	return clocks{time.Now().Round(0), time.Duration(workload.Monotonic()), bootTime()}
}

// judgeClocks compares them with what they were when the run began. A suspended machine looks like a stepped clock, and is not: its drives were off.
func (t *transaction) judgeClocks(remarks *[]string, now clocks) {
	passed := now.boot - t.clocks.boot
	if asleep := passed - (now.monotonic - t.clocks.monotonic); asleep > clockStep {
		t.suspect = append(t.suspect, results.Suspended.With("for "+asleep.Round(time.Second).String()))
	}
	if drift := now.wall.Sub(t.clocks.wall) - passed; drift.Abs() > clockStep {
		*remarks = append(*remarks, results.ClockStepped.With("by "+drift.Round(time.Second).String()))
	}
}

// rows builds the CSV rows of a run: one a measured phase, and one for a failure or a run that never worked.
func (s *Sweep) rows(t *transaction) []results.Row {
	remarks := append([]string(nil), t.remarks...)
	t.judgeClocks(&remarks, runClocks())
	effective, differing := effectiveLevels(t)
	remarks = append(remarks, differing...)
	base := s.baseRow(t, effective)
	degraded, syncing := s.arrays(t.at)
	if degraded != "" {
		s.end(t.at, degraded)
	}
	if syncing != "" {
		t.suspect = append(t.suspect, syncing)
	}
	var out []results.Row
	for _, p := range t.phases {
		row := base
		p.spec.Engine = p.result.Engine // what auto was
		row.AxesEffective = axesInForce(t.run.Cell, effective, &p.spec)
		if degraded != "" {
			s.describe(&row, p.spec)
			row.Phase, row.Status, row.Reason = p.result.Phase, results.Failed, results.JoinReasons(append([]string{degraded}, remarks...)...)
			out = append(out, row)
			continue
		}
		s.fill(&row, t, p)
		suspect, remarks := append(slices.Clone(t.suspect), p.suspect...), slices.Clone(remarks)
		if p.result.OverLimit {
			remarks = append([]string{overTheLimit(t.at.pass, p)}, remarks...)
		} else if reason, wrong := cached(p); wrong {
			suspect = append(suspect, reason)
		} else {
			remarks = append(remarks, reason)
		}
		if reason, wrong := resident(p); wrong {
			suspect = append(suspect, reason)
		} else {
			remarks = append(remarks, reason)
		}
		if !p.result.OverLimit {
			remarks = append(remarks, notExercised(t, effective, p), verified(p), repeated(p.result))
		}
		row.Status, row.Reason = results.OK, results.JoinReasons(append(suspect, remarks...)...)
		if len(suspect) > 0 {
			row.Status = results.Suspect
		}
		out = append(out, row)
	}
	switch {
	case t.failed != nil:
		row := base
		if w := t.failed.spec; w != nil {
			ran := *w
			ran.Engine = workload.AutoEngine(ran)
			s.describe(&row, ran)
			row.AxesEffective = axesInForce(t.run.Cell, effective, &ran)
		}
		if r := t.failed.result; r.Phase != "" { // which phase it was, and no rate of it
			row.Phase = r.Phase
			if r.Errors > 0 {
				row.Errors = results.IntOf(r.Errors)
			}
		}
		suspect := append(slices.Clone(t.suspect), t.failed.suspect...)
		if t.restless && t.failed.spec != nil {
			suspect = append(suspect, string(results.NotAtRest))
		}
		row.Status, row.Reason = results.Failed, results.JoinReasons(slices.Concat([]string{t.failed.reason}, suspect, remarks)...)
		out = append(out, row)
	case t.skipped != "":
		row := base
		row.Status, row.Reason = results.Skipped, results.JoinReasons(append([]string{t.skipped}, remarks...)...)
		out = append(out, row)
	}
	return out
}

// arrays says what became of the target's arrays while the run was on. Before it each was whole and at rest: the gate has seen to that.
func (s *Sweep) arrays(h *hold) (degraded, syncing string) {
	for _, a := range s.host.Arrays(h.stack) {
		if a.Degraded > 0 {
			degraded = results.Degraded.With(fmt.Sprintf("%s has lost %d of its %d members", a.Name, a.Degraded, a.Disks))
		}
		if a.Syncing() {
			syncing = results.ForeignIO.With(fmt.Sprintf("%s began a %s", a.Name, a.Sync))
		}
	}
	return degraded, syncing
}

func (s *Sweep) baseRow(t *transaction, effective map[string]string) results.Row {
	c := t.run.Cell
	level := func(axis string) string { v, _ := c.Get(axis); return v }
	r := results.Row{
		Schema: results.Schema, Sweep: s.id, Run: t.run.ID, Cell: c.String(), Replicate: t.run.Replicate, Attempt: max(t.run.Attempt, 1),
		Started: t.started, Host: s.hostname, Kernel: s.host.KernelRelease(), Target: t.at.stack.Target,
		RAIDLevel: level("raid_level"), Members: memberColumn(t.at.stack.Members),
		QueueDepth: level("queue_depth"), WriteCache: level("write_cache"), MaxSectorsKB: level("max_sectors_kb"),
		QueueDepthEffective: effective["queue_depth"], WriteCacheEffective: effective["write_cache"], MaxSectorsKBEffective: effective["max_sectors_kb"],
		Restored: t.restored,
	}
	if t.drained {
		r.DrainS = results.NumOf(t.drain.Seconds())
	}
	var axes []string
	for _, l := range c {
		if !slices.Contains(ownColumns(), l.Axis) {
			axes = append(axes, l.Axis+"="+l.Value)
		}
	}
	r.Axes, r.AxesEffective = strings.Join(axes, ";"), axesInForce(c, effective, nil)
	return r
}

// axesInForce is the column axes_effective: of knobs what read back, of parameters what this workload does with them (nil: no workload). A
// workload without that parameter does nothing with it, and an engine of one operation at a time has a depth of 1 whatever was asked.
func axesInForce(c Cell, effective map[string]string, w *workload.Spec) string {
	var inForce []string
	for _, l := range c {
		if slices.Contains(ownColumns(), l.Axis) {
			continue
		}
		value := l.Value
		if _, knob := sysfs.LookupKnob(l.Axis); knob {
			value = effective[l.Axis]
		} else if w != nil {
			switch {
			case !w.Has(l.Axis):
				value = ""
			case l.Axis == "iodepth":
				value = strconv.Itoa(w.Depth())
			}
		}
		if value != "" {
			inForce = append(inForce, l.Axis+"="+value)
		}
	}
	return strings.Join(inForce, ";")
}

func memberColumn(members []sysfs.Device) string {
	var out []results.Member
	for _, m := range members {
		out = append(out, results.Member{Name: m.Name, Model: m.Model, Serial: m.Serial})
	}
	return results.FormatMembers(out)
}

// effectiveLevels is each applied knob's lowest value over the members, and a reason for each knob in which they differ.
func effectiveLevels(t *transaction) (levels map[string]string, differing []string) {
	levels = map[string]string{}
	var order []string
	differs := map[string]bool{}
	for _, a := range t.applied {
		if a.Effective == "" {
			continue
		}
		have, ok := levels[a.Knob]
		switch {
		case !ok:
			levels[a.Knob] = a.Effective
			order = append(order, a.Knob)
		case have != a.Effective:
			differs[a.Knob] = true
			if lower(a.Effective, have) {
				levels[a.Knob] = a.Effective
			}
		}
	}
	for _, k := range order {
		if differs[k] {
			differing = append(differing, results.Differs.With("the members differ in "+k+", lowest "+levels[k]))
		}
	}
	return levels, differing
}

// lower orders levels: numbers by value, anything else by text ("off" before "on").
func lower(a, b string) bool {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX == nil && errY == nil {
		return x < y
	}
	return a < b
}

func notExercised(t *transaction, effective map[string]string, p phase) string {
	if _, axis := t.run.Cell.Get("queue_depth"); !axis || !p.seen.enough {
		return ""
	}
	depth, err := strconv.Atoi(effective["queue_depth"])
	if err != nil || float64(p.seen.depthMax) >= exercised*float64(depth) {
		return ""
	}
	return results.DepthNotExercised.With(fmt.Sprintf("at most %d of %d", p.seen.depthMax, depth))
}

// reached is the share of a phase's bytes that its members must have moved, else something in front of them did.
const reached = 0.95

// cached is the reason of a phase whose bytes did not all come from the members, or go to them, in its window. wrong says that they should have:
// direct I/O has no cache in front of the drive, and a buffered read that goes once through begins with an empty one.
func cached(p phase) (reason string, wrong bool) {
	reads, writes := p.spec.PhaseReads(p.result.Phase)
	moved, did := p.seen.read+p.seen.written, "moved"
	switch {
	case !writes:
		moved, did = p.seen.read, "read"
	case !reads:
		moved, did = p.seen.written, "wrote"
	case p.spec.BothWays(p.result.Phase) && p.seen.written < p.seen.read:
		moved, did = p.seen.written, "wrote"
	case p.spec.BothWays(p.result.Phase):
		moved, did = p.seen.read, "read"
	}
	if !p.seen.counted || p.result.Engine == "null" || p.spec.SG() || float64(moved) >= reached*float64(p.result.Bytes) {
		return "", false
	}
	text := fmt.Sprintf("the members %s %s of %s MB", did, megabytes(moved), megabytes(p.result.Bytes))
	return results.Cached.With(text), p.spec.Direct || did == "read" && p.spec.EachOnce() && !p.spec.Inline(p.result.Phase)
}

// resident is the reason of a buffered read that found some of its file in the page cache, from where it could not be dropped. wrong says that it was
// more than a cache may serve; where no disk is under it, as under tmpfs, the file is nowhere else.
func resident(p phase) (reason string, wrong bool) {
	in := p.result.Resident
	if in == 0 {
		return "", false
	}
	text := fmt.Sprintf("%s MB could not be dropped from the page cache before they were read", megabytes(in))
	return results.Cached.With(text), p.seen.counted && float64(in) > (1-reached)*float64(p.result.Bytes)
}

// verified says how much was read back of what a phase wrote.
func verified(p phase) string {
	if _, writes := p.spec.PhaseReads(p.result.Phase); !p.spec.Verify || !writes {
		return ""
	}
	text := megabytes(p.result.Verified) + " MB"
	if in := p.result.VerifiedInMemory; in > 0 {
		text += fmt.Sprintf(", %s MB of it by the page cache, from which it could not be dropped", megabytes(in))
	}
	return results.Verified.With(text)
}

// repeated says that a phase was too short to time, and so was timed several times.
func repeated(r workload.Result) string {
	n := len(r.Passes)
	if n < 2 {
		return ""
	}
	each := time.Duration(r.Seconds() / float64(n) * float64(time.Second))
	digit := time.Duration(1)
	for digit*100 <= each {
		digit *= 10
	}
	return results.Repeated.With(fmt.Sprintf("%d passes of %s: one is too short to time", n, each.Round(digit)))
}

// megabytes has three digits, and no exponent.
func megabytes(bytes int64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(float64(bytes)/1e6, 'e', 2, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// describe fills in what the workload was asked to do.
func (s *Sweep) describe(r *results.Row, w workload.Spec) {
	r.Workload, r.Engine = w.Name, w.Engine
	r.BlockSize, r.Threads, r.IODepth = results.IntOf(w.BlockSize), results.IntOf(w.PhaseThreads()), results.IntOf(w.Depth())
	r.Parameters = w.Parameters()
}

// fill fills in what was measured.
func (s *Sweep) fill(r *results.Row, t *transaction, p phase) {
	m := p.result
	s.describe(r, p.spec)
	r.Phase, r.Engine = m.Phase, m.Engine
	r.BlockSize, r.Threads, r.IODepth = results.IntOf(m.BlockSize), results.IntOf(int64(m.Threads)), results.IntOf(int64(m.IODepth))
	if m.BlockSize == 0 { // a phase of whole files, or of their names
		r.BlockSize = results.Int{}
	}
	if m.OverLimit {
		return // nothing was done, so that nothing was measured
	}
	seconds := m.Seconds()
	r.Bytes, r.Operations, r.Errors = results.IntOf(m.Bytes), results.IntOf(m.Operations), results.IntOf(m.Errors)
	r.Seconds = results.NumOf(seconds)
	if seconds > 0 {
		r.IOPS = results.NumOf(float64(m.Operations) / seconds)
		if m.Bytes > 0 {
			r.MBPerS = results.NumOf(float64(m.Bytes) / seconds / 1e6)
		}
	}
	if m.Bytes > 0 { // also when the slowest did nothing: that is 0, not unknown
		r.MBPerSSlowest = results.NumOf(m.SlowestBytesPerS * float64(m.Threads) / 1e6)
	}
	r.BytesPerThread = perThread(m.PerThreadBytes)
	if l := m.Latency; l.Count > 0 {
		r.LatMeanUS, r.LatP50US, r.LatP95US = results.NumOf(l.MeanUS), results.NumOf(l.P50US), results.NumOf(l.P95US)
		r.LatP99US, r.LatP999US, r.LatMaxUS = results.NumOf(l.P99US), results.NumOf(l.P999US), results.NumOf(l.MaxUS)
	}
	r.FirstDoneS, r.LastDoneS = results.NumOf(m.FirstDoneS), results.NumOf(m.LastDoneS)
	r.CPUUserS, r.CPUSysS = results.NumOf(m.CPUUserS), results.NumOf(m.CPUSysS)
	r.DeviceSamples = results.IntOf(p.seen.samples)
	if p.seen.enough && (p.seen.counted || p.seen.depthMax > 0) { // counters that stand still are no measurement of 0
		r.ObservedDepth, r.ObservedDepthMax = results.NumOf(p.seen.depth), results.NumOf(float64(p.seen.depthMax))
	}
	if p.seen.enough && p.seen.counted && !p.spec.SG() {
		r.QueuedDepth = results.NumOf(p.seen.queued)
	}
	if p.warm {
		r.TemperatureC = results.NumOf(p.celsius)
	}
	if p.spec.SG() { // a command is the record, neither split nor merged, and the kernel's counters do not have it
		r.ObservedRequestKB = results.NumOf(float64(m.BlockSize) / 1024)
	} else if p.seen.anyRequest { // from counters, not from samples: as good in a short phase
		r.ObservedRequestKB = results.NumOf(p.seen.requestKB)
	}
}

// perThread is the column bytes_per_thread.
func perThread(bytes []int64) string {
	var text []string
	for _, n := range bytes {
		text = append(text, strconv.FormatInt(n, 10))
	}
	return strings.Join(text, ";")
}
