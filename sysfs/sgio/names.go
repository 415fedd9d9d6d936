package sgio

import "fmt"

const (
	statusCheckCondition = 0x02
	driverSense          = 0x08 // only says that there is sense
)

var keyNames = [16]string{
	"no sense", "recovered error", "not ready", "medium error", "hardware error", "illegal request",
	"unit attention", "data protect", "blank check", "vendor specific", "copy aborted",
	"aborted command", "reserved", "volume overflow", "miscompare", "completed",
}

// additional names the additional sense codes that a write cache or a pass-through meets
// (SPC-5, annex F).
func additional(asc, ascq byte) (string, bool) {
	switch uint16(asc)<<8 | uint16(ascq) {
	case 0x001d:
		return "ATA pass-through information available", true
	case 0x0401:
		return "becoming ready", true
	case 0x0402:
		return "needs a start command", true
	case 0x0c00, 0x0c02:
		return "write error", true
	case 0x1100:
		return "unrecovered read error", true
	case 0x1a00:
		return "parameter list length error", true
	case 0x2000:
		return "invalid command operation code", true
	case 0x2100:
		return "logical block address out of range", true
	case 0x2400:
		return "invalid field in the command", true
	case 0x2500:
		return "logical unit not supported", true
	case 0x2600:
		return "invalid field in the parameter list", true
	case 0x2700:
		return "write protected", true
	case 0x2900:
		return "power on, reset, or bus device reset", true
	case 0x2a01:
		return "mode parameters changed", true
	case 0x3900:
		return "saving parameters not supported", true
	case 0x3a00:
		return "medium not present", true
	case 0x4400:
		return "internal target failure", true
	case 0x4700:
		return "parity error on the link", true
	}
	return "", false
}

func statusName(s byte) string {
	switch s {
	case 0x02:
		return "check condition"
	case 0x08:
		return "busy"
	case 0x18:
		return "reservation conflict"
	case 0x28:
		return "task set full"
	case 0x40:
		return "task aborted"
	}
	return fmt.Sprintf("SCSI status %02xh", s)
}

func hostName(s uint16) string {
	names := map[uint16]string{
		0x01: "no connection (DID_NO_CONNECT)", 0x02: "bus busy (DID_BUS_BUSY)", 0x03: "timed out (DID_TIME_OUT)",
		0x04: "bad target (DID_BAD_TARGET)", 0x05: "aborted (DID_ABORT)", 0x06: "parity error (DID_PARITY)",
		0x07: "error (DID_ERROR)", 0x08: "reset (DID_RESET)", 0x09: "bad interrupt (DID_BAD_INTR)",
		0x0b: "soft error (DID_SOFT_ERROR)", 0x0c: "retry at once (DID_IMM_RETRY)", 0x0d: "requeue (DID_REQUEUE)",
		0x0e: "transport disrupted (DID_TRANSPORT_DISRUPTED)", 0x0f: "transport failed fast (DID_TRANSPORT_FAILFAST)",
	}
	if name, ok := names[s]; ok {
		return name
	}
	return fmt.Sprintf("host status %02xh", s)
}

func driverName(s uint16) string {
	names := map[uint16]string{
		0x01: "busy", 0x02: "soft error", 0x03: "media error", 0x04: "error", 0x05: "invalid", 0x06: "timed out", 0x07: "hardware error",
	}
	if name, ok := names[s&0xf]; ok {
		return name
	}
	return fmt.Sprintf("driver status %02xh", s)
}
