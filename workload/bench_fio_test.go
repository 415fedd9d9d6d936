package workload

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const benchBytes = 256 << 20

// place is where ours and fio are compared.
type place struct {
	name  string
	path  string // "": it cannot be had here
	why   string // not
	lines []comparison
}

// BenchmarkAgainstFio measures ours and fio, in turn, with the same settings, and prints Markdown. It judges nothing.
//
//	QDSWEEP_BENCH_FILE   a file or device instead of the places below; a device's contents are not kept
//	QDSWEEP_BENCH_PLACE  one of loop, ext4, shm
//	QDSWEEP_BENCH_LINE   a part of a line, like "io_uring, 1 randread 4k"
//	QDSWEEP_BENCH_PAIRS  pairs a line
//	QDSWEEP_BENCH_MS     of each measurement
func BenchmarkAgainstFio(t *testing.B) {
	if _, err := exec.LookPath("fio"); err != nil {
		t.Skip("the comparison needs fio (apt-get install fio)")
	}
	fmt.Printf("\n<!-- bench fio -->\n%s\n", machine(t))
	for _, p := range places(t) {
		if only := os.Getenv("QDSWEEP_BENCH_PLACE"); only != "" && !strings.HasPrefix(p.name, only) {
			continue
		}
		if p.path == "" {
			fmt.Printf("\n%s: not here (%s)\n", p.name, p.why)
			continue
		}
		b := openBench(t, p.path, 7, 0.4)
		fmt.Printf("\n%s; %d pairs of %s, in turn:\n\n", p.name, b.pairs, milliseconds(b.seconds))
		fmt.Println("| engine, depth | mode | IOPS ours / fio | MB/s ours / fio | ours ÷ fio | CPU µs an I/O, ours / fio | ours ÷ fio | p50 µs | p99 µs | p99.9 µs |")
		fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
		for _, c := range p.lines {
			if !strings.Contains(c.name()+" "+c.mode+" "+c.block, os.Getenv("QDSWEEP_BENCH_LINE")) {
				continue
			}
			ours, theirs := b.compare(t, c)
			both := func(of func(numbers) float64) string {
				return figure(median(ours, of)) + " / " + figure(median(theirs, of))
			}
			fmt.Printf("| %s | %s %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", c.name(), c.mode, c.block, both(iops), both(mbs), spread(ours, theirs, iops),
				both(cpuUS), spread(ours, theirs, cpuUS), both(p50), both(p99), both(p999))
		}
	}
	fmt.Println("<!-- /bench -->")
}

func (c comparison) name() string {
	name := fmt.Sprintf("%s, %d", c.engine, c.depth)
	if c.note != "" {
		name += " (" + c.note + ")"
	}
	return name
}

// spread is the median of the pairs' ratios with the 95 % interval of their mean.
func spread(ours, theirs []numbers, of func(numbers) float64) string {
	m, low, high := ratio(ours, theirs, of)
	return fmt.Sprintf("%.2f [%.2f, %.2f]", m, low, high)
}

// figure is a number to three digits or to the unit, whichever is finer.
func figure(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// machine describes it in a line of Markdown.
func machine(t testing.TB) string {
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	load, _ := os.ReadFile("/proc/loadavg")
	version, _ := exec.Command("fio", "--version").Output()
	cpu, _ := os.ReadFile("/proc/cpuinfo")
	model := "unknown"
	if _, rest, ok := strings.Cut(string(cpu), "model name"); ok {
		line, _, _ := strings.Cut(rest, "\n")
		model = strings.Trim(line, "\t :")
	}
	var info unix.Sysinfo_t
	require.NoError(t, unix.Sysinfo(&info))
	return fmt.Sprintf("%d × %s, %.0f GiB, Linux %s, %s, %s, load average %s at the start.", runtime.NumCPU(), model, float64(info.Totalram)*float64(info.Unit)/(1<<30),
		unix.ByteSliceToString(u.Release[:]), strings.TrimSpace(string(version)), runtime.Version(), strings.Join(strings.Fields(string(load))[:1], ""))
}

// places are a loop device, a file of a file system on a disk, and a file in memory. The loop device shows most: its
// requests are answered by another thread, as a drive's are, and fast.
func places(t testing.TB) []place {
	random := []comparison{
		{engine: "psync", depth: 1, mode: "randread", block: "4k"}, {engine: "libaio", depth: 32, mode: "randread", block: "4k"},
		{engine: "io_uring", depth: 1, mode: "randread", block: "4k"}, {engine: "io_uring", depth: 32, mode: "randread", block: "4k"},
	}
	var sequential []comparison
	for _, mode := range []string{"read", "write"} {
		for _, c := range random {
			c.mode, c.block = mode, "1m"
			sequential = append(sequential, c)
		}
	}
	batches := []string{"--iodepth_batch_submit=32", "--iodepth_batch_complete_min=1", "--iodepth_batch_complete_max=32"}
	tuned := []comparison{
		{engine: "libaio", depth: 32, mode: "randread", block: "4k", fio: batches, note: "fio in batches"},
		{engine: "io_uring", depth: 32, mode: "randread", block: "4k", fio: append(batches, "--fixedbufs", "--registerfiles"), note: "fio in batches, fixed buffers and file"},
	}
	all := append(append(append([]comparison{}, random...), tuned...), sequential...)
	if path := os.Getenv("QDSWEEP_BENCH_FILE"); path != "" {
		return []place{{name: path, path: path, lines: all}}
	}
	few := append(append([]comparison{}, random...), sequential[0], sequential[4])
	shm, err := benchFile(t, "/dev/shm")
	require.NoError(t, err)
	loop, err := loopDevice(t, shm)
	p := []place{{name: "loop: a loop device on a file in /dev/shm", path: loop, lines: all}}
	if err != nil {
		p[0].why = err.Error()
	}
	disk, err := benchFile(t, "/var/tmp")
	require.NoError(t, err)
	p = append(p, place{name: "ext4: a file in /var/tmp", path: disk, lines: few}, place{name: "shm: a file in /dev/shm", path: shm, lines: few})
	for i := range p[1:] {
		if err := takesDirect(p[i+1].path); err != nil {
			p[i+1].path, p[i+1].why = "", err.Error()
		}
	}
	return p
}

func takesDirect(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return fmt.Errorf("open with O_DIRECT: %w", err)
	}
	return unix.Close(fd)
}

func benchFile(t testing.TB, where string) (string, error) {
	dir, err := os.MkdirTemp(where, "qdsweep-bench-")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "file")
	b := make([]byte, benchBytes)
	r := newRNG(1)
	fill(b, &r)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	return path, errors.Join(f.Sync(), f.Close())
}

// loopDevice is one on a file, whose own I/O goes through the page cache, which is the file itself in /dev/shm.
func loopDevice(t testing.TB, path string) (string, error) {
	if err := unix.Access("/dev/loop-control", unix.R_OK|unix.W_OK); err != nil {
		return "", fmt.Errorf("/dev/loop-control: %w", err)
	}
	out, err := exec.Command("losetup", "--find", "--show", path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("losetup: %s", strings.TrimSpace(string(out)))
	}
	name := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", name).Run() })
	return name, nil
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
