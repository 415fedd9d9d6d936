package results

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadGivesWholeRunsOnly(t *testing.T) {
	whole, second := Encode(aRun(1, 1, 3)), Encode(aRun(2, 1, 3))
	lines := bytes.SplitAfter(second, []byte{'\n'})
	for name, tail := range map[string][]byte{
		"two rows of three":   bytes.Join(lines[:2], nil),
		"no line break":       second[:len(second)-1],
		"half a line":         second[:len(second)/2],
		"NULs":                make([]byte, 4096),
		"NULs for a block":    append(make([]byte, 300), second[300:]...),
		"NULs and rows":       append(append([]byte{}, second[:700]...), make([]byte, 500)...),
		"garbage":             []byte("\x93\xfe,\"\n\xff"),
		"an open quote":       []byte("1,\"open\n"),
		"an empty line":       []byte("\n"),
		"rows out of order":   bytes.Join([][]byte{lines[0], lines[2], lines[1]}, nil),
		"a very long line":    bytes.Repeat([]byte("x"), 3*maxLine),
		"too many cells":      []byte(strings.Repeat("1,", 60) + "\n"),
		"a row that is wrong": bytes.Replace(Encode(aRun(2, 1, 1)), []byte(",ok,"), []byte(",fine,"), 1),
	} {
		t.Run(name, func(t *testing.T) {
			csv := append(append(Header(), whole...), tail...)
			rows, errs := read(csv)
			assert.Len(t, rows, 3)
			require.Len(t, errs, 1)
			var torn *TornError
			require.ErrorAs(t, errs[0], &torn)
			assert.Equal(t, 5, torn.Line)
			assert.Equal(t, int64(len(Header())+len(whole)), torn.Offset)
			assert.Equal(t, int64(len(tail)), torn.Bytes)
			assert.NotEmpty(t, torn.Reason)
		})
	}
}

func TestReadGoesOnAfterDamage(t *testing.T) {
	csv := file(aRun(1, 1, 2))
	csv = append(csv, Encode(aRun(2, 1, 2))[:50]...)
	csv = append(csv, '\n')
	csv = append(csv, Encode(aRun(3, 1, 2))...)
	rows, errs := read(csv)
	assert.Len(t, rows, 4)
	require.Len(t, errs, 1)
	var damage *DamageError
	require.ErrorAs(t, errs[0], &damage)
	assert.Equal(t, DamageError{4, 4, damage.Reason}, *damage)
}

func TestReadByColumnName(t *testing.T) {
	rows, errs := read(file(aRun(1, 1, 1)))
	require.Empty(t, errs)

	t.Run("a newer file with more columns", func(t *testing.T) {
		lines := strings.SplitAfter(string(file(aRun(1, 1, 1))), "\n")
		newer := strings.Replace(lines[0], "\n", ",zoned\n", 1) + strings.Replace(lines[1], "\n", ",\"a,b\"\n", 1)
		got, errs := read([]byte(newer))
		require.Empty(t, errs)
		assert.Equal(t, rows, got)
	})
	t.Run("as a spreadsheet saves it", func(t *testing.T) {
		saved := "\ufeff" + strings.ReplaceAll(string(file(aRun(1, 1, 1))), "\n", "\r\n")
		got, errs := read([]byte(saved))
		require.Empty(t, errs)
		assert.Equal(t, rows, got)
	})
	t.Run("in another order", func(t *testing.T) {
		lines := strings.Split(strings.TrimSpace(string(file(aRun(1, 1, 1)))), "\n")
		for i, l := range lines {
			first, rest, _ := strings.Cut(l, ",")
			lines[i] = rest + "," + first
		}
		got, errs := read([]byte(strings.Join(lines, "\n") + "\n"))
		require.Empty(t, errs)
		assert.Equal(t, rows, got)
	})
}

