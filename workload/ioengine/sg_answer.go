package ioengine

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

// Explain says why the operation that completed last in a slot failed, in the drive's words; over says that the
// kernel refused it for being larger than the device takes.
func (e *sg) Explain(slot uint32) (words string, over bool) {
	s := &e.slots[slot]
	return s.words, s.over
}

// result is what came of a command that was carried out, or not: bytes, or an errno, negated. again asks for
// another try: the first command after a reset, or a mode change by somebody else, is answered with that news.
func (e *sg) result(s *sgSlot, h *sgio.Header) (result int32, again bool) {
	moved := int32(h.DataLen) - min(max(h.Residual, 0), int32(h.DataLen))
	if h.Clean() {
		return moved, false
	}
	c := sgio.Command{Name: sgio.TransferName(s.cdb[:])}
	h.Answer(&c, s.sense[:])
	err := c.Err()
	var sense *sgio.SenseError
	if !errors.As(err, &sense) {
		return moved, false // recovered errors are success
	}
	if s.tries++; sense.HasSense && sense.Sense.Key == sgio.KeyUnitAttention && s.tries < sgTries {
		return 0, true
	}
	s.words = err.Error()
	if e.Through && sense.Illegal() && h.Direction == sgio.ToDevice {
		s.words += "; it was asked to write through its cache (FUA, sync: dsync), which this drive may not have"
	}
	return -int32(errnoOf(sense)), false
}

// errnoOf is the errno that the block layer has for the same answer (blk_errors in block/blk-core.c,
// scsi_result_to_blk_status in drivers/scsi/scsi_lib.c), so that an error is called the same with every engine.
func errnoOf(e *sgio.SenseError) syscall.Errno {
	const (
		noConnect, timedOut = 0x01, 0x03
		transportDisrupted  = 0x0e
		transportFailedFast = 0x0f
		reserved            = 0x18
	)
	switch {
	case e.HostStatus == noConnect, e.HostStatus == transportDisrupted, e.HostStatus == transportFailedFast:
		return unix.ENOLINK
	case e.HostStatus == timedOut:
		return unix.ETIMEDOUT
	case e.Status == reserved:
		return unix.EBADE
	case e.HostStatus == 0 && e.HasSense && e.Sense.Key == sgio.KeyMedium:
		return unix.ENODATA
	case e.HostStatus == 0 && e.Illegal():
		return unix.EREMOTEIO
	}
	return unix.EIO
}

// refused is the result of a command that the kernel did not take. None of these is the drive's: what the drive has
// to say comes with a header.
func (e *sg) refused(s *sgSlot, errno syscall.Errno) int32 {
	switch errno {
	case unix.EIO, unix.EINVAL, unix.ENOMEM:
		s.over = e.Limit > 0 && int64(s.header.DataLen) > e.Limit
	}
	switch {
	case s.over:
		s.words = fmt.Sprintf("the kernel refuses a record of %d bytes; the device takes %d", s.header.DataLen, e.Limit)
	case errno == unix.ENOMEM:
		s.words = "the kernel has no memory for the command"
	case errno == unix.EDOM:
		s.words = fmt.Sprintf("the sg node's queue of %d commands is full", SGQueue)
	case errno == unix.EAGAIN:
		s.words = "the sg node takes no further command now"
	case errno == unix.EINVAL:
		s.words = "the kernel cannot make one command of the record: its memory may be in more pieces than max_segments"
	}
	return -int32(errno)
}
