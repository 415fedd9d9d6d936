package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sectorSize is the unit of size, start and stat in sysfs, whatever the device's block size is.
const sectorSize = 512

// Devices gives every whole block device (disks, md, dm, loop, …) that has a node, in natural order.
// A device that goes away meanwhile is left out.
func (h Host) Devices() ([]Device, error) {
	names, err := h.wholeNames()
	if err != nil {
		return nil, err
	}
	var all []Device
	for _, name := range names {
		d, err := h.Device(name)
		if errors.Is(err, ErrNoDevice) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// wholeNames lists /sys/block without the hidden devices (the paths of an NVMe multipath disk have
// no node of their own).
func (h Host) wholeNames() ([]string, error) {
	entries, err := os.ReadDir(h.path("/sys/block"))
	if err != nil {
		return nil, fmt.Errorf("list the block devices: %w", err)
	}
	var names []string
	for _, e := range entries {
		if h.text("/sys/block/"+e.Name()+"/hidden") == "1" {
			continue
		}
		names = append(names, e.Name())
	}
	slices.SortFunc(names, natural)
	return names, nil
}

// Device gives a block device by the kernel's name, partitions too. ErrNoDevice when there is none.
func (h Host) Device(name string) (Device, error) {
	dir, err := h.blockDir(name)
	if err != nil {
		return Device{}, err
	}
	d := Device{
		Name: name,
		Path: "/dev/" + strings.ReplaceAll(name, "!", "/"),
		host: h,
		dir:  dir,
	}
	number, err := h.Read(dir + "/dev")
	if err != nil {
		return Device{}, fmt.Errorf("%s: %w (%w)", name, ErrNoDevice, err)
	}
	if d.Major, d.Minor, err = parseNumber(number); err != nil {
		return Device{}, fmt.Errorf("read %s/dev: %w", dir, err)
	}
	d.Bytes = h.number(dir+"/size") * sectorSize
	d.ReadOnly = h.text(dir+"/ro") == "1"

	whole := d
	if h.exists(dir + "/partition") {
		d.Kind = KindPartition
		if whole, err = h.wholeOf(name, dir); err != nil {
			return Device{}, err
		}
	}
	if d.Kind == KindPartition {
		d.LogicalBlock, d.PhysicalBlock, d.Rotational, d.Removable, d.stuck = whole.LogicalBlock, whole.PhysicalBlock, whole.Rotational, whole.Removable, whole.stuck
		d.Model, d.Serial, d.WWID, d.Firmware = whole.Model, whole.Serial, whole.WWID, whole.Firmware
		d.Driver, d.Controller, d.Transport, d.LinkSpeed = whole.Driver, whole.Controller, whole.Transport, whole.LinkSpeed
		if whole.Identity != "" {
			d.Identity = whole.Identity + Identity("-part"+h.text(dir+"/partition"))
		}
		return d, nil
	}
	d.Kind = h.kindOf(d)
	d.Removable = h.text(dir+"/removable") == "1"
	h.askQueue(&d)
	h.attach(&d)
	h.identify(&d)
	return d, nil
}

// askQueue fills in what is read from queue/, and the serial that virtio asks the device for. These
// wait behind a write that waits for the device, and a drive that hangs must not hide the others: one
// that does not answer in time is left without them and marked.
func (h Host) askQueue(d *Device) {
	type facts struct {
		logical, physical int64
		rotational        bool
		serial            string
	}
	done := make(chan facts, 1)
	dir := d.dir
	go func() {
		done <- facts{h.number(dir + "/queue/logical_block_size"), h.number(dir + "/queue/physical_block_size"),
			h.text(dir+"/queue/rotational") == "1", h.text(dir + "/serial")}
	}()
	timer := time.NewTimer(h.patience)
	defer timer.Stop()
	select {
	case f := <-done:
		d.LogicalBlock, d.PhysicalBlock, d.Rotational, d.Serial = int(f.logical), int(f.physical), f.rotational, f.serial
	case <-timer.C:
		d.stuck = true
	}
}

// blockDir finds a device's directory: a whole one in /sys/block, a partition in /sys/class/block,
// or, in a tree without that, below its disk.
func (h Host) blockDir(name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", fmt.Errorf("%q: %w", name, ErrNoDevice)
	}
	for _, dir := range []string{"/sys/block/" + name, "/sys/class/block/" + name} {
		if h.exists(dir) {
			return dir, nil
		}
	}
	if below, _ := filepath.Glob(h.path("/sys/block") + "/*/" + globQuote(name) + "/partition"); len(below) > 0 {
		return h.logical(filepath.Dir(below[0])), nil
	}
	return "", fmt.Errorf("%s: %w", name, ErrNoDevice)
}

// wholeOf gives the disk of a partition: the directory its own lies in. Names say nothing: nvme0n1 and
// mmcblk0 end in digits, and sda10 is not sda1's.
func (h Host) wholeOf(name, dir string) (Device, error) {
	disk := path.Base(path.Dir(h.real(dir)))
	whole, err := h.Device(disk)
	if err != nil {
		return Device{}, fmt.Errorf("find the disk of partition %s: %w", name, err)
	}
	if whole.Kind == KindPartition {
		return Device{}, fmt.Errorf("find the disk of partition %s: %s is a partition too", name, disk)
	}
	return whole, nil
}

// Whole gives the disk a partition is on, and any other device itself.
func (d Device) Whole() (Device, error) {
	if d.Kind != KindPartition {
		return d, nil
	}
	return d.host.wholeOf(d.Name, d.dir)
}

// Partitions gives the partitions of a whole device, in natural order.
func (d Device) Partitions() ([]Device, error) {
	h := d.host
	if d.Kind == KindPartition {
		return nil, nil
	}
	entries, err := os.ReadDir(h.path(d.dir))
	if err != nil {
		return nil, fmt.Errorf("list the partitions of %s: %w", d.Name, err)
	}
	var names []string
	for _, e := range entries {
		if h.exists(d.dir + "/" + e.Name() + "/partition") {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, natural)
	var parts []Device
	for _, name := range names {
		p, err := h.Device(name)
		if errors.Is(err, ErrNoDevice) {
			continue
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// start is where a partition begins on its disk, in bytes; 0 of any other device.
func (d Device) start() int64 {
	if d.Kind != KindPartition {
		return 0
	}
	return d.host.number(d.dir+"/start") * sectorSize
}

var otherNames = regexp.MustCompile(`^(ram|zram|fd|pktcdvd)\d`)

func (h Host) kindOf(d Device) Kind {
	switch {
	case h.exists(d.dir + "/md"):
		return KindMD
	case h.exists(d.dir + "/dm"):
		return KindDM
	case h.exists(d.dir+"/loop") || strings.HasPrefix(d.Name, "loop"):
		return KindLoop
	case h.text(d.dir+"/device/type") == "5" || strings.HasPrefix(d.Name, "sr"):
		return KindROM
	case otherNames.MatchString(d.Name):
		return KindOther
	}
	return KindDisk
}

// exists follows links.
func (h Host) exists(logical string) bool {
	_, err := os.Stat(h.path(logical))
	return err == nil
}

// number reads a decimal attribute; 0 where it is absent or no number.
func (h Host) number(logical string) int64 {
	n, err := strconv.ParseInt(h.text(logical), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// real follows the links of a logical path and gives a logical path; the path itself where that fails.
// The kernel is asked where a path leads: to look at each part of it, as filepath.EvalSymlinks does, is
// twenty system calls, several times for every device that is looked at.
func (h Host) real(logical string) string {
	fd, err := openRetry(h.path(logical), unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return logical
	}
	defer unix.Close(fd)
	p, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return logical
	}
	return h.logical(p)
}

// logical takes the root off a real path. The root may itself be reached through links.
func (h Host) logical(p string) string {
	for _, root := range []string{h.root, h.realRoot} {
		if root == "/" {
			return p
		}
		if rest, ok := strings.CutPrefix(p, root+"/"); ok {
			return "/" + rest
		}
	}
	return p
}

// names lists a directory; nil where it is absent.
func (h Host) names(dir string) []string {
	entries, err := os.ReadDir(h.path(dir))
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.SortFunc(names, natural)
	return names
}

// parseNumber reads "8:16".
func parseNumber(s string) (major, minor int, err error) {
	a, b, ok := strings.Cut(strings.TrimSpace(s), ":")
	if ok {
		if major, err = strconv.Atoi(a); err == nil {
			if minor, err = strconv.Atoi(b); err == nil && major >= 0 && minor >= 0 {
				return major, minor, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("%q is no major:minor", s)
}

func globQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}
