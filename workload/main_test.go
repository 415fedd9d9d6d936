package workload

import (
	"context"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/wire"
)

// TestMain makes this binary its own worker process, as cmd/qdsweep is.
func TestMain(m *testing.M) {
	switch os.Getenv("WORKLOAD_TEST_ROLE") {
	case "":
		os.Exit(m.Run())
	case "worker":
		conn, err := wire.Inherited()
		if err == nil {
			err = Serve(context.Background(), conn)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "panic":
		conn, _ := wire.Inherited()
		var q request
		_, _ = conn.Receive(&q)
		panic("the worker is broken")
	case "deaf": // takes a request and never answers
		conn, _ := wire.Inherited()
		var q request
		_, _ = conn.Receive(&q)
		fmt.Fprintln(os.Stderr, "busy")
		for {
			_ = unix.Pause()
		}
	}
}
