package results

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"
)

// batch is what a copy writes at once: one write(2) and one fsync for many runs.
const batch = 1 << 20

// CheckHistory says why rows could not be added to the history at path, a CSV
// that holds those of many sweeps, as far as that shows in the evening. It makes
// nothing.
func CheckHistory(path string) error {
	if filepath.Base(path) == FileName {
		return fmt.Errorf("%s: a %s is one sweep's own, and nothing else is added to it; give the history another name", path, FileName)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return err // names it
		}
		if !dir.IsDir() {
			return fmt.Errorf("%s is no folder", filepath.Dir(path))
		}
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no plain file (%v); name one, or one that is to be made", path, info.Mode().Type())
	case info.Size() == 0:
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	f := &File{path: path, f: file}
	s := newScanner(file)
	if err := s.readHeader(); err != nil {
		if _, torn, tornErr := f.headerTorn(); tornErr != nil || !torn {
			return notHistory(path, errors.Join(err, tornErr))
		}
		return nil
	}
	if err := s.exactHeader(); err != nil {
		return notHistory(path, err)
	}
	return nil
}

func notHistory(path string, err error) error {
	return fmt.Errorf("%s is no history that this version can add to, and was left alone: %w; name another file", path, err)
}

// Copy adds to the history at path the runs of sweep that the results.csv at from
// has and it has not, by run and attempt, and says how many these were. The
// history is locked meanwhile; another copy into it is waited for at most
// patience (*BusyError). It may be typed again after a crash at any point: a torn
// tail is set aside beside the history, and is copied anew.
//
// Both files are streamed, in constant memory.
func Copy(path, from, sweep string, patience time.Duration, opts ...Option) (copied int, err error) {
	if err := CheckHistory(path); err != nil {
		return 0, err
	}
	h, err := openHistory(path, sweep, patience, opts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	source, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer source.Close() // it is only read
	had := h.had()
	defer had.close()
	var pending []byte
	for rows, err := range runsOf(Read(source)) {
		var torn *TornError
		if errors.As(err, &torn) { // its own sweep deals with it
			break
		}
		if err != nil {
			return copied, fmt.Errorf("%s: %w", from, err)
		}
		there, err := had.has(rows[0])
		if err != nil {
			return copied, err
		}
		if there {
			continue
		}
		copied++
		if pending = append(pending, Encode(rows)...); len(pending) < batch {
			continue
		}
		if err := h.add(pending); err != nil {
			return copied, err
		}
		pending = pending[:0]
	}
	if len(pending) == 0 {
		return copied, nil
	}
	return copied, h.add(pending)
}

func openHistory(path, sweep string, patience time.Duration, opts []Option) (*File, error) {
	f := newFile(path, sweep, opts)
	f.shared = true
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := f.open()
		var busy *BusyError
		if err == nil {
			return f, nil
		}
		_ = f.Close() // nothing was written through it
		if !errors.As(err, &busy) || time.Now().After(until) {
			var foreign *ForeignError
			if errors.As(err, &foreign) {
				err = notHistory(path, foreign.Err)
			}
			return nil, err
		}
	}
}

// add writes whole runs.
func (f *File) add(runs []byte) error {
	err := f.ready()
	if err == nil {
		err = f.put("write", runs)
	}
	if err != nil {
		return fmt.Errorf("add to %s: %w", f.path, err)
	}
	return nil
}

// runsOf gives the rows of each run together. They are valid until the next.
func runsOf(rows iter.Seq2[Row, error]) iter.Seq2[[]Row, error] {
	return func(yield func([]Row, error) bool) {
		var run []Row
		for r, err := range rows {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			if run = append(run, r); r.Row < r.Rows {
				continue
			}
			if !yield(run, nil) {
				return
			}
			run = run[:0]
		}
	}
}

// had goes through the runs that a history has of a sweep. They stand in it in the
// order in which they were copied, which is that of results.csv, so that the next
// one asked for is nearly always the next one there; only where somebody changed
// the order is the file read again for one.
type had struct {
	f    *File
	next func() ([]Row, error, bool)
	stop func()
	at   Row // the next one there
	over bool
}

func (f *File) had() *had {
	h := &had{f: f}
	h.next, h.stop = iter.Pull2(runsOf(Read(io.NewSectionReader(f.f, 0, f.size))))
	return h
}

func (h *had) close() { h.stop() }

func (h *had) has(r Row) (bool, error) {
	if !h.f.runs.mayHave(r.Run, r.Attempt) {
		return false, nil
	}
	for h.at.Run == "" && !h.over {
		rows, err, more := h.next()
		switch {
		case !more:
			h.over = true
		case err != nil:
			return false, fmt.Errorf("%s: %w", h.f.path, err)
		case rows[0].Sweep == h.f.sweep:
			h.at = rows[0]
		}
	}
	if h.at.Run == r.Run && h.at.Attempt == r.Attempt {
		h.at = Row{}
		return true, nil
	}
	return h.f.has(r.Run, r.Attempt)
}
