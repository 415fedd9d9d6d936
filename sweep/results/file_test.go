package results

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func open(t *testing.T, dir string) *File {
	t.Helper()
	f, err := Open(dir, sweepName)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestOpenMakesTheFile(t *testing.T) {
	dir := t.TempDir()
	old := unix.Umask(0o077)
	f := open(t, dir)
	unix.Umask(old)
	assert.Equal(t, filepath.Join(dir, FileName), f.Path())
	assert.Equal(t, Header(), content(t, dir, ""))
	info, err := os.Stat(f.Path())
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode())
	assert.Nil(t, f.Torn())

	_, err = Open(filepath.Join(dir, "absent"), sweepName)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestAppendFillsInWhatItKnows(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	run := aRun(1, 0, 2)
	run[0].Sweep, run[1].Sweep = "", ""
	require.NoError(t, f.Append(run))
	rows, errs := read(content(t, dir, ""))
	require.Empty(t, errs)
	require.Len(t, rows, 2)
	for i, r := range rows {
		assert.Equal(t, []any{1, sweepName, 1, i + 1, 2}, []any{r.Schema, r.Sweep, r.Attempt, r.Row, r.Rows})
	}
	assert.Equal(t, "", run[0].Sweep, "the caller's rows are left alone")
}

func TestAppendRefuses(t *testing.T) {
	change := func(c func(run []Row)) []Row {
		run := aRun(1, 1, 3)
		c(run)
		return run
	}
	for name, run := range map[string][]Row{
		"no rows":       {},
		"no run":        change(func(r []Row) { r[0].Run, r[1].Run, r[2].Run = "", "", "" }),
		"another sweep": change(func(r []Row) { r[1].Sweep = "other" }),
		"two runs":      change(func(r []Row) { r[1].Run = "other#1" }),
		"two attempts":  change(func(r []Row) { r[2].Attempt = 2 }),
		"a row missing": change(func(r []Row) { r[1].Row = 3 }),
		"wrong count":   change(func(r []Row) { r[1].Rows = 4 }),
		"no status":     change(func(r []Row) { r[2].Status = "" }),
		"schema":        change(func(r []Row) { r[2].Schema = 2 }),
		"too many":      aRun(1, 1, MaxRows+1),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir)
			assert.Error(t, f.Append(run))
			assert.Equal(t, Header(), content(t, dir, ""))
		})
	}
}

func TestNoRunTwice(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	require.NoError(t, f.Append(aRun(1, 1, 2)))
	var twice *TwiceError
	require.ErrorAs(t, f.Append(aRun(1, 1, 2)), &twice)
	require.NoError(t, f.Append(aRun(1, 2, 2)), "another attempt is another thing")
	require.NoError(t, f.Close())

	f = open(t, dir)
	require.ErrorAs(t, f.Append(aRun(1, 2, 2)), &twice)
	assert.ErrorContains(t, twice, "queue_depth=31;write_cache=off#1 attempt 2")
	assert.Len(t, runsIn(t, content(t, dir, "")), 2)
}

// A filter that always says maybe must cost time only.
func TestTheFilterNeverRefusesByItself(t *testing.T) {
	f := open(t, t.TempDir())
	require.NoError(t, f.Append(aRun(1, 1, 2)))
	for i := range f.runs.bits {
		f.runs.bits[i] = ^uint64(0)
	}
	assert.NoError(t, f.Append(aRun(2, 1, 2)))
	var twice *TwiceError
	assert.ErrorAs(t, f.Append(aRun(1, 1, 2)), &twice)
}

func TestOnlyOneAppends(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	_, err := Open(dir, sweepName)
	var busy *BusyError
	require.ErrorAs(t, err, &busy)
	assert.ErrorContains(t, err, f.Path())
	require.NoError(t, f.Close())
	open(t, dir)
}

// Field case 26.
func TestAnotherSweepsFileIsLeftAlone(t *testing.T) {
	header := string(Header())
	other := strings.ReplaceAll(string(Encode(aRun(1, 1, 2))), sweepName, "other-20250101-000000")
	for name, c := range map[string]struct{ content, want string }{
		"another sweep's":            {header + other, "rows of sweep other-20250101-000000"},
		"another sweep's, torn":      {header + other + other[:20], "rows of sweep other-20250101-000000"},
		"an older schema":            {"sweep,run,mbps\nx,y,3\n", "lacks schema, cell, replicate, attempt and 50 more and has also mbps"},
		"an older schema of ours":    {strings.Replace(header, ",queued_depth", "", 1), "lacks queued_depth"},
		"an older version's columns": {strings.Replace(header, ",bytes_per_thread", "", 1), "lacks bytes_per_thread"},
		"a newer version's columns":  {strings.Replace(header, "\n", ",zoned\n", 1), "has also zoned"},
		"ours, saved by something":   {strings.ReplaceAll(header+string(Encode(aRun(1, 1, 1))), "\n", "\r\n"), "something saved it anew"},
		"a newer schema":             {header + "2" + other[1:], "schema 2"},
		"some text without newline":  {"hello", "no line break"},
		"some text with NULs behind": {"hello\x00\x00", "no line break"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write1(t, dir, []byte(c.content))
			_, err := Open(dir, sweepName)
			var foreign *ForeignError
			require.ErrorAs(t, err, &foreign)
			assert.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, filepath.Join(dir, FileName))
			assert.ErrorContains(t, err, "--out")
			assert.Equal(t, c.content, string(content(t, dir, "")))
			assert.Nil(t, content(t, dir, TornSuffix))
		})
	}
	t.Run("a link to somewhere", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "passwd"), nil, 0o600))
		require.NoError(t, os.Symlink("passwd", filepath.Join(dir, FileName)))
		_, err := Open(dir, sweepName)
		assert.ErrorIs(t, err, syscall.ELOOP)
	})
}

