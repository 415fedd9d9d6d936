//go:build !lab

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// comparedFolders are output folders of sweeps with known rates: base and same are alike, slow has one cell 10 % slower, gone has none of write_cache=off,
// noisy has ten times the noise, other was run with another block size.
func comparedFolders(t *testing.T) string {
	dir := t.TempDir()
	for i, name := range []string{"base", "same", "slow", "gone", "noisy", "other"} {
		rng := rand.New(rand.NewPCG(uint64(i), 1999))
		to := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(to, 0o755))
		f, err := results.Open(to, name)
		require.NoError(t, err)
		defer f.Close()
		for replicate := 1; replicate <= 5; replicate++ {
			for _, cell := range []string{"queue_depth=1;write_cache=off", "queue_depth=31;write_cache=off", "queue_depth=1;write_cache=on", "queue_depth=31;write_cache=on"} {
				if name == "gone" && results.LevelIn(cell, "write_cache") == "off" {
					continue
				}
				rate, noise, block := 100.0, 0.005, int64(4096)
				switch {
				case name == "slow" && cell == "queue_depth=31;write_cache=on":
					rate *= 0.9
				case name == "noisy":
					noise *= 10
				case name == "other":
					block *= 2
				}
				require.NoError(t, f.Append([]results.Row{{
					Schema: results.Schema, Sweep: name, Cell: cell, Run: fmt.Sprintf("%s#%d", cell, replicate), Replicate: replicate, Attempt: 1, Row: 1, Rows: 1,
					Kernel: "6.1.0", Target: "sda", Workload: "seq", Phase: "write", Engine: "psync", BlockSize: results.IntOf(block), Parameters: "type=dd",
					Status: results.OK, Restored: true, Seconds: results.NumOf(10), MBPerS: results.NumOf(rate * math.Exp(noise*rng.NormFloat64())),
				}}))
			}
		}
	}
	return dir
}
