package sysfs

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Consent is how well an --erase names a device.
type Consent int

// From not at all to beyond doubt.
const (
	NotNamed   Consent = iota
	ByName             // sdb, /dev/sdb, by-path, by-label, by-uuid: what it means can change overnight
	ByIdentity         // /dev/disk/by-id/…, wwid:…, serial:…; name:bytes where a device has no identity
)

// Consent tells how the --erase arguments name this very device. A disk's does not name its
// partition, nor the other way round.
func (h Host) Consent(d Device, erase []string) Consent {
	best := NotNamed
	for _, e := range erase {
		best = max(best, h.consentOf(d, e))
	}
	return best
}

// consentOf tells how one argument names a device.
func (h Host) consentOf(d Device, erase string) Consent {
	switch {
	case strings.HasPrefix(erase, "wwid:"), strings.HasPrefix(erase, "serial:"):
		if d.is(erase) {
			return ByIdentity
		}
		return NotNamed
	case strings.HasPrefix(path.Clean(erase), "/dev/disk/by-id/"):
		switch link := path.Base(path.Clean(erase)); {
		case !h.leadsTo(path.Clean(erase), d):
			return NotNamed
		case strings.HasPrefix(link, "dm-name-"), strings.HasPrefix(link, "md-name-"):
			return ByName // the name of a volume or array, for all that it stands there
		}
		return ByIdentity
	}
	if h.leadsTo(erase, d) {
		return ByName
	}
	name, size, ok := strings.Cut(erase, ":")
	if bytes, err := strconv.ParseInt(size, 10, 64); ok && err == nil && bytes == d.Bytes && h.leadsTo(name, d) {
		if d.Identity == "" {
			return ByIdentity
		}
		return ByName
	}
	return NotNamed
}

func (h Host) leadsTo(name string, d Device) bool {
	if strings.HasPrefix(name, "/") {
		major, minor, err := h.nodeNumber(name)
		return err == nil && major == d.Major && minor == d.Minor
	}
	return name != "" && strings.ReplaceAll(name, "/", "!") == d.Name
}

// EraseArgument is what to type after --erase to name a device beyond doubt, quoted for a shell.
func (h Host) EraseArgument(d Device) string {
	var links []string
	for _, link := range h.names("/dev/disk/by-id") {
		if h.leadsTo("/dev/disk/by-id/"+link, d) {
			links = append(links, link)
		}
	}
	// The readable link: with model and serial before the bare number.
	for _, prefix := range []string{"ata-", "nvme-", "scsi-", "usb-", "virtio-", "dm-uuid-", "md-uuid-", ""} {
		at := slices.IndexFunc(links, func(l string) bool {
			return strings.HasPrefix(l, prefix) && !strings.HasPrefix(l, "nvme-nvme.") && !strings.HasPrefix(l, "nvme-eui.") &&
				!strings.HasPrefix(l, "dm-name-") && !strings.HasPrefix(l, "md-name-")
		})
		if at >= 0 {
			return quote("/dev/disk/by-id/" + links[at])
		}
	}
	if d.Identity != "" {
		return quote(strings.TrimSuffix(string(d.Identity), ":")) // a serial without a model
	}
	return quote(fmt.Sprintf("%s:%d", strings.ReplaceAll(d.Name, "!", "/"), d.Bytes))
}

// UnusedErase is the note that an --erase argument names nothing. Of several targets each is judged by itself; who judges them all leaves out the notes of
// what another one is named by.
func UnusedErase(erase string) string {
	return fmt.Sprintf("--erase %s names nothing that this sweep uses", quote(erase))
}
