package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"qdsweep/sweep"
	"qdsweep/sweep/report"
	"qdsweep/sweep/stats"
)

// exitRegression is the gate's: a regression beyond the threshold, and significant.
const exitRegression = 6

type compareOptions struct {
	output
	maxRegression string
	metric        string
	allow         []string
}

func newCompare() *cobra.Command {
	var o compareOptions
	c := &cobra.Command{
		Use:   "compare BASE NEW",
		Short: "has anything become slower? per cell and phase, with confidence",
		Args:  cobra.ExactArgs(2),
		Long: `Compares two output folders or results.csv files: of two kernels, drives, nights. Cells are matched by name, phase by phase, and each
is judged by one metric. It ends with 6 when one is worse by more than --max-regression and significantly so, all that is compared
taken together; with 4 when a regression that large could have gone unseen (too few runs, too much noise, cells missing, workloads that
are not the same); with 0 when there is none and there would have been one to see.

  qdsweep compare baseline/ new/ || exit         in a CI job
` + exitCodes + "\n6 compare: a regression; 4 compare: inconclusive (--allow inconclusive makes it 0).",
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runCompare(o, args[0], args[1], c.OutOrStdout())
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.maxRegression, "max-regression", "5%", "the change for the worse that is let pass, as 5% or 0.05")
	c.Flags().StringVar(&o.metric, "metric", "", "judge every phase by this column (default: MB/s where it is sequential, IOPS where it is random): "+strings.Join(metricNames(), ", "))
	c.Flags().StringArrayVar(&o.allow, "allow", nil, "inconclusive: exit 0 and not 4")
	return c
}

func metricNames() (names []string) {
	for _, m := range stats.Metrics() {
		names = append(names, string(m))
	}
	return names
}

func runCompare(o compareOptions, base, other string, stdout io.Writer) error {
	share, err := shareOf(o.maxRegression)
	if err != nil {
		return &sweep.UsageError{Text: fmt.Sprintf("--max-regression %s: %v", o.maxRegression, err)}
	}
	if o.metric != "" && !slices.Contains(metricNames(), o.metric) {
		return &sweep.UsageError{Text: fmt.Sprintf("--metric %s: there is %s", o.metric, strings.Join(metricNames(), ", "))}
	}
	for _, a := range o.allow {
		if a != "inconclusive" {
			return &sweep.UsageError{Text: fmt.Sprintf("--allow %s: compare knows inconclusive alone", a)}
		}
	}
	var data [2]report.Data
	for i, path := range []string{base, other} {
		if data[i], err = report.Load(path); err != nil {
			return &sweep.UsageError{Text: err.Error()}
		}
	}
	c, err := report.Compare(data[0], data[1], stats.Metric(o.metric), stats.Gating{MaxRegression: share})
	switch {
	case errors.Is(err, stats.ErrNothingInCommon):
		return &sweep.UsageError{Text: fmt.Sprintf("%s and %s have no cell and phase in common: they are not of the same profile", base, other)}
	case errors.Is(err, stats.ErrNoFigure):
		return &sweep.UsageError{Text: fmt.Sprintf("%s has no ok row with a figure to compare", base)}
	case err != nil:
		return err
	}
	err = o.write(stdout, func(w io.Writer) error {
		if o.format == "json" {
			return report.CompareJSON(w, c)
		}
		return report.CompareText(w, c, width(stdout))
	})
	if err != nil {
		return err
	}
	switch {
	case c.Outcome == stats.Regression:
		return exit(exitRegression)
	case c.Outcome == stats.Inconclusive && len(o.allow) == 0:
		return exit(sweep.ExitIncomplete)
	}
	return nil
}

// shareOf reads 5% or 0.05.
func shareOf(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > 0 && v < 1) {
		return 0, errors.New("want a share above 0 and below 100 %, as 5% or 0.05")
	}
	return v, nil
}
