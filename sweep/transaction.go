package sweep

import (
	"time"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
	"qdsweep/workload"
)

// transaction is one run from its gate to its rows. Its steps are sticky: once it has ended, the steps that would touch or measure
// something do nothing, and what must happen all the same (restore) happens.
type transaction struct {
	run     Run
	at      *hold // on what the run drives
	specs   []workload.Spec
	set     []sysfs.Setting
	started time.Time
	clocks  clocks // at started: they tell a step of the wall clock, and a suspended machine, from time that passed
	until   time.Time

	touched  bool             // something may have been changed: it has to be put back
	restless bool             // the members were not at rest when the last workload began
	health   []sysfs.Health   // of each member, once the settings were made
	inForce  []sysfs.Snapshot // of each device that can be set, as the first workload began
	applied  []keeper.Applied
	phases   []phase
	failed   *failure // what makes the run's row failed
	skipped  string
	latest   int      // the first phase of the last workload
	lasting  []string // reasons of that workload and of those after it
	ending   []ending // members that get no further run
	suspect  []string // reasons that make every row suspect
	remarks  []string // reasons that leave the rows ok
	drain    time.Duration
	drained  bool
	restored bool
	hooked   bool   // before_run was begun
	became   string // its status, once its rows are in the file
	why      string // the reason of it

	end error // the run is given up: it gets no row and is remaining
}

// phase is a result of the workload with what the members were seen doing in its window.
type phase struct {
	spec    workload.Spec
	result  workload.Result
	seen    summary
	suspect []string // reasons of this workload alone: who else was at the members before it, or while it was
	celsius float64  // of the hottest member, after the work
	warm    bool     // a member says its temperature
}

// ending is a member that gets no further run, and why.
type ending struct{ device, reason string }

// failure is why a run failed: the workload it happened in, nil before any, the reason for the row, and the phase's result where it got that far.
type failure struct {
	spec    *workload.Spec
	reason  string
	result  workload.Result
	suspect []string // further reasons: what the kernel did to the members meanwhile
}

// errEnd gives up the target, or all of them, after the current run; runs not reached are remaining.
type errEnd struct {
	reason string
	all    bool
}

func (e *errEnd) Error() string { return e.reason }

// measuring says that the run is still to be worked on.
func (t *transaction) measuring() bool { return t.end == nil && t.failed == nil && t.skipped == "" }

func (t *transaction) fail(spec *workload.Spec, reason string) {
	if t.failed == nil {
		t.failed = &failure{spec: spec, reason: reason}
	}
}

// failPhase is fail with what the worker says of the phase.
func (t *transaction) failPhase(spec *workload.Spec, r workload.Result) {
	if t.failed == nil {
		t.failed = &failure{spec: spec, reason: failureOf(r), result: r}
	}
}
