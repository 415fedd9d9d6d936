package sysfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tree is a captured machine made by hand: just what discovery and the safety gate look at.
type tree struct {
	t       *testing.T
	root    string
	minor   int
	mounts  int
	devPath map[string]string // logical directory below /sys/devices
}

func newTree(t *testing.T) *tree {
	t.Helper()
	tr := &tree{t: t, root: scratch(t), devPath: map[string]string{}}
	for _, dir := range []string{"/sys/block", "/sys/class/block", "/sys/dev/block", "/dev/disk/by-id", "/proc/self"} {
		tr.dir(dir)
	}
	tr.file("/proc/self/mountinfo", "")
	tr.mount("/", "rootfs", "rootfs", "0:1")
	return tr
}

// scratch is a folder in memory where the machine has that: thousands of small files are made.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "qdsweep-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func (tr *tree) host(opts ...Option) Host { return NewHost(tr.root, opts...) }

func (tr *tree) dir(path string) {
	tr.t.Helper()
	require.NoError(tr.t, os.MkdirAll(filepath.Join(tr.root, path), 0o755))
}

func (tr *tree) file(path, text string) {
	tr.t.Helper()
	tr.dir(filepath.Dir(path))
	require.NoError(tr.t, os.WriteFile(filepath.Join(tr.root, path), []byte(text), 0o644))
}

// link makes a relative link between two logical paths, as sysfs has them.
func (tr *tree) link(path, to string) {
	tr.t.Helper()
	tr.dir(filepath.Dir(path))
	relative, err := filepath.Rel(filepath.Dir(path), to)
	require.NoError(tr.t, err)
	require.NoError(tr.t, os.Symlink(relative, filepath.Join(tr.root, path)))
}

func (tr *tree) append(path, text string) {
	tr.t.Helper()
	old, err := os.ReadFile(filepath.Join(tr.root, path))
	if err != nil {
		old = nil
	}
	tr.file(path, string(old)+text)
}

// block makes a whole device at a path below /sys/devices. Sizes are MiB.
func (tr *tree) block(name, at string, mib int) {
	dir := "/sys/devices/" + at + "/" + name
	tr.devPath[name] = dir
	tr.minor += 16
	tr.number(name, dir, 8, tr.minor)
	tr.file(dir+"/size", fmt.Sprint(mib*2048))
	tr.file(dir+"/ro", "0\n")
	tr.file(dir+"/queue/logical_block_size", "512\n")
	tr.file(dir+"/queue/physical_block_size", "4096\n")
	tr.file(dir+"/queue/rotational", "1\n")
	tr.dir(dir + "/slaves")
	tr.dir(dir + "/holders")
	tr.link("/sys/block/"+name, dir)
	node := "/dev/" + strings.ReplaceAll(name, "!", "/")
	tr.file(node, "")
}

func (tr *tree) number(name, dir string, major, minor int) {
	tr.file(dir+"/dev", fmt.Sprintf("%d:%d\n", major, minor))
	tr.link("/sys/class/block/"+name, dir)
	tr.link(fmt.Sprintf("/sys/dev/block/%d:%d", major, minor), dir)
}

// sata makes a libata disk on port n with a WWID of its own.
func (tr *tree) sata(name string, n, mib int) {
	scsi := fmt.Sprintf("pci0000:00/0000:00:1f.2/ata%d/host%d/target%d:0:0/%d:0:0:0", n, n-1, n-1, n-1)
	tr.block(name, scsi+"/block", mib)
	device := "/sys/devices/" + scsi
	tr.link(tr.devPath[name]+"/device", device)
	tr.file(device+"/wwid", fmt.Sprintf("naa.5000c50000000%03d\n", n))
	tr.file(device+"/model", "ST1000NM0033-9ZM\n")
	tr.file(device+"/rev", "0003\n")
	tr.file(device+"/state", "running\n")
	tr.file(device+"/type", "0\n")
	if _, err := os.Lstat(filepath.Join(tr.root, "/sys/devices/pci0000:00/0000:00:1f.2/driver")); err != nil {
		tr.dir("/sys/bus/pci/drivers/ahci")
		tr.link("/sys/devices/pci0000:00/0000:00:1f.2/driver", "/sys/bus/pci/drivers/ahci")
		tr.file("/sys/devices/pci0000:00/0000:00:1f.2/vendor", "0x8086\n")
		tr.file("/sys/devices/pci0000:00/0000:00:1f.2/device", "0x2922\n")
	}
	tr.file(fmt.Sprintf("/sys/class/ata_link/link%d/sata_spd", n), "3.0 Gbps\n")
}

