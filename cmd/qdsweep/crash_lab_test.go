//go:build lab

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/results"
	"qdsweep/sysfs"
)

// TestMain lets this test program be qdsweep itself: with QDSWEEP_CRASH=PROCESS:K in the environment it is the whole program, and its main or
// keeper dies by SIGKILL right before its K-th operation on a file (journal, sysfs, results.csv).
func TestMain(m *testing.M) {
	who, k, crashing := strings.Cut(os.Getenv("QDSWEEP_CRASH"), ":")
	if !crashing {
		os.Exit(m.Run())
	}
	at, err := strconv.ParseInt(k, 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var done atomic.Int64
	step := func(string) error {
		if done.Add(1) == at {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
		return nil
	}
	isKeeper := false
	for _, a := range os.Args {
		isKeeper = isKeeper || a == "keeper"
	}
	var s seams
	if isKeeper && who == "keeper" {
		s.journal = []keeper.JournalOption{func(j *keeper.Journal) { j.Hook = step }}
		s.host = []sysfs.Option{sysfs.WithWriter(func(path, value string) error {
			if err := step("write " + path); err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString(value + "\n")
			return err
		})}
	}
	if !isKeeper && who == "main" {
		s.results = []results.Option{results.WithHook(step)}
	}
	ctx, _ := withSignals(context.Background())
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, s))
}

// TestLabSataCrashAtTheKthOperation: wherever main or keeper dies, no original is lost and no run is there twice.
func TestLabSataCrashAtTheKthOperation(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	before := l.settings(disk)
	rnd := rand.New(rand.NewPCG(chaosSeed(t), 1))
	profile := l.write("p.yaml", strings.Replace(endless("{queue_depth: [1, 4], max_sectors_kb: [8, 64]}"), "repeats: 1000", "repeats: 2", 1))
	for i := range rounds(5, 50) {
		who, most := "keeper", 80
		if i%2 == 1 {
			who, most = "main", 25
		}
		k := 1 + rnd.IntN(most)
		out := l.path("out" + strconv.Itoa(i))
		c := exec.Command("/proc/self/exe", "--state-dir", l.state(), "run", profile, "--device", "/dev/"+disk, "--out", out)
		c.Env = append(os.Environ(), fmt.Sprintf("QDSWEEP_CRASH=%s:%d", who, k))
		text, err := c.CombinedOutput()
		code := exitCode(err)
		t.Logf("round %d: %s dies before operation %d: exit %d", i, who, k, code)
		if who == "main" {
			assert.Contains(t, []int{0, 128 + int(syscall.SIGKILL)}, code, "%s", text)
		}
		l.eventually(60*time.Second, "nobody holds the lock any more", func() bool {
			s := l.run("restore")
			return s.code == 0
		})
		require.Equal(t, before, l.settings(disk), "round %d: %s:%d\n%s", i, who, k, text)
		seen := map[string]bool{}
		if _, err := os.Stat(out + "/results.csv"); err != nil {
			continue // it died before there was one
		}
		for _, r := range l.wholeRows(out) {
			require.False(t, seen[r.Run], "run %s is there once", r.Run)
			seen[r.Run] = true
		}
	}
}
