package results

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var errCrash = errors.New("crashed")

// crasher fails file operations from the k-th on (dead: the process is gone),
// or the k-th alone.
type crasher struct {
	k, n    int
	forever bool
	op      string // that met it
}

func (c *crasher) hook(op string) error {
	c.n++
	if c.n == c.k || c.forever && c.n > c.k {
		if c.op == "" {
			c.op = op
		}
		return errCrash
	}
	return nil
}

func (c *crasher) reached() bool { return c.op != "" }

// night opens the file and appends four runs, those it has not got, and says
// which were promised to be on disk.
func night(dir string, c *crasher, have map[string]bool, write func(int, []byte) (int, error)) (done []string) {
	return nightWith(dir, c.hook, have, write)
}

func nightWith(dir string, hook func(string) error, have map[string]bool, write func(int, []byte) (int, error)) (done []string) {
	f, err := Open(dir, sweepName, WithHook(hook))
	if err != nil {
		return nil
	}
	defer f.Close()
	if write != nil {
		f.write = write
	}
	for i := 1; i <= 4; i++ {
		run := aRun(i, 1, i)
		if have[key(run)] {
			continue
		}
		if f.Append(run) == nil {
			done = append(done, key(run))
		}
	}
	return done
}

func key(run []Row) string { return fmt.Sprintf("%s/%d", run[0].Run, run[0].Attempt) }

// check reads the file as anybody would: no half run, none twice, all that was
// promised.
func check(t *testing.T, dir string, promised []string) map[string]bool {
	t.Helper()
	have := map[string]bool{}
	b := content(t, dir, "")
	for _, run := range runsIn(t, b) {
		require.False(t, have[run], "%s is there twice", run)
		have[run] = true
	}
	for _, run := range promised {
		require.True(t, have[run], "%s is lost", run)
	}
	return have
}

// finish goes on after the crash until every run is there.
func finish(t *testing.T, dir string, have map[string]bool) {
	t.Helper()
	night(dir, &crasher{}, have, nil)
	require.Len(t, check(t, dir, nil), 4)
	b := content(t, dir, "")
	_, errs := read(b)
	require.Empty(t, errs, "nothing is left torn")
}

// The process dies at the k-th file operation, for every k: of a first start,
// and of a start that finds a torn tail.
func TestCrashAtEveryOperation(t *testing.T) {
	for _, start := range []string{"", "torn", "torn header"} {
		for k := 1; ; k++ {
			dir := t.TempDir()
			prepare(t, dir, start)
			var promised []string
			if start == "torn" {
				promised = []string{key(aRun(1, 1, 1))}
			}
			c := &crasher{k: k, forever: true}
			have := map[string]bool{}
			for _, run := range promised {
				have[run] = true
			}
			promised = append(promised, night(dir, c, have, nil)...)
			have = check(t, dir, promised)
			finish(t, dir, have)
			if start == "torn" {
				require.Contains(t, string(content(t, dir, TornSuffix)), "half a row", "k=%d: the tail was dropped", k)
			}
			if !c.reached() {
				require.Greater(t, k, 8)
				break
			}
		}
	}
}

func prepare(t *testing.T, dir, start string) {
	switch start {
	case "torn":
		write1(t, dir, append(file(aRun(1, 1, 1)), "1,half a row"...))
	case "torn header":
		write1(t, dir, Header()[:33])
	}
}

// One operation fails and the process lives: the run that met it is not in the
// file, later ones are.
func TestFailureAtEveryOperation(t *testing.T) {
	for k := 1; ; k++ {
		dir := t.TempDir()
		c := &crasher{k: k}
		done := night(dir, c, map[string]bool{}, nil)
		have := check(t, dir, done)
		require.Len(t, have, len(done), "k=%d (%s): a run is there whose Append failed", k, c.op)
		finish(t, dir, have)
		if !c.reached() {
			require.Len(t, done, 4)
			break
		}
	}
}

// The power goes at the k-th operation: of what was not synced anything may be
// left, cut anywhere, or NULs in its place.
func TestPowerCutAtEveryOperation(t *testing.T) {
	const seed = 42
	random := rand.New(rand.NewPCG(seed, seed))
	for k := 1; ; k++ {
		reached := false
		for range 6 {
			dir := t.TempDir()
			c := &crasher{k: k, forever: true}
			var synced int64 // size of the file at the last sync that was done
			name := filepath.Join(dir, FileName)
			size := func() int64 {
				info, err := os.Stat(name)
				if err != nil {
					return 0
				}
				return info.Size()
			}
			// A sync is done when the operation after it begins.
			pending := false
			hook := func(op string) error {
				if pending {
					synced, pending = size(), false
				}
				err := c.hook(op)
				pending = err == nil && op == "sync"
				return err
			}
			done := nightWith(dir, hook, nil, nil)
			if pending {
				synced = size()
			}
			tear(t, name, synced, size(), random)
			have := check(t, dir, done)
			finish(t, dir, have)
			reached = c.reached()
		}
		if !reached {
			break
		}
	}
}

// tear leaves of the bytes from synced to size what a power cut might.
func tear(t *testing.T, name string, synced, size int64, random *rand.Rand) {
	t.Helper()
	if size <= synced {
		return
	}
	at := synced + random.Int64N(size-synced+1)
	switch random.IntN(3) {
	case 0: // cut short
		require.NoError(t, os.Truncate(name, at))
	case 1: // its end never written
		require.NoError(t, os.Truncate(name, at))
		require.NoError(t, os.Truncate(name, size))
	case 2: // its beginning never written
		fd, err := unix.Open(name, unix.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = unix.Pwrite(fd, make([]byte, at-synced), synced)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
	}
}

// Writes that fall short at any length, with every run.
func TestShortWritesOfEveryLength(t *testing.T) {
	whole := Encode(aRun(1, 1, 1))
	for n := 0; n < len(whole); n += 7 {
		dir := t.TempDir()
		calls := 0
		done := night(dir, &crasher{}, map[string]bool{}, func(fd int, p []byte) (int, error) {
			if calls++; calls%2 == 1 {
				return unix.Write(fd, p[:min(n, len(p)-1)])
			}
			return write(fd, p)
		})
		require.Len(t, done, 2)
		finish(t, dir, check(t, dir, done))
	}
}