// partition makes a partition; start and size are MiB.
func (tr *tree) partition(disk, name string, number, start, size int) {
	dir := tr.devPath[disk] + "/" + name
	tr.devPath[name] = dir
	tr.file(dir+"/partition", fmt.Sprintln(number))
	tr.file(dir+"/start", fmt.Sprint(start*2048))
	tr.file(dir+"/size", fmt.Sprint(size*2048))
	tr.file(dir+"/ro", "0\n")
	tr.dir(dir + "/holders")
	tr.minor++
	tr.number(name, dir, 259, tr.minor)
	tr.file("/dev/"+name, "")
}

// stacked makes a virtual device over others.
func (tr *tree) stacked(name string, over ...string) string {
	mib := 100
	tr.block(name, "virtual/block", mib)
	for _, lower := range over {
		tr.link(tr.devPath[name]+"/slaves/"+lower, tr.devPath[lower])
		tr.link(tr.devPath[lower]+"/holders/"+name, tr.devPath[name])
	}
	return tr.devPath[name]
}

func (tr *tree) md(name string, over ...string) {
	dir := tr.stacked(name, over...) + "/md/"
	tr.file(dir+"level", "raid5\n")
	tr.file(dir+"array_state", "clean\n")
	tr.file(dir+"sync_action", "idle\n")
	tr.file(dir+"degraded", "0\n")
	tr.file(dir+"chunk_size", "65536\n")
	tr.file(dir+"raid_disks", fmt.Sprintln(len(over)))
	for _, lower := range over {
		tr.file(dir+"dev-"+lower+"/state", "in_sync\n")
		tr.link(dir+"dev-"+lower+"/block", tr.devPath[lower])
	}
}

func (tr *tree) dm(name, label, uuid string, over ...string) {
	dir := tr.stacked(name, over...) + "/dm/"
	tr.file(dir+"name", label+"\n")
	tr.file(dir+"uuid", uuid+"\n")
	tr.link("/dev/mapper/"+label, "/dev/"+name)
}

// mount adds a line to mountinfo; number "" takes that of the source's device.
func (tr *tree) mount(point, kind, source, number string, options ...string) {
	if number == "" {
		number = strings.TrimSpace(tr.read(tr.devPath[strings.TrimPrefix(source, "/dev/")] + "/dev"))
	}
	tr.mounts++
	parent := 1
	if tr.mounts == 1 {
		parent = 0
	}
	options = append(options, "rw", "rw")
	tr.append("/proc/self/mountinfo", fmt.Sprintf("%d %d %s / %s %s - %s %s %s\n",
		tr.mounts, parent, number, point, options[0], kind, source, options[1]))
}

func (tr *tree) read(path string) string {
	tr.t.Helper()
	b, err := os.ReadFile(filepath.Join(tr.root, path))
	require.NoError(tr.t, err)
	return string(b)
}

func (tr *tree) swap(name, kind string) {
	tr.append("/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"+name+"                               "+kind+"\t1048572\t\t0\t\t-2\n")
}

// open lets a process hold a node; flags as in fdinfo, octal.
func (tr *tree) open(pid int, command, node, flags string) {
	dir := fmt.Sprintf("/proc/%d", pid)
	tr.file(dir+"/comm", command+"\n")
	tr.dir(dir + "/fd")
	require.NoError(tr.t, os.Symlink(node, filepath.Join(tr.root, dir, "fd", "7")))
	tr.file(dir+"/fdinfo/7", "pos:\t0\nflags:\t"+flags+"\nmnt_id:\t24\n")
}

// byID makes a link of udev's.
func (tr *tree) byID(link, name string) { tr.link("/dev/disk/by-id/"+link, "/dev/"+name) }

func names(devices []Device) []string {
	var all []string
	for _, d := range devices {
		all = append(all, d.Name)
	}
	return all
}
