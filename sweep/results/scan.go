package results

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLine is longer than any line Append writes; what is longer is garbage,
// and is not held in memory to find that out.
const maxLine = 1 << 20

// scanner finds whole runs in a file, holding one run at a time. Because text
// cells hold no line breaks, a line is a record, and damage ends at the next
// line break.
type scanner struct {
	in     *bufio.Reader
	line   int   // number of the line last read, from 1
	offset int64 // behind the line last read

	fields  []int    // of the file's columns, the field of Row; -1 unknown
	header  []byte   // its line
	extra   []string // columns unknown here
	missing []string // columns that the file has not got
	cell    bytes.Reader
	cellIn  *bufio.Reader

	rows  []Row // of the run being read
	start mark  // of its first row
	gap   *gap  // lines so far that belong to no whole run
}

type mark struct {
	line   int
	offset int64
}

// gap is a stretch of lines that are no whole run.
type gap struct {
	mark
	reason error
}

func newScanner(r io.Reader) *scanner {
	s := &scanner{in: bufio.NewReaderSize(r, 64<<10)}
	s.cellIn = bufio.NewReaderSize(&s.cell, 16<<10)
	return s
}

var errNoNewline = errors.New("no line break at the end")

// next reads one line, without its line break. At the end of the input it is
// io.EOF; a line that is too long, or ends without a line break, is another
// error and has been passed over.
func (s *scanner) next() ([]byte, error) {
	var (
		long []byte
		size int
	)
	for {
		part, err := s.in.ReadSlice('\n')
		size += len(part)
		s.offset += int64(len(part))
		switch {
		case err == nil && long == nil:
			s.line++
			return bytes.TrimSuffix(part[:len(part)-1], []byte("\r")), nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("read: %w", err)
		case errors.Is(err, io.EOF) && size == 0:
			return nil, io.EOF
		}
		if size <= maxLine {
			long = append(long, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		s.line++
		if err != nil {
			return long, errNoNewline
		}
		if size > maxLine {
			return nil, fmt.Errorf("a line of %d bytes", size)
		}
		return bytes.TrimSuffix(long[:len(long)-1], []byte("\r")), nil
	}
}

// split takes one line apart. The reader inside is used again and again:
// csv.NewReader keeps a bufio.Reader that it is given.
func (s *scanner) split(line []byte) ([]string, error) {
	if bytes.IndexByte(line, 0) >= 0 {
		return nil, errors.New("NUL bytes")
	}
	s.cell.Reset(line)
	s.cellIn.Reset(&s.cell)
	r := csv.NewReader(s.cellIn)
	r.FieldsPerRecord = -1
	cells, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("an empty line")
	}
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return nil, parse.Err // its line number counts from this line
	}
	return cells, err
}

// readHeader finds out which column is which. Columns may stand in any order,
// unknown ones are passed over, for a newer version added them, and of those that
// this version added, an older file has none.
func (s *scanner) readHeader() error {
	line, err := s.next()
	switch {
	case errors.Is(err, io.EOF):
		return &HeaderError{Reason: "the file is empty"}
	case err != nil:
		return &HeaderError{Reason: err.Error()}
	}
	s.header = bytes.Clone(line)
	line = bytes.TrimPrefix(line, []byte("\ufeff")) // spreadsheets put it there
	cells, err := s.split(line)
	if err != nil {
		return &HeaderError{Reason: err.Error()}
	}
	known := Columns()
	missing := Columns()
	for _, name := range cells {
		i := slices.Index(known, name)
		s.fields = append(s.fields, i)
		if i < 0 {
			s.extra = append(s.extra, shorten(name))
			continue
		}
		known[i] = "" // the second of two columns with one name is unknown
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
	}
	s.missing = missing
	if len(missing) == len(Columns()) {
		return &HeaderError{Reason: fmt.Sprintf("%q", shorten(strings.Join(cells, ",")))}
	}
	needed := slices.DeleteFunc(slices.Clone(missing), func(m string) bool { return slices.Contains(addedLater(), m) })
	if len(needed) > 0 {
		return &HeaderError{Missing: needed, Extra: s.extra}
	}
	return nil
}

// exactHeader, right after readHeader, says whether rows of this version can be appended below the
// header: a reader may find columns by name, a writer may not add rows of
// another width or order.
func (s *scanner) exactHeader() error {
	header := Header()
	if s.offset == int64(len(header)) && bytes.Equal(s.header, header[:len(header)-1]) {
		return nil
	}
	if len(s.extra) > 0 || len(s.missing) > 0 {
		return &HeaderError{Missing: s.missing, Extra: s.extra}
	}
	return &HeaderError{Reason: "its columns are ours, and not written as we write them: something saved it anew"}
}

func (s *scanner) parse(line []byte) (Row, error) {
	cells, err := s.split(line)
	if err != nil {
		return Row{}, err
	}
	if len(cells) != len(s.fields) {
		return Row{}, fmt.Errorf("%d cells, the header has %d", len(cells), len(s.fields))
	}
	var r Row
	for i, text := range cells {
		if s.fields[i] < 0 {
			continue
		}
		if err := r.setCell(s.fields[i], text); err != nil {
			if r.Schema > Schema { // its cells need not be ours
				return Row{}, r.check()
			}
			return Row{}, err
		}
	}
	return r, r.check()
}

// run returns the next whole run, valid until the next call, and the gap before
// it, if any. At the end it is io.EOF, and a gap then is a torn tail. Any other
// error is the input's, or a schema that cannot be read.
func (s *scanner) run() (rows []Row, before *gap, err error) {
	s.rows = s.rows[:0]
	for {
		at := mark{s.line + 1, s.offset}
		line, err := s.next()
		if errors.Is(err, io.EOF) {
			s.abandon(errors.New("the run has fewer rows than it says"))
			return nil, s.gap, io.EOF
		}
		var r Row
		if err == nil {
			r, err = s.parse(line)
		} else if !errors.Is(err, errNoNewline) && s.offset == at.offset {
			return nil, s.gap, err
		}
		var schema *SchemaError
		if errors.As(err, &schema) {
			return nil, s.gap, fmt.Errorf("line %d: %w", at.line, err)
		}
		if err == nil && r.Row > 1 && !s.continues(r) {
			err = fmt.Errorf("row %d of run %s without the rows before it", r.Row, shorten(r.Run))
		}
		if err != nil {
			s.abandon(err)
			if s.gap == nil {
				s.gap = &gap{at, err}
			}
			continue
		}
		if r.Row == 1 {
			s.abandon(errors.New("the run has fewer rows than it says"))
			s.start = at
		}
		if s.rows = append(s.rows, r); r.Row == r.Rows {
			before, s.gap = s.gap, nil
			return s.rows, before, nil
		}
	}
}

// continues says whether r is the row after the last one.
func (s *scanner) continues(r Row) bool {
	if len(s.rows) == 0 {
		return false
	}
	last := s.rows[len(s.rows)-1]
	return r.Row == last.Row+1 && r.Rows == last.Rows && r.Run == last.Run &&
		r.Attempt == last.Attempt && r.Sweep == last.Sweep
}

// abandon makes the rows read so far of a run part of the gap.
func (s *scanner) abandon(reason error) {
	if len(s.rows) > 0 && s.gap == nil {
		s.gap = &gap{s.start, reason}
	}
	s.rows = s.rows[:0]
}
