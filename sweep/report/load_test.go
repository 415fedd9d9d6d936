package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// folder is an output folder with the rows of d.
func folder(t *testing.T, rows []results.Row, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "demo")
	require.NoError(t, os.Mkdir(dir, 0o755))
	f, err := results.Open(dir, rows[0].Sweep)
	require.NoError(t, err)
	defer f.Close()
	for len(rows) > 0 {
		n := rows[0].Rows
		require.NoError(t, f.Append(rows[:n]))
		rows = rows[n:]
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

func collect(d Data) (rows []results.Row) {
	for r := range d.Rows() {
		rows = append(rows, r)
	}
	return rows
}

func TestLoadFolder(t *testing.T) {
	dir := folder(t, collect(mixed()), map[string]string{
		"profile.yaml": "version: 1\nname: mixed-night\ndescription: everything at once\nmatrix: {queue_depth: [1]}\n",
		"status.json":  `{"planned": 16, "state": "done"}`,
	})
	d, err := Load(dir)
	require.NoError(t, err)
	assert.Equal(t, results.Audit{Planned: 16, OK: 11, Failed: 1, Skipped: 2, Remaining: 2}, d.Audit)
	assert.Empty(t, d.Warnings)
	d.Results = []string{"DIR/results.csv"}
	golden(t, "load-120.txt", text(t, d, 0))
}

func TestLoadWithoutTheRest(t *testing.T) {
	dir := folder(t, collect(mixed()), nil)
	csv := filepath.Join(dir, results.FileName)
	for _, path := range []string{dir, csv} {
		d, err := Load(path)
		require.NoError(t, err)
		assert.Negative(t, d.Audit.Planned)
		got := text(t, d, 120)
		assert.True(t, strings.HasPrefix(got, "demo-20250314-220411 on /dev/sdb, Linux 6.1.0"), got)
		assert.Contains(t, got, "11 ok + 1 failed + 0 suspect + 2 skipped; how many were planned is not known from rows alone\n")
		assert.Contains(t, got, "results    "+csv+" (26 rows)\n")
	}
	dir = folder(t, collect(mixed()), map[string]string{"status.json": "{", "profile.yaml": "name: [\n"})
	d, err := Load(dir)
	require.NoError(t, err)
	assert.Len(t, d.Warnings, 2)
}

// Two nights are never one sample.
func TestLoadSeveralSweeps(t *testing.T) {
	first, second := collect(raid()), collect(raid())
	for i := range second {
		second[i].Sweep = "demo-20250315-220411"
	}
	a, b := folder(t, first, map[string]string{"status.json": `{"planned":18}`}), folder(t, second, map[string]string{"status.json": `{"planned":18}`})
	d, err := Load(a, filepath.Join(b, results.FileName))
	require.NoError(t, err)
	assert.Equal(t, 34, d.Audit.OK)
	d.Results = []string{"A/results.csv", "B/results.csv"}
	golden(t, "two-sweeps-120.txt", text(t, d, 120))

	d, err = Load(a, b)
	require.NoError(t, err)
	assert.Equal(t, 36, d.Audit.Planned)
}

func TestLoadRefuses(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "absent"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	empty := t.TempDir()
	_, err = Load(empty)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "results.csv")
	other := filepath.Join(empty, "other.csv")
	require.NoError(t, os.WriteFile(other, []byte("a,b\n1,2\n"), 0o644))
	_, err = Load(other)
	assert.ErrorContains(t, err, "other.csv: the first line is no header")
}

// A sweep that is still running, or was cut short, is reported as far as it is.
func TestLoadTorn(t *testing.T) {
	dir := folder(t, collect(mixed()), nil)
	csv := filepath.Join(dir, results.FileName)
	b, err := os.ReadFile(csv)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(csv, b[:len(b)-30], 0o644))
	d, err := Load(dir)
	require.NoError(t, err)
	got := text(t, d, 120)
	assert.Contains(t, got, "warning    "+csv+": line ")
	assert.Equal(t, 1, strings.Count(got, "are no whole run"))
}
