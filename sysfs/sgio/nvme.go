package sgio

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// NVMe is a namespace that takes commands: its block node, or a drive that a test plays.
//
// Do returns an error only when the command could not be handed over (the ioctl's errno). What the
// drive thought of it is in the Status afterwards; NVMeCommand.Err puts that in words.
type NVMe interface {
	Namespace() uint32 // its id on the controller
	Do(*NVMeCommand) error
	Close() error
}

// NVMeCommand is one command, and after NVMe.Do also its answer.
//
// It has no time-out of its own: when one runs out the kernel resets the controller under everybody's
// feet, so the kernel's own (admin_timeout and io_timeout of nvme_core, 60 s and 30 s) stay.
type NVMeCommand struct {
	Name   string // as the standard calls it: "Get Features 06h"
	IO     bool   // for the namespace's I/O queues; else for the controller's admin queue
	Opcode byte
	NSID   uint32
	CDW10  uint32
	CDW11  uint32
	Data   []byte // filled by the drive

	Status uint16 // status code type and status code: 0 success, 002h, 10Eh
	Result uint32 // dword 0 of the completion
}

const (
	nvmeFlush       = 0x00 // I/O command
	nvmeIdentify    = 0x06
	nvmeSetFeatures = 0x09
	nvmeGetFeatures = 0x0a

	featureWriteCache = 0x06
	selectCurrent     = 0 << 8
	selectSupported   = 3 << 8 // the feature's capabilities instead of its value
)

// Controller is what IDENTIFY says of a controller (NVMe 1.4, figure 247: CNS 01h), 4096 bytes.
type Controller []byte

// WriteCache says whether there is a volatile write cache, and with it feature 06h (VWC, byte 525 bit 0).
func (c Controller) WriteCache() bool { return c[525]&1 != 0 }

// CanSelect says whether Get Features tells a feature's capabilities (ONCS, bytes 520 and 521, bit 4).
func (c Controller) CanSelect() bool { return binary.LittleEndian.Uint16(c[520:])&(1<<4) != 0 }

// IdentifyController sends IDENTIFY for the controller that the namespace is on.
func IdentifyController(d NVMe) (Controller, error) {
	data := make([]byte, 4096)
	return data, doNVMe(d, &NVMeCommand{Name: "Identify Controller", Opcode: nvmeIdentify, CDW10: 1, Data: data})
}

// WriteCacheNVMe is the current value of feature 06h, Volatile Write Cache (NVMe 1.4, 5.21.1.6).
func WriteCacheNVMe(d NVMe) (on bool, err error) {
	c := &NVMeCommand{Name: "Get Features 06h", Opcode: nvmeGetFeatures, CDW10: featureWriteCache | selectCurrent}
	err = doNVMe(d, c)
	return c.Result&1 != 0, err
}

// WriteCacheChangeable says whether the controller lets feature 06h be changed; for controllers that CanSelect.
func WriteCacheChangeable(d NVMe) (bool, error) {
	c := &NVMeCommand{Name: "Get Features 06h, capabilities", Opcode: nvmeGetFeatures, CDW10: featureWriteCache | selectSupported}
	err := doNVMe(d, c)
	return c.Result&(1<<2) != 0, err
}

// SetWriteCacheNVMe sends Set Features 06h without SV: for now only, not across power cycles. Success
// says that the controller took the command, not that it obeyed: ask WriteCacheNVMe afterwards.
func SetWriteCacheNVMe(d NVMe, on bool) error {
	c := &NVMeCommand{Name: "Set Features 06h", Opcode: nvmeSetFeatures, CDW10: featureWriteCache}
	if on {
		c.CDW11 = 1
	}
	return doNVMe(d, c)
}

// FlushNVMe empties the namespace's write cache, whatever the kernel believes of it.
func FlushNVMe(d NVMe) error {
	return doNVMe(d, &NVMeCommand{Name: "Flush", IO: true, Opcode: nvmeFlush, NSID: d.Namespace()})
}

func doNVMe(d NVMe, c *NVMeCommand) error {
	if err := d.Do(c); err != nil {
		return err
	}
	return c.Err()
}

// Err says in words why the drive did not carry the command out; nil when it did.
func (c *NVMeCommand) Err() error {
	if c.Status == 0 {
		return nil
	}
	return &NVMeError{Command: c.Name, Status: c.Status}
}

// NVMeError is a command that the drive, or the path to it, did not carry out.
type NVMeError struct {
	Command string
	Status  uint16 // status code type and status code
}

func (e *NVMeError) Error() string {
	if what := nvmeStatus(e.Status); what != "" {
		return fmt.Sprintf("%s: %s (status %03xh)", e.Command, what, e.Status)
	}
	return fmt.Sprintf("%s: status %03xh", e.Command, e.Status)
}

// Refused says whether the drive turned the command down as one that it does not have, rather than
// failed at it.
func (e *NVMeError) Refused() bool {
	switch e.Status {
	case 0x001, 0x002, 0x015, 0x10d, 0x10e, 0x10f:
		return true
	}
	return false
}

// RefusedNVMe says whether an error is a drive's refusal.
func RefusedNVMe(err error) bool {
	var e *NVMeError
	return errors.As(err, &e) && e.Refused()
}

// nvmeStatus names the status codes that a write cache meets (NVMe 1.4, 4.6.1).
func nvmeStatus(status uint16) string {
	switch status {
	case 0x001:
		return "invalid command opcode"
	case 0x002:
		return "invalid field in the command"
	case 0x004:
		return "data transfer error"
	case 0x006:
		return "internal error"
	case 0x007:
		return "aborted by request"
	case 0x00b:
		return "invalid namespace or format"
	case 0x015:
		return "operation denied"
	case 0x01d:
		return "a sanitize operation is in progress"
	case 0x020:
		return "the namespace is write protected"
	case 0x10d:
		return "the feature cannot be saved"
	case 0x10e:
		return "the feature cannot be changed"
	case 0x10f:
		return "the feature is not the namespace's"
	case 0x370:
		return "the host gave up on the path"
	case 0x371:
		return "aborted by the host"
	}
	return ""
}