func TestATornTailIsSetAside(t *testing.T) {
	before, last := file(aRun(1, 1, 3)), Encode(aRun(2, 1, 3))
	for name, c := range map[string]struct{ content, tail []byte }{
		"fewer rows":       {before, bytes.Join(bytes.SplitAfter(last, []byte{'\n'})[:2], nil)},
		"no line break":    {before, last[:len(last)-1]},
		"NULs":             {before, make([]byte, 5000)},
		"NULs then rows":   {before, append(make([]byte, 400), last[400:]...)},
		"garbage":          {before, []byte("\xff\n\"\n,,,\n")},
		"half a header":    {nil, Header()[:60]},
		"NULs as a header": {nil, make([]byte, len(Header()))},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write1(t, dir, append(c.content[:len(c.content):len(c.content)], c.tail...))
			f := open(t, dir)
			require.NotNil(t, f.Torn())
			assert.Equal(t, int64(len(c.tail)), f.Torn().Bytes)
			want := c.content
			if want == nil {
				want = Header()
			}
			assert.Equal(t, string(want), string(content(t, dir, "")))
			assert.Equal(t, string(c.tail), strings.TrimSuffix(string(content(t, dir, TornSuffix)), "\n")+
				strings.Repeat("\n", bytes.Count(c.tail[len(c.tail)-1:], []byte{'\n'})), "nothing is dropped")
			require.NoError(t, f.Append(aRun(2, 1, 3)), "the run is repeated")
			require.NoError(t, f.Close())
			assert.Nil(t, open(t, dir).Torn())
		})
	}
	t.Run("a second one is added to the first", func(t *testing.T) {
		dir := t.TempDir()
		write1(t, dir, append(before[:len(before):len(before)], "one"...))
		require.NoError(t, open(t, dir).Close())
		write1(t, dir, append(before[:len(before):len(before)], "two"...))
		open(t, dir)
		assert.Equal(t, "one\ntwo\n", string(content(t, dir, TornSuffix)))
	})
}

func TestDamageInTheMiddleIsForAPerson(t *testing.T) {
	dir := t.TempDir()
	b := file(aRun(1, 1, 2))
	b = append(b, "oops\n"...)
	b = append(b, Encode(aRun(2, 1, 2))...)
	write1(t, dir, b)
	_, err := Open(dir, sweepName)
	var damage *DamageError
	require.ErrorAs(t, err, &damage)
	assert.ErrorContains(t, err, "lines 4 to 4")
	assert.Equal(t, string(b), string(content(t, dir, "")))
}

// Field case 30: a full disk in the middle of a run.
func TestAFullDiskLosesNothing(t *testing.T) {
	for name, fail := range map[string]func(fd int, p []byte) (int, error){
		"a short write": func(fd int, p []byte) (int, error) { return unix.Write(fd, p[:len(p)/2]) },
		"ENOSPC":        func(int, []byte) (int, error) { return -1, unix.ENOSPC },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir)
			require.NoError(t, f.Append(aRun(1, 1, 3)))
			before := content(t, dir, "")
			f.write = fail
			err := f.Append(aRun(2, 1, 3))
			require.ErrorIs(t, err, syscall.ENOSPC)
			assert.ErrorContains(t, err, f.Path())
			assert.Equal(t, before, content(t, dir, ""))
			f.write = write
			require.NoError(t, f.Append(aRun(2, 1, 3)), "space came back")
			assert.Equal(t, file(aRun(1, 1, 3), aRun(2, 1, 3)), content(t, dir, ""))
		})
	}
}

// What cannot be cut off now is cut off before the next run.
func TestHalfARunThatCannotBeCutOff(t *testing.T) {
	dir := t.TempDir()
	failing := ""
	f, err := Open(dir, sweepName, WithHook(func(op string) error {
		if op == failing {
			return errors.New("injected")
		}
		return nil
	}))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Append(aRun(1, 1, 3)))
	f.write = func(fd int, p []byte) (int, error) { return unix.Write(fd, p[:100]) }
	failing = "truncate"
	require.ErrorIs(t, f.Append(aRun(2, 1, 3)), syscall.ENOSPC)
	f.write = write
	require.Error(t, f.Append(aRun(2, 1, 3)), "still cannot")
	assert.Len(t, runsIn(t, content(t, dir, "")), 1)
	failing = ""
	require.NoError(t, f.Append(aRun(2, 1, 3)))
	assert.Equal(t, file(aRun(1, 1, 3), aRun(2, 1, 3)), content(t, dir, ""))
}

func TestAFileThatSomebodyTouched(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	require.NoError(t, f.Append(aRun(1, 1, 1)))
	require.NoError(t, os.Truncate(f.Path(), 10))
	assert.ErrorContains(t, f.Append(aRun(2, 1, 1)), "somebody else changed it")
	require.NoError(t, os.Remove(f.Path()))
	assert.ErrorContains(t, f.Append(aRun(2, 1, 1)), "somebody removed or replaced it")
	require.NoError(t, f.Close())
	assert.ErrorContains(t, f.Append(aRun(2, 1, 1)), "closed")
}
