package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sysfs"
)

type statusOptions struct {
	output
	*globals
}

func newStatus(g *globals) *cobra.Command {
	o := statusOptions{globals: g}
	c := &cobra.Command{
		Use:   "status [DIR]",
		Short: "how far a running sweep is",
		Args:  atMostOneFolder,
		Long: "Says how far the sweep with that output folder is, or every sweep that the state folder knows (as root). It only reads, asks neither\n" +
			"the sweep nor its drives, and ends with 4 when a sweep has died: its process is gone without having ended it.\n" + exitCodes,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runStatus(c.Context(), o, args, c.OutOrStdout())
		},
	}
	o.addFlags(c)
	return c
}

func runStatus(ctx context.Context, o statusOptions, args []string, stdout io.Writer) error {
	h, now := sysfs.NewHost("/"), time.Now()
	if len(args) == 1 {
		found, err := sweep.ReadStatus(ctx, h, args[0])
		if err != nil {
			return err
		}
		err = o.write(stdout, func(w io.Writer) error {
			if o.format == "json" {
				return writeJSON(w, found)
			}
			return sweep.WriteStatus(w, found, width(stdout), now)
		})
		return errors.Join(err, exit(sweep.StatusExit([]sweep.SweepStatus{found})))
	}
	if _, err := os.Stat(o.stateDir); o.stateDir != sweep.DefaultStateDir && errors.Is(err, fs.ErrNotExist) {
		return &sweep.UsageError{Text: fmt.Sprintf("--state-dir %s: there is no such folder; leave the flag out for %s", o.stateDir, sweep.DefaultStateDir)}
	}
	all, err := sweep.Sweeps(ctx, h, o.stateDir)
	if err != nil {
		return err
	}
	err = o.write(stdout, func(w io.Writer) error {
		if o.format == "json" {
			return writeJSON(w, append([]sweep.SweepStatus{}, all...))
		}
		return sweep.WriteSweeps(w, all, o.stateDir, width(stdout), o.verbose, now)
	})
	if err != nil {
		return err
	}
	return exit(sweep.StatusExit(all))
}
