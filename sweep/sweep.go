// Package sweep is the domain: a profile becomes a plan, a plan becomes runs, each run becomes rows. It decides what happens when;
// settings are made by the keeper, I/O is issued by the worker. It must not know ioctls, paths below /sys, or how a report looks.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/results"
	"qdsweep/sysfs"
	"qdsweep/workload"
)

// Options are what the command line says about one sweep. Consent (Erase, Allow) never comes from a profile.
type Options struct {
	Out      string // the output folder
	StateDir string
	Erase    []string
	Allow    map[string]bool // raise, shared-disk, volatile-state, hooks; of Resume also changed-kernel
	Wait     time.Duration   // how long to wait for a busy device instead of refusing

	MaxFailures int // so many failed runs in a row end a target's part of the sweep; 0: DefaultMaxFailures

	Version string      // of this program, for environment.json
	Observe func(Event) // progress; nil for none

	CSV string // a lab's history, to which the rows are copied at the end; "" for none

	RetryFailed bool // of Resume: runs whose last rows are failed or suspect are done once more

	Notify *Notifier // the service manager; nil for none

	// StartKeeper starts the settings process; nil for the real one. Tests serve it in their own process.
	StartKeeper func(ctx context.Context) (*keeper.Client, error)
	// Results are for the CSV; tests fail its operations through them.
	Results []results.Option

	outputs  time.Duration // how long the disk of the output folder may take; 0 the real one. Tests have less
	maker    maker         // of arrays; nil for mdadm. Tests have one that needs no kernel
	answers  time.Duration // how long the keeper may take to answer; 0 the real one. Tests have less
	patience time.Duration // with the keeper's restoring; 0 the real one. Tests have less
	restless time.Duration // how long, beyond 10 × settle, rest is waited for; 0 the real one. Tests have less
}

// Sweep is one execution of a profile, in one output folder.
type Sweep struct {
	profile *Profile
	plan    *Plan
	host    sysfs.Host
	opt     Options
	notes   []string // of the safety gate: for the user's eye

	id, hostname string
	out          folder
	file         *results.File
	log          zerolog.Logger
	logFile      *lateWriter
	status       *statusFile

	keeper *keeper.Client
	worker *workload.Worker
	pace   *pace
	began  func(phase string) // what is done when the worker says that a phase has begun
	holds  []*hold
	parts  []*part // what arrays are built from

	stepped atomic.Int64 // when the loop last came to another step, ns
	hooked  bool         // before_sweep has had its turn
	closing bool         // what is taken down now is taken down for good
	early   bool         // a run that was due was not done

	kernelLog *sysfs.KernelLog // nil where it cannot be read

	before     *begun // of a sweep that is gone on with
	ledger     *ledger
	audit      results.Audit
	repeats    int               // runs that have rows and are to be repeated yet
	unrestored []keeper.Restored // members that could not be put back
	orphaned   error             // why there is no keeper any more, though everything was put back
	rescued    string            // where rows went that the output folder had no room for
	silent     bool              // the disk of the output folder does not answer
}

// Outcome is what became of a sweep that was begun.
type Outcome struct {
	Sweep, Dir  string
	StateDir    string
	Audit       results.Audit
	Settings    []string          // how each member was left, a sentence each
	Unrestored  []keeper.Restored // what could not be put back, with the commands that do it by hand
	Stopped     string            // why it ended before its last run, "" when it did not
	Signal      os.Signal         // the signal that ended it, nil for none
	SkipAllowed bool              // the profile says unsupported: skip, so skipped runs are as they should be
	Silent      bool              // the disk of the output folder does not answer: what is in it cannot be read now
	Err         error             // a fault of our own, or of the output folder
	Sufficient  bool              // the deadline ended it, after as many whole replicates as are needed: what remains is no fault

	again        string // flags that resume is to be given again
	restoreFirst bool   // a target was done without, for it has settings of an earlier start
	elsewhere    bool   // rows of it are not in the output folder, which had no room for them
}

// Execute runs a profile's sweep. A sweep that was refused, or could not be set up, is an error (*UsageError, *NotHere, *RefusedError, keeper.BusyError …)
// and has touched nothing; everything later is in the Outcome.
func Execute(ctx context.Context, p *Profile, h sysfs.Host, opt Options) (Outcome, error) {
	s := &Sweep{profile: p, host: h, opt: opt}
	return s.carryOut(ctx, s.open(ctx))
}

// carryOut does the runs of a sweep that has been opened, or says why it was not.
func (s *Sweep) carryOut(ctx context.Context, opened error) (Outcome, error) {
	if err := opened; err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w (%w)", cause, err) // what gave up on its way down said "context canceled"
		}
		s.sayBefore()
		if errors.Is(err, keeper.ErrKeeperDied) {
			err = fmt.Errorf("%w before the first run: something killed it, and no drive was set; what was made for the sweep, if anything, goes with: sudo qdsweep restore; then type it again", err)
		}
		err = errors.Join(err, s.close())
		s.afterSweep(ctx, Outcome{Stopped: err.Error()}, ExitCode(err))
		s.leave(err.Error(), ExitCode(err), "")
		return Outcome{}, err
	}
	defer s.announce(ctx)()
	return s.conclude(ctx, s.runs(ctx)), nil
}

