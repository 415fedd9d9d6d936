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

// File is a sweep's results.csv, open for appending under flock. It belongs to
// one goroutine.
//
// What holds after a crash or a failure at any moment: every run whose Append
// returned nil is whole in the file; a run is in it whole or not at all for a
// reader; no attempt of a run is in it twice.
type File struct {
	path   string
	sweep  string
	shared bool // rows of other sweeps are in it, too: a History
	opts   options

	f     *os.File
	size  int64 // up to the end of the last whole run
	dirty bool  // bytes behind size could not be taken away yet
	runs  filter
	torn  *TornError

	write func(fd int, p []byte) (int, error) // write(2); tests make it fall short
	sync  func() error
}

// Option changes how Open works.
type Option func(*options)

type options struct {
	hook     func(op string) error
	uid, gid int
	runs     func(rows []Row) error
}

// WithHook has hook called before each operation on a file (open, lock, write
// header, sync, sync folder, write torn, sync torn, write, truncate). An error
// from it is the operation's error: that is how tests fail or crash any of them.
func WithHook(hook func(op string) error) Option {
	return func(o *options) { o.hook = hook }
}

// WithRuns has seen called with the rows of each run that Open finds in the file,
// in their order, so that whoever goes on with a sweep reads its rows once. The
// rows are valid until it returns. An error from it is Open's.
func WithRuns(seen func(rows []Row) error) Option {
	return func(o *options) { o.runs = seen }
}

// WithOwner gives the files that are made to uid and gid: the user behind sudo.
func WithOwner(uid, gid int) Option {
	return func(o *options) { o.uid, o.gid = uid, gid }
}

// Open opens results.csv in the folder dir for the rows of sweep alone, and
// makes it with its header when it is absent (mode 0644, the file and the folder
// synced). A torn tail is first set aside in results.csv.torn; Torn tells of it.
//
// A *ForeignError says that the file is another sweep's or another schema's (its
// error inside) and was left alone, a *BusyError that another process has it. A
// *DamageError inside any other error is for a person to look at: whole runs come
// after the damage, so nothing is cut off.
//
// The file is read once, in constant memory.
func Open(dir, sweep string, opts ...Option) (*File, error) {
	f := newFile(filepath.Join(dir, FileName), sweep, opts)
	if err := f.open(); err != nil {
		_ = f.Close() // nothing was written through it
		return nil, err
	}
	return f, nil
}

func newFile(path, sweep string, opts []Option) *File {
	f := &File{path: path, sweep: sweep, write: write}
	f.opts = options{hook: func(string) error { return nil }, uid: -1, gid: -1, runs: func([]Row) error { return nil }}
	for _, o := range opts {
		o(&f.opts)
	}
	return f
}

func (f *File) open() error {
	if err := f.openLocked(); err != nil {
		return err
	}
	s := newScanner(io.NewSectionReader(f.f, 0, 1<<62))
	if err := s.readHeader(); err != nil {
		size, torn, statErr := f.headerTorn()
		if statErr != nil {
			return statErr
		}
		if !torn {
			return &ForeignError{f.path, f.sweep, err}
		}
		// The header is the first thing ever written: what is left of it has
		// no run behind it.
		if size > 0 {
			f.torn = &TornError{Line: 1, Bytes: size, Reason: "half a header"}
			if err := f.setAside(); err != nil {
				return err
			}
		}
		if err := f.put("write header", Header()); err != nil {
			return fmt.Errorf("write the header of %s: %w", f.path, err)
		}
		return f.syncFolder()
	}
	if err := f.scan(s); err != nil {
		return err
	}
	if f.torn != nil {
		if err := f.setAside(); err != nil {
			return err
		}
	}
	// A process that died between write and fsync left whole runs that are
	// only in memory, and perhaps a file that is not in its folder yet.
	if err := f.hook("sync"); err != nil {
		return fmt.Errorf("sync %s: %w", f.path, err)
	}
	if err := f.sync(); err != nil {
		return fmt.Errorf("sync %s: %w", f.path, err)
	}
	return f.syncFolder()
}

// openLocked opens and locks the file. The lock is taken on the file itself and
// the file is never replaced, so whoever has the lock has the file.
func (f *File) openLocked() (err error) {
	made := false
	if err := f.hook("open"); err != nil {
		return fmt.Errorf("open %s: %w", f.path, err)
	}
	// O_NOFOLLOW: the folder may be a user's, and this may be root.
	const flags = os.O_RDWR | os.O_APPEND | unix.O_NOFOLLOW
	f.f, err = os.OpenFile(f.path, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		made = true
		f.f, err = os.OpenFile(f.path, flags|os.O_CREATE, 0o644)
	}
	if err != nil {
		return err // names the operation and the file
	}
	if !made && !f.shared && f.opts.uid >= 0 {
		if err := OwnName(f.f, f.opts.uid); err != nil {
			return err
		}
	}
	f.sync = f.f.Sync
	if err := f.hook("lock"); err != nil {
		return fmt.Errorf("lock %s: %w", f.path, err)
	}
	if err := unix.Flock(int(f.f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return &BusyError{f.path}
		}
		return fmt.Errorf("lock %s: %w", f.path, err)
	}
	if made {
		if err := f.own(f.f); err != nil {
			return err
		}
	}
	return nil
}

// own makes a new file 0644 whatever the umask, and the user's.
func (f *File) own(file *os.File) error {
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	if f.opts.uid >= 0 {
		return file.Chown(f.opts.uid, f.opts.gid)
	}
	return nil
}

func (f *File) syncFolder() error {
	if err := f.hook("sync folder"); err != nil {
		return fmt.Errorf("sync the folder of %s: %w", f.path, err)
	}
	d, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", d.Name(), err)
	}
	return nil
}

// Torn tells what Open set aside in results.csv.torn; nil when nothing.
func (f *File) Torn() *TornError { return f.torn }

// Path is the file's name.
func (f *File) Path() string { return f.path }

// Close closes the file and drops its lock. Everything appended is on disk
// already.
func (f *File) Close() error {
	if f.f == nil {
		return nil
	}
	err := f.f.Close()
	f.f = nil
	return err
}

func (f *File) hook(op string) error { return f.opts.hook(op) }
