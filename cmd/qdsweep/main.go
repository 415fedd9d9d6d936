// Command qdsweep sweeps queue depth, write cache, request size and their like over real drives, and puts every setting back.
// The command line is here and nothing else: each subcommand is a file, and its work is done in the packages.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"qdsweep/sweep"
	"qdsweep/sweep/keeper"
	"qdsweep/sweep/results"
	"qdsweep/sysfs"
)

// Set by the Makefile with -ldflags -X; a program that go built by itself knows its commit from the build.
var (
	version = ""
	commit  = ""
	date    = ""
)

// identity is which build this is.
func identity() (v, c, d string) {
	v, c, d = version, commit, date
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && c == "":
				c = s.Value[:min(len(s.Value), 12)]
			case s.Key == "vcs.time" && d == "":
				d = s.Value
			}
		}
	}
	return cmp.Or(v, "development"), cmp.Or(c, "unknown"), cmp.Or(d, "unknown")
}

func main() {
	// A panic or fatal error must end the process by SIGABRT (134): Go's own exit code for it, 2, means "wrong profile" here.
	debug.SetTraceback("crash")
	// A reader that goes away (| head -1, a dead tee, a dropped ssh) is no reason to lose the night.
	signal.Ignore(unix.SIGPIPE)
	ctx, stop := withSignals(context.Background())
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, seams{notify: sweep.TakeNotifier()})
	stop()
	os.Exit(code)
}

// withSignals ends the context with a *sweep.SignalError at the first INT, TERM or HUP. Further ones change nothing: restoring is not
// interruptible. A HUP that was ignored at the start (nohup) stays ignored.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	got := make(chan os.Signal, 4)
	signal.Notify(got, unix.SIGINT, unix.SIGTERM)
	if !signal.Ignored(unix.SIGHUP) {
		signal.Notify(got, unix.SIGHUP)
	}
	go func() {
		for sig := range got {
			cancel(&sweep.SignalError{Signal: sig})
		}
	}()
	return ctx, func() { signal.Stop(got); close(got) }
}

// exitError carries an exit code that is not sweep.ExitCode(err)'s. Err is nil when everything has been said already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// exit gives up with a code, without another word.
func exit(code int) error {
	if code == sweep.ExitOK {
		return nil
	}
	return &exitError{code: code}
}

// seams are where a test's program crashes on purpose, which the real one leaves empty, and what it has of the process around it.
type seams struct {
	host    []sysfs.Option
	journal []keeper.JournalOption
	results []results.Option

	notify *sweep.Notifier // of the process, which a test has not got
}

// globals are the flags of every command.
type globals struct {
	seams
	stateDir string
	quiet    bool
	verbose  bool
}

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, s seams) int {
	root := newRoot(stdout, stderr, s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return sweep.ExitOK
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(stderr, "qdsweep: "+text)
	}
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return sweep.ExitCode(err)
}

const exitCodes = `
Exit codes: 0 fine; 1 internal error; 2 wrong profile or arguments; 3 not here: refused, locked, no privilege, no such device;
4 finished, but some runs are failed, suspect, skipped or remaining; 5 a setting could not be restored;
129, 130, 143 hung up, interrupted, terminated, and restored; 134 crashed, and the keeper restored.`

func newRoot(stdout, stderr io.Writer, s seams) *cobra.Command {
	g := &globals{seams: s}
	version, commit, date := identity()
	root := &cobra.Command{
		Use:   "qdsweep",
		Short: "does queue depth, write cache, request size or RAID level matter on these drives?",
		Long: `qdsweep turns a YAML matrix of block-device settings into measured CSV rows, and leaves every drive as it found it.

  qdsweep devices                              what is here, and what it can be set to
  sudo qdsweep run quick --device /dev/sdb     a minute, reads only
  qdsweep profiles                             the shipped profiles, to start your own from
` + exitCodes,
		Version:       fmt.Sprintf("%s (commit %s, %s)", version, commit, date),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetVersionTemplate("qdsweep {{.Version}}\n")
	root.SetFlagErrorFunc(wrongFlag)
	f := root.PersistentFlags()
	f.StringVar(&g.stateDir, "state-dir", sweep.DefaultStateDir, "journal and locks")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "only results and errors")
	f.BoolVarP(&g.verbose, "verbose", "v", false, "say more")
	root.AddCommand(newDevices(g), newPlan(g), newRun(g), newResume(g), newStatus(g), newRestore(g), newReport(g), newCompare(), newProfiles(), newKeeper(g), newWorker())
	root.SetHelpCommand(newHelp())
	asUsage(root)
	return root
}

// asUsage makes wrong arguments of every command exit 2, with the command's own usage line.
func asUsage(c *cobra.Command) {
	check := c.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return &sweep.UsageError{Text: fmt.Sprintf("%v\n  usage: %s     (%s --help says more)", err, c.UseLine(), c.CommandPath())}
		}
		return nil
	}
	for _, sub := range c.Commands() {
		asUsage(sub)
	}
}
