package sweep

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs"
)

// folder is a sweep's output folder. Its files are 0644 and belong to the one who called sudo, so that results made as root
// can be read, moved and deleted without it.
type folder struct {
	dir      string
	uid, gid int // -1: leave as created
}

// newSweepID is unique across machines and nights: the start to the second, and 32 random bits. Rows of many sweeps come together in a lab's
// history, so one at small scale says it there too.
func newSweepID(now time.Time, scaled bool) string {
	var b [4]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	id := now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:])
	if scaled {
		id += smallSuffix
	}
	return id
}

// DefaultOut is where a sweep of that profile puts its results when nobody says: ./NAME-YYYYMMDD-HHMMSS.
func DefaultOut(profile string, now time.Time) string {
	return "./" + profile + "-" + now.Format("20060102-150405")
}

// checkOut refuses a folder that already holds something: rows of two sweeps in one file cannot be told apart in the morning.
func checkOut(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &UsageError{fmt.Sprintf("--out %s: %v; name a folder that does not exist yet, or an empty one", dir, err)}
	case len(entries) > 0:
		what := fmt.Sprintf("holds %d files", len(entries))
		for _, e := range entries {
			if e.Name() == "results.csv" {
				what = "holds the results.csv of another sweep, which is never appended to"
			}
		}
		return &UsageError{fmt.Sprintf("--out %s: the folder %s; name a folder that does not exist yet, or an empty one", dir, what)}
	}
	return nil
}

func createFolder(dir string) (folder, error) {
	f := folder{dir: dir, uid: -1, gid: -1}
	if uid, err := strconv.Atoi(os.Getenv("SUDO_UID")); err == nil && os.Geteuid() == 0 {
		f.uid = uid
		if gid, err := strconv.Atoi(os.Getenv("SUDO_GID")); err == nil {
			f.gid = gid
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return f, &NotHere{[]sysfs.Refusal{{Reason: fmt.Sprintf("make the output folder: %v", err), Fix: "name a folder that can be made with --out"}}}
	}
	if f.uid < 0 {
		return f, nil
	}
	return f, os.Lchown(dir, f.uid, f.gid)
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// own gives a file that was made here to the one who called sudo. It goes by the open file: at its name there may be another one by now, in a user's folder.
func (f folder) own(made *os.File) error {
	if f.uid < 0 {
		return nil
	}
	return made.Chown(f.uid, f.gid)
}

// appendTo opens a file to add to, or makes it. One that has another name elsewhere may be root's, and was put here by the user whose folder it is.
func (f folder) appendTo(name string) (*os.File, error) {
	w, err := os.OpenFile(f.path(name), logFlags|os.O_EXCL, 0o644)
	if err == nil {
		return w, f.own(w)
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if w, err = os.OpenFile(f.path(name), logFlags|unix.O_NONBLOCK, 0); err != nil {
		return nil, err
	}
	if err := results.OwnName(w, f.uid); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// save replaces a file of the folder as a whole: a reader, and the next boot, see the old text or the new one.
func (f folder) save(name string, text []byte, mode os.FileMode) error {
	return f.replace(name, text, mode, true)
}

func (f folder) replace(name string, text []byte, mode os.FileMode, durable bool) error {
	tmp := f.path("." + name + ".tmp")
	_ = os.Remove(tmp) // of a write that failed; or somebody else's, whose folder it may be while this is root
	w, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	if err == nil && durable {
		err = w.Sync()
	}
	if err == nil {
		err = f.own(w)
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, f.path(name))
	}
	if err != nil {
		os.Remove(tmp)
		return fmt.Errorf("write %s: %w", f.path(name), err)
	}
	if !durable {
		return nil
	}
	return syncDir(f.dir)
}

// overwrite writes a file's text where the old one stands, which takes no room while it has its blocks. A reader may see it half done.
func (f folder) overwrite(name string, text []byte) error {
	w, err := os.OpenFile(f.path(name), os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := results.OwnName(w, -1); err != nil {
		return err
	}
	if _, err := w.WriteAt(text, 0); err != nil {
		return err
	}
	return w.Truncate(int64(len(text)))
}

func (f folder) saveJSON(name string, v any, mode os.FileMode) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return f.save(name, append(b, '\n'), mode)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// volatileFS names a file system that a power loss, or the end of a container, empties. Journals and rows do not belong there.
func volatileFS(dir string) (string, error) {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir) // the folder is to be made: its parent decides
			continue
		}
		if err != nil {
			return "", fmt.Errorf("statfs %s: %w", dir, err)
		}
		switch uint32(st.Type) {
		case unix.TMPFS_MAGIC:
			return "tmpfs", nil
		case unix.RAMFS_MAGIC:
			return "ramfs", nil
		case unix.OVERLAYFS_SUPER_MAGIC:
			return "overlay", nil
		}
		return "", nil
	}
}

// existing is the deepest part of a path that is there already.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// ShellQuote puts a word into single quotes where a shell would take it apart.
func ShellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:=,+@", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
