package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

var update = flag.Bool("update", false, "write the golden files anew; look at them before you commit them")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func text(t *testing.T, d Data, width int) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Text(&b, d, width))
	return b.String()
}

var start = time.Date(2025, 3, 14, 22, 4, 11, 0, time.FixedZone("", 3600))

// night makes rows by hand, a run at a time.
type night struct {
	rows  []results.Row
	clock time.Duration
}

// run adds a run of one cell; set fills in what differs.
func (n *night) run(cell string, replicate, attempt int, phases []string, set func(phase string, r *results.Row)) {
	first := len(n.rows)
	for i, phase := range phases {
		r := results.Row{
			Schema: 1, Sweep: "demo-20250314-220411", Cell: cell, Replicate: replicate, Attempt: attempt, Row: i + 1, Rows: len(phases),
			Run: fmt.Sprintf("%s#%d", cell, replicate), Started: start.Add(n.clock), Host: "lab1", Kernel: "6.1.0", Target: "/dev/sdb",
			Members: "sdb:DISK400SATA:S0000002", Workload: "w", Phase: phase, Status: results.OK, Restored: true, Seconds: results.NumOf(30),
		}
		for _, pair := range strings.Split(cell, ";") {
			axis, level, _ := strings.Cut(pair, "=")
			switch axis {
			case "queue_depth":
				r.QueueDepth, r.QueueDepthEffective = level, level
			case "write_cache":
				r.WriteCache, r.WriteCacheEffective = level, level
			case "max_sectors_kb":
				r.MaxSectorsKB, r.MaxSectorsKBEffective = level, level
			case "raid_level":
				r.RAIDLevel = level
			}
		}
		set(phase, &r)
		n.clock += 40 * time.Second
		n.rows = append(n.rows, r)
	}
	for i := range n.rows[first:] {
		n.rows[first+i].Rows = len(n.rows) - first
	}
}

func (n *night) data() Data {
	audit, _ := results.AuditOf(RowsOf(n.rows)(), 0)
	audit.Planned, audit.Remaining = audit.Done(), 0
	return Data{Name: "demo", Rows: RowsOf(n.rows), Audit: audit}
}

// raid is a sweep as of 2007: three axes, six phases of one workload.
func raid() Data {
	var n night
	for replicate := 1; replicate <= 3; replicate++ {
		for _, c := range []struct {
			cell  string
			depth float64
			of    [6]float64
		}{
			{"raid_level=5;queue_depth=31;write_cache=off", 26.2, [6]float64{35.3, 25.7, 170.7, 289, 1376, 2901}},
			{"raid_level=10;queue_depth=1;write_cache=off", 1, [6]float64{70.1, 39.8, 149.5, 358, 634, 1705}},
			{"raid_level=5;queue_depth=1;write_cache=off", 1, [6]float64{32.1, 24.4, 196.6, 290, 676, 1380}},
			{"raid_level=5;queue_depth=1;write_cache=on", 1, [6]float64{35.4, 26.5, 198, 305, 1236, 2410}},
			{"raid_level=5;queue_depth=31;write_cache=on", 25.8, [6]float64{36.3, 26.8, 172.1, 304, 1291, 2700}},
			{"raid_level=10;queue_depth=31;write_cache=off", 27, [6]float64{113.5, 50, 145.6, 364, 1714, 3120}},
		} {
			noise := 1 + 0.01*float64(replicate-2)
			phases := []string{"block write", "rewrite", "block read", "random seeks", "create", "delete"}
			n.run(c.cell, replicate, 1, phases, func(phase string, r *results.Row) {
				r.Workload, r.Target, r.Members = "bonnie", "/dev/md"+r.RAIDLevel, "sda:D:1;sdb:D:2;sdc:D:3;sdd:D:4;sde:D:5;sdf:D:6"
				for i, p := range phases {
					if p == phase && i < 3 {
						r.MBPerS = results.NumOf(c.of[i] * noise)
					} else if p == phase {
						r.IOPS = results.NumOf(c.of[i] * noise)
					}
				}
				if phase == "block write" {
					r.ObservedDepth = results.NumOf(c.depth)
				}
				if replicate == 2 && c.depth == 26.2 {
					r.Status, r.Reason = results.Suspect, results.Moved.With("sdc: write_cache moved: off → on")
				}
			})
		}
	}
	d := n.data()
	d.Description = "NCQ on and off, write cache on and off, on RAID-5 and RAID-10"
	d.Dir = "./bonnie-2007-20250314-220411"
	d.Settings = []string{"sda-sdf are as they were: queue_depth 31, write_cache on, max_sectors_kb 512"}
	d.Next = "sudo qdsweep resume --retry-failed ./bonnie-2007-20250314-220411     (exit 4: 1 run is not ok)"
	return d
}

