package sgio

import "unsafe"

// What <scsi/sg.h> calls SG_IO, SG_GET_SCSI_ID and the flags of a header.
const (
	IoctlIO     = 0x2285
	IoctlSCSIID = 0x2276
	InterfaceID = 'S'

	FlagDirectIO = 0x01 // no copy in the sg driver, where its parameter allow_dio is 1; else without effect
	FlagAtTail   = 0x10 // first come, first served; the sg driver's own default is last come
)

// Header is struct sg_io_hdr, version 3, of <scsi/sg.h>: what SG_IO takes, and what is written to and read
// from an sg node. Pointers are unsafe.Pointer so that the garbage collector knows them for what they are.
type Header struct {
	InterfaceID  int32
	Direction    Direction
	CmdLen       uint8
	MaxSenseLen  uint8
	IOVecCount   uint16
	DataLen      uint32
	Data         unsafe.Pointer
	Cmd          unsafe.Pointer
	Sense        unsafe.Pointer
	TimeoutMS    uint32
	Flags        uint32
	PackID       int32
	UserPtr      unsafe.Pointer
	Status       uint8
	MaskedStatus uint8
	MsgStatus    uint8
	SenseLen     uint8
	HostStatus   uint16
	DriverStatus uint16
	Residual     int32
	DurationMS   uint32
	Information  uint32
}

// Clean says that the command was carried out and nobody has anything to say about it.
func (h *Header) Clean() bool {
	return h.Status == 0 && h.HostStatus == 0 && h.DriverStatus&^driverSense == 0
}

// Answer puts what came back into the command; sense is what the header's Sense points to.
func (h *Header) Answer(c *Command, sense []byte) {
	c.Status, c.HostStatus, c.DriverStatus, c.Residual = h.Status, h.HostStatus, h.DriverStatus, int(h.Residual)
	c.Sense = nil
	if h.SenseLen > 0 {
		c.Sense = sense[:min(int(h.SenseLen), len(sense))]
	}
}
