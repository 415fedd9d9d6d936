package sweep

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
)

// Exit codes (design section 6).
const (
	ExitOK          = 0
	ExitInternal    = 1
	ExitUsage       = 2 // wrong on any machine; nothing was touched
	ExitNotHere     = 3 // right, but not here; nothing was touched
	ExitIncomplete  = 4 // finished, but some runs are failed, suspect, skipped or remaining
	ExitNotRestored = 5 // a setting could not be restored
)

// UsageError is wrong on any machine: arguments, flags, an output folder that is not empty.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// RefusedError is a sweep that is right, but not allowed on these devices now. Every reason is in it, each with what to type.
type RefusedError struct{ Refusals []sysfs.Refusal }

func (e *RefusedError) Error() string {
	var b strings.Builder
	for i, r := range e.Refusals {
		if i > 0 {
			b.WriteString("\n")
		}
		if r.Device != "" && !strings.HasPrefix(r.Reason, r.Device+" ") {
			b.WriteString(r.Device + ": ")
		}
		b.WriteString(r.Reason)
		if r.Fix != "" {
			b.WriteString("\n  " + r.Fix)
		}
	}
	return b.String()
}

// ExitCode is the code of a command that was refused, or failed, with err.
func ExitCode(err error) int {
	var usage *UsageError
	var profile *ProfileErrors
	var notHere *NotHere
	var refused *RefusedError
	var busy *keeper.BusyError
	var unrestored *keeper.UnrestoredError
	var changed *keeper.ChangedError
	var state *keeper.StateError
	var sig *SignalError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &sig):
		return signalCode(sig.Signal)
	case errors.As(err, &usage), errors.As(err, &profile):
		return ExitUsage
	case errors.As(err, &notHere), errors.As(err, &refused), errors.As(err, &busy), errors.As(err, &unrestored), errors.As(err, &changed), errors.As(err, &state),
		errors.Is(err, sysfs.ErrNoDevice), errors.Is(err, sysfs.ErrUnsupported), errors.Is(err, os.ErrPermission):
		return ExitNotHere
	}
	return ExitInternal
}

// ExitCode is the code of a sweep that was begun. Precedence: 5, 1, signal, 4, 0.
func (o Outcome) ExitCode() int {
	a := o.Audit
	switch {
	case len(o.Unrestored) > 0:
		return ExitNotRestored
	case o.Err != nil:
		return ExitInternal
	case o.Signal != nil:
		return signalCode(o.Signal)
	case a.Failed+a.Suspect > 0 || a.Remaining > 0 && !o.Sufficient || a.Skipped > 0 && !o.SkipAllowed || o.elsewhere:
		return ExitIncomplete
	}
	return ExitOK
}

// signalCode is 128 + the signal: 129 hung up, 130 interrupted, 143 terminated.
func signalCode(sig os.Signal) int {
	if s, ok := sig.(unix.Signal); ok {
		return 128 + int(s)
	}
	return ExitInternal
}
