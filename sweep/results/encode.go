package results

import (
	"bytes"
	"encoding/csv"
)

// Header is the first line of the file.
func Header() []byte { return records([][]string{Columns()}) }

// Encode returns the bytes Append writes for a run: one line a row, no header.
// A row's schema, row and rows are filled in where they are 0. It serves where
// the output folder is full: the state folder, or stdout.
func Encode(run []Row) []byte {
	lines := make([][]string, len(run))
	for i, r := range numbered(run) {
		lines[i] = r.cells(make([]string, 0, 64))
	}
	return records(lines)
}

func numbered(run []Row) []Row {
	rows := make([]Row, len(run))
	for i, r := range run {
		if r.Schema == 0 {
			r.Schema = Schema
		}
		if r.Row == 0 {
			r.Row = i + 1
		}
		if r.Rows == 0 {
			r.Rows = len(run)
		}
		rows[i] = r
	}
	return rows
}

func records(lines [][]string) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.WriteAll(lines) // a buffer takes everything
	return b.Bytes()
}
