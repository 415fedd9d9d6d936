package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func guestsCommandLine() *cobra.Command {
	return &cobra.Command{
		Use:   "guests",
		Short: "list the kinds of guests",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, g := range guests() {
				fmt.Fprintf(cmd.OutOrStdout(), "%-6s %s\n", g.Name, g.Description)
				for _, d := range g.Disks {
					fmt.Fprintf(cmd.OutOrStdout(), "       %-7s %-15s %d MiB%s\n", d.Bus, d.Serial, d.MiB, faults(d))
				}
				for _, d := range g.Modelled {
					fmt.Fprintf(cmd.OutOrStdout(), "       %-7s %-15s %s, speed %g\n", "model", d.Serial, d.Model, d.Speed)
				}
				for _, m := range g.Modules {
					if m.Options != "" {
						fmt.Fprintf(cmd.OutOrStdout(), "       module  %s %s\n", m.Name, m.Options)
					}
				}
			}
			return nil
		},
	}
}

func faults(d disk) string {
	if d.Faults == nil {
		return ""
	}
	return fmt.Sprintf(", faults from %d MiB on", faultFirst*512>>20)
}

func packagesCommandLine() *cobra.Command {
	return &cobra.Command{
		Use:   "packages",
		Short: "print the packages that the lab needs and that are not installed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if missing := missingTools(); len(missing) > 0 {
				fmt.Fprintln(cmd.OutOrStdout(), joined(missing))
			}
			return nil
		},
	}
}

func fetchCommandLine() *cobra.Command {
	return &cobra.Command{
		Use:   "fetch",
		Short: "fetch the guest's kernel now, and say which one it is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := openLab(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			k, err := findKernel(cmd.Context(), l.cache, l.log)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", k.Release, k.Image)
			return nil
		},
	}
}

func guestMainCommandLine() *cobra.Command {
	return &cobra.Command{
		Use: "guest-main", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return guestMain() },
	}
}

func byIDCommandLine() *cobra.Command {
	return &cobra.Command{
		Use: "by-id", Short: "in a guest: make the links of /dev/disk/by-id anew", Hidden: true, Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { linkByID() },
	}
}

func joined(words []string) string { return strings.Join(words, " ") }
