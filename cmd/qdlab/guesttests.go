package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
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
	failed := false
	for _, tests := range list {
		started := time.Now()
		cmd := exec.Command(tests.Binary, tests.arguments()...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = tests.Dir, os.Stdout, os.Stderr
		err := cmd.Run()
		verdict := "ok  "
		if err != nil {
			failed, verdict = true, "FAIL"
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				fmt.Println(err)
			}
		}
		fmt.Printf("%s\t%s\t%.3fs\n", verdict, tests.ImportPath, time.Since(started).Seconds())
	}
	if failed {
		return commandExit(exitTests)
	}
	return nil
}

func (t guestTests) arguments() []string {
	names := "^(" + strings.Join(t.Tests, "|") + ")$"
	if t.Benchmarks {
		return []string{"-test.timeout=0", "-test.run=^$", "-test.bench=" + names, "-test.benchtime=10s"}
	}
	return []string{"-test.v", "-test.timeout=0", "-test.count=1", "-test.run=" + names}
}
