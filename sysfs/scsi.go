package sysfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SCSIAddress is host:channel:target:LUN of a disk that takes SCSI commands, libata's too, or of a partition's disk;
// "" of anything else.
func (d Device) SCSIAddress() string {
	whole, err := d.Whole()
	if err != nil || whole.Kind != KindDisk {
		return ""
	}
	if address := path.Base(d.host.devicePath(whole)); scsiAddress.MatchString(address) {
		return address
	}
	return ""
}

// Generic is the node by which the kernel's module sg takes commands for a SCSI device.
type Generic struct {
	Name, Path   string // "sg3", "/dev/sg3"
	Major, Minor int
}

// Generic gives the sg node of a disk, or of a partition's disk. fs.ErrNotExist: the module sg is not there.
func (d Device) Generic() (Generic, error) {
	whole, err := d.Whole()
	if err != nil {
		return Generic{}, err
	}
	h := d.host
	dir := whole.dir + "/device/scsi_generic"
	names := h.names(dir)
	if len(names) == 0 {
		return Generic{}, fmt.Errorf("%s has no sg node: %w", whole.Name, fs.ErrNotExist)
	}
	g := Generic{Name: names[0], Path: "/dev/" + names[0]}
	number, err := h.Read(dir + "/" + g.Name + "/dev")
	if err == nil {
		g.Major, g.Minor, err = parseNumber(number)
	}
	if err != nil {
		return Generic{}, fmt.Errorf("look at the sg node of %s: %w", whole.Name, err)
	}
	return g, nil
}

// OpenGeneric opens the sg node of a disk, or of a partition's disk, and makes sure that the node is the one the kernel
// has for that disk: nothing claims it, and /dev may be stale. Commands sent to it go past every other guard.
func (d Device) OpenGeneric() (*os.File, error) {
	g, err := d.Generic()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.host.path(g.Path), os.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the sg node of %s: %w", d.Name, err)
	}
	if !d.host.Live() {
		return f, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(fmt.Errorf("look at the sg node of %s: %w", d.Name, err), f.Close())
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || int(unix.Major(st.Rdev)) != g.Major || int(unix.Minor(st.Rdev)) != g.Minor {
		return nil, errors.Join(fmt.Errorf("%s is not the character device %d:%d, which the kernel has for %s", g.Path, g.Major, g.Minor, d.Name), f.Close())
	}
	return f, nil
}

// defaultScatter is the sg driver's scatter_elem_sz where nobody has set it (SG_SCATTER_SZ), bytes.
const defaultScatter = 32 << 10

// MaxTransfer is how many bytes the disk takes in one SCSI command, as far as the kernel says: by its block node, or,
// queued, by its sg node, whose driver has a buffer of max_segments pieces for each command. 0: it does not say.
// max_sectors_kb is no limit of commands.
func (d Device) MaxTransfer(ctx context.Context, queued bool) int64 {
	whole, err := d.Whole()
	if err != nil {
		return 0
	}
	read := func(file string) int64 {
		text, err := d.host.ReadWithin(ctx, file)
		if err != nil {
			return 0
		}
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || n < 0 {
			return 0
		}
		return n
	}
	limit := read(whole.dir+"/queue/max_hw_sectors_kb") * 1024
	piece := read(whole.dir + "/queue/max_segment_size")
	if queued {
		if piece = read("/sys/module/sg/parameters/scatter_elem_sz"); piece == 0 {
			piece = defaultScatter
		}
	}
	if pieces := read(whole.dir+"/queue/max_segments") * piece; pieces > 0 && (limit == 0 || pieces < limit) {
		return pieces
	}
	return limit
}
