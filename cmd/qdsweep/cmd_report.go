package main

import (
	"io"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sweep/report"
)

func newReport() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use:   "report DIR|CSV…",
		Short: "the table of a sweep's results",
		Args:  someResults,
		Long:  "Prints the summary table of one or more output folders or results.csv files." + exitCodes,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runReport(o, args, c.OutOrStdout())
		},
	}
	o.addFlags(c)
	return c
}

func runReport(o output, from []string, stdout io.Writer) error {
	data, err := report.Load(from...)
	if err != nil {
		return &sweep.UsageError{Text: err.Error()}
	}
	return o.write(stdout, func(w io.Writer) error {
		if o.format == "json" {
			return report.JSON(w, data)
		}
		return report.Text(w, data, width(stdout))
	})
}
