package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sweep/keeper"
)

type restoreOptions struct {
	output
	keeper.RestoreOptions
}

func newRestore(g *globals) *cobra.Command {
	var o restoreOptions
	c := &cobra.Command{
		Use:   "restore",
		Short: "put back what a dead sweep left changed",
		Args:  noArguments,
		Long:  "Puts back, by the journal, what a sweep changed and could not restore: after a SIGKILL of both its processes, or a power loss. Drives are found by identity, whatever their names are now.\n" + exitCodes,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runRestore(c.Context(), o, g.stateDir, c.OutOrStdout())
		},
	}
	o.addFlags(c)
	f := c.Flags()
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would be put back, change nothing")
	f.StringArrayVar(&o.Forget, "forget", nil, "drop the entry of a drive that will not come back: its `IDENTITY`; repeatable")
	f.DurationVar(&o.Wait, "wait", 0, "wait so long for a live sweep that has a drive")
	return c
}

func runRestore(ctx context.Context, o restoreOptions, stateDir string, stdout io.Writer) error {
	if o.Wait < 0 {
		return &sweep.UsageError{Text: fmt.Sprintf("--wait %s: 0s at least", o.Wait)}
	}
	// A mistyped folder must not be made, and then be said to have nothing to restore.
	if _, err := os.Stat(stateDir); stateDir != sweep.DefaultStateDir && errors.Is(err, fs.ErrNotExist) {
		return &sweep.UsageError{Text: fmt.Sprintf("--state-dir %s: there is no such folder; leave the flag out for %s", stateDir, sweep.DefaultStateDir)}
	}
	found, err := sweep.Restore(ctx, stateDir, o.RestoreOptions)
	if err != nil {
		return err
	}
	err = o.write(stdout, func(w io.Writer) error {
		if o.format != "json" {
			return sweep.WriteRestored(w, found)
		}
		if found == nil {
			found = []keeper.EntryOutcome{}
		}
		return writeJSON(w, found)
	})
	if err != nil {
		return err
	}
	return exit(keeper.RestoreExit(found))
}
