package workload

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkBonnieCharacter is the loop of putc and getc with an engine that does nothing: what a character costs.
func BenchmarkBonnieCharacter(b *testing.B) {
	for _, phase := range []string{"putc", "getc"} {
		b.Run(phase, func(b *testing.B) {
			s, _ := NewSpec("b", "bonnie", map[string]string{"engine": "null", "size": fmt.Sprint(max(int64(b.N)&^8191, 8192))})
			run := &bonnie{s: s, tree: newFileTree(s, Target{}, 1), t: Target{}}
			l := run.phase(phase).lanes[0]
			if err := l.setup(); err != nil {
				b.Fatal(err)
			}
			defer l.close()
			b.ResetTimer()
			l.work(nil)
		})
	}
}

// compared are the phases that both are asked about, and where bonnie++ 2.00 has them in its CSV: KiB a second, then %CP.
func compared() map[string]int { return map[string]int{"write": 11, "rewrite": 13, "read": 17} }

// BenchmarkAgainstBonnie measures ours and bonnie++ in turn on one file system, and prints Markdown. It judges nothing.
//
// bonnie++ says before each phase that it waits (-y p); there its file is dropped from the page cache, as ours is before a phase that reads.
// Without that its read would be one of memory, for a file of twice the memory takes hours.
//
//	QDSWEEP_BENCH_DIRECTORY  a directory instead of the places below
//	QDSWEEP_BENCH_BONNIE     megabytes of the file
//	QDSWEEP_BENCH_PLACE      one of loop, disk
//	QDSWEEP_BENCH_PAIRS      pairs
func BenchmarkAgainstBonnie(t *testing.B) {
	program, err := exec.LookPath("bonnie++")
	if err != nil {
		t.Skip("the comparison needs bonnie++ (apt-get install bonnie++)")
	}
	pairs := setting(t, "QDSWEEP_BENCH_PAIRS", 7)
	worker, _ := startWorker(t, "worker", os.Stderr)
	fmt.Printf("\n<!-- bench bonnie -->\n%s\n", machine(t))
	for _, p := range bonniePlaces(t) {
		if !strings.HasPrefix(p.name, os.Getenv("QDSWEEP_BENCH_PLACE")) {
			continue
		}
		if p.why != "" {
			fmt.Printf("\n%s: not here (%s)\n", p.name, p.why)
			continue
		}
		ours, theirs := map[string][]numbers{}, map[string][]numbers{}
		for i := range pairs {
			for turn := range 2 {
				if (i+turn)%2 == 0 {
					add(ours, oursBonnie(t, worker, p.path, p.mb, uint64(i)))
				} else {
					add(theirs, theirBonnie(t, program, p.path, p.mb))
				}
			}
		}
		fmt.Printf("\n%s, a file of %d MiB in chunks of 8 KiB; %d pairs, in turn:\n\n| phase | MB/s ours / bonnie++ | ours ÷ bonnie++ | %%CP ours / bonnie++ |\n|---|---|---|---|\n", p.name, p.mb, pairs)
		for _, phase := range []string{"write", "rewrite", "read"} {
			fmt.Printf("| %s | %s / %s | %s | %s / %s |\n", phase, figure(median(ours[phase], mbs)), figure(median(theirs[phase], mbs)), spread(ours[phase], theirs[phase], mbs),
				figure(median(ours[phase], cpuUS)), figure(median(theirs[phase], cpuUS)))
		}
	}
	fmt.Println("<!-- /bench -->")
}

func add(all, more map[string][]numbers) {
	for phase, n := range more {
		all[phase] = append(all[phase], n...)
	}
}

// bonniePlace is a directory to be compared in.
type bonniePlace struct {
	name, path, why string
	mb              int
}

