package results

import (
	"errors"
	"io"
	"iter"
)

// Read streams the rows of a results CSV in constant memory. Only whole runs
// are given, so a reader never sees half of one, also while a sweep appends.
//
// Errors come as values beside an empty Row: a *DamageError where lines between
// whole runs are none, after which it goes on; and as the last value a
// *TornError (the tail a crash left; everything before it was given), a
// *HeaderError, a *SchemaError or what r failed with.
func Read(r io.Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		s := newScanner(r)
		if err := s.readHeader(); err != nil {
			yield(Row{}, err)
			return
		}
		for {
			rows, before, err := s.run()
			if err != nil {
				if errors.Is(err, io.EOF) {
					if before == nil {
						return
					}
					err = s.torn(before)
				}
				yield(Row{}, err)
				return
			}
			if before != nil && !yield(Row{}, s.damage(before)) {
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

func (s *scanner) torn(g *gap) *TornError {
	return &TornError{Line: g.line, Offset: g.offset, Bytes: s.offset - g.offset, Reason: g.reason.Error()}
}

func (s *scanner) damage(g *gap) *DamageError {
	return &DamageError{Line: g.line, Last: s.start.line - 1, Reason: g.reason.Error()}
}
