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

// Resolve gives the device a user means, and all that lies under it: a kernel name, a node or a link
// to one, "wwid:…" or "serial:SERIAL[:MODEL]". Several devices of one identity are an error that
// lists them.
func (h Host) Resolve(target string) (Stack, error) {
	d, err := h.find(target)
	if err != nil {
		return Stack{}, err
	}
	s := Stack{Target: target, Device: d, Offset: d.start(), Bytes: d.Bytes}
	return s, h.descend(&s)
}

// find is Resolve without what lies under the device.
func (h Host) find(target string) (Device, error) {
	switch {
	case strings.HasPrefix(target, "wwid:"), strings.HasPrefix(target, "serial:"):
		return h.findIdentity(target)
	case strings.HasPrefix(target, "/"):
		major, minor, err := h.nodeNumber(target)
		if err != nil {
			return Device{}, err
		}
		return h.byNumber(major, minor)
	}
	return h.Device(strings.ReplaceAll(target, "/", "!"))
}

// findIdentity looks a device or partition up by identity. Several matches are an error.
func (h Host) findIdentity(target string) (Device, error) {
	all, err := h.everything()
	if err != nil {
		return Device{}, err
	}
	var found []Device
	for _, d := range all {
		if d.is(target) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		return Device{}, fmt.Errorf("%s: %w", target, ErrNoDevice)
	case 1:
		return found[0], nil
	}
	return Device{}, fmt.Errorf("%s is the identity of %s: give one of them by name", target, nameList(found))
}

// is tells whether "wwid:…" or "serial:…" names this very device. Runs of blanks count as one, and
// the model may be left out after a serial.
func (d Device) is(identity string) bool {
	want := squeeze(identity)
	if d.Identity != "" && strings.EqualFold(want, squeeze(string(d.Identity))) {
		return true
	}
	if d.Kind == KindPartition {
		return false
	}
	serial, ok := strings.CutPrefix(want, "serial:")
	return ok && d.Serial != "" && (serial == squeeze(d.Serial) || serial == squeeze(d.Serial+":"+d.Model))
}

// everything lists all devices and their partitions.
func (h Host) everything() ([]Device, error) {
	all, err := h.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range slices.Clone(all) {
		parts, err := d.Partitions()
		if err != nil && h.exists(d.dir) {
			return nil, err
		}
		all = append(all, parts...)
	}
	return all, nil
}

// nodeNumber gives the device number of a node or a link to one. In a captured tree nodes are plain
// files or absent, so there the name decides.
func (h Host) nodeNumber(node string) (major, minor int, err error) {
	if h.Live() {
		var st unix.Stat_t
		if err := unix.Stat(node, &st); err != nil {
			if err == unix.ENOENT {
				return 0, 0, fmt.Errorf("%s: %w", node, ErrNoDevice)
			}
			return 0, 0, &os.PathError{Op: "stat", Path: node, Err: err}
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFBLK:
			return int(unix.Major(st.Rdev)), int(unix.Minor(st.Rdev)), nil
		case unix.S_IFDIR:
			return 0, 0, fmt.Errorf("%s is a directory, not a block device: %w", node, ErrNoDevice)
		}
		return 0, 0, fmt.Errorf("%s is not a block device: %w", node, ErrNoDevice)
	}
	name, ok := strings.CutPrefix(h.followNode(node), "/dev/")
	if !ok {
		return 0, 0, fmt.Errorf("%s is not below /dev: %w", node, ErrNoDevice)
	}
	dir, err := h.blockDir(strings.ReplaceAll(name, "/", "!"))
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", node, ErrNoDevice)
	}
	return parseNumber(h.text(dir + "/dev"))
}

// followNode follows the links of a node in a captured tree, where what they lead to may be absent.
func (h Host) followNode(node string) string {
	node = path.Clean(node)
	for range 10 {
		to, err := os.Readlink(h.path(node))
		if err != nil {
			break
		}
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(node), to)
		}
		node = path.Clean(to)
	}
	return node
}

