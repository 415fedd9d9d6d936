package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sysfs"
)

type runOptions struct {
	planFlags
	sweepFlags
	out string
}

func newRun(g *globals) *cobra.Command {
	o := runOptions{sweepFlags: sweepFlags{globals: g}}
	c := &cobra.Command{
		Use:   "run PROFILE",
		Short: "the sweep: settings, workload, rows, everything put back",
		Args:  oneProfile,
		Long:  "Runs a profile's sweep. Every setting it changes is journalled first and put back after each run, also after Ctrl-C, a crash or a kill." + exitCodes,
		RunE: func(c *cobra.Command, args []string) error {
			o.note(c)
			return doRun(c.Context(), o, args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.planFlags.addFlags(c)
	o.sweepFlags.addFlags(c)
	c.Flags().StringVar(&o.out, "out", "", "the output folder, absent or empty (default ./NAME-YYYYMMDD-HHMMSS)")
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
	if err := o.sweepFlags.check(); err != nil {
		return err
	}
	if o.out == "" {
		o.out = sweep.DefaultOut(p.Name, time.Now())
	}
	allow, err := o.consents()
	if err != nil {
		return err
	}
	o.observer = newProgress(stderr, o.quiet, o.verbose)
	outcome, err := sweep.Execute(ctx, p, sysfs.NewHost("/"), o.options(o.out, o.erase, allow))
	o.observer.stop()
	if err != nil {
		return ofShipped(name, p, o.asRoot(name, err))
	}
	return o.conclude(outcome, stdout, stderr)
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
