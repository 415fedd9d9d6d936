package tcmu

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is what configfs and uio have of one disk (Documentation/target/tcmu-design.rst). Everything is below one root,
// "/" or a tree of a test.
type Disk struct {
	root  string
	name  string // of the backstore: letters, digits, - and _
	bytes int64
}

const (
	configFolder = "sys/kernel/config/target"
	patience     = 20 * time.Second
)

// NewDisk is a disk that is not there yet; names are made of its serial number.
func NewDisk(root, name string, bytes int64) Disk { return Disk{root: root, name: name, bytes: bytes} }

func (d Disk) path(parts ...string) string {
	return filepath.Join(append([]string{d.root}, parts...)...)
}

func (d Disk) backstore() string { return d.path(configFolder, "core/user_0", d.name) }

// wwn is a name of the disk's own for one end of its loop.
func (d Disk) wwn(end string) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(d.name + end))
	return fmt.Sprintf("naa.6001405%025x", hash.Sum64())
}

func (d Disk) portal() string { return d.path(configFolder, "loopback", d.wwn("target"), "tpgt_1") }

// Create makes the backstore and opens its uio device. The disk appears with Appear, when somebody serves it.
func (d Disk) Create() (*os.File, []byte, error) {
	if err := os.MkdirAll(d.backstore(), 0o755); err != nil {
		return nil, nil, fmt.Errorf("make the backstore of %s: %w (modules target_core_user and tcm_loop?)", d.name, err)
	}
	// No answer to its netlink messages is asked for, and a command may take as long as it likes: what hangs, hangs.
	for _, w := range []struct{ file, value string }{
		{"control", fmt.Sprintf("dev_size=%d,dev_config=qdlab/%s,hw_block_size=512,nl_reply_supported=-1", d.bytes, d.name)},
		{"enable", "1"},
		{"attrib/cmd_time_out", "0"},
	} {
		if err := set(filepath.Join(d.backstore(), w.file), w.value); err != nil {
			return nil, nil, fmt.Errorf("backstore of %s: %w", d.name, err)
		}
	}
	return d.open()
}

// set writes an attribute; it must be there.
func set(name, value string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// open finds the uio device by its name, which ends in dev_config.
func (d Disk) open() (*os.File, []byte, error) {
	var folder string
	err := until("the uio device of "+d.name, func() bool {
		names, _ := filepath.Glob(d.path("sys/class/uio/uio*/name"))
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err == nil && strings.HasSuffix(strings.TrimSpace(string(text)), "/qdlab/"+d.name) {
				folder = filepath.Dir(name)
			}
		}
		return folder != ""
	})
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(filepath.Join(folder, "maps/map0/size"))
	if err != nil {
		return nil, nil, err
	}
	size, err := strconv.ParseInt(strings.TrimSpace(string(text)), 0, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("%s/maps/map0/size: %w", folder, err)
	}
	device, err := os.OpenFile(d.path("dev", filepath.Base(folder)), os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	memory, err := unix.Mmap(int(device.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("map %d bytes of %s: %w", size, device.Name(), err), device.Close())
	}
	return device, memory, nil
}

// Appear plugs the disk in, and waits until it has a name. Somebody must be serving it.
func (d Disk) Appear() (name string, err error) {
	unit := filepath.Join(d.portal(), "lun/lun_0")
	if err := os.MkdirAll(d.portal(), 0o755); err != nil {
		return "", fmt.Errorf("make the loop of %s: %w", d.name, err)
	}
	if err := set(filepath.Join(d.portal(), "nexus"), d.wwn("initiator")); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.EEXIST) {
		return "", fmt.Errorf("nexus of %s: %w", d.name, err)
	}
	if err := os.MkdirAll(unit, 0o755); err != nil {
		return "", fmt.Errorf("plug %s in: %w", d.name, err)
	}
	if err := os.Symlink(d.backstore(), filepath.Join(unit, "disk")); err != nil {
		return "", fmt.Errorf("plug %s in: %w", d.name, err)
	}
	address, err := os.ReadFile(filepath.Join(d.portal(), "address"))
	if err != nil {
		return "", fmt.Errorf("where %s is: %w", d.name, err)
	}
	// H:C:T is the portal's, and its only unit is 0.
	place := strings.TrimSpace(string(address)) + ":0"
	err = until("the disk "+d.name+" at "+place, func() bool {
		names, _ := filepath.Glob(d.path("sys/bus/scsi/devices", place, "block/sd*"))
		for _, found := range names {
			// The last thing that the kernel makes of a disk is its link in /sys/block.
			name = filepath.Base(found)
			_, inDev := os.Stat(d.path("dev", name))
			_, inSys := os.Stat(d.path("sys/block", name))
			if inDev == nil && inSys == nil {
				return true
			}
		}
		return false
	})
	if err != nil {
		return "", err
	}
	return name, nil
}

// Disappear pulls the plug: the kernel loses the disk. Commands under way must be answered meanwhile.
func (d Disk) Disappear() error {
	unit := filepath.Join(d.portal(), "lun/lun_0")
	if err := errors.Join(ignoreAbsent(os.Remove(filepath.Join(unit, "disk"))), ignoreAbsent(unix.Rmdir(unit))); err != nil {
		return fmt.Errorf("pull %s out: %w", d.name, err)
	}
	return nil
}

// Remove takes everything away; it has disappeared before.
func (d Disk) Remove() error {
	var failed []error
	for _, folder := range []string{d.portal(), filepath.Dir(d.portal()), d.backstore()} {
		failed = append(failed, ignoreAbsent(unix.Rmdir(folder)))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("remove %s: %w", d.name, err)
	}
	return nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// until waits for something that the kernel does by itself.
func until(what string, is func() bool) error {
	for end := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s did not come up within %v", what, patience)
		}
	}
	return nil
}
