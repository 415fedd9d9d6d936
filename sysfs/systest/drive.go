package systest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

// DriveCache is the drive's own state of the write cache, whoever believes what.
func (m *Machine) DriveCache(name string) bool {
	m.t.Helper()
	d := m.disk(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	return d.wce
}

// SetDriveCache moves the drive's state by itself, as a link reset that replays the BIOS's commands
// does; the kernel notices.
func (m *Machine) SetDriveCache(name string, on bool) {
	m.t.Helper()
	d := m.disk(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	d.wce = on
	m.revalidate(d)
}

// Saved is how many commands would have outlived a power cycle.
func (m *Machine) Saved(name string) int {
	m.t.Helper()
	d := m.disk(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	return d.saved
}

// SavedCache is the state that the drive comes up with after a power cycle.
func (m *Machine) SavedCache(name string) bool {
	m.t.Helper()
	d := m.disk(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	return d.savedWCE
}

// open is SG_IO's end of a node.
func (m *Machine) open(node string) (sgio.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.disks {
		if "/dev/"+strings.ReplaceAll(d.Name, "!", "/") == node && !d.pulled {
			return &handle{m, d}, nil
		}
	}
	return nil, fmt.Errorf("open %s for SG_IO: %w", node, unix.ENOENT)
}

type handle struct {
	m *Machine
	d *disk
}

func (h *handle) Close() error { return nil }

// received logs a command, and is what becomes of it before the drive sees it.
func (m *Machine) received(d *disk, command string) error {
	key := "/dev/" + strings.ReplaceAll(d.Name, "!", "/")
	m.mu.Lock()
	m.commands = append(m.commands, d.Name+": "+command)
	hang, fail := m.hang[key], m.fail[key]
	m.mu.Unlock()
	if hang != nil {
		<-hang
		return unix.EIO
	}
	if fail != 0 {
		return fail
	}
	return nil
}

func (h *handle) Do(c *sgio.Command) error {
	m, d := h.m, h.d
	if err := m.received(d, c.Name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Status, c.HostStatus, c.DriverStatus, c.Sense, c.Residual = 0, 0, 0, nil, 0
	switch {
	case d.pulled:
		return unix.ENODEV
	case !d.scsi():
		return unix.ENOTTY
	case d.SilentSG:
		c.Status, c.Sense = 2, make([]byte, 32)
		return nil
	}
	switch c.CDB[0] {
	case 0x85:
		if d.Transport != "ata" && !d.SAT {
			sense(c, 5, 0x20, 0)
			return nil
		}
		m.taskfile(d, c)
	case 0x1a, 0x5a:
		m.modeSense(d, c)
	case 0x15, 0x55:
		return m.modeSelect(d, c)
	case 0x35, 0x00:
	default:
		sense(c, 5, 0x20, 0)
	}
	return nil
}

func sense(c *sgio.Command, key, asc, ascq byte) {
	c.Status, c.DriverStatus = 2, 8
	c.Sense = []byte{0x72, key, asc, ascq, 0, 0, 0, 0}
}

// taskfile carries out an ATA command.
func (m *Machine) taskfile(d *disk, c *sgio.Command) {
	status, failure := byte(0x50), byte(0)
	switch command, feature := c.CDB[14], c.CDB[4]; {
	case command == 0xec:
		for i, w := range d.words() {
			binary.LittleEndian.PutUint16(c.Data[2*i:], w)
		}
		if c.CDB[2]&0x20 != 0 {
			status = 0x58 // of the PIO set-up, as AHCI keeps it; libata takes it for an error
			failure = 0x80
			break
		}
		return
	case command == 0xea, command == 0xe7:
	case command == 0xef && (feature == 0x02 || feature == 0x82) && !d.NoWriteCache:
		if !d.CacheForced {
			d.wce = feature == 0x02
		}
		m.noticed(d)
	default:
		status, failure = 0x51, 0x04
	}
	c.Status, c.DriverStatus = 2, 8
	c.Sense = make([]byte, 22)
	copy(c.Sense, []byte{0x72, 0x01, 0x00, 0x1d, 0, 0, 0, 14, 0x09, 12})
	if failure != 0 {
		failure &^= 0x80
		copy(c.Sense[1:], []byte{0x0b, 0x00, 0x00})
	}
	c.Sense[11], c.Sense[21] = failure, status
}

// words is what IDENTIFY DEVICE says.
func (d *disk) words() [256]uint16 {
	var w [256]uint16
	text := func(from, words int, s string) {
		s = fmt.Sprintf("%-*.*s", 2*words, 2*words, s)
		for i := range words {
			w[from+i] = uint16(s[2*i])<<8 | uint16(s[2*i+1])
		}
	}
	w[0] = 0x0040
	text(10, 10, d.Serial)
	text(23, 4, d.Firmware)
	text(27, 20, d.Model)
	w[75] = uint16(d.DriveDepth - 1)
	w[76] = 0x0106
	w[82], w[83], w[84] = 0x7449, 0x7d09, 0x4163
	w[85], w[86], w[87] = 0x7449, 0xbc01, 0x4163
	if !d.NoWriteCache {
		w[82] |= 1 << 5
		if d.wce {
			w[85] |= 1 << 5
		}
	}
	w[128] = 0x0009 // frozen, which does not matter
	return w
}

// cachingPage is mode page 08h: its current, changeable, default or saved values.
func (d *disk) cachingPage(control byte) []byte {
	page := make([]byte, 20)
	page[0], page[1] = 0x88, 18 // savable
	wce := [4]bool{d.wce, !d.FixedCache, true, d.savedWCE}[control&3]
	if wce {
		page[2] = 0x04
	}
	return page
}

func (m *Machine) modeSense(d *disk, c *sgio.Command) {
	if page := c.CDB[2] & 0x3f; page != sgio.CachingPage || d.NoWriteCache {
		sense(c, 5, 0x24, 0)
		return
	}
	page := d.cachingPage(c.CDB[2] >> 6)
	const dpofua = 0x10
	descriptor := make([]byte, 8)
	if c.CDB[1]&0x08 != 0 {
		descriptor = nil
	}
	var answer []byte
	if c.CDB[0] == 0x5a {
		answer = []byte{0, byte(6 + len(descriptor) + len(page)), 0, dpofua, 0, 0, 0, byte(len(descriptor))}
	} else {
		answer = []byte{byte(3 + len(descriptor) + len(page)), 0, dpofua, byte(len(descriptor))}
	}
	answer = append(append(answer, descriptor...), page...)
	c.Residual = len(c.Data) - copy(c.Data, answer)
}

func (m *Machine) modeSelect(d *disk, c *sgio.Command) error {
	if d.RefuseModeSelect {
		return unix.EINVAL
	}
	head := 8
	if c.CDB[0] == 0x15 {
		head = 4
	}
	p := c.Data[head:]
	switch {
	case c.CDB[1]&0x10 == 0, c.Data[0] != 0, c.Data[head/2-1] != 0, c.Data[head-1] != 0, len(p) != 20, p[0] != sgio.CachingPage:
		sense(c, 5, 0x26, 0)
		return nil
	}
	if c.CDB[1]&1 != 0 {
		d.saved++
		d.savedWCE = p[2]&0x04 != 0
	}
	if !d.CacheForced {
		d.wce = p[2]&0x04 != 0
	}
	if d.Transport == "ata" {
		m.noticed(d) // the translation layer sends SET FEATURES
	}
	return nil
}

// noticed: libata asks the drive again after SET FEATURES, then sd looks; it takes a while.
func (m *Machine) noticed(d *disk) {
	if d.Lag <= 0 {
		m.revalidate(d)
		return
	}
	timer := time.AfterFunc(d.Lag, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !d.pulled {
			m.revalidate(d)
		}
	})
	m.t.Cleanup(func() { timer.Stop() })
}

// revalidate is the kernel looking at the drive again. On old kernels it resets max_sectors_kb.
func (m *Machine) revalidate(d *disk) {
	if d.identify != "" {
		var b strings.Builder
		for i, w := range d.words() {
			end := " "
			if i%8 == 7 {
				end = "\n"
			}
			fmt.Fprintf(&b, "%04x%s", w, end)
		}
		m.put(d.identify, b.String(), 0o444)
	}
	if d.cacheType != "" && !d.override {
		view := "write through"
		if d.wce {
			view = "write back"
		}
		m.put(d.cacheType, view+"\n", 0o644)
	}
	switch {
	case d.cacheType != "":
		m.put(d.dir+"/queue/write_cache", queueView(m.Get(d.cacheType))+"\n", 0o644)
	case d.Transport == "nvme" && !d.NoWriteCache: // there is one, on or off
		m.put(d.dir+"/queue/write_cache", "write back\n", 0o644)
	case d.Transport == "virtio":
		m.put(d.dir+"/cache_type", map[bool]string{true: "write back", false: "write through"}[d.wce]+"\n", 0o644)
		m.put(d.dir+"/queue/write_cache", m.Get(d.dir+"/cache_type")+"\n", 0o644)
	}
	if m.kernel == OldKernel && d.scsi() {
		m.put(d.dir+"/queue/max_sectors_kb", fmt.Sprintln(d.DefaultMaxSectorsKB), 0o644)
	}
}

// queueView is what sd tells the block layer.
func queueView(cacheType string) string {
	if strings.HasPrefix(cacheType, "write back") {
		return "write back"
	}
	return "write through"
}

// writeCacheType is sd's store function.
func (m *Machine) writeCacheType(d *disk, value string) error {
	value, temporary := strings.CutPrefix(value, "temporary ")
	switch value {
	case "write through", "none", "write back", "write back, no read (daft)":
	default:
		return unix.EINVAL
	}
	if temporary {
		d.override = true
		m.put(d.cacheType, value+"\n", 0o644)
		m.put(d.dir+"/queue/write_cache", queueView(value)+"\n", 0o644)
		return nil
	}
	d.override = false
	if d.RefuseModeSelect {
		return unix.EINVAL
	}
	d.saved++
	d.savedWCE = strings.HasPrefix(value, "write back")
	d.wce = strings.HasPrefix(value, "write back") && !d.CacheForced
	m.noticed(d)
	return nil
}

// writeHostCache is virtio-blk's store function of cache_type: it asks the host, and believes it.
func (m *Machine) writeHostCache(d *disk, value string) error {
	if value != "write back" && value != "write through" {
		return unix.EINVAL
	}
	if !d.CacheForced {
		d.wce = value == "write back"
	}
	m.revalidate(d)
	return nil
}