// byNumber gives the device with this number.
func (h Host) byNumber(major, minor int) (Device, error) {
	number := fmt.Sprintf("%d:%d", major, minor)
	if p := h.real("/sys/dev/block/" + number); !strings.HasPrefix(p, "/sys/dev/block/") {
		return h.Device(path.Base(p))
	}
	names, err := h.wholeNames()
	if err != nil {
		return Device{}, err
	}
	for _, name := range names {
		if h.text("/sys/block/"+name+"/dev") == number {
			return h.Device(name)
		}
		for _, part := range h.names("/sys/block/" + name) {
			if strings.HasPrefix(part, name) && h.text("/sys/block/"+name+"/"+part+"/dev") == number {
				return h.Device(part)
			}
		}
	}
	return Device{}, fmt.Errorf("%s: %w", number, ErrNoDevice)
}

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

// lower gives the devices directly under one: a partition's disk; the slaves of dm, md and whatever
// else the kernel stacks; the members an array has in md/ (a faulty one may be in one place only).
func (h Host) lower(d Device) ([]Device, error) {
	if d.Kind == KindPartition {
		whole, err := d.Whole()
		return []Device{whole}, err
	}
	var under []Device
	for _, name := range h.lowerNames(d.dir) {
		l, err := h.Device(name)
		if err != nil {
			return nil, fmt.Errorf("look at %s under %s: %w", name, d.Name, err)
		}
		under = append(under, l)
	}
	return under, nil
}

// lowerNames is lower for a whole device's directory, by name.
func (h Host) lowerNames(dir string) []string {
	names := h.names(dir + "/slaves")
	for _, entry := range h.names(dir + "/md") {
		name, ok := strings.CutPrefix(entry, "dev-")
		if !ok {
			continue
		}
		link := dir + "/md/" + entry + "/block"
		if p := h.real(link); p != link {
			name = path.Base(p)
		}
		names = append(names, name)
	}
	slices.SortFunc(names, natural)
	return slices.Compact(names)
}

// descend fills in layers and members, breadth first, each device once.
func (h Host) descend(s *Stack) error {
	queue := append([]Device{s.Device}, s.More...)
	seen := map[string]bool{}
	for len(queue) > 0 {
		d := queue[0]
		queue = queue[1:]
		if seen[d.Name] {
			continue
		}
		seen[d.Name] = true
		under, err := h.lower(d)
		if err != nil {
			return err
		}
		if len(under) == 0 {
			s.Members = append(s.Members, d)
			continue
		}
		s.Layers = append(s.Layers, Layer{Device: d, Detail: h.detail(d)})
		queue = append(queue, under...)
	}
	slices.SortFunc(s.Members, func(a, b Device) int { return natural(a.Name, b.Name) })
	return nil
}

// detail says in a few words what a layer is.
func (h Host) detail(d Device) string {
	switch d.Kind {
	case KindPartition:
		return fmt.Sprintf("partition, starts at byte %d", d.start())
	case KindMD:
		return h.arrayDetail(d)
	case KindDM:
		return h.mapperKind(d)
	}
	return string(d.Kind)
}

// mapperKind tells device-mapper devices apart by the prefix of their UUID; tables are not in sysfs.
func (h Host) mapperKind(d Device) string {
	uuid, name := h.text(d.dir+"/dm/uuid"), h.text(d.dir+"/dm/name")
	kind := "device-mapper"
	switch {
	case strings.HasPrefix(uuid, "LVM-"):
		kind = "LVM volume"
	case strings.HasPrefix(uuid, "CRYPT-"):
		kind = "crypt"
	case strings.HasPrefix(uuid, "mpath-"):
		kind = "multipath"
	}
	if name != "" {
		kind += " " + name
	}
	return kind
}

func nameList(devices []Device) string {
	names := make([]string, 0, len(devices))
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}
