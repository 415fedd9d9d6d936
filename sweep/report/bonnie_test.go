package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// bonnie2007 is the published figures as rows. What bonnie++ could not print has no row.
func bonnie2007(t *testing.T) Data {
	var n night
	type of struct{ cell, replicate string }
	runs := map[of]map[string]map[string]string{}
	var order []of
	for _, p := range published(t, "published/2007-md-ncq-write-cache.csv") {
		id := of{"raid_level=" + p["raid_level"] + ";queue_depth=" + p["queue_depth"] + ";write_cache=" + p["write_cache"], p["replicate"]}
		if runs[id] == nil {
			runs[id] = map[string]map[string]string{}
			order = append(order, id)
		}
		if p["value"] != "" {
			runs[id][p["phase"]] = p
		}
	}
	for _, id := range order {
		var phases []string
		for _, phase := range bonniePhases() {
			if runs[id][phase] != nil {
				phases = append(phases, phase)
			}
		}
		n.run(id.cell, int(figure(t, id.replicate)), 1, phases, func(phase string, r *results.Row) {
			p := runs[id][phase]
			r.Workload, r.Target, r.Members = "bonnie", "/dev/md"+r.RAIDLevel, "sda:D:1;sdb:D:2;sdc:D:3;sdd:D:4;sde:D:5;sdf:D:6"
			r.Parameters = "type=bonnie;size=7952m;chunk=8k;seeks=8192;seekers=3;files=16;file_size_min=16;file_size_max=100000;directories=64"
			r.Engine, r.Threads = "psync", results.IntOf(1)
			if v := figure(t, p["value"]); p["unit"] == "KiB/s" {
				r.MBPerS = results.NumOf(v * 1024 / 1e6)
			} else {
				r.IOPS = results.NumOf(v)
			}
			r.CPUUserS, r.CPUSysS = results.NumOf(0), results.NumOf(figure(t, p["cpu_pct"])*30/100)
			r.LatMaxUS = results.NumOf(float64(1000 * len(phase)))
			if phase == "write" {
				r.ObservedDepth = results.NumOf(figure(t, r.QueueDepth) * 0.85)
			}
		})
	}
	d := n.data()
	d.Dir, d.Name = "./bonnie-2007-20250314-220411", "bonnie-2007"
	return d
}

func bonnie(t *testing.T, d Data, width int, onlyCSV bool) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Bonnie(&b, d, width, onlyCSV))
	return b.String()
}

func TestBonnie(t *testing.T) {
	for _, width := range []int{80, 120} {
		got := bonnie(t, bonnie2007(t), width, false)
		golden(t, fmt.Sprintf("bonnie-2007-%d.txt", width), got)
		assert.NotContains(t, got, "+++")
		table, _, _ := strings.Cut(got, "\n1.98,")
		for line := range strings.SplitSeq(table, "\n") {
			assert.LessOrEqual(t, len([]rune(line)), width, line)
		}
	}
}

// The summary of a run has the five phases that most people look at, and a report all twelve.
func TestBonnieInTheSummary(t *testing.T) {
	d := bonnie2007(t)
	for _, width := range []int{80, 120} {
		golden(t, fmt.Sprintf("bonnie-2007-summary-%d.txt", width), text(t, d, width))
	}
	assert.Contains(t, text(t, d, 80), "write  rewrite  read  seeks  seq_create\n")
	d.All = true
	golden(t, "bonnie-2007-all-80.txt", text(t, d, 80))
}

// Two sweeps and two workloads of a cell are four machines, each with a name of its own.
func TestBonnieNamesItsMachines(t *testing.T) {
	var n night
	for _, sweep := range []string{"first", "second"} {
		n.run("queue_depth=1", 1, 1, []string{"write", "read"}, func(phase string, r *results.Row) {
			r.Sweep, r.Workload, r.Parameters = sweep, "b-"+phase, "type=bonnie;size=1536k"
			r.Phase, r.MBPerS = "write", results.NumOf(1.024)
		})
	}
	got := bonnie(t, n.data(), 120, true)
	for i, name := range []string{"b-write first", "b-read first", "b-write second", "b-read second"} {
		assert.Contains(t, got, fmt.Sprintf("1.98,qdsweep,%d queue_depth=1 %s,1,,1.5M,,,,,,1000,,", i+1, name))
	}
	for line := range strings.SplitSeq(strings.TrimSpace(got), "\n") {
		assert.Equal(t, 49, strings.Count(line, ","), "bonnie++ 2.00 has 50 fields")
	}
}

func TestNoBonnie(t *testing.T) {
	var none *NoBonnieError
	require.ErrorAs(t, Bonnie(&bytes.Buffer{}, mixed(), 120, false), &none)
}

// A cell that never got anywhere stands in the table, and has no line of CSV.
func TestBonnieThatFailed(t *testing.T) {
	var n night
	n.run("queue_depth=1", 1, 1, []string{"putc"}, func(_ string, r *results.Row) {
		r.Workload, r.Parameters, r.Status, r.Reason = "bonnie", "type=bonnie;size=4g", results.Failed, results.Error.With("write: ENOSPC")
	})
	got := bonnie(t, n.data(), 120, false)
	assert.Contains(t, got, "queue_depth=1 4096M     -   -     -")
	assert.Contains(t, got, "  failed   queue_depth=1#1  error: write: ENOSPC\n")
	assert.NotContains(t, got, "1.98,")
}
