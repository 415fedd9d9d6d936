package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A captured tree is the part of a machine's /sys, /proc and /dev that qdsweep looks at, as a tar archive that
// `qdsweep devices --sysroot` reads once it is unpacked. Attributes are plain files with their modes, links are
// links, device nodes are empty files. What a link leads to and is not captured is an empty folder.
type capture struct {
	entries map[string]entry // logical path without the leading slash
}

type entry struct {
	mode    fs.FileMode
	link    string
	content []byte
}

// capturedClasses are those whose devices are captured, beside the block devices and all that these hang on.
var capturedClasses = [...]string{
	"block", "ata_device", "ata_link", "ata_port", "scsi_disk", "scsi_device", "scsi_host", "nvme", "nvme-subsystem", "hwmon",
}

// ofNoUse is left out: large, or the same for all, or another way to what is there anyway.
var ofNoUse = regexp.MustCompile(`^(power|trace|mq|bdi|bsg|config|rom|resource.*|firmware_node|iommu.*|msi_.*|uevent|subsystem_.*|vpd|aer_.*|link_counters)$`)

// maxAttribute is more than any attribute has (a page), and far less than a file of a PCI device's memory.
const maxAttribute = 64 << 10

// captureMachine captures what lies below root, "/" in a guest.
func captureMachine(root string) (*capture, error) {
	c := &capture{entries: map[string]entry{}}
	for _, class := range capturedClasses {
		if err := c.devices(root, "sys/class/"+class); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"sys/block", "sys/dev/block"} {
		if err := c.devices(root, dir); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{
		"proc/self/mountinfo", "proc/1/mountinfo", "proc/swaps", "proc/partitions", "proc/mdstat", "proc/sys/kernel/osrelease", "proc/sys/kernel/version",
		"proc/sys/kernel/hostname", "proc/sys/kernel/random/boot_id",
	} {
		if text, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			c.entries[name] = entry{mode: 0o444, content: text}
		}
	}
	if err := c.nodes(root); err != nil {
		return nil, err
	}
	c.danglingLinks()
	return c, nil
}

// devices captures the links of a folder, and what each leads to.
func (c *capture) devices(root, dir string) error {
	links, err := os.ReadDir(filepath.Join(root, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c.entries[dir] = entry{mode: fs.ModeDir | 0o755}
	for _, link := range links {
		name := filepath.Join(dir, link.Name())
		if link.Type() != fs.ModeSymlink {
			continue
		}
		if err := c.add(root, name); err != nil {
			return err
		}
		target := filepath.Join(dir, c.entries[name].link)
		if err := c.folder(root, target, true); err != nil {
			return err
		}
		for up := filepath.Dir(target); up != "sys/devices" && up != "."; up = filepath.Dir(up) {
			if err := c.folder(root, up, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// folder captures the attributes and links of a folder, and the folders in it where deep.
func (c *capture) folder(root, dir string, deep bool) error {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if errors.Is(err, fs.ErrNotExist) { // pulled out meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	c.entries[dir] = entry{mode: fs.ModeDir | 0o755}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case ofNoUse.MatchString(e.Name()):
		case !e.IsDir():
			err = c.add(root, name)
		case deep:
			err = c.folder(root, name, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add captures one attribute or link. An attribute that cannot be read is not there; one that is only to be
// written is empty.
func (c *capture) add(root, name string) error {
	if _, has := c.entries[name]; has {
		return nil
	}
	full := filepath.Join(root, name)
	info, err := os.Lstat(full)
	if err != nil {
		return nil //nolint:nilerr // gone meanwhile
	}
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		target, err := os.Readlink(full)
		if err != nil {
			return err
		}
		c.entries[name] = entry{mode: info.Mode(), link: target}
	case 0:
		e := entry{mode: info.Mode().Perm()}
		if e.mode&0o444 != 0 {
			if e.content, err = readAttribute(full); err != nil {
				return nil //nolint:nilerr // many answer so: no such feature
			}
		}
		c.entries[name] = e
	}
	return nil
}

// readAttribute is one read(2), as attributes want it; os.ReadFile would ask for a size first, and then again.
func readAttribute(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	text := make([]byte, maxAttribute)
	n, err := unix.Read(fd, text)
	if err != nil {
		return nil, err
	}
	return text[:n], nil
}

// nodes captures /dev: block devices as empty files, links as links. What dm makes itself where there is no udev,
// a node /dev/mapper/NAME, becomes the link to dm-N that udev makes.
func (c *capture) nodes(root string) error {
	numbers := map[string]string{}
	links, _ := filepath.Glob(filepath.Join(root, "sys/dev/block/*"))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil {
			numbers[filepath.Base(link)] = filepath.Base(target)
		}
	}
	return filepath.WalkDir(filepath.Join(root, "dev"), func(full string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		switch e.Type() {
		case fs.ModeDir:
			if e.Name() == "shm" || e.Name() == "pts" {
				return fs.SkipDir
			}
		case fs.ModeSymlink:
			target, err := os.Readlink(full)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(target, "/proc") {
				c.entries[name] = entry{mode: fs.ModeSymlink | 0o777, link: target}
			}
		case fs.ModeDevice:
			var st unix.Stat_t
			if err := unix.Stat(full, &st); err != nil {
				return err
			}
			kernel := numbers[fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))]
			if filepath.Dir(name) == "dev/mapper" && kernel != "" {
				c.entries[name] = entry{mode: fs.ModeSymlink | 0o777, link: "../" + kernel}
			} else {
				c.entries[name] = entry{mode: 0o644}
			}
		}
		return nil
	})
}

// danglingLinks makes an empty folder of each place below /sys that a captured link leads to and that is not
// captured: a driver's name is the end of such a link.
func (c *capture) danglingLinks() {
	for name, e := range c.entries {
		if e.link == "" || !strings.HasPrefix(name, "sys/") {
			continue
		}
		target := filepath.Join(filepath.Dir(name), e.link)
		if _, has := c.entries[target]; !has && strings.HasPrefix(target, "sys/") {
			c.entries[target] = entry{mode: fs.ModeDir | 0o755}
		}
	}
}

// writeArchive writes it as a compressed tar: sorted and without times, so that the same machine gives the same.
func (c *capture) writeArchive(w io.Writer) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(c.entries)) {
		e := c.entries[name]
		header := &tar.Header{Name: name, Mode: int64(e.mode.Perm()), Typeflag: tar.TypeReg, Size: int64(len(e.content)), Linkname: e.link, Format: tar.FormatPAX}
		switch e.mode.Type() {
		case fs.ModeDir:
			header.Name, header.Typeflag = name+"/", tar.TypeDir
		case fs.ModeSymlink:
			header.Typeflag = tar.TypeSymlink
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(e.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}
