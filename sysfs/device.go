package sysfs

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Identity tells a drive from another across reboots and re-plugging: "wwid:naa.5000c5…", else
// "serial:SERIAL:MODEL", "" for a device that has neither.
type Identity string

// FileName is the identity as a file name: different identities never share one. Everything but
// letters, digits, '.', '_' and '-' becomes %XX; one too long for a file system ends in a hash.
func (i Identity) FileName() string {
	var b strings.Builder
	for n := 0; n < len(i); n++ {
		c := i[n]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.' && n > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > 180 {
		return fmt.Sprintf("%s%%%x", b.String()[:100], sha256.Sum256([]byte(i)))
	}
	return b.String()
}

// Kind is what sort of block device it is.
type Kind string

// The kinds of block device. Other is what nobody sweeps: ram, zram, floppy.
const (
	KindDisk      Kind = "disk"
	KindPartition Kind = "partition"
	KindMD        Kind = "md"
	KindDM        Kind = "dm"
	KindLoop      Kind = "loop"
	KindROM       Kind = "rom"
	KindOther     Kind = "other"
)

// Device is one block device as it was when it was looked at. Texts are trimmed, and "" where the
// kernel has none. Sizes are bytes.
type Device struct {
	Name string // the kernel's, with '!': "cciss!c0d0"
	Path string // the node: "/dev/cciss/c0d0"
	Kind Kind

	Major, Minor                int
	Bytes                       int64
	LogicalBlock, PhysicalBlock int

	Model, Serial, WWID, Firmware string
	Driver                        string // of the controller: "ahci", "mpt3sas", "nvme"
	Controller                    string // PCI address, and ids where there are some: "0000:00:1f.2 8086:2922"
	Transport                     string // "ata" "sas" "usb" "nvme" "virtio" "scsi" or ""
	LinkSpeed                     string // "3.0 Gbps", "12.0 Gbit", "8.0 GT/s PCIe x4"

	Rotational, ReadOnly, Removable bool

	Identity Identity

	host  Host
	dir   string
	at    string // what it is a face of, without links: devicePath, once it was looked up
	stuck bool   // its queue did not answer
}

// SysDir is the device's directory: "/sys/block/sda", or "/sys/class/block/sda1" of a partition.
func (d Device) SysDir() string { return d.dir }

// Libata reports whether libata drives the disk: there a queue_depth of 1 means NCQ off.
func (d Device) Libata() bool { return d.Transport == "ata" }

// Host is the machine the device was found on.
func (d Device) Host() Host { return d.host }

// Number is "major:minor", as the kernel's dev attribute and mountinfo show it.
func (d Device) Number() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// Sequence tells what the device's name means from what else it has meant since the boot (Documentation/ABI/stable/sysfs-block, diskseq: Linux 5.15). "" of an
// older kernel.
func (d Device) Sequence() string {
	whole, err := d.Whole()
	if err != nil {
		return ""
	}
	return d.host.text(whole.dir + "/diskseq")
}

// Layer is one block device between a target and its members.
type Layer struct {
	Device Device
	Detail string // "raid5, clean, 64 KiB chunk, 4 members", "linear", "starts at 1048576"

	under  []string // what it lies on, directly
	height int      // above the members, whose height is 0
}

// Stack is a target and all that lies under it.
type Stack struct {
	Target string // as asked
	Device Device // the node that is driven, or that holds the directory

	// Of a directory; "" of a device.
	Directory, FileSystem, MountPoint, MountOptions string

	NoKnobs string   // why no device setting can be made below this target, "" where they can
	Layers  []Layer  // from Device down, without the members
	Members []Device // whole disks, each once, in natural order

	// The target's own range of its disk, in bytes, when Device is a disk or a partition.
	Offset, Bytes int64

	// Further devices of a file system on several (btrfs), in natural order.
	More []Device
}
