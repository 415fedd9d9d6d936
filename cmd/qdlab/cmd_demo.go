package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// demoScript runs in the guest; it prints each command that it runs.
//
//go:embed demo.sh
var demoScript []byte

type demoOptions struct {
	Out     string
	Timeout time.Duration
	Verbose bool
}

func demoCommandLine() *cobra.Command {
	o := &demoOptions{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "the project's main job on emulated drives, in about two minutes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd, *o)
		},
	}
	cmd.Flags().StringVar(&o.Out, "out", "demo", "where the sweeps' output folders go; replaced each time")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 10*time.Minute, "of all")
	cmd.Flags().BoolVarP(&o.Verbose, "verbose", "v", false, "the kernel's console on stderr, too")
	return cmd
}

func runDemo(cmd *cobra.Command, o demoOptions) error {
	kind, err := lookupGuest("all")
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(o.Out)
	if err != nil {
		return err
	}
	if err := replaceDemoFolder(dir); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "qdlab: booting a Linux guest with emulated drives (about 15 s where it is emulated throughout)\n")
	return runJob(cmd, job{
		Guest: kind, Args: []string{"sh", "/root/demo.sh"}, Dir: scratchFolder, Timeout: o.Timeout, Verbose: o.Verbose,
		Add:    []addedFile{{Guest: "/root/demo.sh", Content: demoScript, Mode: 0o755}},
		Shares: []share{{Host: dir, Guest: "/out", Write: true}},
	})
}

// demoMark tells a folder that an earlier demo left from one that is somebody's.
const demoMark = ".qdlab-demo"

// replaceDemoFolder empties the folder of an earlier demo; it refuses one with anything else in it.
func replaceDemoFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, demoMark)); err != nil {
			return fmt.Errorf("%s is not empty and not an earlier demo's: give another --out", dir)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("replace the earlier demo: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, demoMark), []byte("made by qdlab demo, replaced by the next one\n"), 0o644)
}