// Columns are only ever added: a file of an earlier version has none of the later ones, and is read all the same.
func TestReadFilesOfEarlierVersions(t *testing.T) {
	row := aRow(1, 1)
	row.Row, row.Rows, row.Schema = 1, 1, Schema
	for _, added := range addedLater() {
		columns := Columns()
		require.Equal(t, added, columns[len(columns)-1], "at the end")
		header := strings.Replace(string(Header()), ","+added, "", 1)
		line := strings.TrimSuffix(string(Encode([]Row{row})), ",\n") + "\n"
		rows, errs := read([]byte(header + line))
		require.Empty(t, errs)
		require.Len(t, rows, 1)
		assert.Equal(t, row.Bytes, rows[0].Bytes)
		assert.Empty(t, rows[0].BytesPerThread)
	}
}

func TestReadRefusesOtherFiles(t *testing.T) {
	header := string(Header())
	for name, c := range map[string]struct{ csv, want string }{
		"empty":            {"", "the file is empty"},
		"no CSV of ours":   {"date,mbps\n2007,32\n", `the first line is no header: "date,mbps"`},
		"columns missing":  {strings.Replace(header, ",restored", "", 1), "lacks restored"},
		"columns renamed":  {strings.Replace(header, ",iops", ",io_s", 1), "lacks iops and has also io_s"},
		"a column twice":   {strings.Replace(header, ",iops", ",seconds", 1), "lacks iops and has also seconds"},
		"a newer schema":   {header + "2" + string(Encode(aRun(1, 1, 1))[1:]), "line 2: schema 2, written by a newer qdsweep"},
		"an older schema":  {header + "0" + string(Encode(aRun(1, 1, 1))[1:]), "line 2: schema 0; this qdsweep knows schema 1"},
		"header cut short": {header[:100], "no line break"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, errs := read([]byte(c.csv))
			assert.Empty(t, rows)
			require.Len(t, errs, 1)
			assert.ErrorContains(t, errs[0], c.want)
		})
	}
}

func TestReadSaysWhatTheDiskSaid(t *testing.T) {
	broken := errors.New("input/output error")
	r := io.MultiReader(bytes.NewReader(file(aRun(1, 1, 2))), iotest.ErrReader(broken))
	var rows int
	var last error
	for _, err := range Read(r) {
		if last = err; err == nil {
			rows++
		}
	}
	assert.Equal(t, 2, rows)
	assert.ErrorIs(t, last, broken)
}

func TestReadStopsWhenAsked(t *testing.T) {
	n := 0
	for range Read(bytes.NewReader(file(aRun(1, 1, 3), aRun(2, 1, 3)))) {
		if n++; n == 2 {
			break
		}
	}
	assert.Equal(t, 2, n)
}

// FuzzRead: whatever is in the file, only whole runs come out, and writing them
// again and reading that gives the same.
func FuzzRead(f *testing.F) {
	whole := file(aRun(1, 1, 2), aRun(2, 3, 1))
	f.Add(whole)
	f.Add(whole[:len(whole)-40])
	f.Add(append(whole[:len(whole):len(whole)], make([]byte, 64)...))
	f.Add([]byte{})
	f.Add([]byte("schema,sweep\n1,x\n"))
	f.Add(bytes.ReplaceAll(whole, []byte("psync"), []byte(`'=\u202e\q`)))
	f.Fuzz(func(t *testing.T, csv []byte) {
		var rows []Row
		next := 1
		for r, err := range Read(bytes.NewReader(csv)) {
			if err != nil {
				continue
			}
			require.Equal(t, next, r.Row)
			if next++; r.Row == r.Rows {
				next = 1
			}
			rows = append(rows, r)
		}
		require.Equal(t, 1, next)
		again := append(Header(), Encode(rows)...)
		var back []Row
		for r, err := range Read(bytes.NewReader(again)) {
			require.NoError(t, err)
			back = append(back, r)
		}
		require.Len(t, back, len(rows))
		require.Equal(t, Encode(rows), Encode(back))
	})
}
