package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// driveOptions is a modelled drive to serve.
type driveOptions struct {
	Model  string
	Serial string
	Speed  float64
	Seed   uint64
	With   string
	Folder string
}

func (o *driveOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Serial, "serial", "", "its serial number, and the drive's name to `qdlab drive tell`")
	cmd.Flags().Float64Var(&o.Speed, "speed", 0, "divides all times; default the model's")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "where its spindle stands at first")
	cmd.Flags().StringVar(&o.With, "with", "", "parts of the model said anew, as in its file: 'quirks: {mode_select: ignored}'")
	cmd.Flags().StringVar(&o.Folder, "folder", "", "where platters and saved mode page are kept, to survive the guest's power; default: in memory")
	_ = cmd.MarkFlagRequired("serial")
}

// arguments are the same options on a command line.
func (o driveOptions) arguments() []string {
	args := []string{o.Model, "--serial=" + o.Serial, fmt.Sprintf("--speed=%g", o.Speed), fmt.Sprintf("--seed=%d", o.Seed)}
	if o.With != "" {
		args = append(args, "--with="+o.With)
	}
	if o.Folder != "" {
		args = append(args, "--folder="+o.Folder)
	}
	return args
}

func driveCommandLine() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drive",
		Short: "in a guest with the kernel's modules: serve a modelled drive to the kernel",
		Long: "Serves a modelled drive to the kernel's SCSI stack, by target_core_user and tcm_loop: in a guest, as guest model does at boot.\n" +
			"A kernel that has them takes drives anywhere, but this is meant for one that is thrown away.",
	}
	start := &driveOptions{}
	startCommand := &cobra.Command{
		Use: "start MODEL", Short: "start a drive in the background, and print its name", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			start.Model = args[0]
			name, err := startDrive(*start)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), name)
			return nil
		},
	}
	serve := &driveOptions{}
	serveCommand := &cobra.Command{
		Use: "serve MODEL", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			serve.Model = args[0]
			return serveDrive(*serve, cmd.OutOrStdout())
		},
	}
	tellCommand := &cobra.Command{
		Use: "tell SERIAL WHAT", Short: "power-cycle, leave, return, release what hangs, or end", Args: cobra.ExactArgs(2),
		ValidArgs: driveOrders(),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := tellDrive(args[0], args[1])
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), answer)
			return nil
		},
	}
	start.addFlags(startCommand)
	serve.addFlags(serveCommand)
	cmd.AddCommand(startCommand, serveCommand, tellCommand)
	return cmd
}