// bonniePlaces are ext4 on a loop device in memory, where what the programs themselves cost shows most, and the file system of /var/tmp.
func bonniePlaces(t testing.TB) []bonniePlace {
	if dir := os.Getenv("QDSWEEP_BENCH_DIRECTORY"); dir != "" {
		return []bonniePlace{{name: dir, path: dir, mb: setting(t, "QDSWEEP_BENCH_BONNIE", 2048)}}
	}
	disk, err := os.MkdirTemp("/var/tmp", "qdsweep-bench-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(disk) })
	loop := bonniePlace{name: "loop: ext4 on a loop device on a file in /dev/shm", mb: setting(t, "QDSWEEP_BENCH_BONNIE", 2048)}
	if loop.path, err = loopFileSystem(t, int64(loop.mb)*3/2<<20); err != nil {
		loop.why = err.Error()
	}
	return []bonniePlace{loop, {name: "disk: the file system of /var/tmp", path: disk, mb: setting(t, "QDSWEEP_BENCH_BONNIE", 2048)}}
}

func loopFileSystem(t testing.TB, size int64) (string, error) {
	dir, err := os.MkdirTemp("/dev/shm", "qdsweep-bench-")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return "", err
	}
	if err := os.Truncate(image, size); err != nil {
		return "", err
	}
	device, err := loopDevice(t, image)
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device).CombinedOutput(); err != nil {
		return "", fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	mounted := filepath.Join(dir, "mounted")
	if err := os.Mkdir(mounted, 0o700); err != nil {
		return "", err
	}
	if err := unix.Mount(device, mounted, "ext4", 0, ""); err != nil {
		return "", fmt.Errorf("mount %s: %w", device, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
	return mounted, nil
}

func oursBonnie(t testing.TB, w *Worker, path string, mb int, seed uint64) map[string][]numbers {
	t.Helper()
	dir, err := os.Open(path)
	require.NoError(t, err)
	defer dir.Close()
	s := spec(t, "bonnie", "phases=write rewrite read", "files=0", fmt.Sprintf("size=%dm", mb))
	results, err := w.Run(t.Context(), s, Target{Dir: dir, Name: path, LogicalBlock: 512}, seed)
	require.NoError(t, err)
	all := map[string][]numbers{}
	for _, r := range results {
		require.Empty(t, r.Err)
		require.Zero(t, r.Resident)
		all[r.Phase] = []numbers{{mbs: float64(r.Bytes) / r.Seconds() / 1e6, cpuUS: 100 * (r.CPUUserS + r.CPUSysS) / r.Seconds()}}
	}
	return all
}

func theirBonnie(t testing.TB, program, path string, mb int) map[string][]numbers {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "-d", path, "-u", "root", "-f", "-r", "0", "-n", "0", "-s", fmt.Sprintf("%d:8k:500:3", mb), "-y", "p", "-q")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	var said bytes.Buffer
	buffer := make([]byte, 4096)
	for {
		n, err := out.Read(buffer)
		said.Write(buffer[:n])
		if text := strings.TrimRight(string(buffer[:n]), " \n"); strings.HasSuffix(text, ":") {
			dropAll(t, path)
			_, _ = io.WriteString(in, "\n")
		}
		if err != nil {
			break
		}
	}
	require.NoError(t, cmd.Wait(), said.String())
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	fields := strings.Split(lines[len(lines)-1], ",")
	require.Greater(t, len(fields), 20, said.String())
	all := map[string][]numbers{}
	for phase, at := range compared() {
		rate, err := strconv.ParseFloat(fields[at], 64)
		require.NoError(t, err, "%s is too short for bonnie++ to time: QDSWEEP_BENCH_BONNIE makes the file larger\n%s", phase, said.String())
		percent, err := strconv.ParseFloat(fields[at+1], 64)
		require.NoError(t, err)
		all[phase] = []numbers{{mbs: rate * 1024 / 1e6, cpuUS: percent}}
	}
	return all
}

// dropAll drops bonnie++'s files from the page cache, and sees that they are gone.
func dropAll(t testing.TB, path string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(path, "Bonnie*"))
	require.NoError(t, err)
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		in, err := cached(f)
		require.NoError(t, err)
		require.Zero(t, in)
		f.Close()
	}
}
