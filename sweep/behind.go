package sweep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
)

// lookLimit bounds one look at what a member says of itself. It comes after the work, and a member that does not answer must not hold up the restore.
const lookLimit = 2 * time.Second

// share is one member of which the target has partitions only: the counters of the disk, and of these.
type share struct {
	name string
	disk probe
	own  []probe
}

// openShares opens the counters by which I/O of others on a member shows. A member that the target has as a whole has none: there nobody else can be told
// from the target itself, which at rest before the run has to do.
func openShares(stack sysfs.Stack) (shares []share, err error) {
	for _, m := range stack.Members {
		partitions := stack.OwnPartitions(m)
		if len(partitions) == 0 || !isCounted(m) {
			continue
		}
		sh := share{name: m.Name}
		if sh.disk, err = sysfs.OpenProbe(m); err == nil {
			for _, p := range partitions {
				var own *sysfs.Probe
				if own, err = sysfs.OpenProbe(p); err != nil {
					break
				}
				sh.own = append(sh.own, own)
			}
			shares = append(shares, sh)
		}
		if err != nil {
			closeShares(shares)
			return nil, err
		}
	}
	return shares, nil
}

func closeShares(shares []share) {
	for _, sh := range shares {
		closeProbes(append([]probe{sh.disk}, sh.own...))
	}
}

// tally is what a disk and the target's own partitions of it have completed, in requests.
type tally struct{ disk, own uint64 }

// look reads both. The partitions come last before the work and first after it, so that what completes between two reads counts as the target's own.
func (sh share) look(before bool) (t tally, ok bool) {
	disk := func() bool {
		st, err := sh.disk.Stat()
		t.disk = requests(st)
		return err == nil
	}
	own := func() bool {
		for _, p := range sh.own {
			st, err := p.Stat()
			if err != nil {
				return false
			}
			t.own += requests(st)
		}
		return true
	}
	if before {
		return t, own() && disk()
	}
	return t, disk() && own()
}

func requests(st sysfs.DiskStat) uint64 { return st.ReadIOs + st.WriteIOs + st.DiscardIOs }

const (
	// foreignRequests and foreignShare are what others may do before a row is suspect: a monitoring daemon that reads a sector a minute changes no figure.
	foreignRequests = 10
	foreignShare    = 0.01
)

// foreign says which members did I/O for somebody else between two looks: what the disk completed beyond the target's own partitions of it.
func foreign(shares []share, before, after []tally) (reasons []string) {
	for i, sh := range shares {
		if i >= len(before) || i >= len(after) {
			break
		}
		own := int64(after[i].own - before[i].own)
		others := int64(after[i].disk-before[i].disk) - own
		if others > foreignRequests && float64(others) > foreignShare*float64(own) {
			reasons = append(reasons, results.ForeignIO.With(fmt.Sprintf("%s completed %d requests outside the target's own partitions, and %d on them", sh.name, others, own)))
		}
	}
	return reasons
}

func tallies(shares []share, before bool) []tally {
	var all []tally
	for _, sh := range shares {
		t, ok := sh.look(before)
		if !ok {
			return nil // a disk that went away: the workload says so
		}
		all = append(all, t)
	}
	return all
}

// lookBefore notes how the kernel stands to each member once the settings are made: changing a write cache makes it look at the drive again.
func (s *Sweep) lookBefore(ctx context.Context, t *transaction) {
	if !t.measuring() {
		return
	}
	if s.kernelLog != nil {
		s.kernelLog.Messages() // what came before is another run's, or nobody's
	}
	t.health = s.health(ctx, t.at)
}

// lookInForce notes every setting before the first workload begins. By then the kernel has done looking at drives whose write cache was set, which on
// old kernels changes limits.
func (s *Sweep) lookInForce(ctx context.Context, t *transaction) {
	if t.inForce != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	for _, d := range t.at.stack.Settable() {
		t.inForce = append(t.inForce, d.Attributes(ctx))
	}
}

