package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func guestTestsCommandLine() *cobra.Command {
	return &cobra.Command{
		Use: "guest-tests", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runGuestTests() },
	}
}

// runGuestTests runs in the guest: each package's tests one after another, in the package's folder.
func runGuestTests() error {
	text, err := os.ReadFile(guestTestsFile)
	if err != nil {
		return err
	}
	var list []guestTests
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read %s: %w", guestTestsFile, err)
	}
	kind, err := lookupGuest(os.Getenv("QDLAB_GUEST"))
	if err != nil {
		return err
	}
	if kind.Cuts {
		return runTestsThatCut(list)
	}
	failed := false
	for _, tests := range list {
		failed = !tests.run() || failed
	}
	if failed {
		return commandExit(exitTests)
	}
	return nil
}

// runTestsThatCut runs each test in a process of its own, and says which it is: after a power cut the list goes
// on with the test that asked for it.
func runTestsThatCut(list []guestTests) error {
	first, err := strconv.Atoi(os.Getenv("QDLAB_TEST"))
	if err != nil {
		return fmt.Errorf("QDLAB_TEST: %w", err)
	}
	failed := false
	for i, one := range eachTest(list) {
		if i < first {
			continue
		}
		if i > first {
			_ = os.Setenv("QDLAB_BOOT", "1")
		}
		if err := tellHost(messages, guestReport{Test: &testReport{Test: i}}); err != nil {
			return err
		}
		kept := filepath.Join(scratchFolder, "kept", one.Tests[0])
		if err := prepareKept(kept, os.Getenv("QDLAB_BOOT") == "1"); err != nil {
			return err
		}
		_ = os.Setenv("QDLAB_KEPT", kept)
		if !one.run() {
			failed = true
			if err := tellHost(messages, guestReport{Test: &testReport{Test: i, Failed: true}}); err != nil {
				return err
			}
		}
	}
	if failed {
		return commandExit(exitTests)
	}
	return nil
}

// prepareKept makes the folder in which a test keeps what it must know after a power cut.
func prepareKept(dir string, fresh bool) error {
	if !fresh {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unix.Sync()
	return nil
}

// eachTest is the same list with one test an entry.
func eachTest(list []guestTests) []guestTests {
	var each []guestTests
	for _, tests := range list {
		for _, name := range tests.Tests {
			one := tests
			one.Tests = []string{name}
			each = append(each, one)
		}
	}
	return each
}

// run runs the tests in one process and prints the package's verdict.
func (t guestTests) run() bool {
	started := time.Now()
	cmd := exec.Command(t.Binary, t.arguments()...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.Dir, os.Stdout, os.Stderr
	err := cmd.Run()
	verdict := "ok  "
	if err != nil {
		verdict = "FAIL"
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			fmt.Println(err)
		}
	}
	fmt.Printf("%s\t%s\t%.3fs\n", verdict, t.ImportPath, time.Since(started).Seconds())
	return err == nil
}

func (t guestTests) arguments() []string {
	names := "^(" + strings.Join(t.Tests, "|") + ")$"
	if t.Benchmarks {
		return []string{"-test.timeout=0", "-test.run=^$", "-test.bench=" + names, "-test.benchtime=10s"}
	}
	return []string{"-test.v", "-test.timeout=0", "-test.count=1", "-test.run=" + names}
}
