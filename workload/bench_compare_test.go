package workload

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// numbers are one measurement, ours or fio's.
type numbers struct{ iops, mbs, cpuUS, mean, p50, p99, p999 float64 }

func iops(n numbers) float64  { return n.iops }
func mbs(n numbers) float64   { return n.mbs }
func cpuUS(n numbers) float64 { return n.cpuUS }
func p50(n numbers) float64   { return n.p50 }
func p99(n numbers) float64   { return n.p99 }
func p999(n numbers) float64  { return n.p999 }
func slots(n numbers) float64 { return n.iops * n.mean / 1e6 } // Little's law: how many are outstanding

// comparison is one line of a table: ours and fio with the same settings.
type comparison struct {
	engine string
	depth  int
	mode   string
	block  string
	fio    []string // further options of fio's
	note   string   // what they mean
}

// bench measures comparisons on one target.
type bench struct {
	fio     string
	path    string
	file    *os.File
	bytes   int64
	worker  *Worker
	pairs   int
	seconds float64
	ramp    float64 // both sides' warm-up
}

// openBench makes path, a file or a device, ready to be compared on.
func openBench(t testing.TB, path string, pairs int, seconds float64) *bench {
	t.Helper()
	fio, err := exec.LookPath("fio")
	if err != nil {
		t.Skip("the comparison needs fio (apt-get install fio)")
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	size, err := f.Seek(0, 2)
	require.NoError(t, err)
	w, _ := startWorker(t, "worker", os.Stderr)
	return &bench{
		fio: fio, path: path, file: f, bytes: size, worker: w,
		pairs: setting(t, "QDSWEEP_BENCH_PAIRS", pairs), seconds: float64(setting(t, "QDSWEEP_BENCH_MS", int(seconds*1000))) / 1000, ramp: 0.1,
	}
}

// compare measures ours and fio in turn, now one and then the other first, so that what the machine does meanwhile
// is in both.
func (b *bench) compare(t testing.TB, c comparison) (ours, theirs []numbers) {
	t.Helper()
	for i := range b.pairs {
		if i%2 == 0 {
			ours = append(ours, b.oursAtLast(t, c, uint64(i)))
		}
		theirs = append(theirs, b.theirsAtLast(t, c))
		if i%2 == 1 {
			ours = append(ours, b.oursAtLast(t, c, uint64(i)))
		}
	}
	return ours, theirs
}

func (b *bench) ours(t testing.TB, c comparison, seed uint64) numbers {
	t.Helper()
	s := spec(t, "io", "engine="+c.engine, "mode="+c.mode, "block_size="+c.block, "iodepth="+strconv.Itoa(c.depth),
		"runtime="+milliseconds(b.seconds), "warmup="+milliseconds(b.ramp))
	results, err := b.worker.Run(t.Context(), s, Target{File: b.file, Name: b.path, Bytes: b.bytes, LogicalBlock: 512}, seed)
	require.NoError(t, err)
	r := results[0]
	if r.Idle {
		return numbers{}
	}
	require.Empty(t, r.Err)
	return numbers{
		iops: float64(r.Operations) / r.Window.Seconds(), mbs: float64(r.Bytes) / r.Window.Seconds() / 1e6,
		cpuUS: (r.CPUUserS + r.CPUSysS) * 1e6 / float64(r.Operations),
		mean:  r.Latency.MeanUS, p50: r.Latency.P50US, p99: r.Latency.P99US, p999: r.Latency.P999US,
	}
}

// oursAtLast and theirsAtLast repeat a measurement that was not let run: on a busy machine its window can pass without an I/O.
func (b *bench) oursAtLast(t testing.TB, c comparison, seed uint64) numbers {
	t.Helper()
	return b.atLast(t, c, func() numbers { return b.ours(t, c, seed) })
}

func (b *bench) theirsAtLast(t testing.TB, c comparison) numbers {
	t.Helper()
	return b.atLast(t, c, func() numbers { return b.theirs(t, c) })
}

func (b *bench) atLast(t testing.TB, c comparison, measure func() numbers) numbers {
	t.Helper()
	for range 5 {
		if n := measure(); n.iops > 0 && n.cpuUS > 0 {
			return n
		}
	}
	t.Fatalf("nothing was done in five windows: %s %s %s", c.name(), c.mode, c.block)
	return numbers{}
}

func (b *bench) theirs(t testing.TB, c comparison) numbers {
	t.Helper()
	args := append([]string{
		"--name=x", "--filename=" + b.path, "--direct=1", "--rw=" + c.mode, "--bs=" + c.block, "--ioengine=" + c.engine, "--iodepth=" + strconv.Itoa(c.depth),
		"--norandommap", "--randrepeat=0", "--time_based", "--ramp_time=" + milliseconds(b.ramp), "--runtime=" + milliseconds(b.seconds),
		"--size=" + strconv.FormatInt(b.bytes, 10), "--lat_percentiles=1", "--clat_percentiles=0", "--output-format=json",
	}, c.fio...)
	cmd := exec.CommandContext(t.Context(), b.fio, args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	require.NoError(t, cmd.Start())
	share := cpuShare(cmd.Process.Pid, b.seconds)
	require.NoError(t, cmd.Wait())
	type side struct {
		IOPS      float64 `json:"iops"`
		Bandwidth float64 `json:"bw_bytes"`
		Latency   struct {
			Mean       float64            `json:"mean"`
			Percentile map[string]float64 `json:"percentile"`
		} `json:"lat_ns"` // from submission, as ours; clat begins after it
	}
	var report struct {
		Jobs []struct {
			Read, Write side
		} `json:"jobs"`
	}
	text := out.String()
	require.NoError(t, json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &report))
	one := report.Jobs[0].Read
	if strings.Contains(c.mode, "write") {
		one = report.Jobs[0].Write
	}
	us := func(p string) float64 { return one.Latency.Percentile[p] / 1000 }
	return numbers{
		iops: one.IOPS, mbs: one.Bandwidth / 1e6, cpuUS: share * 1e6 / one.IOPS,
		mean: one.Latency.Mean / 1000, p50: us("50.000000"), p99: us("99.000000"), p999: us("99.900000"),
	}
}

// cpuShare waits until fio's job process ends, and gives the CPU time that it took for each second of its window.
// Looked at from outside, by the process's own CPU clock: fio's usr_cpu and sys_cpu leave out the kernel's threads
// that do io_uring's work for it, which ours have in them, and the time of all of fio has its start in it, whose
// clock calibration alone is a tenth of a second.
func cpuShare(pid int, seconds float64) float64 {
	type look struct{ at, cpu int64 }
	var looks []look
	job := 0
	for {
		if job == 0 {
			job = child(pid)
		}
		if job != 0 {
			cpu, ok := processClock(job)
			if !ok {
				break
			}
			looks = append(looks, look{nanotime(), cpu})
		}
		if unix.Kill(pid, 0) != nil || ended(pid) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	// Its last moments are the end of the window, its report and its exit; what is before the window is ramp and start.
	for len(looks) > 2 && looks[len(looks)-2].cpu == looks[len(looks)-1].cpu {
		looks = looks[:len(looks)-1] // dead, and not waited for yet
	}
	if len(looks) < 2 {
		return math.NaN()
	}
	nearest := func(at int64) int {
		best := 0
		for i, l := range looks {
			if max(l.at-at, at-l.at) < max(looks[best].at-at, at-looks[best].at) {
				best = i
			}
		}
		return best
	}
	end := looks[len(looks)-1].at - int64(0.1*seconds*1e9)
	to := max(1, nearest(end))
	from := min(to-1, nearest(end-int64(0.7*seconds*1e9)))
	return float64(looks[to].cpu-looks[from].cpu) / float64(looks[to].at-looks[from].at)
}

// child is the process that fio forked for its job.
func child(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// ended says whether a child of ours is a zombie.
func ended(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// processClock is the CPU time of a process and all its threads, dead ones included: the clock of clock_getcpuclockid(3).
func processClock(pid int) (ns int64, ok bool) {
	const scheduler = 2 // the clock that counts the time a thread was running, not ticks
	var ts unix.Timespec
	id := int32(^pid<<3 | scheduler)
	_, _, errno := unix.Syscall(unix.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}

func milliseconds(seconds float64) string { return strconv.Itoa(int(math.Round(seconds*1000))) + "ms" }

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
	return median(all, iops), math.Exp(mean - half), math.Exp(mean + half)
}

// student is the 97.5 % point of the t distribution.
func student(degrees int) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145}
	if degrees <= len(table) {
		return table[degrees-1]
	}
	return 1.96 + 2.5/float64(degrees)
}
