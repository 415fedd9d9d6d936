package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fault is a sector (of 512 bytes) that cannot be read, by QEMU's blkdebug driver: writes are sound, and so is all
// else of the drive.
type fault struct {
	Sector int64
	Errno  unix.Errno // what QEMU believes the host said; the bus decides what the guest sees of it
	Times  int        // so many reads fail; 0: all
}

// All of a faulty drive below 64 MiB is sound.
const (
	faultyMiB  = 128
	faultFirst = 64 << 20 / 512
	faultZones = 32            // on SATA
	zoneApart  = 1 << 20 / 512 // sectors from one zone to the next
	fullReads  = 512           // on SCSI
	fullApart  = 4096 / 512    // sectors from one to the next
	faultEver  = 112 << 20 / 512
)

// ncqFaults makes libata give up NCQ, once a zone: four errors within ten minutes without a better reason than
// "aborted" do (ata_eh_speed_down_verdict), and a sector is read six times before it is given up. So one read of
// a zone's first sector succeeds, and leaves "NCQ disabled due to excessive errors" in the kernel's log. The last
// sector fails for ever.
func ncqFaults() []fault {
	var list []fault
	for zone := range int64(faultZones) {
		list = append(list, fault{faultFirst + zone*zoneApart, unix.EIO, 4})
	}
	return append(list, fault{faultEver, unix.EIO, 0})
}

// queueFullFaults answers TASK SET FULL, which is what QEMU's SCSI makes of EDOM, once for each of these
// sectors; the command is repeated and succeeds. The SCSI layer lowers queue_depth by one after eleven such
// answers, of which it counts one in 16 jiffies (scsi_track_queue_full).
func queueFullFaults() []fault {
	var list []fault
	for i := range int64(fullReads) {
		list = append(list, fault{faultFirst + i*fullApart, unix.EDOM, 1})
	}
	return list
}

// faultRules is blkdebug's configuration (QEMU's docs/devel/blkdebug.txt): a rule is for one error, or for all.
func faultRules(faults []fault) string {
	var rules strings.Builder
	for _, f := range faults {
		once := "on"
		if f.Times == 0 {
			once = "off"
		}
		for range max(f.Times, 1) {
			fmt.Fprintf(&rules, "[inject-error]\nevent = \"read_aio\"\nerrno = \"%d\"\nsector = \"%d\"\nonce = \"%s\"\n\n", int(f.Errno), f.Sector, once)
		}
	}
	return rules.String()
}

// rulesOf is the file with the rules of the drive in image.
func rulesOf(image string) string { return image + ".faults" }

func writeRules(image string, faults []fault) error {
	if err := os.WriteFile(rulesOf(image), []byte(faultRules(faults)), 0o644); err != nil {
		return fmt.Errorf("make a drive with bad sectors: %w", err)
	}
	return nil
}
