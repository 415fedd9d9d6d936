package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sweep/report"
	"qdsweep/sysfs"
)

type runOptions struct {
	planFlags
	output
	out  string
	wait time.Duration

	maxFailures int
	*globals
}

func newRun(g *globals) *cobra.Command {
	o := runOptions{globals: g}
	c := &cobra.Command{
		Use:   "run PROFILE",
		Short: "the sweep: settings, workload, rows, everything put back",
		Args:  oneProfile,
		Long:  "Runs a profile's sweep. Every setting it changes is journalled first and put back after each run, also after Ctrl-C, a crash or a kill." + exitCodes,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.output.check(); err != nil {
				return err
			}
			o.note(c)
			return doRun(c.Context(), o, args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.planFlags.addFlags(c)
	o.output.addFlags(c)
	c.Flags().StringVar(&o.out, "out", "", "the output folder, absent or empty (default ./NAME-YYYYMMDD-HHMMSS)")
	c.Flags().DurationVar(&o.wait, "wait", 0, "wait so long for a busy device instead of exit 3")
	c.Flags().IntVar(&o.maxFailures, "max-failures", sweep.DefaultMaxFailures, "so many failed runs in a row, and the target's other runs are left remaining")
	return c
}

func doRun(ctx context.Context, o runOptions, name string, stdout, stderr io.Writer) error {
	p, err := o.profile(name)
	if err != nil {
		return err
	}
	if o.given["out"] && o.out == "" {
		return &sweep.UsageError{Text: "--out is empty (a shell variable that is not set?); name a folder, or leave the flag out"}
	}
	if o.wait < 0 {
		return &sweep.UsageError{Text: fmt.Sprintf("--wait %s: 0s at least", o.wait)}
	}
	if o.maxFailures < 1 {
		return &sweep.UsageError{Text: fmt.Sprintf("--max-failures %d: 1 at least; a number larger than the runs never ends a sweep", o.maxFailures)}
	}
	if o.out == "" {
		o.out = sweep.DefaultOut(p.Name, time.Now())
	}
	allow, err := o.consents()
	if err != nil {
		return err
	}
	version, commit, _ := identity()
	shown := newProgress(stderr, o.quiet, o.verbose)
	outcome, err := sweep.Execute(ctx, p, sysfs.NewHost("/"), sweep.Options{Out: o.out, StateDir: o.stateDir, Erase: o.erase, Allow: allow, Wait: o.wait, MaxFailures: o.maxFailures,
		Version: fmt.Sprintf("%s (commit %s)", version, commit), Observe: shown.observe, Results: o.results})
	shown.stop()
	if err != nil {
		return ofShipped(name, p, o.asRoot(name, err))
	}
	unsaid := false // what was to be in a file, and who waits for that must not find 0
	if err := o.summarise(outcome, stdout); err != nil {
		unsaid = o.file != ""
		fmt.Fprintf(stderr, "qdsweep: the summary could not be made: %v\n  the rows are in %s: qdsweep report %s\n", err, outcome.Dir, quoted(outcome.Dir))
	}
	complain(stderr, outcome)
	if unsaid && outcome.ExitCode() == sweep.ExitOK {
		return exit(sweep.ExitInternal)
	}
	return exit(outcome.ExitCode())
}

// asRoot puts the whole command where a refusal can only say that sudo is missing.
func (o *runOptions) asRoot(name string, err error) error {
	var refused *sweep.RefusedError
	if os.Geteuid() == 0 || !errors.As(err, &refused) {
		return err
	}
	command := runCommand(name, o.planFlags, nil)
	if o.given["out"] {
		command += " --out " + quoted(o.out)
	}
	for i := range refused.Refusals {
		if strings.HasPrefix(refused.Refusals[i].Fix, "type: sudo") {
			refused.Refusals[i].Fix = command
		}
	}
	return err
}

// summarise prints the table and the audit on stdout.
func (o *runOptions) summarise(outcome sweep.Outcome, stdout io.Writer) error {
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
