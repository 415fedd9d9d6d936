package main

import (
	"fmt"
	"os"
	"strings"
)

// A faulty drive reads wrong where a test asks for it and nowhere else, by QEMU's blkdebug driver. Everything
// below the first zone and every write is sound. Sectors are of 512 bytes.
//
// Four errors within ten minutes, without a better reason than "aborted", are what makes libata give up NCQ
// (ata_eh_speed_down_verdict), and it reads up to six times before it gives up a sector: one read of a zone's
// first sector succeeds, and leaves "NCQ disabled due to excessive errors" in the kernel's log.
const (
	faultyMiB       = 128
	faultZones      = 32              // each works once a boot
	faultZoneFirst  = 64 << 20 / 512  // the first sector of zone 0; zone n lies n MiB further on
	faultZoneApart  = 1 << 20 / 512   // in sectors
	faultZoneErrors = 4               // so often reading the first sector of a zone fails
	faultForever    = 112 << 20 / 512 // reading this sector always fails
)

// faultRules is a configuration of blkdebug (QEMU's docs/devel/blkdebug.txt).
func faultRules() []byte {
	var rules strings.Builder
	rule := func(sector int, once string) {
		fmt.Fprintf(&rules, "[inject-error]\nevent = \"read_aio\"\nerrno = \"5\"\nsector = \"%d\"\nonce = \"%s\"\n\n", sector, once)
	}
	for zone := range faultZones {
		for range faultZoneErrors {
			rule(faultZoneFirst+zone*faultZoneApart, "on")
		}
	}
	rule(faultForever, "off")
	return []byte(rules.String())
}

// rulesOf is the file with the rules of the faulty drive in image.
func rulesOf(image string) string { return image + ".faults" }

// writeRules writes them.
func writeRules(image string) error {
	if err := os.WriteFile(rulesOf(image), faultRules(), 0o644); err != nil {
		return fmt.Errorf("make a drive with bad sectors: %w", err)
	}
	return nil
}
