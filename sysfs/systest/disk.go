package systest

import (
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// Disk is a drive and how it is attached. The zero value of a field is its usual value.
type Disk struct {
	Name      string // "sda"; "cciss!c0d0", "nvme0n1", "vda" also work
	Transport string // "ata" (the default of sdX) "sas" "usb" "nvme" "virtio"
	Bytes     int64  // 64 MiB
	Model     string
	Serial    string
	WWID      string // "none": the drive has none
	Firmware  string
	ReadOnly  bool

	QueueDepth  int  // now; default the most there can be
	CanQueue    int  // of the host, 32
	DriveDepth  int  // of the drive's NCQ, 32
	NoNCQ       bool // the kernel's quirk: IDENTIFY says 32, the kernel uses 1
	FixedDepth  bool // the driver cannot change it: mode 0444
	Scheduler   string
	Schedulers  []string // {"none", "mq-deadline"}
	NrRequests  int      // now
	ReadAheadKB int      // 128

	MaxSectorsKB        int // now, 1280
	DefaultMaxSectorsKB int // the kernel's own choice, 1280
	MaxHWSectorsKB      int // 32767
	HiddenMaxKB         int // a limit of the device that sysfs does not show, 0 none

	WriteCache    bool   // the drive's own, now
	NoWriteCache  bool   // it has none
	CacheOverride string // sd's view after a "temporary …" write: "write through"

	NoSG       bool // the kernel's module sg is not loaded
	SAT        bool // a SATA drive behind a SAS adapter or USB bridge that translates ATA PASS-THROUGH
	FixedCache bool // it cannot be changed, and the drive says so; virtio: cache_type is 0444

	CacheForced      bool          // commands succeed, the state does not move: by SCT, or an NVMe drive that lies
	RefuseModeSelect bool          // as RAID adapters do, even of the current value
	SilentSG         bool          // answers with sense of zeros
	Lag              time.Duration // until the kernel has noticed a change of the write cache
}

// disk is a Disk in a machine.
type disk struct {
	Disk
	index     int
	dir       string // logical, without links: "/sys/devices/…/block/sda"
	device    string // logical, what its device link leads to
	cacheType string // "" for none
	identify  string // libata's id text, "" for none
	wce       bool   // the truth
	override  bool   // sd no longer follows the drive
	saved     int    // MODE SELECTs with SP, Set Features with SV, or through cache_type of a savable page
	savedWCE  bool   // the saved value of WCE
	pulled    bool
	links     []string
}

func (d Disk) add(m *Machine) {
	m.t.Helper()
	m.plug(m.prepare(d))
}

// prepare fills in what was not given.
func (m *Machine) prepare(d Disk) *disk {
	index := len(m.disks)
	def := func(v *int, usual int) {
		if *v == 0 {
			*v = usual
		}
	}
	text := func(v *string, usual string) {
		if *v == "" {
			*v = usual
		}
	}
	switch {
	case d.Transport != "":
	case strings.HasPrefix(d.Name, "nvme"):
		d.Transport = "nvme"
	case strings.HasPrefix(d.Name, "vd"):
		d.Transport = "virtio"
	case strings.HasPrefix(d.Name, "sd"):
		d.Transport = "ata"
	default:
		d.Transport = "sas"
	}
	if d.Bytes == 0 {
		d.Bytes = 64 << 20
	}
	text(&d.Model, "SYSTEST DRIVE")
	text(&d.Serial, fmt.Sprintf("SN%04d", index+1))
	text(&d.Firmware, "FW01")
	text(&d.WWID, fmt.Sprintf("naa.5000c500%08x", index+1))
	def(&d.CanQueue, 32)
	def(&d.DriveDepth, 32)
	def(&d.DefaultMaxSectorsKB, 1280)
	def(&d.MaxSectorsKB, d.DefaultMaxSectorsKB)
	def(&d.MaxHWSectorsKB, 32767)
	d.DefaultMaxSectorsKB = min(d.DefaultMaxSectorsKB, d.MaxHWSectorsKB)
	d.MaxSectorsKB = min(d.MaxSectorsKB, d.MaxHWSectorsKB)
	def(&d.ReadAheadKB, 128)
	if d.Schedulers == nil {
		d.Schedulers = []string{"none", "mq-deadline"}
	}
	usual := "mq-deadline"
	if d.Transport == "nvme" {
		usual = "none"
	}
	text(&d.Scheduler, usual)
	x := &disk{Disk: d, index: index, wce: d.WriteCache, savedWCE: d.WriteCache}
	def(&x.NrRequests, x.defaultRequests(d.Scheduler))
	if x.Scheduler == "none" {
		x.NrRequests = min(x.NrRequests, x.CanQueue)
	}
	def(&x.QueueDepth, x.maxDepth())
	x.override = d.CacheOverride != ""
	return x
}

// maxDepth is the deepest queue the kernel allows.
func (d *disk) maxDepth() int {
	switch {
	case d.NoNCQ:
		return 1
	case d.Transport == "ata":
		return min(d.CanQueue, d.DriveDepth)
	}
	return d.CanQueue
}

func (d *disk) scsi() bool { return d.Transport != "nvme" && d.Transport != "virtio" }

// plug makes the disk's part of the tree.
func (m *Machine) plug(d *disk) {
	m.t.Helper()
	n := d.index
	address := fmt.Sprintf("%d:0:0:0", n)
	const pci = "/sys/devices/pci0000:00/"
	controller, driver := "", ""
	switch d.Transport {
	case "ata":
		controller, driver = pci+"0000:00:1f.2", "ahci"
		port := n + 1
		link := fmt.Sprintf("%s/ata%d/link%d", controller, port, port)
		dev := fmt.Sprintf("dev%d.0", port)
		at := fmt.Sprintf("%s/%s/ata_device/%s", link, dev, dev)
		d.identify = at + "/id"
		m.put(at+"/ering", freshRing, 0o444)
		m.put(at+"/spdn_cnt", "0\n", 0o444)
		m.put(at+"/class", "ata\n", 0o444)
		m.put(fmt.Sprintf("%s/ata_link/link%d/sata_spd", link, port), "3.0 Gbps\n", 0o444)
		m.link(d, "/sys/class/ata_device/"+dev, at)
		m.link(d, fmt.Sprintf("/sys/class/ata_link/link%d", port), fmt.Sprintf("%s/ata_link/link%d", link, port))
		d.device = fmt.Sprintf("%s/ata%d/host%d/target%d:0:0/%s", controller, port, n, n, address)
	case "usb":
		controller, driver = pci+"0000:00:14.0", "usb-storage"
		d.device = fmt.Sprintf("%s/usb2/2-%d/2-%d:1.0/host%d/target%d:0:0/%s", controller, n+1, n+1, n, n, address)
	case "nvme":
		controller, driver = fmt.Sprintf("%s0000:0%d:00.0", pci, n+3), "nvme"
		d.device = fmt.Sprintf("%s/nvme/nvme%d", controller, n)
	case "virtio":
		controller, driver = fmt.Sprintf("%s0000:00:%02x.0", pci, n+5), "virtio_blk"
		d.device = fmt.Sprintf("%s/virtio%d", controller, n)
	default:
		controller, driver = pci+"0000:02:00.0", "mpt3sas"
		d.device = fmt.Sprintf("%s/host%d/port-%d:0/end_device-%d:0/target%d:0:0/%s", controller, n, n, n, n, address)
	}
	m.put(controller+"/vendor", "0x8086\n", 0o444)
	m.put(controller+"/device", fmt.Sprintf("0x%04x\n", 0x2922+n), 0o444)
	if d.Transport == "usb" || d.Transport == "virtio" { // the function's own driver, not the controller's
		m.dir("/sys/bus/drivers/" + driver)
		m.dir(path.Dir(strings.Split(d.device, "/host")[0] + "/x"))
		m.link(d, strings.Split(d.device, "/host")[0]+"/driver", "/sys/bus/drivers/"+driver)
	} else {
		m.dir("/sys/bus/pci/drivers/" + driver)
		m.link(nil, controller+"/driver", "/sys/bus/pci/drivers/"+driver)
	}
	if d.Transport == "nvme" {
		d.dir = d.device + "/" + d.Name
	} else {
		d.dir = d.device + "/block/" + d.Name
	}
	m.describe(d, address)
	m.queue(d)

	node := strings.ReplaceAll(d.Name, "!", "/")
	m.link(d, d.dir+"/device", d.device)
	m.link(d, "/sys/block/"+d.Name, d.dir)
	m.link(d, "/sys/class/block/"+d.Name, d.dir)
	m.number(d.dir, d.Name)
	p := m.path("/dev/" + node)
	if _, err := os.Stat(p); err != nil {
		require.NoError(m.t, os.MkdirAll(path.Dir(p), 0o755))
		require.NoError(m.t, os.WriteFile(p, nil, 0o600))
		require.NoError(m.t, os.Truncate(p, d.Bytes))
	}
	byID := strings.ReplaceAll(strings.TrimSpace(d.Model), " ", "_") + "_" + strings.TrimSpace(d.Serial)
	if !strings.Contains(byID, "/") {
		m.link(d, "/dev/disk/by-id/"+map[string]string{"ata": "ata", "nvme": "nvme", "virtio": "virtio", "usb": "usb"}[d.Transport]+"-"+byID, "/dev/"+node)
	}
	if !contains(m.disks, d) {
		m.disks = append(m.disks, d)
	}
	m.revalidate(d)
	// What the last line put back to the kernel's default is as given.
	m.put(d.dir+"/queue/max_sectors_kb", fmt.Sprintln(d.MaxSectorsKB), 0o644)
	if d.cacheType != "" && d.CacheOverride != "" {
		m.put(d.cacheType, d.CacheOverride+"\n", 0o644)
		m.put(d.dir+"/queue/write_cache", queueView(d.CacheOverride)+"\n", 0o644)
	}
}

// describe makes what says what the drive is.
func (m *Machine) describe(d *disk, address string) {
	ro := func(name, text string) { m.put(d.device+"/"+name, text+"\n", 0o444) }
	b := func(name, text string) { m.put(d.dir+"/"+name, text+"\n", 0o444) }
	b("size", fmt.Sprint(d.Bytes/512))
	b("ro", bit(d.ReadOnly))
	b("removable", "0")
	b("hidden", "0")
	m.put(d.dir+"/stat", zeroStat, 0o444)
	m.put(d.dir+"/inflight", "       0        0\n", 0o444)
	m.dir(d.dir + "/holders")
	m.dir(d.dir + "/slaves")
	wwid := d.WWID
	if wwid == "none" {
		wwid = ""
	}
	switch d.Transport {
	case "nvme":
		ro("model", fmt.Sprintf("%-40s", d.Model))
		ro("serial", fmt.Sprintf("%-20s", d.Serial))
		ro("firmware_rev", fmt.Sprintf("%-8s", d.Firmware))
		ro("transport", "pcie")
		ro("state", "live")
		if wwid != "" {
			b("wwid", wwid)
		}
	case "virtio":
		b("serial", d.Serial)
		m.put(d.dir+"/cache_type", "write back\n", map[bool]os.FileMode{true: 0o444, false: 0o644}[d.FixedCache])
	default:
		vendor := "SYSTEST"
		if d.Transport == "ata" {
			vendor = "ATA"
		}
		ro("type", "0")
		ro("vendor", fmt.Sprintf("%-8s", vendor))
		ro("model", fmt.Sprintf("%-16.16s", d.Model))
		ro("rev", fmt.Sprintf("%-4.4s", d.Firmware))
		if wwid != "" {
			ro("wwid", wwid)
		}
		if d.Serial != "none" {
			m.put(d.device+"/vpd_pg80", "\x00\x80\x00"+string(rune(len(d.Serial)))+d.Serial, 0o444)
		}
		m.put(d.device+"/state", "running\n", 0o644)
		ro("device_busy", "0")
		if !d.NoSG {
			sg := fmt.Sprintf("sg%d", d.index)
			m.put(d.device+"/scsi_generic/"+sg+"/dev", fmt.Sprintf("21:%d\n", d.index), 0o444)
			m.put("/dev/"+sg, "", 0o600)
		}
		ro("ioerr_cnt", "0x7")
		m.put(d.device+"/timeout", "30\n", 0o644)
		m.put(d.device+"/rescan", "", 0o200)
		m.put(d.device+"/delete", "", 0o200)
		mode := os.FileMode(0o644)
		if d.FixedDepth {
			mode = 0o444
		}
		m.put(d.device+"/queue_depth", fmt.Sprintln(d.QueueDepth), mode)
		m.put(d.device+"/queue_ramp_up_period", "120000\n", 0o644)
		d.cacheType = d.device + "/scsi_disk/" + address + "/cache_type"
		m.put(d.cacheType, "\n", 0o644)
		m.link(d, "/sys/class/scsi_disk/"+address, d.device+"/scsi_disk/"+address)
		host := strings.Split(d.device, "/target")[0]
		if at := strings.Index(host, "/port-"); at >= 0 {
			host = host[:at]
		}
		name := path.Base(host)
		m.put(host+"/scsi_host/"+name+"/can_queue", fmt.Sprintln(d.CanQueue), 0o444)
		m.put(host+"/scsi_host/"+name+"/proc_name", map[string]string{"ata": "ahci", "usb": "usb-storage"}[d.Transport]+"\n", 0o444)
		m.link(d, "/sys/class/scsi_host/"+name, host+"/scsi_host/"+name)
	}
}

const zeroStat = "       0        0        0        0        0        0        0        0        0        0        0        0        0        0        0        0        0\n"

// number gives a device its major and minor, and the link by them.
func (m *Machine) number(dir, name string) {
	major := 8
	switch {
	case strings.HasPrefix(name, "md"):
		major = 9
	case strings.HasPrefix(name, "nvme"), strings.HasPrefix(name, "mmcblk"):
		major = 259
	case strings.HasPrefix(name, "vd"):
		major = 254
	case strings.HasPrefix(name, "dm-"):
		major = 252
	}
	if _, err := os.Stat(m.path(dir + "/dev")); err == nil {
		return
	}
	number := fmt.Sprintf("%d:%d", major, m.minors)
	m.minors++
	m.put(dir+"/dev", number+"\n", 0o444)
	m.Link("/sys/dev/block/"+number, dir)
}

// link makes a link that goes when the disk is pulled.
func (m *Machine) link(d *disk, at, to string) {
	m.Link(at, to)
	if d != nil {
		d.links = append(d.links, at)
	}
}

// disk finds a disk by name.
func (m *Machine) disk(name string) *disk {
	m.t.Helper()
	for _, d := range m.disks {
		if d.Name == name && !d.pulled {
			return d
		}
	}
	require.FailNow(m.t, "no disk "+name)
	return nil
}

// Pull takes a disk out: its part of the tree is gone, open nodes answer ENODEV.
func (m *Machine) Pull(name string) {
	m.t.Helper()
	d := m.disk(name)
	m.mu.Lock()
	d.pulled = true
	m.mu.Unlock()
	number := m.Get(d.dir + "/dev")
	for _, at := range append(d.links, "/sys/dev/block/"+number) {
		_ = os.Remove(m.path(at))
	}
	d.links = nil
	require.NoError(m.t, os.RemoveAll(m.path(d.device)))
	_ = os.Remove(m.path("/dev/" + strings.ReplaceAll(name, "!", "/")))
}

// Plug puts a disk in, or the same one again (same serial and WWID) under whatever name it gets, with
// the kernel's default settings.
func (m *Machine) Plug(d Disk) {
	m.t.Helper()
	d.add(m)
}

func contains(all []*disk, d *disk) bool {
	for _, x := range all {
		if x == d {
			return true
		}
	}
	return false
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
