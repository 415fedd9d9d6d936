package results

import (
	"fmt"
	"strings"
)

// TornError is a file's tail that is no whole run: what a crash in the middle
// of an append leaves. Read gives it as its last value; Open sets it aside.
type TornError struct {
	Line   int    // of its first byte, from 1
	Offset int64  // of its first byte
	Bytes  int64  // its length
	Reason string // what was wrong first
}

func (e *TornError) Error() string {
	return fmt.Sprintf("line %d: %d bytes at the end are no whole run (%s)", e.Line, e.Bytes, e.Reason)
}

// DamageError is a part of the file that is no whole run though whole runs come
// after it. No crash does that: somebody edited the file, or the disk lost it.
type DamageError struct {
	Line   int // first line of it
	Last   int // last line of it
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("lines %d to %d are no whole run (%s)", e.Line, e.Last, e.Reason)
}

// HeaderError is a file whose first line is not the header of this schema.
type HeaderError struct {
	Missing []string // columns it has not got
	Extra   []string // columns this version does not know
	Reason  string   // else
}

func (e *HeaderError) Error() string {
	if e.Reason != "" {
		return "the first line is no header: " + e.Reason
	}
	var parts []string
	if len(e.Missing) > 0 {
		parts = append(parts, "lacks "+some(e.Missing))
	}
	if len(e.Extra) > 0 {
		parts = append(parts, "has also "+some(e.Extra))
	}
	return fmt.Sprintf("the header is not that of schema %d: it %s", Schema, strings.Join(parts, " and "))
}

// some names a few of many.
func some(names []string) string {
	const few = 4
	if len(names) > few+1 {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}

// SchemaError is a row of a schema that this version does not read.
type SchemaError struct{ Schema int }

func (e *SchemaError) Error() string {
	if e.Schema > Schema {
		return fmt.Sprintf("schema %d, written by a newer qdsweep; this one knows schema %d", e.Schema, Schema)
	}
	return fmt.Sprintf("schema %d; this qdsweep knows schema %d", e.Schema, Schema)
}

// ForeignError is a results.csv that this sweep must not append to: another
// sweep's, another schema's, or no results file at all (field case 26). Nothing
// was written to it.
type ForeignError struct {
	File  string
	Sweep string // the sweep that wants to append
	Err   error
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is not sweep %s's to append to, and was left alone: %v; choose another folder with --out, or move that file away", e.File, e.Sweep, e.Err)
}

func (e *ForeignError) Unwrap() error { return e.Err }

// OtherSweepError is a row of another sweep.
type OtherSweepError struct{ Sweep string }

func (e *OtherSweepError) Error() string {
	return fmt.Sprintf("it holds rows of sweep %s", shorten(e.Sweep))
}

// BusyError is a results.csv that another process is appending to.
type BusyError struct{ File string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s: another qdsweep is appending to it; wait for it to end, or stop it", e.File)
}

// TwiceError is a run whose attempt is in the file already.
type TwiceError struct {
	File, Run string
	Attempt   int
}

func (e *TwiceError) Error() string {
	return fmt.Sprintf("append run %s attempt %d to %s: it is there already", e.Run, e.Attempt, e.File)
}