// conclude gives up everything that was taken, and says what became of the sweep; err is what ended its runs.
func (s *Sweep) conclude(ctx context.Context, err error) Outcome {
	out := s.outcome(ctx, err)
	out.Err = errors.Join(out.Err, s.copyRows())
	if err := s.close(); err != nil {
		out.Err = errors.Join(out.Err, err)
	}
	out.Unrestored = s.unrestored // what stood has been taken down only now
	s.finished(&out)
	s.afterSweep(ctx, out, out.ExitCode())
	stopped := out.Stopped
	if stopped == "" && out.Err != nil {
		stopped = out.Err.Error()
	}
	s.leave(stopped, out.ExitCode(), out.Next())
	return out
}

// maxKeeperDeaths is how often one run is begun again after its keeper died; then the sweep ends, for something kills keepers.
const maxKeeperDeaths = 3

// runs does the plan's runs in order until one ends the sweep, or none of its targets is left. A signal ends it through ctx.
func (s *Sweep) runs(ctx context.Context) error {
	s.sayDue(ctx)
	for r := range s.plan.Runs() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		attempts, due := s.due(r)
		if !due {
			s.passed(r)
			continue // its rows are in the file
		}
		if s.holdOf(r).ended != "" {
			s.early = true
			if s.over() {
				break
			}
			continue // remaining
		}
		if over, why := s.enough(r); why != nil {
			return why
		} else if over {
			break
		}
		deaths := 0
		for {
			r.Attempt = attempts + deaths + 1
			err := s.do(ctx, r)
			var end *errEnd
			switch {
			case errors.As(err, &end) && !end.all:
				s.end(s.holdOf(r), end.reason)
				s.early = true
				err = s.orphaned
			case errors.Is(err, keeper.ErrKeeperDied) && s.holdOf(r).ended != "":
				err = s.orphaned
			}
			if err == nil {
				break
			}
			if !errors.Is(err, keeper.ErrKeeperDied) || s.orphaned != nil {
				return err
			}
			if deaths++; deaths > maxKeeperDeaths {
				return fmt.Errorf("run %s: %w %d times in a row", r.ID, keeper.ErrKeeperDied, deaths)
			}
			s.note("the keeper died; a new one put every setting back, and the run %s begins again", r.ID)
		}
	}
	s.lastWord()
	if over := s.endings(); over != "" {
		return &errEnd{reason: over}
	}
	return nil
}

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "signal: " + e.Signal.String() }

func (s *Sweep) outcome(ctx context.Context, err error) Outcome {
	out := Outcome{Sweep: s.id, Dir: s.out.dir, StateDir: s.opt.StateDir, Audit: s.tally(), Unrestored: s.unrestored, SkipAllowed: s.plan.Profile.Unsupported == "skip", Sufficient: s.sufficient(), Silent: s.silent}
	out.again, out.elsewhere, out.restoreFirst = s.flagsAgain(), s.rescued != "", s.before != nil && s.before.unrestored
	var sig *SignalError
	var end *errEnd
	switch {
	case errors.As(context.Cause(ctx), &sig):
		out.Signal, out.Stopped = sig.Signal, sig.Error()
	case errors.As(err, &end):
		if s.early || end.all { // what ends a target in its last run ends nothing early: the run's row says it
			out.Stopped = end.reason
		}
	case err != nil:
		out.Stopped, out.Err = err.Error(), err
	}
	return out
}

// seedOf makes the offsets of one workload in one run: reproducible by the sweep's seed, and different from run to run, so that no
// drive's cache knows them; another attempt has others, too.
func (s *Sweep) seedOf(r Run, w workload.Spec) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d\x00%s\x00%s", s.plan.Profile.Seed, r.ID, w.Name)
	if r.Attempt > 1 {
		fmt.Fprintf(h, "\x00%d", r.Attempt)
	}
	return h.Sum64()
}

// timeout is what one run may take. The plan has settled it.
func (s *Sweep) timeout() time.Duration { return s.plan.Profile.Timeout }

// tally is what became of the planned runs so far.
func (s *Sweep) tally() results.Audit {
	a := s.audit
	a.Remaining = a.Planned - a.Done()
	return a
}

// count takes down what became of a run. One that had rows before is counted by the new ones.
func (s *Sweep) count(r Run, rows []results.Row) error {
	status := results.RunStatus(rows)
	was, err := s.ledger.note(r, status, rows[0].Attempt)
	if err == nil {
		s.audit.Again(was, status)
		if was != "" && s.repeats > 0 {
			s.repeats--
		}
	}
	return err
}
