package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/wire"
	"qdsweep/sysfs"
)

// Main is the whole of the hidden subcommand that Start runs: the keeper's process, with the line to main on
// descriptor 3. It gives the exit status: 0, or 5 when something is not as it was, or 1.
//
// The caller leaves at once with os.Exit: a thread that the kernel keeps must not be waited for.
func Main(stateDir string, h sysfs.Host, opts ...JournalOption) int {
	debug.SetTraceback("crash")
	// It must outlive what ends main: Ctrl-C, a closed terminal, a polite kill, a full memory. Only SIGKILL ends it.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0) // best effort: needs privilege
	_ = os.WriteFile("/proc/self/comm", []byte("qdsweep-keeper"), 0) // else ps shows "exe"
	conn, err := wire.Inherited()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	j, err := OpenJournal(stateDir, opts...)
	if err != nil {
		decline(conn, err)
		return 1
	}
	_ = os.Chdir("/") // so that it holds no file system
	err = Serve(context.Background(), conn, h, j)
	var not *NotRestoredError
	switch {
	case errors.As(err, &not):
		return 5
	case err != nil:
		fmt.Fprintln(os.Stderr, "qdsweep keeper:", err)
		return 1
	}
	return 0
}

// decline answers whatever main asks with why there is no keeper, until main hangs up.
func decline(conn *wire.Conn, why error) {
	for {
		var r request
		if _, err := conn.Receive(&r); err != nil {
			return
		}
		if r.Cancel == 0 {
			if err := conn.Send(response{ID: r.ID, Err: toWire(why)}); err != nil {
				return
			}
		}
	}
}
