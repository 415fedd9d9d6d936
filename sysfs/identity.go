package sysfs

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"qdsweep/sysfs/sgio"
)

// identify fills in model, serial, WWID, firmware and identity. What the drive itself says (ATA
// IDENTIFY) goes before what the SCSI layer made of it: INQUIRY cuts a model at 16 characters.
func (h Host) identify(d *Device) {
	switch d.Kind {
	case KindDM:
		if uuid := h.text(d.dir + "/dm/uuid"); uuid != "" {
			d.WWID = "dm-uuid-" + uuid
		}
	case KindMD:
		d.WWID = h.arrayWWID(*d)
	case KindDisk, KindROM:
		h.identifyDrive(d)
	}
	switch {
	case d.WWID != "":
		d.Identity = Identity("wwid:" + d.WWID)
	case d.Serial != "":
		d.Identity = Identity("serial:" + d.Serial + ":" + d.Model)
	}
}

func (h Host) identifyDrive(d *Device) {
	device := d.dir + "/device"
	d.Model = h.text(device + "/model")
	if d.Model == "" { // mmc
		d.Model = h.text(device + "/name")
	}
	d.Serial = first(d.Serial, h.text(device+"/serial")) // virtio's is there already
	d.Firmware = first(h.text(device+"/firmware_rev"), h.text(device+"/rev"), h.text(device+"/fwrev"))
	d.WWID = first(h.text(d.dir+"/wwid"), h.text(device+"/wwid"))

	if raw, err := h.readRaw(device + "/vpd_pg80"); err == nil {
		if s := parseVPD80(raw); s != "" {
			d.Serial = s
		}
	}
	if d.WWID == "" {
		if raw, err := h.readRaw(device + "/vpd_pg83"); err == nil {
			d.WWID = parseVPD83(raw)
		}
	}
	if id, ok := h.ataIdentity(*d); ok {
		d.Model = first(printable([]byte(id.Model())), d.Model)
		d.Serial = first(printable([]byte(id.Serial())), d.Serial)
		d.Firmware = first(printable([]byte(id.Firmware())), d.Firmware)
	} else if id, ok := h.pageIdentity(*d); ok {
		// Only to lengthen what INQUIRY cut: scsi_debug has one invented drive on this page for all of its own.
		if model := printable([]byte(id.Model())); d.Model != "" && strings.HasPrefix(model, d.Model) {
			d.Model = model
			d.Firmware = first(printable([]byte(id.Firmware())), d.Firmware)
		}
	}
	if meaningless(d.WWID) {
		d.WWID = ""
	}
	if meaningless(d.Serial) {
		d.Serial = ""
	}
}

// ataIdentity gives the drive's own IDENTIFY DEVICE data, as libata shows it.
func (h Host) ataIdentity(d Device) (sgio.Identity, bool) {
	dir := d.ataDevice()
	if dir == "" {
		return sgio.Identity{}, false
	}
	text, err := h.Read(dir + "/id")
	if err != nil {
		return sgio.Identity{}, false
	}
	id, err := sgio.ParseIdentityText(text)
	return id, err == nil
}

// pageIdentity gives the IDENTIFY DEVICE data of the ATA Information page (SAT, VPD 89h), which a SAS
// adapter gives for a SATA drive.
func (h Host) pageIdentity(d Device) (sgio.Identity, bool) {
	const dataAt = 60
	page, err := h.readRaw(d.dir + "/device/vpd_pg89")
	if err != nil || len(page) < dataAt+512 || page[1] != 0x89 {
		return sgio.Identity{}, false
	}
	id, err := sgio.ParseIdentity(page[dataAt:])
	return id, err == nil
}

// arrayWWID is an array's UUID as udev names it: "md-uuid-…". The kernel shows it in sysfs only in
// newer versions.
func (h Host) arrayWWID(d Device) string {
	if uuid := h.text(d.dir + "/md/uuid"); uuid != "" && !meaningless(uuid) {
		plain := strings.ReplaceAll(strings.ReplaceAll(uuid, "-", ""), ":", "")
		if len(plain) == 32 {
			return "md-uuid-" + plain[:8] + ":" + plain[8:16] + ":" + plain[16:24] + ":" + plain[24:]
		}
	}
	for _, link := range h.names("/dev/disk/by-id") {
		if !strings.HasPrefix(link, "md-uuid-") || strings.Contains(link, "-part") {
			continue
		}
		if h.real("/dev/disk/by-id/"+link) == d.Path {
			return link
		}
	}
	return ""
}

// parseVPD80 gives the serial number of a Unit Serial Number page (SPC-5 7.7.20), "" for none.
func parseVPD80(page []byte) string {
	if len(page) < 4 || page[1] != 0x80 {
		return ""
	}
	n := int(binary.BigEndian.Uint16(page[2:]))
	return printable(page[4:min(4+n, len(page))])
}

// parseVPD83 gives the best designator of the logical unit from a Device Identification page (SPC-5
// 7.7.6), written as the kernel writes its wwid: NAA before EUI-64 before T10; "" for none.
func parseVPD83(page []byte) string {
	if len(page) < 4 || page[1] != 0x83 {
		return ""
	}
	n := int(binary.BigEndian.Uint16(page[2:]))
	rest := page[4:min(4+n, len(page))]
	best, rank := "", 0
	for len(rest) >= 4 {
		size := int(rest[3])
		if len(rest) < 4+size {
			break
		}
		kind, association, value := rest[1]&0x0f, rest[1]>>4&3, rest[4:4+size]
		rest = rest[4+size:]
		if association != 0 || size == 0 { // a port's or target's, not the logical unit's
			continue
		}
		text, r := "", 0
		switch kind {
		case 3:
			text, r = "naa."+hex.EncodeToString(value), 3
		case 2:
			text, r = "eui."+hex.EncodeToString(value), 2
		case 1:
			if s := printable(value); s != "" {
				text, r = "t10."+s, 1
			}
		}
		// The longer of two NAA designators is the one that is unique for the unit.
		if r > rank || r == rank && r > 0 && len(text) > len(best) {
			if !meaningless(text) {
				best, rank = text, r
			}
		}
	}
	return best
}

// meaningless recognises the identifiers of devices that have none: nothing, or nothing but zeros.
func meaningless(s string) bool {
	for _, prefix := range []string{"naa.", "eui.", "uuid.", "t10."} {
		s = strings.TrimPrefix(s, prefix)
	}
	return strings.Trim(s, "0-: ") == ""
}

// printable makes text of padded device bytes: ends trimmed, what is not ASCII text made '?'.
func printable(b []byte) string {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		switch {
		case c == 0:
			c = ' '
		case c < 0x20 || c > 0x7e:
			c = '?'
		}
		out = append(out, c)
	}
	return strings.TrimSpace(string(out))
}

func first(candidates ...string) string {
	for _, c := range candidates {
		if c != "" {
			return c
		}
	}
	return ""
}

// squeeze makes runs of blanks one blank: a t10 WWID has padding inside that nobody types.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
