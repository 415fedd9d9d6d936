package workload

import (
	"bytes"
	"compress/flate"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// diskTarget is a folder on a real file system: /tmp may be memory, from which nothing can be dropped.
func diskTarget(t testing.TB) Target {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "bonnie-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	d, err := os.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return Target{Dir: d, Name: dir, LogicalBlock: 512}
}

func TestBonnieDoesAllPhases(t *testing.T) {
	target := diskTarget(t)
	s := spec(t, "bonnie", "size=4m", "seeks=500", "seekers=4", "files=1", "file_size_max=3000", "directories=7")
	var began []string
	q := request{Do: "run", Spec: s, Directory: true, Name: target.Name, Seed: 1, began: func(phase string) { began = append(began, phase) }}
	results := ok(t, q.serve([]*os.File{target.Dir}))
	assert.Equal(t, BonniePhases(), began)
	require.Len(t, results, 12)
	for i, r := range results {
		passes := int64(max(len(r.Passes), 1))
		assert.Equal(t, BonniePhases()[i], r.Phase)
		assert.Equal(t, "psync", r.Engine)
		assert.Equal(t, 1, r.IODepth)
		assert.Equal(t, r.Operations, r.Latency.Count)
		assert.GreaterOrEqual(t, r.Seconds(), shortestTimed.Seconds(), "%s is repeated until it is timed", r.Phase)
		assert.Positive(t, r.CPUUserS+r.CPUSysS, r.Phase)
		assert.Less(t, r.CPUUserS+r.CPUSysS, r.Seconds()*float64(r.Threads+1), "%s: of the passes, and nothing between them", r.Phase)
		assert.Zero(t, r.Resident, r.Phase)
		switch {
		case r.Phase == "putc" || r.Phase == "getc":
			assert.Equal(t, passes*4<<20, r.Bytes)
			assert.Equal(t, passes*1024, r.Operations)
			assert.EqualValues(t, 4096, r.BlockSize)
		case r.Phase == "seeks":
			assert.Equal(t, passes*500, r.Operations)
			assert.Equal(t, passes*550*8192, r.Bytes, "each tenth is written back")
			assert.Equal(t, 4, r.Threads)
			assert.Len(t, r.PerThreadBytes, 4)
		case ofFiles(r.Phase):
			assert.Equal(t, passes*1024, r.Operations)
			assert.Equal(t, strings.HasSuffix(r.Phase, "delete"), r.Bytes == 0)
			assert.Zero(t, r.BlockSize)
		default:
			assert.Equal(t, passes*4<<20, r.Bytes)
			assert.Equal(t, passes*512, r.Operations)
			assert.EqualValues(t, 8192, r.BlockSize)
		}
	}
	assert.Equal(t, results[6].Bytes/max(int64(len(results[6].Passes)), 1), results[7].Bytes/max(int64(len(results[7].Passes)), 1), "what was written is read")
	left, err := os.ReadDir(target.Name)
	require.NoError(t, err)
	assert.Empty(t, left, "nothing is left behind")
}

// A choice of phases finds what it needs: the file that prepare laid out, files that nobody has asked to time.
func TestBonnieOfSomePhases(t *testing.T) {
	for _, phases := range []string{"rewrite seeks", "read ran_stat", "seq_delete ran_create"} {
		t.Run(phases, func(t *testing.T) {
			target := diskTarget(t)
			s := spec(t, "bonnie", "phases="+phases, "size=1m", "seeks=20", "files=1", "file_size_max=100", "directories=3")
			require.Empty(t, ask(s, target, "prepare").Err)
			laid := list(t, target)
			assert.Equal(t, s.needsFile(), slices.Contains(laid, "w.0"))
			for range 2 {
				assert.Len(t, ok(t, ask(s, target, "run")), len(strings.Fields(phases)))
				assert.Equal(t, laid, list(t, target), "what was laid out is there for the next run, the rest is not")
			}
		})
	}
}

func list(t *testing.T, target Target) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(target.Name)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestBonnieNullDoesNothing(t *testing.T) {
	target := diskTarget(t)
	results := ok(t, ask(spec(t, "bonnie", "engine=null", "size=1m", "files=1"), target, "run"))
	require.Len(t, results, 12)
	assert.Empty(t, list(t, target))
	for _, r := range results {
		assert.Equal(t, "null", r.Engine)
		assert.Empty(t, r.Passes)
	}
}

// What is written cannot be compressed, and no block of it is there twice, also where it goes character by character.
func TestBonnieWritesFreshData(t *testing.T) {
	for _, phase := range []string{"putc", "write"} {
		target := diskTarget(t)
		s := spec(t, "bonnie", "size=1m")
		s.Engine = "psync"
		b := &bonnie{s: s, t: target, seed: 1, tree: newFileTree(s, target, 1)}
		p := b.phase(phase)
		require.Empty(t, p.run()[0].Err)
		data, err := os.ReadFile(filepath.Join(target.Name, "w.0"))
		require.NoError(t, err)
		fresh(t, data, 1<<20)

		p = b.phase("rewrite")
		require.Empty(t, p.run()[0].Err)
		again, err := os.ReadFile(filepath.Join(target.Name, "w.0"))
		require.NoError(t, err)
		fresh(t, again, 1<<20)
		for at := 0; at < len(data); at += sector {
			require.NotEqual(t, data[at:at+sector], again[at:at+sector], "each sector is another one")
		}
	}
}

func fresh(t *testing.T, data []byte, bytesWanted int) {
	t.Helper()
	require.Len(t, data, bytesWanted)
	seen := map[string]bool{}
	for at := 0; at < len(data); at += sector {
		require.False(t, seen[string(data[at:at+sector])], "a sector twice, at %d", at)
		seen[string(data[at:at+sector])] = true
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, 1)
	require.NoError(t, err)
	_, _ = w.Write(data[:64<<10])
	require.NoError(t, w.Close())
	assert.Greater(t, packed.Len(), 60<<10)
}

func TestBonnieNames(t *testing.T) {
	n := names{seed: 1, files: 2048, dirs: 10, min: 16, max: 40}
	perDir, sizes := map[string]int{}, map[int64]int{}
	for _, random := range []bool{false, true} {
		n.random = random
		seen := map[string]bool{}
		last, sorted := "", true
		for file := range n.files {
			path := unix.ByteSliceToString(n.of(file))
			require.False(t, seen[path])
			seen[path] = true
			dir, name, _ := strings.Cut(path, "/")
			perDir[dir]++
			sorted = sorted && path > last
			last = path
			sizes[n.size(file)]++
			got, ok := fileNumber([]byte(name))
			if !random {
				require.True(t, ok)
				require.Equal(t, file, got)
			}
		}
		assert.Equal(t, !random, sorted)
	}
	assert.Len(t, perDir, 10)
	for dir, files := range perDir {
		assert.InDelta(t, 409.6, files, 2, dir)
	}
	assert.Len(t, sizes, 25, "every size from the smallest to the largest")
	for _, name := range []string{".", "..", "12345678", "12345678x", strings.Repeat("1", 22)} {
		_, ok := fileNumber([]byte(name))
		assert.False(t, ok, name)
	}
}

// What goes wrong is told with the file, the place and the errno, and nothing is left behind.
func TestBonnieSaysWhatWentWrong(t *testing.T) {
	t.Run("a shorter file", func(t *testing.T) {
		for _, phase := range []string{"getc", "read", "rewrite", "seeks"} {
			target := diskTarget(t)
			s := spec(t, "bonnie", "phases="+phase, "size=1m", "files=0", "seeks=2000")
			require.Empty(t, ask(s, target, "prepare").Err)
			require.NoError(t, os.Truncate(filepath.Join(target.Name, "w.0"), 1<<19))
			r := ask(s, target, "run").Results[0]
			assert.Contains(t, r.Err, "of w.0 in "+target.Name+" gave 0 bytes")
			assert.Zero(t, r.Operations)
			assert.EqualValues(t, 1, r.Errors/max(r.Errors, 1))
		}
	})
	t.Run("no file", func(t *testing.T) {
		r := ask(spec(t, "bonnie", "phases=read", "size=1m"), diskTarget(t), "run").Results[0]
		assert.Contains(t, r.Err, "open w.0")
		assert.Equal(t, int(unix.ENOENT), r.Errno)
	})
	t.Run("a small file of another size", func(t *testing.T) {
		target := diskTarget(t)
		s := spec(t, "bonnie", "files=1", "file_size_min=100", "file_size_max=100", "directories=1", "phases=seq_stat")
		s.Engine = "psync"
		b := &bonnie{s: s, t: target, seed: 1, tree: newFileTree(s, target, 1)}
		require.NoError(t, b.tree.ready("seq"))
		all, err := filepath.Glob(filepath.Join(target.Name, "w.1", "*", "*"))
		require.NoError(t, err)
		require.Len(t, all, 1024)
		require.NoError(t, os.Truncate(all[500], 50))
		r := b.phase("seq_stat").run()[0]
		assert.Contains(t, r.Err, filepath.Base(all[500])+" in w.1 in "+target.Name+" has 50 bytes and was made with 100")
		require.NoError(t, os.Remove(all[500]))
		r = b.phase("seq_stat").run()[0]
		assert.Contains(t, r.Err, unix.ErrnoName(unix.ENOENT))
	})
	t.Run("a full file system", func(t *testing.T) {
		target := tinyFileSystem(t)
		for _, c := range []struct{ phases, want string }{
			{"write", "of w.0 in " + target.Name},
			{"putc", "of w.0 in " + target.Name},
			{"seq_create", " in w.1 in " + target.Name},
		} {
			r := ask(spec(t, "bonnie", "phases="+c.phases, "size=64m", "files=1", "file_size_min=60000"), target, "run").Results[0]
			assert.Contains(t, r.Err, c.want)
			assert.Contains(t, r.Err, "ENOSPC")
			assert.Equal(t, int(unix.ENOSPC), r.Errno)
			assert.Empty(t, list(t, target), "a full file system does not stay full")
		}
	})
}

// tinyFileSystem is a folder with 8 MiB and no more.
func tinyFileSystem(t *testing.T) Target {
	t.Helper()
	dir := t.TempDir()
	lacking(t, "mount a small file system", unix.Mount("none", dir, "tmpfs", 0, "size=8m"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	d, err := os.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return Target{Dir: d, Name: dir, LogicalBlock: 512}
}

// What a worker that was killed left is no obstacle to the next run.
func TestBonnieBeginsAnew(t *testing.T) {
	target := diskTarget(t)
	require.NoError(t, os.MkdirAll(filepath.Join(target.Name, "w.1", "000000", "deeper"), 0o700))
	for i := range 3000 {
		require.NoError(t, os.WriteFile(filepath.Join(target.Name, "w.1", "000000", strconv.Itoa(i)), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(target.Name, "w.0"), []byte("half"), 0o600))
	ok(t, ask(spec(t, "bonnie", "size=64k", "files=1", "file_size_max=50", "directories=2", "phases=write seq_create"), target, "run"))
	assert.Empty(t, list(t, target))
}

// Nothing is allocated while the clock runs.
func TestBonnieAllocatesNothing(t *testing.T) {
	target := diskTarget(t)
	s := spec(t, "bonnie", "size=256k", "files=1", "file_size_max=5000", "directories=2", "seeks=100")
	s.Engine = "psync"
	b := &bonnie{s: s, t: target, seed: 1, tree: newFileTree(s, target, 1)}
	for _, phase := range BonniePhases() {
		p := b.phase(phase)
		_, err := p.ground()
		require.NoError(t, err)
		l := p.lanes[0]
		require.NoError(t, l.setup())
		var stop atomic.Bool
		begin := l.walk
		work := l.work
		if work == nil {
			work = func(stop *atomic.Bool) { l.loop(Window{0, noTime}, stop) }
		}
		restore := quiet(1)
		once := 0
		allocs := testing.AllocsPerRun(1, func() {
			if once++; once > 1 { // the first is not counted
				work(&stop)
			}
		})
		restore()
		l.walk = begin
		require.Nil(t, l.err, "%s: %+v", phase, l.err)
		assert.Positive(t, l.operations)
		assert.LessOrEqual(t, allocs, 1.0, phase)
		l.close()
	}
	require.NoError(t, b.clean())
}
