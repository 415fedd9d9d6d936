package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
)

// ChangedKernel is the consent to go on under another kernel than those the sweep's rows are of.
const ChangedKernel = "changed-kernel"

// Resume goes on with the sweep in an output folder where its rows end: the same profile on the same drives. A run whose rows are whole is not repeated,
// a torn one is. Errors are as Execute's; rows that a crash tore, or a full disk sent to the state folder, have been dealt with by then.
func Resume(ctx context.Context, dir string, h sysfs.Host, opt Options) (Outcome, error) {
	opt.Out = dir
	s := &Sweep{host: h, opt: opt}
	err := s.checkHistory()
	if err == nil {
		err = s.absoluteState()
	}
	if err == nil {
		err = s.reopen()
	}
	left := true
	if err == nil {
		left, err = s.runsLeft()
	}
	if err == nil && !left {
		if err = s.allIsBack(); err == nil {
			return s.complete()
		}
	}
	if err == nil {
		err = s.open(ctx)
	}
	return s.carryOut(ctx, err)
}

// reopen reads what the folder says of the sweep, and takes its rows: from then on no other process can go on with it.
func (s *Sweep) reopen() error {
	var err error
	if s.before, err = readBegun(s.opt.Out); err != nil {
		return err
	}
	s.profile, s.id = s.before.profile, s.before.starts[0].Sweep
	s.out = s.before.folder
	if err := s.before.sameState(s.opt.StateDir); err != nil {
		return err
	}
	w, err := s.out.appendTo("log.jsonl")
	if err != nil {
		return notWritable(s.out.dir, err)
	}
	s.logFile = newLateWriter(w)
	s.log = zerolog.New(s.logFile).With().Timestamp().Logger()
	s.ledger = newLedger(s.profile)
	if err := s.openResults(results.WithRuns(s.recall)); err != nil {
		return s.notResults(err)
	}
	if torn := s.file.Torn(); torn != nil {
		s.tell("%s: %v: set aside in %s, and the run is repeated", results.FileName, torn, results.FileName+results.TornSuffix)
	}
	if err := s.mergeRescued(); err != nil {
		return err
	}
	s.consentAgain()
	return nil
}

// notResults is a results.csv that cannot be gone on with.
func (s *Sweep) notResults(err error) error {
	var busy *results.BusyError
	var foreign *results.ForeignError
	var damage *results.DamageError
	switch {
	case errors.As(err, &busy):
		by, fix := "another qdsweep", "wait for it to end"
		if pid := s.before.pid(); pid > 0 {
			by, fix = fmt.Sprintf("another qdsweep (pid %d)", pid), fmt.Sprintf("wait for it to end, or end it: kill %d     (it puts its settings back)", pid)
		}
		return &RefusedError{[]sysfs.Refusal{{Reason: fmt.Sprintf("%s: %s is at work in this folder", s.out.dir, by), Fix: fix}}}
	case errors.As(err, &foreign):
		return &UsageError{fmt.Sprintf("%s is not what this version would have written, and was left alone: %v", foreign.File, foreign.Err)}
	case errors.As(err, &damage):
		return &UsageError{err.Error()}
	}
	return notWritable(s.out.dir, err)
}

// notWritable is an output folder that takes nothing, of which somebody can do something: a full disk, a missing right.
func notWritable(dir string, err error) error {
	return &RefusedError{[]sysfs.Refusal{{Reason: fmt.Sprintf("go on in %s: %v", dir, err), Fix: "make room, or give the right to write there, and type it again"}}}
}

// recall takes down one run that the file holds.
func (s *Sweep) recall(rows []results.Row) error {
	r, err := runNamed(rows[0].Run)
	if err != nil {
		return err
	}
	return s.count(r, rows)
}

// runsLeft says that a run has no rows yet, or is to be repeated: else no drive need be there. A sweep whose precision is reached has none left.
func (s *Sweep) runsLeft() (bool, error) {
	s.audit.Planned = s.before.starts[0].Planned
	done := s.audit.Done()
	switch {
	case s.audit.Planned == 0, s.opt.RetryFailed && s.audit.Failed+s.audit.Suspect > 0:
		return true, nil
	case done == s.audit.Planned:
		return false, nil
	case !s.profile.Adaptive():
		return true, nil
	}
	cells := s.audit.Planned / s.profile.Repeats
	reached, err := s.reachedBefore(cells)
	if reached {
		s.audit.Planned = done
	}
	return !reached, err
}

