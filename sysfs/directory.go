package sysfs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ResolveDirectory gives the device that holds a directory, and all that lies under it. Where no
// device setting can reach the file system NoKnobs says why and there are no members.
func (h Host) ResolveDirectory(dir string) (Stack, error) {
	s := Stack{Target: dir}
	clean, err := h.realDirectory(dir)
	if err != nil {
		return s, err
	}
	s.Directory = clean
	mounts, err := h.Mounts()
	if err != nil {
		return s, err
	}
	m, ok := h.mountHere(mounts, clean)
	if !ok {
		return s, fmt.Errorf("%s lies on no mount that /proc/self/mountinfo lists", dir)
	}
	s.FileSystem, s.MountPoint = m.Type, m.Point
	s.MountOptions = mergeOptions(m.Options, m.SuperOptions)
	if s.NoKnobs = noKnobs(m); s.NoKnobs != "" {
		return s, nil
	}
	below, err := h.fileSystemDevices(m)
	if err != nil {
		return s, fmt.Errorf("find the device of %s, mounted on %s: %w", dir, m.Point, err)
	}
	s.Device, s.More = below[0], below[1:]
	s.Offset, s.Bytes = s.Device.start(), s.Device.Bytes
	return s, h.descend(&s)
}

// mountHere is mountOf by the kernel's own word, where it gives that (statx since 5.8).
func (h Host) mountHere(mounts []Mount, dir string) (Mount, bool) {
	var st unix.Statx_t
	if h.Live() && unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st) == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		if i := slices.IndexFunc(mounts, func(m Mount) bool { return uint64(m.ID) == st.Mnt_id }); i >= 0 {
			return mounts[i], true
		}
	}
	return mountOf(mounts, dir)
}

// realDirectory makes a directory absolute and free of links; a captured tree need not hold it.
func (h Host) realDirectory(dir string) (string, error) {
	if h.Live() {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		if abs, err = filepath.EvalSymlinks(abs); err != nil {
			return "", err
		}
		if st, err := os.Stat(abs); err != nil {
			return "", err
		} else if !st.IsDir() {
			return "", fmt.Errorf("%s is not a directory", dir)
		}
		return abs, nil
	}
	if !path.IsAbs(dir) {
		return "", fmt.Errorf("%s: a directory of a captured tree is given from its root", dir)
	}
	return h.real(path.Clean(dir)), nil
}

// fileSystemDevices gives the devices of a mounted file system, the mount's own first.
func (h Host) fileSystemDevices(m Mount) ([]Device, error) {
	switch m.Type {
	case "btrfs":
		source, err := h.find(m.Source)
		if err != nil {
			return nil, err
		}
		found := []Device{source}
		for _, name := range h.btrfsSiblings(source.Name) {
			if name == source.Name {
				continue
			}
			d, err := h.Device(name)
			if err != nil {
				return nil, err
			}
			found = append(found, d)
		}
		return found, nil
	case "bcachefs":
		var found []Device
		for _, node := range strings.Split(m.Source, ":") {
			d, err := h.find(node)
			if err != nil {
				return nil, err
			}
			found = append(found, d)
		}
		return found, nil
	}
	d, err := h.byNumber(m.Major, m.Minor)
	if err != nil {
		return nil, err
	}
	return []Device{d}, nil
}

// btrfsSiblings names all devices of the btrfs that has this one: a mount shows only one of them.
func (h Host) btrfsSiblings(name string) []string {
	for _, uuid := range h.names("/sys/fs/btrfs") {
		if names := h.names("/sys/fs/btrfs/" + uuid + "/devices"); slices.Contains(names, name) {
			return names
		}
	}
	return nil
}

// mergeOptions joins a mount's options and its file system's, each once.
func mergeOptions(mount, super string) string {
	all := strings.Split(mount, ",")
	for _, o := range strings.Split(super, ",") {
		if !slices.Contains(all, o) && o != "" && o != "rw" {
			all = append(all, o)
		}
	}
	return strings.Join(all, ",")
}
