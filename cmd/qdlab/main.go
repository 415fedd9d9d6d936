// Command qdlab boots a throw-away Linux guest with emulated drives and runs a command in it, as root,
// with the project's own binaries. It is a developer's tool: qdsweep itself needs nothing of it.
//
// The same program is the guest's init: the initramfs holds a copy of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Set by the linker (see the Makefile).
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

// Exit statuses of qdlab's own; all others are the command's. As with timeout(1) and docker run.
const (
	exitTimeout = 124
	exitLab     = 125
	exitTests   = 1
)

// commandExit is the exit status of the command in the guest: passed on, no message.
type commandExit int

func (e commandExit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	if os.Getpid() == 1 {
		runInit()
	}
	// Ctrl-C and its like only cancel the context: QEMU is ended and the files are removed on the way out.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := rootCommand().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	os.Exit(exitCode(err, interrupted))
}

// exitCode prints the error, unless it is the command's own status, and chooses the status.
func exitCode(err error, interrupted bool) int {
	var status commandExit
	var broken *guestError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case interrupted:
		fmt.Fprintln(os.Stderr, "qdlab: interrupted")
		return 130
	}
	fmt.Fprintln(os.Stderr, "qdlab:", err)
	if errors.Is(err, errTests) {
		return exitTests
	}
	if errors.As(err, &broken) && strings.HasPrefix(broken.Reason, "was not done") {
		return exitTimeout
	}
	return exitLab
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "qdlab",
		Short: "run a command in a throw-away Linux guest with emulated drives",
		Long: `qdlab boots a Linux guest in QEMU and runs a command in it as root.
Exit status: the command's own; 124 the guest was not done in time; 125 the lab itself failed; 130 interrupted.`,
		Version:       fmt.Sprintf("%s (commit %s, %s)", version, commit, date),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommandLine(), shellCommandLine(), guestsCommandLine(), testCommandLine(), demoCommandLine(), fetchCommandLine(), packagesCommandLine(),
		guestMainCommandLine(), guestTestsCommandLine(), cutCommandLine(), captureCommandLine(), guestCaptureCommandLine(), byIDCommandLine(),
		modelsCommandLine(), simulateCommandLine(), driveCommandLine())
	return root
}
