package sgio

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotATA says that nothing behind this node translates ATA PASS-THROUGH(16): a SAS disk, a USB
// bridge, a RAID volume. The caching mode page is the way then.
var ErrNotATA = errors.New("not an ATA device")

// ErrNoAnswer says that the command came back with nothing that tells success from failure, as some
// bridges do (sense all zero, or no taskfile). What the drive did is unknown.
var ErrNoAnswer = errors.New("no ATA status came back")

// ATACommand is a taskfile (ACS-4, clause 7).
type ATACommand struct {
	Name    string
	Command byte
	Feature byte
	Count   byte
	LBA48   bool // an EXT command
	In      []byte
	Timeout time.Duration
}

const (
	ataPassThrough16 = 0x85
	protocolNonData  = 3
	protocolPIOIn    = 4
	checkCondition   = 0x20 // give the taskfile back also where all went well
	fromDevice       = 0x08
	lengthInBlocks   = 0x04
	lengthInCount    = 0x02

	ataStatusERR = 0x01
	ataStatusDRQ = 0x08
	ataStatusDF  = 0x20
)

// DoATA sends one ATA command by ATA PASS-THROUGH(16) (SAT-4, 12.2.2) and returns nil only where
// the drive's own status came back and says that it worked, or, of a command that reads, all of the
// data did. errors.Is: ErrNotATA, ErrNoAnswer.
func DoATA(d Device, a ATACommand) error {
	cdb := make([]byte, 16)
	cdb[0] = ataPassThrough16
	cdb[1] = protocolNonData << 1
	cdb[2] = checkCondition
	direction := NoData
	if len(a.In) > 0 {
		// Without checkCondition: the status that AHCI keeps of a data-in command is the one before
		// the last block, DRQ still set, and libata would call that an error. Good status and all
		// of the data say enough.
		direction = FromDevice
		cdb[1] = protocolPIOIn << 1
		cdb[2] = fromDevice | lengthInBlocks | lengthInCount
	}
	if a.LBA48 {
		cdb[1] |= 1
	}
	cdb[4], cdb[6], cdb[14] = a.Feature, a.Count, a.Command
	c := &Command{Name: a.Name, CDB: cdb, Direction: direction, Data: a.In, Timeout: a.Timeout}
	if err := d.Do(c); err != nil {
		return err
	}
	return ataResult(c)
}

func ataResult(c *Command) error {
	sense, has := ParseSense(c.Sense)
	if has && sense.ATA != nil {
		if sense.ATA.Status&(ataStatusERR|ataStatusDRQ|ataStatusDF) != 0 {
			return &SenseError{Command: c.Name, Status: c.Status, Sense: sense, HasSense: true}
		}
		if c.HostStatus == 0 {
			return nil
		}
	}
	if err := c.Err(); err != nil {
		if has && sense.Key == KeyIllegalRequest && (sense.ASC == 0x20 || sense.ASC == 0x24) {
			return fmt.Errorf("%s: %w (%s)", c.Name, ErrNotATA, sense)
		}
		if !has && c.HostStatus == 0 && c.Status == statusCheckCondition {
			return fmt.Errorf("%s: %w", c.Name, ErrNoAnswer)
		}
		return err
	}
	if c.Direction == FromDevice && c.Status == 0 && c.Residual == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", c.Name, ErrNoAnswer)
}

// Identify sends IDENTIFY DEVICE.
func Identify(d Device, timeout time.Duration) (Identity, error) {
	data := make([]byte, 512)
	err := DoATA(d, ATACommand{Name: "IDENTIFY DEVICE", Command: 0xec, Count: 1, In: data, Timeout: timeout})
	if err != nil {
		return Identity{}, err
	}
	id, err := ParseIdentity(data)
	if err != nil {
		return id, fmt.Errorf("IDENTIFY DEVICE: %w: %w", ErrNoAnswer, err)
	}
	return id, nil
}

// FlushATA empties the drive's write cache: FLUSH CACHE EXT where the drive has it, as hdparm does.
func FlushATA(d Device, id Identity, timeout time.Duration) error {
	if id.FlushExt() {
		return DoATA(d, ATACommand{Name: "FLUSH CACHE EXT", Command: 0xea, LBA48: true, Timeout: timeout})
	}
	return DoATA(d, ATACommand{Name: "FLUSH CACHE", Command: 0xe7, Timeout: timeout})
}

// SetWriteCacheATA sends SET FEATURES 02h or 82h. Success says that the drive took the command,
// not that it obeyed: read IDENTIFY word 85 afterwards.
func SetWriteCacheATA(d Device, on bool, timeout time.Duration) error {
	if on {
		return DoATA(d, ATACommand{Name: "SET FEATURES 02h", Command: 0xef, Feature: 0x02, Timeout: timeout})
	}
	return DoATA(d, ATACommand{Name: "SET FEATURES 82h", Command: 0xef, Feature: 0x82, Timeout: timeout})
}
