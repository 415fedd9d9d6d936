package results

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// headerTorn says whether a file whose header could not be read is one whose
// making was cut short, and how long it is: empty, or all of it is what our
// header has at that place, or a NUL that a power cut left there. Anything else is
// somebody's file.
func (f *File) headerTorn() (size int64, torn bool, err error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, false, err
	}
	const most = 64 << 10 // a block that was never written, on any file system
	size = info.Size()
	if size > most {
		return size, false, nil
	}
	left := make([]byte, size)
	if _, err := f.f.ReadAt(left, 0); err != nil {
		return size, false, fmt.Errorf("read %s: %w", f.path, err)
	}
	header := Header()
	for i, b := range left {
		if b != 0 && (i >= len(header) || b != header[i]) {
			return size, false, nil
		}
	}
	return size, true, nil
}

// scan goes through the whole runs of the file and finds where they end.
func (f *File) scan(s *scanner) error {
	if err := s.exactHeader(); err != nil {
		return &ForeignError{f.path, f.sweep, err}
	}
	f.size = s.offset
	for {
		rows, before, err := s.run()
		if errors.Is(err, io.EOF) {
			if before != nil {
				f.torn = s.torn(before)
			}
			return nil
		}
		if err != nil {
			var schema *SchemaError
			if errors.As(err, &schema) {
				return &ForeignError{f.path, f.sweep, err}
			}
			return fmt.Errorf("%s: %w", f.path, err)
		}
		if before != nil {
			return fmt.Errorf("%s: %w, but whole runs follow, so it was no crash; nothing was changed: move these lines to %s%s by hand",
				f.path, s.damage(before), filepath.Base(f.path), TornSuffix)
		}
		if f.shared && rows[0].Sweep != f.sweep {
			f.size = s.offset
			continue
		}
		if rows[0].Sweep != f.sweep {
			return &ForeignError{f.path, f.sweep, &OtherSweepError{rows[0].Sweep}}
		}
		if err := f.opts.runs(rows); err != nil {
			return fmt.Errorf("%s: line %d: %w", f.path, s.start.line, err)
		}
		f.runs.add(rows[0].Run, rows[0].Attempt)
		f.size = s.offset
	}
}

// setAside moves the torn tail to the end of results.csv.torn. It is on disk
// there before it is cut off here, so a crash in between costs nothing: the tail
// is set aside once more.
func (f *File) setAside() error {
	if err := f.copyTail(); err != nil {
		return fmt.Errorf("set the torn end of %s aside: %w", f.path, err)
	}
	f.dirty = true
	if err := f.cutBack(); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}

// openTorn makes the file for torn tails, or opens the one that is there. That one
// is nobody's to give away: the folder may be a user's, this root, and the file
// another name of one of root's.
func (f *File) openTorn() (*os.File, error) {
	const flags = os.O_WRONLY | os.O_APPEND | unix.O_NOFOLLOW
	torn, err := os.OpenFile(f.path+TornSuffix, flags|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		return torn, f.own(torn)
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if torn, err = os.OpenFile(f.path+TornSuffix, flags|unix.O_NONBLOCK, 0); err != nil {
		return nil, err
	}
	if err := OwnName(torn, f.opts.uid); err != nil {
		torn.Close()
		return nil, err
	}
	return torn, nil
}

func (f *File) copyTail() error {
	if err := f.hook("write torn"); err != nil {
		return err
	}
	torn, err := f.openTorn()
	if err != nil {
		return err
	}
	defer torn.Close() // synced below; an error of close says nothing more
	tail := io.NewSectionReader(f.f, f.torn.Offset, f.torn.Bytes)
	if _, err := io.Copy(torn, tail); err != nil {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.f.ReadAt(last, f.torn.Offset+f.torn.Bytes-1); err != nil {
		return err
	}
	if last[0] != '\n' { // so that the next torn tail starts a line
		if _, err := torn.Write([]byte{'\n'}); err != nil {
			return err
		}
	}
	if err := f.hook("sync torn"); err != nil {
		return err
	}
	if err := torn.Sync(); err != nil {
		return err
	}
	return f.syncFolder()
}