// mixed is everything that can happen in a night, over two workloads.
func mixed() Data {
	var n night
	phases := []string{"write", "randread"}
	for replicate := 1; replicate <= 2; replicate++ {
		for _, depth := range []string{"31", "4", "1"} {
			for _, kb := range []string{"128", "8"} {
				cell := "queue_depth=" + depth + ";max_sectors_kb=" + kb
				set := func(phase string, r *results.Row) {
					r.Workload = map[string]string{"write": "seq-write", "randread": "rnd-4k"}[phase]
					if depth == "31" {
						r.QueueDepthEffective = "30"
						r.Reason = results.ClampedReason("queue_depth", "31", "30")
					}
					speed := 20 + 3*float64(len(depth)+len(kb)+replicate)
					r.MBPerS, r.IOPS = results.NumOf(speed), results.NumOf(speed*256)
					r.ObservedDepth, r.ObservedRequestKB = results.NumOf(1), results.NumOf(4)
					if phase == "write" {
						r.ObservedRequestKB = results.NumOf(map[string]float64{"8": 8, "128": 126.5}[kb])
						if depth != "1" {
							r.Reason = results.JoinReasons(r.Reason, results.DepthNotExercised.With("at most 1 of "+depth))
						}
						return
					}
					r.MBPerS = results.NumOf(speed * 256 * 4096 / 1e6)
					r.ObservedDepth = results.NumOf(map[string]float64{"1": 1, "4": 3.9, "31": 27.4}[depth])
					r.LatP99US = results.NumOf(15200)
				}
				if cell == "queue_depth=4;max_sectors_kb=8" && replicate == 2 {
					n.run(cell, replicate, 1, phases[:1], func(phase string, r *results.Row) {
						set(phase, r)
						r.Status, r.Reason, r.MBPerS = results.Failed, results.Error.With("write 1048576 bytes at 73400320: EIO (input/output error)"), results.Num{}
					})
					n.run(cell, replicate, 2, phases, set)
					continue
				}
				if cell == "queue_depth=1;max_sectors_kb=8" && replicate == 2 {
					n.run(cell, replicate, 1, phases[:1], func(phase string, r *results.Row) {
						set(phase, r)
						r.Status, r.Reason, r.MBPerS = results.Failed, results.DeviceLost.With("read returned 0 bytes at 73400320, and sdb is no longer in /sys/block"), results.Num{}
					})
					continue
				}
				n.run(cell, replicate, 1, phases, set)
			}
		}
		n.run("queue_depth=64;max_sectors_kb=8", replicate, 1, []string{""}, func(_ string, r *results.Row) {
			r.Workload, r.Status, r.QueueDepthEffective, r.Seconds = "", results.Skipped, "", results.Num{}
			r.Reason = results.Unsupported.With("queue_depth 64: sdb can have 1 to 32")
		})
	}
	d := n.data()
	d.Audit.Planned, d.Audit.Remaining = 16, 2
	return d
}

// awkward is field case 28, and a sweep without an interval.
func awkward() Data {
	var n night
	on := func(r *results.Row) {
		r.Members = results.FormatMembers([]results.Member{{Name: "sdb", Model: "KINGSTON SFYR2S1T0      ", Serial: "=cmd"}})
		r.Target = "/dev/sdb\x1b[2J\u202e"
	}
	n.run("scheduler=<script>alert(1)</script>", 1, 1, []string{"read"}, func(_ string, r *results.Row) {
		on(r)
		r.MBPerS = results.NumOf(0.00123)
	})
	n.run("scheduler=\x1b]0;x\x07", 1, 1, []string{"read"}, func(_ string, r *results.Row) {
		on(r)
		r.Status, r.Reason, r.Restored = results.Failed, results.Error.With("model \"a\nb\", \u009b31m"), false
	})
	return n.data()
}

