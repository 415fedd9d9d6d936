package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"qdsweep/cmd/qdlab/drive"
)

func modelsCommandLine() *cobra.Command {
	return &cobra.Command{
		Use:   "models [NAME]",
		Short: "list the modelled drives, or print one: a file to change",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				text, err := drive.ModelText(args[0])
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			models, err := drive.Models()
			if err != nil {
				return err
			}
			for _, m := range models {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n    shows  %s\n    quirks %s\n", m.Name, m.Shows, m.Quirks)
			}
			return nil
		},
	}
}

type simulateOptions struct {
	Depths  []int
	Caches  []string
	Modes   []string
	BlockKB int64
	Warmup  time.Duration
	Length  time.Duration
	Seed    uint64
}

func simulateCommandLine() *cobra.Command {
	o := &simulateOptions{}
	cmd := &cobra.Command{
		Use:   "simulate MODEL",
		Short: "what a modelled drive does, worked out without a kernel, in its own time",
		Long: "What a modelled drive does, worked out without a kernel, in its own time (speed 1), by the code that serves it to one.\n" +
			"MODEL is a name of `qdlab models`, or a file (with / or .yaml).",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runSimulate(cmd, args[0], *o) },
	}
	cmd.Flags().IntSliceVar(&o.Depths, "depth", []int{1, 2, 4, 8, 31}, "commands outstanding")
	cmd.Flags().StringSliceVar(&o.Caches, "write-cache", []string{"off", "on"}, "for writes")
	cmd.Flags().StringSliceVar(&o.Modes, "mode", []string{"randread", "randwrite", "read", "write"}, "as in qdsweep's io workload")
	cmd.Flags().Int64Var(&o.BlockKB, "block", 0, "KiB of a command; default 4 at random, 64 in sequence")
	cmd.Flags().DurationVar(&o.Warmup, "warmup", 5*time.Second, "of the drive's time, not counted")
	cmd.Flags().DurationVar(&o.Length, "length", 30*time.Second, "of the drive's time, counted")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "of the drive and the places")
	return cmd
}

func runSimulate(cmd *cobra.Command, name string, o simulateOptions) error {
	m, err := drive.FindModel(name)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(cmd.OutOrStdout(), "%s, a model: %s\n\n", m.Name, m.Shows)
	fmt.Fprintln(table, "mode\twrite cache\tdepth\tIOPS\tMB/s\tmean ms\tlongest ms\t")
	for _, mode := range o.Modes {
		w := drive.Workload{Warmup: o.Warmup, Length: o.Length, Seed: o.Seed, Block: o.BlockKB << 10}
		switch mode {
		case "randread":
			w.Random = true
		case "randwrite":
			w.Random, w.Write = true, true
		case "write":
			w.Write = true
		case "read":
		default:
			return fmt.Errorf("--mode %q must be randread, randwrite, read or write", mode)
		}
		if w.Block == 0 {
			w.Block = map[bool]int64{true: 4 << 10, false: 64 << 10}[w.Random]
		}
		caches := o.Caches
		if !w.Write {
			caches = []string{"-"}
		}
		for _, cache := range caches {
			switch cache {
			case "on", "off":
				m.Write.On = cache == "on"
			case "-":
			default:
				return fmt.Errorf("--write-cache %q must be on or off", cache)
			}
			for _, w.Depth = range o.Depths {
				r, err := drive.Simulate(m, w)
				if err != nil {
					return err
				}
				fmt.Fprintf(table, "%s\t%s\t%d\t%.1f\t%.2f\t%.2f\t%.1f\t\n", mode, cache, w.Depth, r.IOPS, r.MBs,
					float64(r.Mean)/1e6, float64(r.Longest)/1e6)
			}
		}
	}
	return table.Flush()
}
