package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
)

// begun is what an output folder says of the sweep in it.
type begun struct {
	folder  folder
	profile *Profile
	hash    string // of profile.yaml
	starts  []start
	consent consent
	notes   []string // for the user's eye

	untrusted string   // why the consents do not hold, "" where they do
	typed     []string // --erase of this start alone

	absent     []*Target       // that this start does without
	refusals   []sysfs.Refusal // why
	unrestored bool            // one of them has settings of an earlier start yet
}

// maxFolderFile is larger than any file but results.csv and the log that a sweep writes.
const maxFolderFile = 64 << 20

// readBegun reads an output folder. What is wrong with it is wrong on any machine.
func readBegun(dir string) (*begun, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, &UsageError{fmt.Sprintf("%s: %v; name the output folder of a sweep", dir, bareError(err))}
	case !info.IsDir():
		return nil, &UsageError{fmt.Sprintf("%s is no folder; name the output folder of a sweep, not a file in it", dir)}
	}
	b := &begun{folder: folder{dir: dir, uid: -1, gid: -1}}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		b.folder.uid, b.folder.gid = int(st.Uid), int(st.Gid) // whoever has the folder shall have what is added
	}
	text, err := b.read("profile.yaml")
	if err == nil {
		err = b.readStarts()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &UsageError{fmt.Sprintf("%s: no output folder of a sweep that had begun: it has no %s; where it ended before its first run, type the run again", dir, filepath.Base(pathOf(err)))}
	}
	if err != nil {
		return nil, err
	}
	if err := b.sameProfile(text); err != nil {
		return nil, err
	}
	return b, b.readConsent()
}

// read reads a file of the folder, which may be a user's while this is root.
func (b *begun) read(name string) ([]byte, error) {
	text, _, err := b.readWith(name)
	return text, err
}

// readWith is read with whose the file is that was read: by its name it may be another one a moment later.
func (b *begun) readWith(name string) (text []byte, of unix.Stat_t, err error) {
	f, err := os.OpenFile(b.folder.path(name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, of, err
	}
	defer f.Close()
	if err := unix.Fstat(int(f.Fd()), &of); err != nil {
		return nil, of, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFolderFile+1))
	if err == nil && len(text) > maxFolderFile {
		err = fmt.Errorf("%s has more than %d bytes: no sweep wrote that", f.Name(), maxFolderFile)
	}
	return text, of, err
}

func (b *begun) readStarts() error {
	text, err := b.read("environment.json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &b.starts); err != nil {
		return &UsageError{fmt.Sprintf("%s cannot be read: %v; the rows are whole all the same: qdsweep report %s", b.folder.path("environment.json"), err, ShellQuote(b.folder.dir))}
	}
	if len(b.starts) == 0 || !isSweepID(b.starts[0].Sweep) {
		return &UsageError{fmt.Sprintf("%s names no sweep", b.folder.path("environment.json"))}
	}
	return nil
}

// isSweepID says whether a text is such as newSweepID makes. It becomes part of paths at which root makes and removes things, and the folder may be a user's.
func isSweepID(text string) bool {
	return text != "" && strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyzTZ-") == ""
}

// sameProfile refuses a profile that was edited: rows of two sweeps would be in one file.
func (b *begun) sameProfile(text []byte) error {
	path := b.folder.path("profile.yaml")
	b.hash = profileHash(text)
	switch was := b.starts[0].Profile; was {
	case "":
		b.notes = append(b.notes, "the sweep was begun by a version that kept no checksum of profile.yaml: whether it was edited since is not known")
	case b.hash:
	default:
		return &UsageError{fmt.Sprintf("%s is not what the sweep was begun with (SHA-256 %s, not %s): its rows and those to come would not be of one sweep\n  put it back as it was; or begin another sweep: qdsweep run %s",
			path, b.hash[:12], was[:min(12, len(was))], ShellQuote(path))}
	}
	var err error
	if b.profile, err = ReadProfile(path, strings.NewReader(string(text))); err == nil {
		b.profile.Warnings = nil // which were of the file that it was made from, and have been said
	}
	return err
}

func (b *begun) readConsent() error {
	name := "consent.json"
	text, of, err := b.readWith(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is written before the first run: nothing was overwritten
	}
	if err == nil {
		err = json.Unmarshal(text, &b.consent)
	}
	if err != nil {
		return &UsageError{fmt.Sprintf("%s cannot be read: %v; begin another sweep: qdsweep run %s", b.folder.path(name), err, ShellQuote(b.folder.path("profile.yaml")))}
	}
	if b.untrusted = notTheirs(b.folder.path(name), of); b.untrusted == "" && b.consent.Sweep != b.starts[0].Sweep {
		b.untrusted = fmt.Sprintf("%s is that of another sweep, %s; give --erase and --allow again", b.folder.path(name), b.consent.Sweep)
	}
	return nil
}

// notTheirs says why what a file allows is not what root, or the one who calls sudo now, has allowed: a user's file must not have root overwrite drives.
func notTheirs(path string, st unix.Stat_t) string {
	sudo, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	switch {
	case os.Geteuid() != 0:
		return "" // who is not root may not do anything
	case st.Uid != 0 && (err != nil || int(st.Uid) != sudo):
		return fmt.Sprintf("%s belongs to user id %d, and you are not that user's sudo; give --erase and --allow again", path, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Sprintf("others may write %s; give --erase and --allow again", path)
	}
	return ""
}

// sameState refuses another state folder: the originals of what the sweep left changed, and its lost rows, would not be seen.
func (b *begun) sameState(dir string) error {
	was := b.starts[len(b.starts)-1].StateDir
	if was == "" || was == dir {
		return nil
	}
	return &UsageError{fmt.Sprintf("the sweep has its journal in %s, not in %s: add --state-dir %s", was, dir, ShellQuote(was))}
}

// pid is the process that wrote status.json last, where it lives; 0 where that is not known. The one that has the folder may not have written its own yet, and
// the number may be anybody's by now.
func (b *begun) pid() int {
	var status Status
	text, err := b.read(StatusFile)
	if err != nil || json.Unmarshal(text, &status) != nil || status.PIDSpace != pidSpace() || !keeper.Lives(status.PID, status.Since) {
		return 0
	}
	return status.PID
}

func pathOf(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Path
	}
	return ""
}

// bareError is an error without the path, which the text around it has.
func bareError(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
