package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	journalDir = "journal"
	lockDir    = "lock"
	suffix     = ".json"
	tempSuffix = ".tmp"
	// entryLimit is far above what a snapshot takes (some KiB); a larger file is not one of ours.
	entryLimit = 8 << 20
	tryBytes   = 64 << 10
)

// Journal is the durable record of what has to be put back: one file an entry in STATE/journal, written before the
// first change and removed after the last one is undone.
//
// It is obeyed by root, who writes to drives because of it. So it is read and written only through folders and
// files that belong to Owner, that nobody else can write, and that are no links.
type Journal struct {
	// Hook, where set, is called before each file operation with its name ("write x.json.tmp", "rename x.json", …).
	// Its error takes the place of the operation: a full disk, or a crash.
	Hook func(op string) error

	dir           string // STATE
	owner         int
	folder, locks *os.File // STATE/journal, STATE/lock
}

// JournalOption changes OpenJournal.
type JournalOption func(*Journal)

// WithOwner replaces root as the one the journal must belong to, for tests.
func WithOwner(uid int) JournalOption { return func(j *Journal) { j.owner = uid } }

// StateError is a state folder that cannot be trusted or used.
type StateError struct {
	Path   string
	Reason string
	Fix    string // what to type, "" where nothing simple helps
}

func (e *StateError) Error() string {
	s := fmt.Sprintf("state folder %s: %s", e.Path, e.Reason)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// OpenJournal opens the journal in a state folder, which it makes (0700) where it is absent. The error is a
// *StateError where the folder or one above it is not to be trusted.
func OpenJournal(stateDir string, opts ...JournalOption) (*Journal, error) {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("state folder %s: %w", stateDir, err)
	}
	j := &Journal{dir: dir}
	for _, o := range opts {
		o(j)
	}
	if err := j.trustPath(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil && real != filepath.Dir(dir) {
		if err := j.trustPath(real); err != nil { // a link of root's may lead to where somebody else can rename things
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, &StateError{Path: dir, Reason: err.Error()}
	}
	state, err := j.openDir(unix.AT_FDCWD, dir, dir)
	if err != nil {
		return nil, err
	}
	defer state.Close()
	if j.folder, err = j.openDir(int(state.Fd()), journalDir, filepath.Join(dir, journalDir)); err != nil {
		return nil, err
	}
	if j.locks, err = j.openDir(int(state.Fd()), lockDir, filepath.Join(dir, lockDir)); err != nil {
		_ = j.folder.Close()
		return nil, err
	}
	return j, nil
}

// Close lets go of the folders; the entries stay.
func (j *Journal) Close() error { return errors.Join(j.folder.Close(), j.locks.Close()) }

// Dir is the state folder.
func (j *Journal) Dir() string { return j.dir }

// Path is where the entry of that key is kept, for messages.
func (j *Journal) Path(e Entry) string { return filepath.Join(j.dir, journalDir, e.file()) }

// trustPath checks the folders above the state folder: whoever can rename one of them can put another journal there.
func (j *Journal) trustPath(dir string) error {
	for p := dir; ; p = filepath.Dir(p) {
		var st unix.Stat_t
		err := unix.Lstat(p, &st)
		switch {
		case errors.Is(err, unix.ENOENT): // will be made
		case err != nil:
			return &StateError{Path: j.dir, Reason: fmt.Sprintf("%s: %v", p, err)}
		case int(st.Uid) != j.owner && st.Uid != 0:
			return &StateError{Path: j.dir, Reason: fmt.Sprintf("%s belongs to user %d, who could put another journal there: not obeyed", p, st.Uid)}
		case st.Mode&unix.S_IFMT != unix.S_IFLNK && st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
			return &StateError{Path: j.dir, Reason: fmt.Sprintf("%s can be written by others, who could put another journal there: not obeyed", p)}
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

// openDir opens a folder of ours below another one, makes it where absent, and makes it 0700 where it is laxer.
func (j *Journal) openDir(at int, name, path string) (*os.File, error) {
	if err := unix.Mkdirat(at, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &StateError{Path: j.dir, Reason: fmt.Sprintf("make %s: %v", path, err)}
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR):
		return nil, &StateError{Path: j.dir, Reason: path + " is a link or no folder: not obeyed"}
	case err != nil:
		return nil, &StateError{Path: j.dir, Reason: fmt.Sprintf("open %s: %v", path, err)}
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = f.Close()
		return nil, &StateError{Path: j.dir, Reason: err.Error()}
	}
	switch {
	case int(st.Uid) != j.owner:
		_ = f.Close()
		return nil, &StateError{Path: j.dir, Reason: fmt.Sprintf("%s belongs to user %d, not to %d: not obeyed", path, st.Uid, j.owner),
			Fix: "look into it, then remove it or choose another --state-dir"}
	case st.Mode&0o022 != 0:
		_ = f.Close()
		return nil, &StateError{Path: j.dir, Reason: path + " can be written by others: not obeyed",
			Fix: "look into it, then: chmod 700 " + path}
	case st.Mode&0o777 != 0o700:
		if err := unix.Fchmod(fd, 0o700); err != nil {
			_ = f.Close()
			return nil, &StateError{Path: j.dir, Reason: fmt.Sprintf("chmod 700 %s: %v", path, err)}
		}
	}
	return f, nil
}

func (j *Journal) hook(op string) error {
	if j.Hook == nil {
		return nil
	}
	return j.Hook(op)
}

// Try writes as much as a snapshot takes, durably, and removes it again. A folder that takes no entry is better known
// before the first run than in each of a night's.
func (j *Journal) Try() error {
	name := fmt.Sprintf("try-%d%s", os.Getpid(), tempSuffix)
	err := j.hook("try")
	if err == nil {
		err = j.writeTemp(name, make([]byte, tryBytes), func(string) error { return nil })
	}
	if e := unix.Unlinkat(int(j.folder.Fd()), name, 0); e != nil && !errors.Is(e, unix.ENOENT) {
		err = errors.Join(err, e)
	}
	if err != nil {
		return &StateError{Path: j.dir, Reason: fmt.Sprintf("the originals of settings could not be kept in it: %v", err),
			Fix: "make room on its disk, or choose another --state-dir"}
	}
	return nil
}

// Save makes entries durable: when it returns nil they survive a power cut. When it returns an error, nothing may be
// changed; entries of that name are then the old ones, the new ones, or none, each whole.
func (j *Journal) Save(entries ...Entry) error {
	for _, e := range entries {
		if err := j.saveTemp(e); err != nil {
			return fmt.Errorf("write journal entry %s: %w", j.Path(e), err)
		}
	}
	for _, e := range entries {
		name := e.file()
		if err := j.hook("rename " + name); err != nil {
			return fmt.Errorf("write journal entry %s: %w", j.Path(e), err)
		}
		if err := unix.Renameat(int(j.folder.Fd()), name+tempSuffix, int(j.folder.Fd()), name); err != nil {
			return fmt.Errorf("write journal entry %s: rename: %w", j.Path(e), err)
		}
	}
	return j.sync()
}

func (j *Journal) saveTemp(e Entry) error {
	e.Version = entryVersion
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	return j.writeTemp(e.file()+tempSuffix, append(b, '\n'), j.hook)
}

func (j *Journal) writeTemp(name string, text []byte, hook func(op string) error) error {
	if err := hook("create " + name); err != nil {
		return err
	}
	// Removed first: a temp of a crashed predecessor, or a link that somebody put there.
	if err := unix.Unlinkat(int(j.folder.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, err := unix.Openat(int(j.folder.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := hook("write " + name); err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := hook("fsync " + name); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// Clear removes entries, durably. One that is not there is no error.
func (j *Journal) Clear(entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	for _, e := range entries {
		name := e.file()
		if err := j.hook("unlink " + name); err != nil {
			return fmt.Errorf("remove journal entry %s: %w", j.Path(e), err)
		}
		for _, n := range []string{name, name + tempSuffix} {
			if err := unix.Unlinkat(int(j.folder.Fd()), n, 0); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove journal entry %s: %w", j.Path(e), err)
			}
		}
	}
	return j.sync()
}

func (j *Journal) sync() error {
	if err := j.hook("fsync folder"); err != nil {
		return fmt.Errorf("sync %s: %w", j.folder.Name(), err)
	}
	if err := j.folder.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", j.folder.Name(), err)
	}
	return nil
}

// Entries gives all that is in the journal, sorted by name. A file that cannot be read, trusted or understood is an
// Entry with nothing but File and Damage: it is there, and it blocks.
func (j *Journal) Entries() ([]Entry, error) {
	// A descriptor of its own, for reading a folder moves its position.
	fd, err := unix.Openat(int(j.folder.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("read journal %s: %w", j.folder.Name(), err)
	}
	folder := os.NewFile(uintptr(fd), j.folder.Name())
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read journal %s: %w", j.folder.Name(), err)
	}
	sort.Strings(names)
	var entries []Entry
	for _, n := range names {
		if !strings.HasSuffix(n, suffix) {
			continue
		}
		if e, ok := j.load(n); ok {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// load reads one file; ok is false when there is none.
func (j *Journal) load(name string) (e Entry, ok bool) {
	b, err := j.read(name)
	if errors.Is(err, unix.ENOENT) {
		return Entry{}, false
	}
	if err == nil {
		e, err = decodeEntry(b)
	}
	if err == nil && e.file() != name {
		err = fmt.Errorf("its name and what is in it (%s) differ", e.Key())
	}
	if err != nil {
		return Entry{File: name, Damage: err.Error()}, true
	}
	e.File = name
	return e, true
}

func (j *Journal) read(name string) ([]byte, error) {
	fd, err := unix.Openat(int(j.folder.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, errors.New("it is a link: not obeyed")
	case err != nil:
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("it is no plain file: not obeyed")
	case int(st.Uid) != j.owner:
		return nil, fmt.Errorf("it belongs to user %d, not to %d: not obeyed", st.Uid, j.owner)
	case st.Mode&0o022 != 0:
		return nil, errors.New("it can be written by others: not obeyed")
	case st.Nlink > 1:
		return nil, errors.New("it has another hard link: not obeyed")
	}
	b, err := io.ReadAll(io.LimitReader(f, entryLimit+1))
	if err == nil && len(b) > entryLimit {
		err = errors.New("it is too large to be an entry")
	}
	return b, err
}

// dropLock removes a lock file for good: of what existed once, under a name that nothing else will ever have. Whoever waits for it finds that there is no
// entry any more.
func (j *Journal) dropLock(name string) {
	_ = unix.Unlinkat(int(j.locks.Fd()), name, 0)
}

// openLock opens (and makes) the lock file of a member.
func (j *Journal) openLock(name string) (*os.File, error) {
	fd, err := unix.Openat(int(j.locks.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	path := filepath.Join(j.dir, lockDir, name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