func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		d     Data
		width int
	}{
		"raid-120.txt":  {raid(), 120},
		"raid-80.txt":   {raid(), 80},
		"mixed-120.txt": {mixed(), 120},
		"mixed-80.txt":  {mixed(), 80},
		"awkward.txt":   {awkward(), 80},
		"devices.txt":   {devices(), 120},
		"1999-120.txt":  {tagged1999(), 120},
		"1999-80.txt":   {tagged1999(), 80},
	} {
		t.Run(name, func(t *testing.T) {
			got := text(t, c.d, c.width)
			golden(t, name, got)
			for line := range strings.SplitSeq(got, "\n") {
				if strings.HasPrefix(line, "next ") || strings.HasPrefix(line, "results ") {
					continue // to be copied in one piece
				}
				assert.LessOrEqual(t, utf8.RuneCountInString(line), c.width, line)
			}
			assert.NotContains(t, got, "\x1b")
			assert.NotContains(t, got, "\u009b")
		})
	}
}

func TestTextShowsEveryPhaseWhenAsked(t *testing.T) {
	d := raid()
	d.All = true
	golden(t, "raid-80-all.txt", text(t, d, 80))
}

func TestJSON(t *testing.T) {
	for name, d := range map[string]Data{"mixed.json": mixed(), "awkward.json": awkward(), "devices.json": devices()} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, JSON(&b, d))
			golden(t, name, b.String())
			var any map[string]any
			require.NoError(t, json.Unmarshal(b.Bytes(), &any))
			assert.NotContains(t, b.String(), "\u009b")
		})
	}
}

// Figures of the null engine are no drive's, and nobody shall take them for one.
func TestTheNullEngineIsNamed(t *testing.T) {
	var n night
	for i := range 2 {
		n.run("queue_depth=1", i+1, 1, []string{"randread"}, func(_ string, r *results.Row) { r.Engine, r.IOPS = "null", results.NumOf(1e7) })
	}
	got := text(t, n.data(), 200)
	assert.Equal(t, 1, strings.Count(got, "warning    workload w ran with the engine null, which does no I/O: its figures time qdsweep, not a drive\n"), got)
}

func TestNoRows(t *testing.T) {
	d := Data{Name: "demo", Rows: RowsOf(nil), Audit: results.Audit{Planned: 3, Remaining: 3}, Dir: "demo"}
	golden(t, "none.txt", text(t, d, 80))
	var b bytes.Buffer
	require.NoError(t, JSON(&b, d))
	assert.NotContains(t, b.String(), "null")
}

func TestErrorsOfTheRows(t *testing.T) {
	with := func(err error) Data {
		d := raid()
		rows := d.Rows
		d.Rows = func() iter.Seq2[results.Row, error] {
			return func(yield func(results.Row, error) bool) {
				for r := range rows() {
					if !yield(r, nil) {
						return
					}
				}
				yield(results.Row{}, err)
			}
		}
		return d
	}
	got := text(t, with(&results.TornError{Line: 99, Bytes: 7, Reason: "NUL bytes"}), 120)
	assert.Contains(t, got, "warning    line 99: 7 bytes at the end are no whole run (NUL bytes)\n")
	assert.ErrorContains(t, Text(&bytes.Buffer{}, with(&results.SchemaError{Schema: 2}), 120), "schema 2")
	assert.ErrorContains(t, JSON(&bytes.Buffer{}, with(os.ErrClosed)), "closed")
}

// The rows of a run share its start, and still take their time one after another.
func TestWhenASweepEnded(t *testing.T) {
	var n night
	n.run("queue_depth=1", 1, 1, []string{"write", "read", "randread"}, func(_ string, r *results.Row) { r.Started = start })
	assert.Contains(t, text(t, n.data(), 120), "2025-03-14 22:04 to 22:05 (2 min)\n")
}
