// Package sgio sends SCSI and ATA commands to a block device by SG_IO and says in words what came
// back. It knows commands and sense data; it must not know sysfs, sweeps, or why a command is sent.
package sgio

import "time"

// Device is something that takes commands: a block or sg node, or a drive that a test plays.
//
// Do returns an error only when the command could not be handed over (the ioctl's errno). What the
// drive thought of it is in the Command afterwards; Command.Err puts that in words.
type Device interface {
	Do(*Command) error
	Close() error
}

// Direction of the data phase, as sg_io_hdr's dxfer_direction.
type Direction int32

// The directions of <scsi/sg.h>.
const (
	NoData     Direction = -1
	ToDevice   Direction = -2
	FromDevice Direction = -3
)

// DefaultTimeout is what the kernel waits for a command that gives no Timeout. A drive may take
// seconds to flush a full cache, and a USB bridge may answer nothing at all.
const DefaultTimeout = 20 * time.Second

// Command is one command, and after Device.Do also its answer.
type Command struct {
	Name      string // as the standard calls it: "MODE SENSE(10)"
	CDB       []byte // 6 to 16 bytes
	Direction Direction
	Data      []byte        // sent, or filled
	Timeout   time.Duration // 0: DefaultTimeout

	Status       byte   // SCSI status: 0 good, 2 check condition
	HostStatus   uint16 // the adapter's, DID_…
	DriverStatus uint16 // the mid layer's, DRIVER_…
	Sense        []byte // as many bytes as were written, nil for none
	Residual     int    // bytes of Data not transferred
}
