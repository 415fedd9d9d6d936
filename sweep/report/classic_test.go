package report

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// published is a CSV of figures that were posted, as written down in testdata: a map a row.
func published(t *testing.T, name string) (rows []map[string]string) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for _, record := range all[1:] {
		row := map[string]string{}
		for i, column := range all[0] {
			row[column] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func figure(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return v
}

// threads2007 is the published figures as rows: a run a mode, as the profile's matrix has them.
func threads2007(t *testing.T) Data {
	var n night
	modes := map[string][2]string{ // test: mode, phase
		"lin_read": {"read", "read"}, "rnd_read": {"randread", "randread"}, "lin_write": {"write", "write"}, "rnd_write": {"randwrite", "randwrite"},
		"lin_rw_r": {"read+write", "read+write/r"}, "lin_rw_w": {"read+write", "read+write/w"},
		"rnd_rw_r": {"randread+randwrite", "randread+randwrite/r"}, "rnd_rw_w": {"randread+randwrite", "randread+randwrite/w"},
	}
	drives := map[string]results.Member{"tcq": {Name: "sdb", Model: "SCSI 74 GB 10k rpm", Serial: "S1"}, "no_ncq": {Name: "sdc", Model: "SATA 250 GB 7200 rpm", Serial: "S2"}}
	for _, p := range published(t, "published/2007-threads-block-size.csv") {
		drive, mode := drives[p["tagging"]], modes[p["test"]]
		cell := fmt.Sprintf("device=serial:%s;block_size=1m;mode=%s;threads=%s", drive.Serial, mode[0], p["threads"])
		for replicate := 1; replicate <= 2; replicate++ {
			n.run(cell, replicate, 1, []string{mode[1]}, func(_ string, r *results.Row) {
				r.Target, r.Members, r.Workload = "/dev/"+drive.Name, results.FormatMembers([]results.Member{drive}), "drive"
				r.AxesEffective = "block_size=1m;mode=" + mode[0] + ";threads=" + p["threads"]
				r.Parameters = "type=io;mode=" + mode[0] + ";runtime=30s;direct=true"
				r.Engine, r.BlockSize, r.Threads = "psync", results.IntOf(1<<20), results.IntOf(int64(figure(t, p["threads"])))
				r.MBPerS = results.NumOf(figure(t, p["mb_per_s"]) * (1 + 0.01*float64(2*replicate-3)))
				r.IOPS = results.NumOf(figure(t, p["mb_per_s"]))
			})
		}
	}
	return n.data()
}

// dd1999 is the published figures of one disk, and a cell of 20 at once.
func dd1999(t *testing.T) Data {
	var n night
	of := map[string]map[string]string{} // depth, step quantity
	var depths []string
	for _, p := range published(t, "published/1999-tagged-depth-dd.csv") {
		if of[p["queue_depth"]] == nil {
			of[p["queue_depth"]] = map[string]string{}
			depths = append(depths, p["queue_depth"])
		}
		of[p["queue_depth"]][p["step"]+" "+p["quantity"]] = p["value"]
	}
	steps := map[string]string{"write": "dd_write", "read": "dd_read", "remove": "rm"}
	for _, depth := range depths {
		n.run("queue_depth="+depth, 1, 1, []string{"write", "read", "remove"}, func(phase string, r *results.Row) {
			value := func(quantity string) results.Num {
				text, ok := of[depth][steps[phase]+" "+quantity]
				if !ok {
					return results.Num{}
				}
				return results.NumOf(figure(t, text))
			}
			r.Workload, r.Engine, r.Threads, r.BlockSize = "dd", "psync", results.IntOf(1), results.IntOf(1<<20)
			r.Parameters = "type=dd;mode=write-read-remove;processes=1;size=1500m;sync=none"
			r.Seconds, r.MBPerS = value("real"), value("rate")
			r.CPUUserS, r.CPUSysS = results.NumOf(0), value("user_sys")
			if phase == "remove" {
				r.IOPS = results.NumOf(1 / figure(t, of[depth]["rm real"]))
			}
		})
	}
	return n.data()
}

// survey is a sweep as of 2008: record sizes by regions by threads, of which one size is over the limit and one run failed.
func survey() Data {
	var n night
	for replicate := 1; replicate <= 3; replicate++ {
		for _, record := range []string{"1m", "64k"} {
			for _, shape := range [][2]int{{1, 1}, {1, 16}, {4, 16}} {
				cell := fmt.Sprintf("queue_depth=31;block_size=%s;regions=%d;threads=%d", record, shape[0], shape[1])
				n.run(cell, replicate, 1, []string{"write", "read"}, func(phase string, r *results.Row) {
					bytes, _ := size(record)
					r.Workload, r.Engine, r.BlockSize, r.Threads = phase, "sg", results.IntOf(int64(bytes)), results.IntOf(shape[1])
					r.Parameters = fmt.Sprintf("type=io;mode=%s;regions=%d;size=8g;runtime=0s;sync=none;direct=true", phase, shape[0])
					if record == "1m" && phase == "read" {
						r.Reason = results.OverTheLimit.With("EINVAL: a record of 1024 KiB, and sdb takes 128")
						r.Seconds = results.NumOf(0.001)
						return
					}
					speed := 100 + 3*float64(shape[1]) - 7*float64(shape[0]) + float64(replicate)
					r.MBPerS, r.MBPerSSlowest, r.IOPS = results.NumOf(speed), results.NumOf(0.9*speed), results.NumOf(speed*10)
					if shape[0] == 4 && record == "64k" && phase == "read" {
						r.Status, r.Reason, r.MBPerS, r.MBPerSSlowest = results.Failed, results.Error.With("read 65536 bytes at 0: EIO"), results.Num{}, results.Num{}
					}
				})
			}
		}
	}
	return n.data()
}

// The old experiments look as they were posted, and every figure is where it was.
func TestClassicTables(t *testing.T) {
	for name, d := range map[string]Data{"threads-2007": threads2007(t), "dd-1999": dd1999(t), "sgpdd": survey()} {
		for _, width := range []int{80, 120} {
			d.All = true
			got := text(t, d, width)
			golden(t, fmt.Sprintf("%s-%d.txt", name, width), got)
			for line := range strings.SplitSeq(got, "\n") {
				assert.LessOrEqual(t, len([]rune(line)), width, line)
			}
		}
		d.All = false
		assert.NotContains(t, text(t, d, 120), "10^6", "the summary of a run has no further tables")
	}
}

// What two workloads of a cell do alike is not put on one line.
func TestClassicTablesTellWorkloadsApart(t *testing.T) {
	var n night
	for i, sweep := range []string{"first", "second"} {
		n.run("queue_depth=4", 1, 1, []string{"one", "twenty"}, func(name string, r *results.Row) {
			r.Sweep, r.Workload, r.Phase, r.Engine = sweep, name, "write", "psync"
			r.Threads, r.Parameters = results.IntOf(map[string]int{"one": 1, "twenty": 20}[name]), "type=dd;mode=write;size=1g"
			r.MBPerS, r.CPUUserS, r.CPUSysS = results.NumOf(float64(10*len(name)+i)), results.NumOf(1), results.NumOf(0.5)
		})
	}
	d := n.data()
	d.All = true
	got := text(t, d, 120)
	assert.Contains(t, got, "first       4        4    1g          1  30.000    1.500 30.00\n")
	assert.Contains(t, got, "second      4        4    1g         20  30.000    1.500 61.00\n")

	rows := collect(d)
	for i := range rows {
		rows[i].Threads, rows[i].Engine = results.IntOf(1), "sg"
	}
	d.Rows = RowsOf(rows)
	got = text(t, d, 120)
	assert.Contains(t, got, "workload  queue_depth     size  write")
	assert.NotContains(t, got, "sgpdd", "dd by engine sg is dd all the same")
	assert.Contains(t, got, "twenty        4        4    1g  30.000    1.500 61.00\n")
}