// movedBeside says which settings moved that the run did not make: those the keeper reads back. One that is gone went with another that moved, and
// the kernel's view of a write cache follows the drive's.
func (s *Sweep) movedBeside(ctx context.Context, t *transaction) (reasons []string) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	sets := func(knob string) bool {
		return slices.ContainsFunc(t.set, func(set sysfs.Setting) bool { return set.Knob == knob })
	}
	for i, d := range t.at.stack.Settable() {
		if i >= len(t.inForce) {
			break // no workload began
		}
		moved, _ := d.Differences(ctx, t.inForce[i]) // what cannot be read is not known to have moved
		scheduler := false
		for _, m := range moved {
			made := sets(m.Knob) || m.Knob == "queue/write_cache" && sets("write_cache")
			scheduler = scheduler || m.Knob == "scheduler"
			if made || m.To == "" || scheduler && strings.HasPrefix(m.Knob, "queue/iosched/") {
				continue
			}
			reasons = append(reasons, results.Moved.With(m.String()))
		}
	}
	return reasons
}

func (s *Sweep) health(ctx context.Context, h *hold) []sysfs.Health {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	var all []sysfs.Health
	for _, m := range h.stack.Members {
		all = append(all, m.Health(ctx))
	}
	return all
}

// lookBehind says what the kernel did behind our back while the run was on.
func (s *Sweep) lookBehind(ctx context.Context, t *transaction) {
	if t.end != nil || t.health == nil {
		return
	}
	t.suspect = append(t.suspect, s.movedBeside(ctx, t)...)
	s.lookForSigns(ctx, t) // of the drain: what a buffered workload wrote
	for _, e := range t.ending {
		s.endMember(e.device, e.reason)
	}
}

// lookForSigns says of the workload that has just ended what the kernel did to its members. Those before it are none the worse for it; what lasts is a
// reason of those after it, too.
func (s *Sweep) lookForSigns(ctx context.Context, t *transaction) {
	if t.health == nil || ctx.Err() != nil { // which would read as drives that do not answer
		return
	}
	after := s.health(ctx, t.at)
	var log []string
	lost := false
	if s.kernelLog != nil {
		log, lost = s.kernelLog.Messages()
	}
	if lost && !slices.Contains(t.remarks, string(results.KernelLogLost)) {
		t.remarks = append(t.remarks, string(results.KernelLogLost))
	}
	for i, m := range t.at.stack.Members {
		for _, sign := range s.host.Signs(m, t.health[i], after[i], log) {
			t.judgeSign(sign)
		}
	}
	t.health = after
}

// judgeSign makes a reason of a sign. A drive that the kernel has taken NCQ from stays so until a depth is written to it, and only the restore does that.
func (t *transaction) judgeSign(sign sysfs.Sign) {
	text := sign.Device + ": " + sign.Text
	switch sign.Kind {
	case sysfs.Gone: // the gate of the next run refuses the target where the drive has not come back
		if t.failed == nil || results.CodeOf(t.failed.reason) != results.DeviceLost {
			t.blame(results.DeviceLost.With(text), true)
		}
	case sysfs.NCQOff:
		t.blame(results.NCQSwitchedOff.With(text), true)
		t.ending = append(t.ending, ending{sign.Device, "the kernel has switched NCQ off because of errors, " + text})
	case sysfs.ErrorHandling:
		t.blame(results.ErrorHandling.With(text), false)
	case sysfs.SlowedDown:
		t.blame(results.Throttled.With(text), true)
	case sysfs.QueueFull:
		t.blame(results.QueueFull.With(text), false)
	}
}

// blame makes a reason one of the last workload's, and, where it lasts, of those after it.
func (t *transaction) blame(reason string, lasts bool) {
	for i := t.latest; i < len(t.phases); i++ {
		t.phases[i].suspect = append(t.phases[i].suspect, reason)
	}
	if t.failed != nil {
		t.failed.suspect = append(t.failed.suspect, reason)
	}
	if lasts {
		t.lasting = append(t.lasting, reason)
	}
}

// temperature is that of the hottest member, °C; ok is false where none says.
func (s *Sweep) temperature(ctx context.Context, h *hold) (celsius float64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	for _, m := range h.stack.Members {
		if c, has := m.Temperature(ctx); has && (!ok || c > celsius) {
			celsius, ok = c, true
		}
	}
	return celsius, ok
}

// watchKernel opens the kernel's log. Without it (in a container, of a captured machine) the other signs remain.
func (s *Sweep) watchKernel() {
	log, err := s.host.WatchKernel()
	if err != nil {
		if s.host.Live() {
			s.notes = append(s.notes, fmt.Sprintf("the kernel's log cannot be read, so what it says of the drives is not seen: %v", err))
		}
		return
	}
	s.kernelLog = log
}
