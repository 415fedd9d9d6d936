package sysfs

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	pciAddress  = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	scsiAddress = regexp.MustCompile(`^\d+:\d+:\d+:\d+$`)
	ataPort     = regexp.MustCompile(`^ata(\d+)$`)
	scsiHost    = regexp.MustCompile(`^host\d+$`)
	usbBus      = regexp.MustCompile(`^usb\d+$`)
	usbDevice   = regexp.MustCompile(`^\d+-\d+(\.\d+)*$`)
	virtioBus   = regexp.MustCompile(`^virtio\d+$`)
	sasPort     = regexp.MustCompile(`^port-\d+(:\d+)+$`)
	nvmeName    = regexp.MustCompile(`^nvme\d+n\d+$`)
)

// attach fills in how the device is attached: driver, controller, transport and link speed, found by
// walking up the device's path, as in
// /sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda.
func (h Host) attach(d *Device) {
	d.at = h.devicePath(*d)
	p := d.at
	parts := strings.Split(p, "/")
	has := func(re *regexp.Regexp) int { return slices.IndexFunc(parts, re.MatchString) }
	host := has(scsiHost)
	switch {
	case d.Kind == KindMD, d.Kind == KindDM, d.Kind == KindLoop:
		return
	case has(usbBus) >= 0: // before ata: a bridge's disk is not libata's
		d.Transport = "usb"
	case has(ataPort) >= 0:
		d.Transport = "ata"
	case has(sasPort) >= 0 && host >= 0:
		d.Transport = "sas"
	case nvmeName.MatchString(d.Name):
		d.Transport = "nvme"
	case host >= 0 || scsiAddress.MatchString(path.Base(p)):
		d.Transport = "scsi"
	case has(virtioBus) >= 0:
		d.Transport = "virtio"
	case strings.HasPrefix(d.Name, "mmcblk"):
		d.Transport = "mmc"
	}
	if d.Transport == "nvme" {
		p = h.nvmeController(*d, p)
		parts = strings.Split(p, "/")
	}

	// A SCSI device's own driver is sd; the adapter's is above its host.
	from := p
	if host >= 0 {
		from = strings.Join(parts[:host], "/")
	}
	for up := from; len(up) > len("/sys/devices"); up = path.Dir(up) {
		if driver := path.Base(h.real(up + "/driver")); driver != "driver" {
			d.Driver = driver
			break
		}
	}
	if d.Driver == "" && host >= 0 {
		d.Driver = h.text("/sys/class/scsi_host/" + parts[host] + "/proc_name")
	}
	if d.Driver == "" && d.Transport == "nvme" {
		d.Driver = "nvme"
	}
	for up := p; len(up) > len("/sys/devices"); up = path.Dir(up) {
		if !pciAddress.MatchString(path.Base(up)) {
			continue
		}
		d.Controller = path.Base(up)
		vendor, device := strings.TrimPrefix(h.text(up+"/vendor"), "0x"), strings.TrimPrefix(h.text(up+"/device"), "0x")
		if vendor != "" && device != "" {
			d.Controller += " " + vendor + ":" + device
		}
		break
	}
	d.LinkSpeed = h.linkSpeed(*d, p)
}

// devicePath is the path of the thing the block device is a face of: its device link, else itself.
func (h Host) devicePath(d Device) string {
	if d.at != "" {
		return d.at
	}
	if p := h.real(d.dir + "/device"); p != d.dir+"/device" {
		return p
	}
	return h.real(d.dir)
}

// nvmeController gives the path with the PCI device in it. A multipath disk hangs below a virtual
// subsystem that holds links to its controllers.
func (h Host) nvmeController(d Device, p string) string {
	if all := h.nvmeControllers(d); len(all) > 0 {
		return all[0]
	}
	return p
}

// linkSpeed is what the link to the drive negotiated, in the kernel's words; "" when unknown.
func (h Host) linkSpeed(d Device, p string) string {
	switch d.Transport {
	case "ata":
		link, _ := h.ataNames(d)
		if s := h.text("/sys/class/ata_link/" + link + "/sata_spd"); link != "" && s != "<unknown>" {
			return s
		}
	case "sas":
		for up := p; len(up) > len("/sys/devices"); up = path.Dir(up) {
			if !sasPort.MatchString(path.Base(up)) {
				continue
			}
			phys, _ := filepath.Glob(h.path(up) + "/phy-*/sas_phy/phy-*/negotiated_linkrate")
			for _, phy := range phys {
				if s := h.text(h.logical(phy)); s != "" && s != "Unknown" {
					return s
				}
			}
			return ""
		}
	case "usb":
		for up := p; len(up) > len("/sys/devices"); up = path.Dir(up) {
			if s := h.text(up + "/speed"); usbDevice.MatchString(path.Base(up)) && s != "" {
				return s + " Mbit/s"
			}
		}
	case "nvme":
		for up := p; len(up) > len("/sys/devices"); up = path.Dir(up) {
			if s := h.text(up + "/current_link_speed"); pciAddress.MatchString(path.Base(up)) && s != "" {
				if width := h.text(up + "/current_link_width"); width != "" {
					s += " x" + width
				}
				return s
			}
		}
	}
	return ""
}

// ataNames gives the names of a libata disk's link and device in /sys/class/ata_link and
// /sys/class/ata_device ("link3", "dev3.0"; behind a port multiplier "link3.1", "dev3.1.0"), "" for
// any other disk. libata makes the SCSI channel from the multiplier's port and the id from the drive.
func (h Host) ataNames(d Device) (link, device string) {
	p := h.devicePath(d)
	var port string
	for _, part := range strings.Split(p, "/") {
		if m := ataPort.FindStringSubmatch(part); m != nil {
			port = m[1]
		}
	}
	address := strings.Split(path.Base(p), ":")
	if port == "" || len(address) != 4 {
		return "", ""
	}
	channel, id := address[1], address[2]
	if link = "link" + port + "." + channel; h.exists("/sys/class/ata_link/" + link) {
		return link, "dev" + port + "." + channel + ".0"
	}
	return "link" + port, "dev" + port + "." + id
}

// ataDevice is the directory of /sys/class/ata_device that belongs to a libata disk, "" where there is none.
func (d Device) ataDevice() string {
	_, device := d.host.ataNames(d)
	if device == "" || !d.host.exists("/sys/class/ata_device/"+device) {
		return ""
	}
	return "/sys/class/ata_device/" + device
}
