package ioengine

import "unsafe"

// The ABI of include/uapi/linux/io_uring.h.
const (
	uringOffSQRing = 0
	uringOffSQEs   = 0x10000000

	uringSetupCoopTaskrun  = 1 << 8  // 5.19
	uringSetupSingleIssuer = 1 << 12 // 6.0
	uringSetupDeferTaskrun = 1 << 13 // 6.1

	uringFeatSingleMmap = 1 << 0 // 5.4

	uringEnterGetEvents      = 1 << 0
	uringEnterRegisteredRing = 1 << 4

	uringRegisterBuffers   = 0
	uringRegisterFiles     = 2
	uringRegisterRingFDs   = 20 // 5.18
	uringUnregisterRingFDs = 21

	uringOpReadFixed  = 4
	uringOpWriteFixed = 5
	uringOpRead       = 22 // 5.6
	uringOpWrite      = 23

	uringSQEFixedFile = 1 << 0
)

type uringSQOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, resv1 uint32
	userAddr                                                        uint64
}

type uringCQOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, resv1 uint32
	userAddr                                                        uint64
}

type uringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	resv                                                                   [3]uint32
	sqOff                                                                  uringSQOffsets
	cqOff                                                                  uringCQOffsets
}

type uringSQE struct {
	opcode      uint8
	flags       uint8
	ioprio      uint16
	fd          int32
	offset      uint64
	addr        unsafe.Pointer
	length      uint32
	rwFlags     uint32
	userData    uint64
	bufIndex    uint16
	personality uint16
	spliceFD    int32
	addr3       uint64
	pad         uint64
}

type uringCQE struct {
	userData uint64
	result   int32
	flags    uint32
}

type uringRSrcUpdate struct {
	offset uint32
	resv   uint32
	data   uint64
}
