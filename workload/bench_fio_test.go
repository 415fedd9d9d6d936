package workload

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// numbers are one measurement, ours or fio's.
type numbers struct{ iops, mbs, cpuUS, p50, p99, p999 float64 }

type comparison struct {
	engine string
	depth  int
	mode   string
	block  string
}

// BenchmarkAgainstFio prints a table of ours and fio, in turn, on one file with the same settings. It
// judges nothing. `make bench` runs it; about five minutes.
//
//	QDSWEEP_BENCH_FILE     the file or device (default: 256 MiB in /dev/shm); device contents are not kept
//	QDSWEEP_BENCH_PAIRS    pairs a line (default 7)
//	QDSWEEP_BENCH_SECONDS  of each measurement (default 2)
func BenchmarkAgainstFio(t *testing.B) {
	fio, err := exec.LookPath("fio")
	if err != nil {
		t.Skip("the comparison needs fio (apt-get install fio)")
	}
	pairs, seconds := setting(t, "QDSWEEP_BENCH_PAIRS", 7), setting(t, "QDSWEEP_BENCH_SECONDS", 2)
	path := benchFile(t)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	size, err := f.Seek(0, 2)
	require.NoError(t, err)
	w, _ := startWorker(t, "worker", os.Stderr)

	idle := fioItself(t, fio)
	version, _ := exec.Command(fio, "--version").Output()
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("Linux %s, %d CPUs, load %s; %s, %s, direct; %d pairs of %d s, in turn\n", unix.ByteSliceToString(u.Release[:]), runtime.NumCPU(),
		strings.Join(strings.Fields(string(load))[:1], ""), path, FormatSize(size), pairs, seconds)
	fmt.Printf("from column 7 on ours ÷ %s: the median of the pairs [95 %% interval of the mean ratio]\n", strings.TrimSpace(string(version)))
	fmt.Printf("%-9s %5s %-9s %5s %10s %10s  %-22s %-22s %6s %6s %6s\n",
		"engine", "depth", "mode", "block", "ours IOPS", "fio IOPS", "IOPS", "CPU/IO", "p50", "p99", "p99.9")
	for _, c := range []comparison{
		{"psync", 1, "randread", "4k"}, {"libaio", 1, "randread", "4k"}, {"libaio", 32, "randread", "4k"},
		{"io_uring", 1, "randread", "4k"}, {"io_uring", 32, "randread", "4k"},
		{"psync", 1, "read", "1m"}, {"io_uring", 4, "read", "1m"}, {"psync", 1, "write", "1m"}, {"io_uring", 4, "write", "1m"},
	} {
		s := spec(t, "io", "engine="+c.engine, "mode="+c.mode, "block_size="+c.block, "iodepth="+strconv.Itoa(c.depth),
			fmt.Sprintf("runtime=%ds", seconds), fmt.Sprintf("warmup=%gs", ramp))
		var ours, theirs []numbers
		for i := range pairs {
			one := func() {
				results, err := w.Run(t.Context(), s, Target{File: f, Name: path, Bytes: size, LogicalBlock: 512}, uint64(i))
				require.NoError(t, err)
				require.Empty(t, results[0].Err)
				r := results[0]
				ours = append(ours, numbers{
					float64(r.Operations) / r.Window.Seconds(), float64(r.Bytes) / r.Window.Seconds() / 1e6,
					(r.CPUUserS + r.CPUSysS) * 1e6 / float64(r.Operations), r.Latency.P50US, r.Latency.P99US, r.Latency.P999US,
				})
			}
			other := func() { theirs = append(theirs, runFio(t, fio, path, size, c, seconds, idle)) }
			if i%2 == 0 {
				one()
				other()
			} else {
				other()
				one()
			}
		}
		iops := func(n numbers) float64 { return n.iops }
		line := fmt.Sprintf("%-9s %5d %-9s %5s %10.0f %10.0f", c.engine, c.depth, c.mode, c.block, median(ours, iops), median(theirs, iops))
		for _, of := range []func(numbers) float64{iops, func(n numbers) float64 { return n.cpuUS }} {
			m, low, high := ratio(ours, theirs, of)
			line += fmt.Sprintf("  %.3f [%.3f, %.3f]  ", m, low, high)
		}
		for _, of := range []func(numbers) float64{func(n numbers) float64 { return n.p50 }, func(n numbers) float64 { return n.p99 }, func(n numbers) float64 { return n.p999 }} {
			m, _, _ := ratio(ours, theirs, of)
			line += fmt.Sprintf(" %6.2f", m)
		}
		fmt.Println(line)
	}
}

