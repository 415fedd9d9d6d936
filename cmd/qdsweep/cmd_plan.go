package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sysfs"
)

type planOptions struct {
	planFlags
	output
	sysroot string
	verbose bool
}

func newPlan(g *globals) *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use:   "plan PROFILE",
		Short: "what a sweep would do, and what it needs; changes nothing",
		Args:  oneProfile,
		Long:  "Expands a profile into its runs on this machine and says what would be set, what cannot be, what it costs, and the command that starts it. Changes nothing." + exitCodes,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.output.check(); err != nil {
				return err
			}
			o.note(c)
			o.verbose = g.verbose
			return doPlan(c.Context(), o, args[0], c.OutOrStdout())
		},
	}
	o.planFlags.addFlags(c)
	o.output.addFlags(c)
	addSysroot(c, &o.sysroot)
	return c
}

func doPlan(ctx context.Context, o planOptions, name string, stdout io.Writer) error {
	// A plan needs no privilege, and says what `run`, as root, would refuse.
	h, err := captured(o.sysroot, sysfs.WithEUID(0))
	if err != nil {
		return err
	}
	p, err := o.profile(name)
	if err != nil {
		return err
	}
	consents := sweep.PlanOptions{Erase: o.erase}
	if consents.Allow, err = o.consents(); err != nil {
		return err
	}
	plan, err := sweep.NewPlan(ctx, p, h, consents)
	if err != nil {
		return ofShipped(name, p, err)
	}
	if err := plan.Judge(ctx, h, consents); err != nil {
		return err
	}
	plan.Due(ctx, h)
	err = o.write(stdout, func(w io.Writer) error {
		if o.format == "json" {
			return plan.JSON(w)
		}
		return plan.Text(w, width(stdout), o.verbose, runCommand(name, o.planFlags, plan.EraseNeeded))
	})
	if err == nil && len(plan.Refused) > 0 {
		return exit(sweep.ExitNotHere)
	}
	return err
}

// runCommand is the exact command that starts what was planned, consents included: those that were given, and erase, which is lacking
// yet and quoted already.
func runCommand(name string, o planFlags, erase []string) string {
	words := []string{"sudo", "qdsweep", "run", quoted(name)}
	add := func(flag, value string) { words = append(words, flag, quoted(value)) }
	if o.device != "" {
		add("--device", o.device)
	}
	if o.directory != "" {
		add("--directory", o.directory)
	}
	words = append(words, o.values()...)
	for _, e := range o.erase {
		add("--erase", e)
	}
	for _, e := range erase {
		words = append(words, "--erase", e)
	}
	for _, a := range o.allow {
		add("--allow", a)
	}
	return strings.Join(words, " ")
}
