package sysfs

import (
	"fmt"
	"os"
	"path"
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
