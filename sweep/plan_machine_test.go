package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
)

// planDisk is a disk of a captured machine, as far as a plan looks at it. Zero values are those of an ordinary SATA disk.
type planDisk struct {
	depth, ncq     int // queue_depth now, and the most the drive can have
	requests       int
	sectors, hw    int // max_sectors_kb and max_hw_sectors_kb
	cacheOff       bool
	fixedDepth     bool // the driver does not let queue_depth be written
	scsi           bool // not behind libata
	sizeMiB, block int
	physical       int
}

// planMachine is a captured machine of one's making.
type planMachine struct {
	t       *testing.T
	root    string
	devices map[string]string
}

func newPlanMachine(t *testing.T) *planMachine {
	t.Helper()
	m := &planMachine{t: t, root: t.TempDir(), devices: map[string]string{}}
	m.file("/proc/self/mountinfo", "1 0 0:1 / / rw - rootfs rootfs rw\n")
	m.file("/proc/swaps", "Filename Type Size Used Priority\n")
	return m
}

func (m *planMachine) host(options ...sysfs.Option) sysfs.Host {
	return sysfs.NewHost(m.root, options...)
}

func (m *planMachine) file(path, text string) {
	m.t.Helper()
	full := filepath.Join(m.root, path)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(m.t, os.WriteFile(full, []byte(text), 0o644))
}

func (m *planMachine) link(path, to string) {
	m.t.Helper()
	full := filepath.Join(m.root, path)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(full), 0o755))
	relative, err := filepath.Rel(filepath.Dir(path), to)
	require.NoError(m.t, err)
	require.NoError(m.t, os.Symlink(relative, full))
}

