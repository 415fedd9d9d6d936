package main

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sweep/report"
)

func newReport(g *globals) *cobra.Command {
	o := output{more: []string{"bonnie"}}
	c := &cobra.Command{
		Use:   "report DIR|CSV…",
		Short: "the table of a sweep's results",
		Args:  someResults,
		Long: `Prints the summary table of one or more output folders or results.csv files, and below it the tables in which such
experiments used to be posted: threads and block sizes, dd, sgpdd-survey.

--format bonnie prints the classic table of bonnie, then the same as CSV lines for bonnie++'s own tools. With -q, and in a
file whose name ends in .csv, there are only these lines:

  qdsweep report -q --format bonnie DIR | bon_csv2html > bonnie.html
` + exitCodes,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runReport(o, g.quiet, args, c.OutOrStdout())
		},
	}
	o.addFlags(c)
	return c
}

func runReport(o output, quiet bool, from []string, stdout io.Writer) error {
	data, err := report.Load(from...)
	if err != nil {
		return &sweep.UsageError{Text: err.Error()}
	}
	err = o.write(stdout, func(w io.Writer) error {
		switch o.format {
		case "json":
			return report.JSON(w, data)
		case "bonnie":
			onlyCSV := quiet || strings.EqualFold(filepath.Ext(o.file), ".csv")
			return report.Bonnie(w, data, width(stdout), onlyCSV)
		}
		return report.Text(w, data, width(stdout))
	})
	var none *report.NoBonnieError
	if errors.As(err, &none) {
		return &sweep.UsageError{Text: err.Error()}
	}
	return err
}
