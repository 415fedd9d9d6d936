package results

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// aSweep makes a results.csv with runs from 1 to n, and returns its name.
func aSweep(t *testing.T, n int) string {
	t.Helper()
	f := open(t, t.TempDir())
	for i := 1; i <= n; i++ {
		require.NoError(t, f.Append(aRun(i, 1, i%3+1)))
	}
	require.NoError(t, f.Close())
	return f.Path()
}

func more(t *testing.T, name string, run []Row) {
	t.Helper()
	f := open(t, filepath.Dir(name))
	require.NoError(t, f.Append(run))
	require.NoError(t, f.Close())
}

func bytesOf(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return b
}

func TestCopyAddsWhatIsNotThere(t *testing.T) {
	from, history := aSweep(t, 5), filepath.Join(t.TempDir(), "history.csv")
	copied, err := Copy(history, from, sweepName, 0)
	require.NoError(t, err)
	assert.Equal(t, 5, copied)
	assert.Equal(t, string(bytesOf(t, from)), string(bytesOf(t, history)))

	copied, err = Copy(history, from, sweepName, 0)
	require.NoError(t, err)
	assert.Zero(t, copied, "again")

	other := slices.Clone(aRun(1, 1, 2))
	for i := range other {
		other[i].Sweep = "another"
	}
	b := append(bytesOf(t, history), Encode(other)...)
	require.NoError(t, os.WriteFile(history, b, 0o644))
	require.NoError(t, os.Chmod(history, 0o600))
	more(t, from, aRun(2, 2, 1)) // a run of before, once more
	more(t, from, aRun(6, 1, 1))
	copied, err = Copy(history, from, sweepName, 0)
	require.NoError(t, err)
	assert.Equal(t, 2, copied)
	want := append(b, Encode(aRun(2, 2, 1))...)
	assert.Equal(t, string(append(want, Encode(aRun(6, 1, 1))...)), string(bytesOf(t, history)), "what was there stays where it was")
	assert.Equal(t, 0o600, int(must(os.Stat(history)).Mode().Perm()), "a file that was there keeps its mode")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Somebody sorted the history, or took lines out: still nothing is in it twice.
func TestCopyIntoAHistoryThatWasSorted(t *testing.T) {
	from, history := aSweep(t, 6), filepath.Join(t.TempDir(), "history.csv")
	require.NoError(t, os.WriteFile(history, file(aRun(5, 1, 3), aRun(4, 1, 2), aRun(1, 1, 2)), 0o644))
	copied, err := Copy(history, from, sweepName, 0)
	require.NoError(t, err)
	assert.Equal(t, 3, copied)
	got := runsIn(t, bytesOf(t, history))
	slices.Sort(got)
	assert.Equal(t, runsIn(t, bytesOf(t, from)), got)
}

func TestCopyRefuses(t *testing.T) {
	from := aSweep(t, 2)
	for name, c := range map[string]struct {
		file, content, want string
	}{
		"somebody's file":          {"notes.csv", "a,b\n1,2\n", "was left alone"},
		"columns in another order": {"old.csv", "sweep,schema\n", "was left alone"},
		"a sweep's own rows":       {FileName, "", "one sweep's own"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o644))
			assert.ErrorContains(t, CheckHistory(path), c.want)
			_, err := Copy(path, from, sweepName, 0)
			assert.ErrorContains(t, err, c.want)
			assert.Equal(t, c.content, string(bytesOf(t, path)))
		})
	}
	dir := t.TempDir()
	assert.ErrorContains(t, CheckHistory(filepath.Join(dir, "absent", "h.csv")), "no such file")
	assert.ErrorContains(t, CheckHistory(dir), "no plain file")
	require.NoError(t, os.Symlink("x", filepath.Join(dir, "link.csv")))
	assert.ErrorContains(t, CheckHistory(filepath.Join(dir, "link.csv")), "no plain file")
	assert.NoError(t, CheckHistory(filepath.Join(dir, "new.csv")))
	assert.NoFileExists(t, filepath.Join(dir, "new.csv"))
}

func TestCopyWaitsForAnother(t *testing.T) {
	from, history := aSweep(t, 2), filepath.Join(t.TempDir(), "history.csv")
	f, err := os.Create(history)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	_, err = Copy(history, from, sweepName, 0)
	var busy *BusyError
	require.ErrorAs(t, err, &busy)
	time.AfterFunc(50*time.Millisecond, func() { f.Close() })
	copied, err := Copy(history, from, sweepName, time.Minute)
	require.NoError(t, err)
	assert.Equal(t, 2, copied)
}

// However a copy is cut short, the next one completes it: each run once, whole.
func TestACopyThatDiesIsCompleted(t *testing.T) {
	from := aSweep(t, 4)
	for k := 1; ; k++ {
		history := filepath.Join(t.TempDir(), "history.csv")
		c := &crasher{k: k, forever: true}
		_, err := Copy(history, from, sweepName, 0, WithHook(c.hook))
		if !c.reached() {
			require.NoError(t, err)
			require.Greater(t, k, 5)
			return
		}
		require.Error(t, err, c.op)
		if b, err := os.ReadFile(history); err == nil && len(b) > 0 { // and the write was torn
			require.NoError(t, os.WriteFile(history, append(b, Encode(aRun(1, 1, 2))[:90]...), 0o644))
		}
		_, err = Copy(history, from, sweepName, 0)
		require.NoError(t, err, c.op)
		require.Equal(t, runsIn(t, bytesOf(t, from)), runsIn(t, bytesOf(t, history)), c.op)
	}
}