// block makes a block device; at is its parent below /sys/devices.
func (m *planMachine) block(name, at string, mib int64, logical int) string {
	dir := "/sys/devices/" + at + "/" + name
	number := fmt.Sprintf("8:%d", 16*len(m.devices))
	m.devices[name] = dir
	m.file(dir+"/dev", number+"\n")
	m.file(dir+"/size", fmt.Sprintln(mib*2048))
	m.file(dir+"/ro", "0\n")
	m.file(dir+"/queue/logical_block_size", fmt.Sprintln(logical))
	m.file(dir+"/queue/rotational", "1\n")
	m.file(dir+"/queue/read_ahead_kb", "128\n")
	m.file("/dev/"+name, "")
	m.link("/sys/block/"+name, dir)
	m.link("/sys/class/block/"+name, dir)
	m.link("/sys/dev/block/"+number, dir)
	return dir
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// disk makes a SCSI or SATA disk.
func (m *planMachine) disk(name string, d planDisk) {
	n := len(m.devices) + 1
	scsi := fmt.Sprintf("pci0000:00/0000:00:1f.2/ata%d/host%d/target%d:0:0/%d:0:0:0", n, n, n, n)
	driver := "ahci"
	if d.scsi {
		scsi = fmt.Sprintf("pci0000:00/0000:00:1f.2/host%d/target%d:0:0/%d:0:0:0", n, n, n)
		driver = "mpt3sas"
	}
	dir := m.block(name, scsi+"/block", int64(orDefault(d.sizeMiB, 400_000)), orDefault(d.block, 512))
	device := "/sys/devices/" + scsi
	m.link(dir+"/device", device)
	m.file(device+"/wwid", fmt.Sprintf("naa.5000c50000000%03d\n", n))
	m.file(device+"/model", "DISK400SATA\n")
	m.file(device+"/type", "0\n")
	m.file(device+"/queue_depth", fmt.Sprintln(orDefault(d.depth, 31)))
	if d.fixedDepth {
		require.NoError(m.t, os.Chmod(filepath.Join(m.root, device+"/queue_depth"), 0o444))
	}
	m.file(dir+"/queue/physical_block_size", fmt.Sprintln(orDefault(d.physical, orDefault(d.block, 512))))
	m.file(dir+"/queue/nr_requests", fmt.Sprintln(orDefault(d.requests, 64)))
	m.file(dir+"/queue/max_sectors_kb", fmt.Sprintln(orDefault(d.sectors, 1280)))
	m.file(dir+"/queue/max_hw_sectors_kb", fmt.Sprintln(orDefault(d.hw, 32767)))
	m.file(dir+"/queue/scheduler", "none [mq-deadline]\n")
	m.file(dir+"/queue/write_cache", "write back\n")
	m.file(fmt.Sprintf("/sys/class/scsi_host/host%d/can_queue", n), "32\n")
	if _, err := os.Lstat(filepath.Join(m.root, "/sys/devices/pci0000:00/0000:00:1f.2/driver")); err != nil {
		m.file("/sys/bus/pci/drivers/"+driver+"/bind", "")
		m.link("/sys/devices/pci0000:00/0000:00:1f.2/driver", "/sys/bus/pci/drivers/"+driver)
	}
	if !d.scsi {
		m.file(fmt.Sprintf("/sys/class/ata_device/dev%d.0/id", n), identify(n, orDefault(d.ncq, 32), !d.cacheOff))
	}
}

// nvme makes an NVMe disk, which has no queue_depth.
func (m *planMachine) nvme(name string) {
	at := "pci0000:00/0000:00:02.0/nvme/" + name[:5]
	dir := m.block(name, at, 1_000_000, 512)
	m.link(dir+"/device", "/sys/devices/"+at)
	m.file("/sys/devices/"+at+"/model", "FAST1T\n")
	m.file("/sys/devices/"+at+"/serial", "N0000001\n")
	m.file(dir+"/wwid", "eui.0025385b71b00001\n")
	m.file(dir+"/queue/rotational", "0\n")
	m.file(dir+"/queue/nr_requests", "1023\n")
	m.file(dir+"/queue/max_sectors_kb", "128\n")
	m.file(dir+"/queue/max_hw_sectors_kb", "128\n")
	m.file(dir+"/queue/scheduler", "[none] mq-deadline\n")
}

// array makes an md array over disks.
func (m *planMachine) array(name, level string, over ...string) {
	dir := m.block(name, "virtual/block", 1_200_000, 512)
	m.file(dir+"/md/level", level+"\n")
	m.file(dir+"/md/array_state", "clean\n")
	m.file(dir+"/md/sync_action", "idle\n")
	m.file(dir+"/md/degraded", "0\n")
	m.file(dir+"/md/chunk_size", "65536\n")
	m.file(dir+"/md/raid_disks", fmt.Sprintln(len(over)))
	if level == "raid5" {
		m.file(dir+"/md/stripe_cache_size", "256\n")
	}
	for _, lower := range over {
		m.file(dir+"/md/dev-"+lower+"/state", "in_sync\n")
		m.link(dir+"/md/dev-"+lower+"/block", m.devices[lower])
		m.link(dir+"/slaves/"+lower, m.devices[lower])
	}
}

// identify is what libata shows of a drive's IDENTIFY DEVICE data (ACS-4, 7.12): 32 lines of 8 words.
func identify(n, depth int, cache bool) string {
	var words [256]uint16
	put := func(from, count int, text string) {
		text = fmt.Sprintf("%-*s", 2*count, text)
		for i := range count {
			words[from+i] = uint16(text[2*i])<<8 | uint16(text[2*i+1])
		}
	}
	put(10, 10, fmt.Sprintf("S%07d", n))
	put(23, 4, "1.0")
	put(27, 20, "DISK400SATA")
	words[75] = uint16(depth - 1)
	words[76] = 1<<8 | 1<<2
	words[82], words[83], words[84] = 1<<5, 1<<14, 1<<14
	words[86], words[87] = 0, 1<<14
	if cache {
		words[85] = 1 << 5
	}
	var b strings.Builder
	for i, w := range words {
		fmt.Fprintf(&b, "%04x", w)
		if i%8 == 7 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}
