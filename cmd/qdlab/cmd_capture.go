package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
)

type captureOptions struct {
	Setup   string
	Timeout time.Duration
	Verbose bool
}

func captureCommandLine() *cobra.Command {
	o := &captureOptions{}
	cmd := &cobra.Command{
		Use:   "capture [flags] GUEST FILE.tar.gz",
		Short: "what qdsweep sees of a guest, as a tree for qdsweep devices --sysroot",
		Example: `  qdlab capture --setup sysfs/testdata/trees/arrays.sh sata tree.tar.gz
  mkdir tree && tar -xzf tree.tar.gz -C tree && qdsweep devices --sysroot tree`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return runCapture(cmd, *o, args[0], args[1]) },
	}
	cmd.Flags().StringVar(&o.Setup, "setup", "", "a shell script that is run in the guest before")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 10*time.Minute, "of all")
	cmd.Flags().BoolVarP(&o.Verbose, "verbose", "v", false, "the kernel's console on stderr, too")
	return cmd
}

func runCapture(cmd *cobra.Command, o captureOptions, guestName, name string) error {
	kind, err := lookupGuest(guestName)
	if err != nil {
		return err
	}
	script := []byte("true\n")
	if o.Setup != "" {
		if script, err = os.ReadFile(o.Setup); err != nil {
			return fmt.Errorf("--setup: %w", err)
		}
	}
	l, err := openLab(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	part, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	defer func() {
		_ = part.Close()
		_ = os.Remove(part.Name()) // nothing of it is left where it was renamed
	}()
	exit, err := l.run(cmd.Context(), job{
		Guest: kind, Args: []string{"sh", "-c", "sh -eu /root/setup.sh >&2 && exec qdlab guest-capture"}, Dir: scratchFolder, Timeout: o.Timeout, Verbose: o.Verbose,
		Add: []addedFile{{Guest: "/root/setup.sh", Content: script, Mode: 0o755}}, Stdout: part, Stderr: cmd.ErrOrStderr(),
	})
	if err != nil {
		return err
	}
	if exit != 0 {
		return commandExit(exit)
	}
	if err := part.Close(); err != nil {
		return err
	}
	return os.Rename(part.Name(), name)
}

func guestCaptureCommandLine() *cobra.Command {
	return &cobra.Command{
		Use: "guest-capture", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return captureThisGuest(cmd.OutOrStdout()) },
	}
}

// captureThisGuest makes the links anew first: of arrays on a kernel of 6.1 they alone have the identity.
func captureThisGuest(w io.Writer) error {
	linkByID()
	c, err := captureMachine("/")
	if err != nil {
		return fmt.Errorf("capture this guest: %w", err)
	}
	return c.writeArchive(w)
}
