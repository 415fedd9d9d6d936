package keeper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// dyingPatience is how long a killed worker may go on making files.
const dyingPatience = 10 * time.Second

// folderHold is a folder of ours that is recorded; the lock says that a live sweep uses it.
type folderHold struct {
	entry Entry
	lock  *os.File
}

// folder records a folder that main has just made, or (made false) that main has removed it.
func (s *server) folder(path string, made bool) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("folder %s: not an absolute path", path)
	}
	path = filepath.Clean(path)
	for i, f := range s.folders {
		if f.entry.Folder.Path != path {
			continue
		}
		if made {
			return nil
		}
		if err := s.j.Clear(f.entry); err != nil {
			return err
		}
		_ = f.lock.Close()
		s.folders = append(s.folders[:i], s.folders[i+1:]...)
		return nil
	}
	if !made {
		return nil
	}
	found, err := lookAt(path)
	if err != nil {
		return fmt.Errorf("folder %s: %w", path, err)
	}
	parent, err := lookAt(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("folder %s: the one above it: %w", path, err)
	}
	found.ParentInode = parent.Inode
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %s", path, found.Device, found.Inode, found.Born))
	found.ID = hex.EncodeToString(sum[:8])
	e := s.entry()
	e.Folder = &found
	lock, err := takeLock(context.Background(), s.h, s.j, e.Key(), path, s.main, 0)
	if err != nil {
		return err
	}
	if err := s.j.Save(e); err != nil {
		_ = s.j.Clear(e)
		_ = lock.Close()
		return err
	}
	s.folders = append(s.folders, &folderHold{e, lock})
	return nil
}

// removeFolders removes what main left, when main is gone. What cannot be removed stays recorded.
func (s *server) removeFolders() {
	for _, f := range s.folders {
		if err := removeDying(*f.entry.Folder); err != nil {
			fmt.Fprintf(os.Stderr, "qdsweep keeper: main is gone; %v; remove it with: qdsweep restore\n", err)
			continue
		}
		if err := s.j.Clear(f.entry); err != nil {
			fmt.Fprintf(os.Stderr, "qdsweep keeper: main is gone; %s is removed, but: %v\n", f.entry.Folder.Path, err)
		}
	}
}

// RemoveFolder removes a folder of ours and all in it, but nothing of another file system that is mounted in it: that is an
// error. One that is not there is none.
func RemoveFolder(path string) error {
	f, err := lookAt(path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("folder %s: %w", path, err)
	}
	_, err = removeFolder(f, true)
	return err
}

// removeDying removes a folder that a worker may still be writing to: SIGKILL is sent to it, but it makes the file that it
// has begun to make.
func removeDying(f Folder) error {
	for until := time.Now().Add(dyingPatience); ; time.Sleep(dyingPoll) {
		_, err := removeFolder(f, true)
		if !errors.Is(err, unix.ENOTEMPTY) || time.Now().After(until) {
			return err
		}
	}
}

// lookAt describes a folder by what it is known again.
func lookAt(path string) (Folder, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return Folder{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return Folder{}, errors.New("it is no folder")
	}
	f := Folder{Path: path, Device: fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor), Inode: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		f.Born = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).UTC().Format(time.RFC3339Nano)
	}
	return f, nil
}

// removeFolder removes a folder of ours and all in it, where it is still that one. removed is false, without an
// error, when there is nothing at that path: removed before, or its file system is not mounted.
func removeFolder(f Folder, sameBoot bool) (removed bool, err error) {
	now, err := lookAt(f.Path)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("folder %s: %w", f.Path, err)
	case now.Inode != f.Inode, now.Born != f.Born, sameBoot && now.Device != f.Device:
		return false, fmt.Errorf("folder %s: it is another folder now: left alone", f.Path)
	case !sameBoot && f.Born == "":
		// Device numbers move from boot to boot, and an inode number alone proves little.
		return false, fmt.Errorf("folder %s: after a reboot it cannot be told from another folder: left alone", f.Path)
	}
	if err := empty(f.Path, now.Device); err != nil {
		return false, fmt.Errorf("folder %s: %w", f.Path, err)
	}
	if err := unix.Rmdir(f.Path); err != nil {
		return false, fmt.Errorf("folder %s: remove: %w", f.Path, err)
	}
	return true, nil
}

// parentIs says whether the folder above one of ours is still the one that it was made in.
func parentIs(f Folder, sameBoot bool) bool {
	parent, err := lookAt(filepath.Dir(f.Path))
	return err == nil && parent.Inode == f.ParentInode && (!sameBoot || parent.Device == f.Device)
}

// empty removes what is in a folder, but nothing of another file system that somebody mounted in it.
func empty(path, device string) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	return emptyRoot(root, device)
}

// atOnce is how many names of a folder are held: one of ours may have millions.
const atOnce = 1000

// emptyRoot lists the folder again until it lists nothing: some file systems skip names while others are removed.
func emptyRoot(root *os.Root, device string) error {
	for {
		dir, err := root.Open(".")
		if err != nil {
			return err
		}
		removed, err := emptyListed(root, dir, device)
		_ = dir.Close()
		if err != nil || removed == 0 {
			return err
		}
	}
}

func emptyListed(root *os.Root, dir *os.File, device string) (removed int, err error) {
	for {
		entries, err := dir.ReadDir(atOnce)
		if errors.Is(err, io.EOF) {
			return removed, nil
		}
		if err != nil {
			return removed, err
		}
		for _, e := range entries {
			if e.IsDir() {
				if err := emptyBelow(root, e.Name(), device); err != nil {
					return removed, err
				}
			}
			if err := root.Remove(e.Name()); err != nil {
				return removed, err
			}
			removed++
		}
	}
}

func emptyBelow(root *os.Root, name, device string) error {
	sub, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := within(sub, device); err != nil {
		return err
	}
	return emptyRoot(sub, device)
}

func within(root *os.Root, device string) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	if now := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)); now != device {
		return fmt.Errorf("%s is another file system (%s): left alone", root.Name(), now)
	}
	return nil
}
