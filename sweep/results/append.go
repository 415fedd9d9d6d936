package results

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Append adds one run: all its rows in one write(2), then fsync. When it
// returns nil the run is on disk. When it does not, the file ends with the run
// before, and the same run may be tried again; a full disk is syscall.ENOSPC to
// errors.Is.
//
// Schema, sweep, attempt, row and rows are filled in where they are zero. A run
// attempt that is in the file already is a *TwiceError.
func (f *File) Append(run []Row) error {
	rows, err := f.prepare(run)
	if err != nil {
		return err
	}
	name, attempt := rows[0].Run, rows[0].Attempt
	if err := f.ready(); err != nil {
		return f.failed(name, err)
	}
	twice, err := f.has(name, attempt)
	if err != nil {
		return f.failed(name, err)
	}
	if twice {
		return &TwiceError{f.path, name, attempt}
	}
	if err := f.put("write", Encode(rows)); err != nil {
		return f.failed(name, err)
	}
	f.runs.add(name, attempt)
	return nil
}

func (f *File) failed(run string, err error) error {
	return fmt.Errorf("append run %s to %s: %w", run, f.path, err)
}

// prepare numbers the rows and refuses what could not be read back as one run.
func (f *File) prepare(run []Row) ([]Row, error) {
	if len(run) == 0 {
		return nil, errors.New("append a run without rows")
	}
	rows := numbered(run)
	for i := range rows {
		r := &rows[i]
		if r.Sweep == "" {
			r.Sweep = f.sweep
		}
		if r.Attempt == 0 {
			r.Attempt = 1
		}
		err := r.check()
		switch {
		case err != nil:
		case r.Sweep != f.sweep:
			err = &OtherSweepError{r.Sweep}
		case r.Run != rows[0].Run || r.Attempt != rows[0].Attempt || r.Row != i+1 || r.Rows != len(rows):
			err = fmt.Errorf("row %d of %d is run %s attempt %d row %d of %d", i+1, len(rows), r.Run, r.Attempt, r.Row, r.Rows)
		}
		if err != nil {
			return nil, f.failed(rows[0].Run, err)
		}
	}
	return rows, nil
}

// ready makes sure that what is written next stands right behind the last whole
// run of a file that is still there.
func (f *File) ready() error {
	if f.f == nil {
		return errors.New("it is closed")
	}
	if f.dirty {
		if err := f.cutBack(); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.f.Fd()), &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Nlink == 0 {
		return errors.New("somebody removed or replaced it")
	}
	if st.Size != f.size {
		return fmt.Errorf("somebody else changed it: %d bytes, not %d", st.Size, f.size)
	}
	return nil
}

// put adds bytes and syncs them, or takes them away again.
func (f *File) put(op string, p []byte) error {
	err := f.hook(op)
	if err == nil {
		var n int
		n, err = f.write(int(f.f.Fd()), p)
		if err == nil && n < len(p) {
			// A regular file takes less than all only when the disk is full.
			err = fmt.Errorf("%d of %d bytes written: %w", max(n, 0), len(p), unix.ENOSPC)
		}
	}
	if err == nil {
		if err = f.hook("sync"); err == nil {
			err = f.sync()
		}
	}
	if err != nil {
		f.dirty = true
		return errors.Join(err, f.cutBack())
	}
	f.size += int64(len(p))
	return nil
}

// cutBack ends the file with its last whole run.
func (f *File) cutBack() error {
	if err := f.hook("truncate"); err != nil {
		return fmt.Errorf("cut off what was half written: %w", err)
	}
	if err := f.f.Truncate(f.size); err != nil {
		return fmt.Errorf("cut off what was half written: %w", err)
	}
	if err := f.hook("sync"); err != nil {
		return fmt.Errorf("sync after cutting off: %w", err)
	}
	if err := f.sync(); err != nil {
		return fmt.Errorf("sync after cutting off: %w", err)
	}
	f.dirty = false
	return nil
}

// write is write(2), once. os.File.Write would go on after a short write, and
// the run would no longer be one write.
func write(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Write(fd, p)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// has says whether that attempt of run is in the file. The filter answers no
// for nearly every run; what it cannot tell is looked up in the file.
func (f *File) has(run string, attempt int) (bool, error) {
	if !f.runs.mayHave(run, attempt) {
		return false, nil
	}
	for r, err := range Read(io.NewSectionReader(f.f, 0, f.size)) {
		if err != nil {
			return false, err
		}
		if r.Run == run && r.Attempt == attempt && r.Sweep == f.sweep {
			return true, nil
		}
	}
	return false, nil
}
