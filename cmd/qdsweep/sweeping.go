package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sweep/report"
)

// sweepFlags are what the commands that sweep share: run and resume.
type sweepFlags struct {
	output
	wait        time.Duration
	maxFailures int
	csv         string
	csvGiven    func() bool
	*globals

	observer *progress
}

func (o *sweepFlags) addFlags(c *cobra.Command) {
	o.output.addFlags(c)
	c.Flags().DurationVar(&o.wait, "wait", 0, "wait so long for a busy device instead of exit 3")
	c.Flags().StringVar(&o.csv, "csv", "", "at the end, add the rows to this `FILE` as well: a history of many sweeps")
	o.csvGiven = func() bool { return c.Flags().Changed("csv") }
	c.Flags().IntVar(&o.maxFailures, "max-failures", sweep.DefaultMaxFailures, "so many failed runs in a row, and the target's other runs are left remaining")
}

func (o *sweepFlags) check() error {
	if o.wait < 0 {
		return &sweep.UsageError{Text: fmt.Sprintf("--wait %s: 0s at least", o.wait)}
	}
	if o.csv == "" && o.csvGiven() {
		return &sweep.UsageError{Text: "--csv is empty (a shell variable that is not set?); name a file, or leave the flag out"}
	}
	if o.maxFailures < 1 {
		return &sweep.UsageError{Text: fmt.Sprintf("--max-failures %d: 1 at least; a number larger than the runs never ends a sweep", o.maxFailures)}
	}
	return o.output.check()
}

// options are the sweep's, as far as every command that sweeps has them.
func (o *sweepFlags) options(out string, erase []string, allow map[string]bool) sweep.Options {
	version, commit, _ := identity()
	return sweep.Options{Out: out, StateDir: o.stateDir, Erase: erase, Allow: allow, Wait: o.wait, MaxFailures: o.maxFailures, CSV: o.csv,
		Version: fmt.Sprintf("%s (commit %s)", version, commit), Observe: o.observer.observe, Results: o.results, Notify: o.notify}
}

// conclude prints the summary of a sweep that was begun, says what went wrong, and has its exit code.
func (o *sweepFlags) conclude(outcome sweep.Outcome, stdout, stderr io.Writer) error {
	unsaid := false     // what was to be in a file, and who waits for that must not find 0
	if outcome.Silent { // reading it would take as long as writing to it
		fmt.Fprintf(stderr, "qdsweep: the disk of %s does not answer; when it does again: qdsweep report %s\n", outcome.Dir, quoted(outcome.Dir))
		_, _ = fmt.Fprintln(stdout, outcome.Audit)
	} else if err := o.summarise(outcome, stdout); err != nil {
		unsaid = o.file != ""
		fmt.Fprintf(stderr, "qdsweep: the summary could not be made: %v\n  the rows are in %s: qdsweep report %s\n", err, outcome.Dir, quoted(outcome.Dir))
	}
	complain(stderr, outcome)
	if unsaid && outcome.ExitCode() == sweep.ExitOK {
		return exit(sweep.ExitInternal)
	}
	return exit(outcome.ExitCode())
}

// summarise prints the table and the audit on stdout.
func (o *sweepFlags) summarise(outcome sweep.Outcome, stdout io.Writer) error {
	data, err := report.Load(outcome.Dir)
	if err != nil {
		return err
	}
	data.All = false // one table; `qdsweep report` has every phase
	data.Audit, data.Settings, data.Dir = outcome.Audit, outcome.Settings, outcome.Dir
	data.Next = outcome.Next()
	return o.write(stdout, func(w io.Writer) error {
		if o.format == "json" {
			return report.JSON(w, data)
		}
		return report.Text(w, data, width(stdout))
	})
}

// complain says on stderr what went wrong, what state it left, and what to type.
func complain(stderr io.Writer, o sweep.Outcome) {
	if o.Stopped != "" {
		fmt.Fprintf(stderr, "qdsweep: the sweep ended early: %s\n", o.Stopped)
	}
	if o.Err != nil && o.Err.Error() != o.Stopped {
		fmt.Fprintf(stderr, "qdsweep: %v\n", o.Err)
	}
	for _, u := range o.Unrestored {
		fmt.Fprintf(stderr, "qdsweep: NOT RESTORED: %s (%s): %s\n", u.Name, u.Key(), u.Err)
		if len(u.ByHand) > 0 {
			fmt.Fprintf(stderr, "  by hand:  %s\n", strings.Join(u.ByHand, "\n            "))
		}
		fmt.Fprintln(stderr, "  or again: sudo qdsweep restore     (the journal has the originals until they are back)")
		fmt.Fprintf(stderr, "  if it will never come back: sudo qdsweep restore --forget %s\n", quoted(u.Key()))
	}
}
