package results

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const sweepName = "ncq-on-off-20261130-220400"

var zone = time.FixedZone("", 3600)

// aRow is one row as a sweep makes it.
func aRow(run, attempt int) Row {
	return Row{
		Sweep: sweepName, Run: fmt.Sprintf("queue_depth=31;write_cache=off#%d", run), Cell: "queue_depth=31;write_cache=off",
		Replicate: run, Attempt: attempt, Started: time.Date(2026, 11, 30, 22, 4, run%60, 0, zone),
		Host: "lab1", Kernel: "6.1.0", Target: "/dev/sdb", Members: "sdb:DISK400SATA:S0000002",
		QueueDepth: "31", WriteCache: "off", QueueDepthEffective: "31", WriteCacheEffective: "off",
		Workload: "rnd-4k", Phase: "randread", Engine: "psync", BlockSize: IntOf(4096), Threads: IntOf(32), IODepth: IntOf(1),
		Parameters: "direct=true;runtime=30s", Bytes: IntOf(8388608), Operations: IntOf(2048), Errors: IntOf(0), Seconds: NumOf(30.0004),
		MBPerS: NumOf(0.279615), IOPS: NumOf(68.2661), LatMeanUS: NumOf(468710.5), ObservedDepth: NumOf(26.2),
		DeviceSamples: IntOf(2988), Status: OK, Restored: true,
	}
}

// aRun is a run of n phases.
func aRun(run, attempt, n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = aRow(run, attempt)
		rows[i].Phase = fmt.Sprintf("phase%d", i+1)
	}
	return rows
}

func write1(t *testing.T, dir string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), content, 0o600))
}

func content(t *testing.T, dir, suffix string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, FileName+suffix))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return b
}

// read gives the rows and the errors of a CSV.
func read(csv []byte) (rows []Row, errs []error) {
	for r, err := range Read(bytes.NewReader(csv)) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		rows = append(rows, r)
	}
	return rows, errs
}

// runsIn lists run/attempt of a CSV in order, each once a whole run.
func runsIn(t *testing.T, csv []byte) []string {
	t.Helper()
	var list []string
	next := 1
	for r, err := range Read(bytes.NewReader(csv)) {
		if err != nil {
			continue
		}
		require.Equal(t, next, r.Row, "half a run is visible")
		if next++; r.Row == r.Rows {
			list, next = append(list, fmt.Sprintf("%s/%d", r.Run, r.Attempt)), 1
		}
	}
	require.Equal(t, 1, next, "half a run is visible")
	return list
}

// file is a header with runs below it.
func file(runs ...[]Row) []byte {
	b := Header()
	for _, run := range runs {
		b = append(b, Encode(run)...)
	}
	return b
}
