package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// runOptions are the flags of run and shell.
type runOptions struct {
	Guest   string
	Shares  []string
	Out     string
	Add     []string
	Tools   []string
	Env     []string
	Dir     string
	Timeout time.Duration
	Stdin   bool
	Verbose bool
}

func (o *runOptions) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Guest, "guest", "sata", "kind of guest (qdlab guests lists them)")
	f.StringArrayVar(&o.Shares, "share", nil, "HOSTDIR:GUESTDIR[:rw], a folder of the host, read-only without :rw")
	f.StringVar(&o.Out, "out", "", "a folder of the host, made when absent, that is /out in the guest")
	f.StringArrayVar(&o.Add, "add", nil, "FILE:PATH, a copy of a file of the host in the guest's memory")
	f.StringArrayVar(&o.Tools, "tool", nil, "a further program of the host, with its libraries (fio)")
	f.StringArrayVar(&o.Env, "env", nil, "NAME=VALUE, added to the command's environment")
	f.StringVar(&o.Dir, "dir", scratchFolder, "the command's working folder in the guest")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "of all: boot and command")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "the kernel's console on stderr, too")
}

func runCommandLine() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT…]",
		Short: "run a command in a guest",
		Example: `  qdlab run -- qdsweep devices
  qdlab run --guest delay --out ./results -- sh -c 'cat /sys/block/sd*/device/queue_depth > /out/depths'
  qdlab run -i -- sh < script`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			j, err := o.job(args)
			if err != nil {
				return err
			}
			if o.Stdin {
				j.Stdin = os.Stdin
			}
			return runJob(cmd, j)
		},
	}
	o.AddFlags(cmd)
	cmd.Flags().BoolVarP(&o.Stdin, "interactive", "i", false, "standard input goes to the command")
	cmd.Flags().SetInterspersed(false) // everything from the command on is the command's
	return cmd
}

func shellCommandLine() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "shell [flags] [COMMAND [ARGUMENT…]]",
		Short: "a shell in a guest, on a terminal",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"sh", "-l"}
			}
			j, err := o.job(args)
			if err != nil {
				return err
			}
			restore, err := rawTerminal(os.Stdin)
			if err != nil {
				return err
			}
			defer restore()
			j.TTY, j.Stdin = true, os.Stdin
			return runJob(cmd, j)
		},
	}
	o.AddFlags(cmd)
	cmd.Flags().SetInterspersed(false)
	_ = cmd.Flags().Set("timeout", "8h")
	cmd.Flags().Lookup("timeout").DefValue = "8h"
	return cmd
}

// job checks the flags and makes the job of them; the project's qdsweep comes along where there is one.
func (o *runOptions) job(args []string) (job, error) {
	kind, err := lookupGuest(o.Guest)
	if err != nil {
		return job{}, err
	}
	j := job{Guest: kind, Args: args, Env: o.Env, Dir: o.Dir, Tools: o.Tools, Timeout: o.Timeout, Verbose: o.Verbose}
	for _, text := range o.Shares {
		s, err := parseShare(text)
		if err != nil {
			return job{}, err
		}
		j.Shares = append(j.Shares, s)
	}
	if o.Out != "" {
		dir, err := filepath.Abs(o.Out)
		if err != nil {
			return job{}, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return job{}, fmt.Errorf("--out: %w", err)
		}
		j.Shares = append(j.Shares, share{Host: dir, Guest: "/out", Write: true})
	}
	for _, text := range o.Add {
		file, err := parseAdd(text)
		if err != nil {
			return job{}, err
		}
		j.Add = append(j.Add, file)
	}
	return j, nil
}

// runJob runs j with the project's binary; the command's status comes back as a commandExit.
func runJob(cmd *cobra.Command, j job) error {
	l, err := openLab(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if binary := l.projectBinary(cmd.Context()); binary != "" {
		j.Add = append([]addedFile{{Host: binary, Guest: "/usr/bin/qdsweep"}}, j.Add...)
	}
	j.Stdout, j.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	exit, err := l.run(cmd.Context(), j)
	if err != nil {
		return err
	}
	if exit != 0 {
		return commandExit(exit)
	}
	return nil
}

var errForm = errors.New("not in the form")

// parseShare reads HOSTDIR:GUESTDIR[:rw].
func parseShare(text string) (share, error) {
	parts := strings.Split(text, ":")
	write := len(parts) == 3 && parts[2] == "rw"
	if len(parts) < 2 || len(parts) > 3 || (len(parts) == 3 && !write) || parts[0] == "" || !path.IsAbs(parts[1]) {
		return share{}, fmt.Errorf("--share %q: %w HOSTDIR:/GUESTDIR[:rw]", text, errForm)
	}
	dir, err := filepath.Abs(parts[0])
	if err != nil {
		return share{}, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return share{}, fmt.Errorf("--share %q: %w", text, err)
	}
	if !info.IsDir() {
		return share{}, fmt.Errorf("--share %q: %s is not a folder", text, dir)
	}
	return share{Host: dir, Guest: path.Clean(parts[1]), Write: write}, nil
}

// parseAdd reads FILE:PATH.
func parseAdd(text string) (addedFile, error) {
	file, name, found := strings.Cut(text, ":")
	if !found || file == "" || !path.IsAbs(name) {
		return addedFile{}, fmt.Errorf("--add %q: %w FILE:/PATH", text, errForm)
	}
	if _, err := os.Stat(file); err != nil {
		return addedFile{}, fmt.Errorf("--add %q: %w", text, err)
	}
	return addedFile{Host: file, Guest: path.Clean(name)}, nil
}