// allIsBack refuses to call a sweep complete whose settings, arrays or folders are still in the journal. Whoever would go on with one is told by the keeper.
func (s *Sweep) allIsBack() error {
	own := map[sysfs.Identity]bool{}
	for _, d := range s.before.consent.Members {
		own[d.Identity] = d.Identity != ""
	}
	var refusals []sysfs.Refusal
	for _, e := range journalled(s.opt.StateDir) {
		if e.Sweep == s.id || own[e.Identity] {
			name := e.Name
			if e.Folder != nil {
				name = e.Folder.Path
			} else if e.Array != nil {
				name = e.Array.String()
			}
			refusals = append(refusals, sysfs.Refusal{Reason: name + " is not as it was before the sweep: the journal has an entry of it",
				Fix: "sudo qdsweep restore" + stateFlag(s.opt.StateDir) + "     (no run is left to do)"})
		}
	}
	if len(refusals) > 0 {
		return &RefusedError{refusals}
	}
	return nil
}

// complete is the outcome of a sweep that has nothing left to do.
func (s *Sweep) complete() (Outcome, error) {
	s.hostname, _ = os.Hostname()
	s.status = startStatus(s) // a crash after the last run left one that says it is at work
	for _, n := range s.before.notes {
		s.note("%s", n)
	}
	s.note("nothing is left to do: each of the %d planned runs has its rows", s.audit.Planned)
	out := Outcome{Sweep: s.id, Dir: s.out.dir, StateDir: s.opt.StateDir, Audit: s.tally(), SkipAllowed: s.profile.Unsupported == Skip, again: s.flagsAgain()}
	out.Err = errors.Join(s.copyRows(), s.close())
	s.leave("", out.ExitCode(), out.Next())
	s.opt.Notify.tell("READY=1", "STATUS="+s.status.sentence()) // a start that is over at once has not failed
	return out, nil
}

// due says whether a run is still to be done, and how many attempts of it have rows.
func (s *Sweep) due(r Run) (attempts int, yes bool) {
	status, attempts := s.ledger.look(r)
	switch status {
	case "":
		return 0, true
	case results.Failed, results.Suspect:
		return attempts, s.before != nil && s.opt.RetryFailed
	}
	return attempts, false
}

// tell logs at once what is shown when the sweep goes on: a resume that is refused later has set a torn end aside all the same.
func (s *Sweep) tell(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	s.before.notes = append(s.before.notes, text)
	s.log.Info().Str("event", string(Note)).Str("text", text).Send()
}

// sayBefore shows, of a start that was refused, what was to be shown when it went on: some of it has been done all the same.
func (s *Sweep) sayBefore() {
	if s.before == nil || s.status != nil || s.opt.Observe == nil {
		return
	}
	for _, n := range s.before.notes {
		s.opt.Observe(Event{Kind: Note, Text: n, Audit: s.tally(), Left: -1})
	}
}

// consentAgain takes up what the command line allowed when the sweep was begun. Drives are named by what they are now: the name that was typed may mean another.
func (s *Sweep) consentAgain() {
	s.before.typed = slices.Clone(s.opt.Erase)
	if why := s.before.untrusted; why != "" {
		s.tell("the consents of the sweep do not hold: %s", why)
		return
	}
	c := s.before.consent
	var erase []string
	for _, d := range c.Named {
		erase = append(erase, d.argument())
	}
	if len(c.Named) == 0 && s.before.starts[0].Targets == nil {
		erase = c.Erase // an older version kept nothing else
	}
	s.opt.Erase = append(slices.Clone(erase), s.opt.Erase...)
	allow := map[string]bool{}
	for _, thing := range c.Allow {
		allow[thing] = !forOnce(thing)
	}
	for thing, yes := range s.opt.Allow {
		allow[thing] = allow[thing] || yes
	}
	s.opt.Allow = allow
}