func setting(t testing.TB, name string, otherwise int) int {
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	require.NoError(t, err, name)
	return n
}

func benchFile(t testing.TB) string {
	if path := os.Getenv("QDSWEEP_BENCH_FILE"); path != "" {
		return path
	}
	dir, err := os.MkdirTemp("/dev/shm", "qdsweep-bench-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "file")
	b := make([]byte, 256<<20)
	r := newRNG(1)
	fill(b, &r)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

func runFio(t testing.TB, fio, path string, size int64, c comparison, seconds int, idle float64) numbers {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), fio, "--name=x", "--filename="+path, "--direct=1", "--rw="+c.mode, "--bs="+c.block,
		"--ioengine="+c.engine, "--iodepth="+strconv.Itoa(c.depth), "--norandommap", "--randrepeat=0", "--time_based", fmt.Sprintf("--ramp_time=%gs", ramp),
		fmt.Sprintf("--runtime=%d", seconds), fmt.Sprintf("--size=%d", size), "--lat_percentiles=1", "--clat_percentiles=0", "--output-format=json")
	out, err := cmd.Output()
	require.NoError(t, err)
	type side struct {
		IOPS      float64 `json:"iops"`
		Bandwidth float64 `json:"bw_bytes"`
		Latency   struct {
			Percentile map[string]float64 `json:"percentile"`
		} `json:"lat_ns"` // from submission, as ours; clat begins after it
	}
	var report struct {
		Jobs []struct {
			Read, Write side
		} `json:"jobs"`
	}
	text := string(out)
	require.NoError(t, json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &report))
	job := report.Jobs[0]
	one := job.Read
	if strings.Contains(c.mode, "write") {
		one = job.Write
	}
	us := func(p string) float64 { return one.Latency.Percentile[p] / 1000 }
	return numbers{
		one.IOPS, one.Bandwidth / 1e6, max(cpuSeconds(cmd)-idle, 0.001) * 1e6 / (one.IOPS * (float64(seconds) + ramp)),
		us("50.000000"), us("99.000000"), us("99.900000"),
	}
}

// ramp is both sides' warm-up in seconds.
const ramp = 0.2

// cpuSeconds is of fio's processes and all their threads. Its own usr_cpu and sys_cpu leave out the
// kernel's threads that do io_uring's work for it, which our numbers have in them.
func cpuSeconds(cmd *exec.Cmd) float64 {
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// fioItself is the CPU time of starting and ending fio, which is not the I/O's.
func fioItself(t testing.TB, fio string) float64 {
	var all []float64
	for range 5 {
		cmd := exec.Command(fio, "--name=x", "--ioengine=null", "--size=4k", "--output-format=json")
		require.NoError(t, cmd.Run())
		all = append(all, cpuSeconds(cmd))
	}
	slices.Sort(all)
	return all[2]
}

func median(all []numbers, of func(numbers) float64) float64 {
	var v []float64
	for _, n := range all {
		v = append(v, of(n))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// ratio is ours ÷ fio's, pair by pair: the median, and the 95 % interval of the mean of the logarithms.
func ratio(ours, theirs []numbers, of func(numbers) float64) (mid, low, high float64) {
	var all []numbers
	mean, squares := 0.0, 0.0
	n := float64(len(ours))
	for i := range ours {
		r := of(ours[i]) / of(theirs[i])
		all = append(all, numbers{iops: r})
		mean += math.Log(r) / n
	}
	for _, r := range all {
		squares += math.Pow(math.Log(r.iops)-mean, 2)
	}
	half := math.Inf(1)
	if n > 1 {
		half = student(len(ours)-1) * math.Sqrt(squares/(n-1)/n)
	}
	return median(all, func(n numbers) float64 { return n.iops }), math.Exp(mean - half), math.Exp(mean + half)
}

// student is the 97.5 % point of the t distribution.
func student(degrees int) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145}
	if degrees <= len(table) {
		return table[degrees-1]
	}
	return 1.96 + 2.5/float64(degrees)
}
