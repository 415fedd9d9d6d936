package sysfs

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// What a message of the kernel means, and whose it is. The words are those of libata-eh.c, sd.c and scsi_error.c, blk-core.c, the NVMe
// host driver, md, uas.c and usb/core/hub.c, from 4.18 to 6.12. What libata says after every change of the write cache ("configured for UDMA/133", "EH
// complete") is not among them.
var (
	saysGone       = regexp.MustCompile(`^ata\d+(\.\d+)?: (detaching \(SCSI|disabled?( device)?$|SATA link down)|Device offlined|rejecting I/O to (offline|dead) device|Removing after probe failure|USB disconnect`)
	saysNCQOff     = regexp.MustCompile(`NCQ disabled due to|[Dd]isabling NCQ`)
	saysSlower     = regexp.MustCompile(`limiting (SATA link )?speed to`)
	saysErrors     = regexp.MustCompile(`failed command|exception Emask|(hard|soft) resetting link|COMRESET failed|link is slow to respond|qc timeout|revalidation failed|failed to IDENTIFY`)
	saysSCSIErrors = regexp.MustCompile(`FAILED Result: |Sense Key : (Medium|Hardware|Aborted)|attempting task abort|[Dd]evice reset|timing out command|error, dev |Buffer I/O error`)
	saysNVMeErrors = regexp.MustCompile(`timeout, (aborting|reset|completion|disable)|controller is down|Abort status`)
	saysMDErrors   = regexp.MustCompile(`Disk failure on|read error|write error`)
	saysUSBErrors  = regexp.MustCompile(`reset \S+ USB device number|uas_eh_(abort|device_reset)_handler`)
	saysQueueFull  = regexp.MustCompile(`(?i)queue[ _]full|task set full`)
)

// kindOfMessage tells what a message is a sign of, "" for nothing. The gravest counts.
func kindOfMessage(message string) SignKind {
	switch is := func(r *regexp.Regexp) bool { return r.MatchString(message) }; {
	case is(saysGone):
		return Gone
	case is(saysNCQOff):
		return NCQOff
	case is(saysSlower):
		return SlowedDown
	case is(saysErrors), is(saysSCSIErrors), is(saysNVMeErrors), is(saysMDErrors), is(saysUSBErrors):
		return ErrorHandling
	case is(saysQueueFull):
		return QueueFull
	}
	return ""
}

// addresses are the names by which the kernel's messages speak of one drive.
type addresses struct {
	begins []string         // "ata3: ", "ata3.00: ", "nvme nvme0: ", "usb 2-1.4: "
	within []*regexp.Regexp // "2:0:0:0", "sda", its partitions
}

// addresses gives a drive's names. libata's message of a port concerns the drive on it; behind a port multiplier each drive has its own
// link, and 15 is the multiplier itself, whose resets concern them all.
func (h Host) addresses(d Device) addresses {
	var a addresses
	p := h.devicePath(d)
	scsi := path.Base(p)
	if scsiAddress.MatchString(scsi) {
		a.within = append(a.within, regexp.MustCompile(`(^|[^0-9:])`+scsi+`($|[^0-9])`))
	}
	if link, device := h.ataNames(d); device != "" {
		port, behind, multiplied := strings.Cut(strings.TrimPrefix(link, "link"), ".")
		number, _ := strconv.Atoi(device[strings.LastIndexByte(device, '.')+1:])
		if multiplied {
			number, _ = strconv.Atoi(behind)
			a.begins = append(a.begins, fmt.Sprintf("ata%s.15: ", port))
		}
		a.begins = append(a.begins, fmt.Sprintf("ata%s: ", port), fmt.Sprintf("ata%s.%02d: ", port, number))
	}
	if d.Transport == "usb" {
		for up := p; len(up) > len("/sys/devices"); up = path.Dir(up) {
			if at := path.Base(up); usbDevice.MatchString(at) { // the bridge; what is above it are hubs
				a.begins = append(a.begins, "usb "+at+": ")
				break
			}
		}
	}
	name := regexp.QuoteMeta(d.Name)
	part := `\d+`
	if last := d.Name[len(d.Name)-1]; last >= '0' && last <= '9' {
		part = `p\d+`
	}
	if d.Transport == "nvme" {
		controller := path.Base(h.nvmeController(d, p))
		a.begins = append(a.begins, "nvme "+controller+": ")
		if at := strings.LastIndexByte(d.Name, 'n'); at > 0 { // a path of a multipath drive has a name of its own: nvme0c1n1
			name = regexp.QuoteMeta(d.Name[:at]) + `(c\d+)?` + regexp.QuoteMeta(d.Name[at:])
		}
	}
	a.within = append(a.within, regexp.MustCompile(`(^|[^0-9A-Za-z])`+name+`(`+part+`)?($|[^0-9A-Za-z])`))
	return a
}

// meant tells a message that is about the drive.
func (a addresses) meant(message string) bool {
	for _, begin := range a.begins {
		if strings.HasPrefix(message, begin) {
			return true
		}
	}
	if strings.HasPrefix(message, "ata") { // another port's, which may say anything further on
		return false
	}
	for _, r := range a.within {
		if r.MatchString(message) {
			return true
		}
	}
	return false
}