// forOnce says that a consent holds for the command it was given to alone: hooks are text in a folder that may be a user's, and each kernel is another one.
func forOnce(thing string) bool { return thing == "hooks" || thing == ChangedKernel }

// sameMachine refuses what would make rows of another sweep: another kernel, other drives.
func (s *Sweep) sameMachine() error {
	if err := s.sameKernel(); err != nil {
		return err
	}
	host, _ := os.Hostname()
	if was := s.before.starts[0].Host; was != "" && was != host {
		s.tell("this host is %s, and the sweep was begun on %s: each row says which", host, was)
	}
	return s.sameDrives()
}

// sameKernel refuses to go on under another kernel: two of them would be in one cell.
func (s *Sweep) sameKernel() error {
	now := s.host.KernelRelease()
	var was []string
	for _, b := range s.before.starts {
		if k := b.kernel(); k != "" && !slices.Contains(was, k) {
			was = append(was, k)
		}
	}
	if len(was) == 0 || slices.Contains(was, now) {
		return nil
	}
	if s.opt.Allow[ChangedKernel] {
		s.tell("the kernel is %s now, and was %s: each row says which", now, strings.Join(was, ", "))
		return nil
	}
	return &RefusedError{[]sysfs.Refusal{{Reason: fmt.Sprintf("this is Linux %s, and the sweep was begun under %s: figures of two kernels would be in one cell", now, strings.Join(was, ", ")),
		Fix: fmt.Sprintf("boot %s again, or add --allow %s: each row says which kernel it is of", was[len(was)-1], ChangedKernel)}}}
}

// foreignContents refuses a device that carries what this sweep cannot have left there: since it stopped somebody has made something on it.
func (s *Sweep) foreignContents(ctx context.Context) error {
	var refusals []sysfs.Refusal
	for _, d := range s.plan.overwritten() {
		device := begunDevices([]sysfs.Device{d})[0]
		was, known := s.before.consent.contents(device)
		if !known {
			continue // the gate asks for a consent
		}
		now, err := s.host.Contents(ctx, d)
		if err != nil {
			return fmt.Errorf("look at what is on %s now: %w", d.Path, err)
		}
		fresh := freshContents(was, now)
		switch {
		case len(fresh) == 0:
		case s.host.Consent(d, s.before.typed) == sysfs.ByIdentity:
			s.before.consent.Contents[device.argument()] = now
		default:
			refusals = append(refusals, sysfs.Refusal{Device: d.Name, Reason: fmt.Sprintf("%s carries %s, which was not there when the sweep began, and which it cannot have left: somebody has used it since",
				d.Name, strings.Join(fresh, " and ")), Fix: "add --erase " + s.host.EraseArgument(d) + "     (all that is on it is lost)"})
		}
	}
	if len(refusals) > 0 {
		return &RefusedError{refusals}
	}
	return nil
}

// freshContents are the signatures that a device has now and had not at first. One of a kind that was there is told by its UUID: somebody who made a file system
// in place of the one that the sweep overwrote has data on it.
func freshContents(was, now sysfs.Contents) (fresh []string) {
	for _, signature := range now.Signatures {
		if !slices.Contains(was.Signatures, signature) {
			fresh = append(fresh, "a signature of "+signature)
		}
	}
	if now.PartitionTable != "" && now.PartitionTable != was.PartitionTable {
		fresh = append(fresh, "a partition table ("+now.PartitionTable+")")
	}
	if len(fresh) > 0 || len(was.IDs) == 0 {
		return fresh
	}
	for _, id := range now.IDs {
		if kind, uuid, _ := strings.Cut(id, " "); !slices.Contains(was.IDs, id) {
			fresh = append(fresh, fmt.Sprintf("another %s (%s)", kind, uuid))
		}
	}
	return fresh
}

// goOn writes down this start beside those before it, and says what was found.
func (s *Sweep) goOn(ctx context.Context) error {
	if err := s.recordEnvironment(); err != nil {
		return err
	}
	if err := s.recordConsent(ctx); err != nil {
		return err
	}
	s.underWay(append(slices.Clone(s.before.notes), s.notes...))
	return nil
}
