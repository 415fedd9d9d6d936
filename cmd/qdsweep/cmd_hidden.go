package main

import (
	"context"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/wire"
	"qdsweep/sysfs"
	"qdsweep/workload"
)

// newKeeper is the process that makes and restores settings; qdsweep starts it itself, with a socket on descriptor 3.
func newKeeper(g *globals) *cobra.Command {
	return &cobra.Command{Use: "keeper", Hidden: true, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return exit(keeper.Main(g.stateDir, sysfs.NewHost("/", g.host...), g.journal...))
	}}
}

// newWorker is the process that does the I/O.
func newWorker() *cobra.Command {
	return &cobra.Command{Use: "worker", Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		// `systemctl stop` sends TERM to main and to us. Main ends us; a worker that dies first would make a failed row of a run that was given up.
		signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
		conn, err := wire.Inherited()
		if err != nil {
			return err
		}
		return workload.Serve(context.Background(), conn)
	}}
}
