package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"qdsweep/profiles"
)

func newProfiles() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use:   "profiles [NAME]",
		Short: "the shipped profiles, or the text of one",
		Long:  "Lists the shipped profiles; with a NAME prints that one, every key explained, to start your own from:\n\n  qdsweep profiles ncq-on-off > mine.yaml" + exitCodes,
		Args:  atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runProfiles(o, args, c.OutOrStdout())
		},
	}
	o.addFlags(c)
	return c
}

func runProfiles(o output, args []string, stdout io.Writer) error {
	if len(args) == 1 {
		text, err := openShipped(args[0])
		if err != nil {
			return err
		}
		return o.write(stdout, func(w io.Writer) error {
			if o.format == "json" {
				return writeJSON(w, map[string]string{"name": args[0], "text": string(text)})
			}
			_, err := w.Write(text)
			return err
		})
	}
	list, err := profiles.List()
	if err != nil {
		return err
	}
	return o.write(stdout, func(w io.Writer) error {
		if o.format == "json" {
			return writeJSON(w, list)
		}
		for _, p := range list {
			fmt.Fprintf(w, "%-20s %s\n", p.Name, p.Description)
		}
		fmt.Fprintln(w, "\nTo run one:             sudo qdsweep run quick --device /dev/sdX\nTo start your own from: qdsweep profiles NAME > mine.yaml")
		return nil
	})
}
