package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sysfs"
)

type resumeOptions struct {
	consentFlags
	sweepFlags
	retryFailed bool
}

func newResume(g *globals) *cobra.Command {
	o := resumeOptions{sweepFlags: sweepFlags{globals: g}, consentFlags: consentFlags{things: []string{sweep.ChangedKernel}}}
	c := &cobra.Command{
		Use:   "resume DIR",
		Short: "go on where a sweep stopped",
		Args:  oneFolder,
		Long: `Goes on with the sweep in an output folder where its rows end: after a power cut, a crash, Ctrl-C, a full disk. The profile, the
order and the drives are those it began with; a drive is found by what it is, whatever its name is now. A run whose rows are whole is
not repeated. What was allowed when it began is allowed still, on the same drives.
` + exitCodes,
		RunE: func(c *cobra.Command, args []string) error {
			return doResume(c.Context(), o, args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.consentFlags.addFlags(c)
	o.sweepFlags.addFlags(c)
	c.Flags().BoolVar(&o.retryFailed, "retry-failed", false, "repeat failed and suspect runs, too")
	return c
}

func doResume(ctx context.Context, o resumeOptions, dir string, stdout, stderr io.Writer) error {
	if wrong := o.emptyErase(); len(wrong) > 0 {
		return &sweep.UsageError{Text: strings.Join(wrong, "\n")}
	}
	if err := o.sweepFlags.check(); err != nil {
		return err
	}
	allow, err := o.consents()
	if err != nil {
		return err
	}
	if dir == "" {
		return &sweep.UsageError{Text: "DIR is empty (a shell variable that is not set?); name the output folder of a sweep"}
	}
	o.observer = newProgress(stderr, o.quiet, o.verbose)
	options := o.options(dir, o.erase, allow)
	options.RetryFailed = o.retryFailed
	outcome, err := sweep.Resume(ctx, dir, sysfs.NewHost("/"), options)
	o.observer.stop()
	if err != nil {
		return o.asRoot(dir, err)
	}
	return o.conclude(outcome, stdout, stderr)
}

// asRoot puts the whole command where a refusal can only say that sudo is missing.
func (o *resumeOptions) asRoot(dir string, err error) error {
	var refused *sweep.RefusedError
	if os.Geteuid() == 0 || !errors.As(err, &refused) {
		return err
	}
	words := []string{"sudo", "qdsweep", "resume", quoted(dir)}
	if o.retryFailed {
		words = append(words, "--retry-failed")
	}
	for _, e := range o.erase {
		words = append(words, "--erase", quoted(e))
	}
	for _, a := range o.allow {
		words = append(words, "--allow", quoted(a))
	}
	return &sweep.RefusedError{Refusals: []sysfs.Refusal{{Reason: "a sweep can only be gone on with by root", Fix: strings.Join(words, " ")}}}
}
