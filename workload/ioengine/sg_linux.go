package ioengine

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs/sgio"
)

// sgLinux is the running kernel, by raw system calls: the thread keeps its P while it waits.
type sgLinux struct{}

const sgHeaderSize = unsafe.Sizeof(sgio.Header{})

func (sgLinux) do(fd int, h *sgio.Header) syscall.Errno {
	return again(unix.SYS_IOCTL, fd, sgio.IoctlIO, uintptr(unsafe.Pointer(h)))
}

func (sgLinux) submit(node int, h *sgio.Header) syscall.Errno {
	return again(unix.SYS_WRITE, node, uintptr(unsafe.Pointer(h)), sgHeaderSize)
}

func (sgLinux) take(node int, h *sgio.Header) syscall.Errno {
	return again(unix.SYS_READ, node, uintptr(unsafe.Pointer(h)), sgHeaderSize)
}

// again does a system call until no signal comes in between; a command that was interrupted was not yet sent.
//
//go:uintptrescapes
func again(call uintptr, fd int, a, b uintptr) syscall.Errno {
	for {
		_, _, errno := syscall.RawSyscall(call, uintptr(fd), a, b)
		if errno != unix.EINTR {
			return errno
		}
	}
}

func (sgLinux) poll(nodes []unix.PollFd, wait bool) syscall.Errno {
	var limit unix.Timespec
	until := &limit
	if wait {
		until = nil
	}
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&nodes[0])), uintptr(len(nodes)), uintptr(unsafe.Pointer(until)), 0, 0, 0)
		if errno != unix.EINTR {
			return errno
		}
	}
}

func (sgLinux) readOnly(fd int) (bool, syscall.Errno) {
	var set int32
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKROGET, uintptr(unsafe.Pointer(&set)))
	return set != 0, errno
}

func (sgLinux) covers(fd int) (start, bytes int64, errno syscall.Errno) {
	const getGeometry = 0x0301 // HDIO_GETGEO of <linux/hdreg.h>: of a partition too, and its begin is in sectors of 512 bytes
	var geometry struct {
		_     [4]byte // heads, sectors and cylinders that no drive has
		start uintptr
	}
	var size uint64
	if _, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), getGeometry, uintptr(unsafe.Pointer(&geometry))); errno == 0 {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&size)))
	}
	return int64(geometry.start) * 512, int64(size), errno
}

// sgAddress is host, channel, target and LUN, the last three as far as SCSI_IOCTL_GET_IDLUN tells them: a byte each.
type sgAddress [4]int

func (a sgAddress) String() string { return fmt.Sprintf("%d:%d:%d:%d", a[0], a[1], a[2], a[3]) }

// address asks what a descriptor leads to: of an sg node SG_GET_SCSI_ID, of a block node what sd answers.
func (sgLinux) address(fd int, node bool) (sgAddress, syscall.Errno) {
	const getIDLUN, getBusNumber = 0x5382, 0x5386 // <scsi/scsi.h>
	ask := func(request uintptr, answer unsafe.Pointer) syscall.Errno {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(answer))
		return errno
	}
	if node {
		var id [16]int32 // struct sg_scsi_id has 32 bytes
		errno := ask(sgio.IoctlSCSIID, unsafe.Pointer(&id))
		runtime.KeepAlive(&id)
		return sgAddress{int(id[0]), int(id[1]) & 0xff, int(id[2]) & 0xff, int(id[3]) & 0xff}, errno
	}
	var host int32
	var id [2]uint32
	if errno := ask(getBusNumber, unsafe.Pointer(&host)); errno != 0 {
		return sgAddress{}, errno
	}
	errno := ask(getIDLUN, unsafe.Pointer(&id))
	return sgAddress{int(host), int(id[0]>>16) & 0xff, int(id[0]) & 0xff, int(id[0]>>8) & 0xff}, errno
}

// sameDisk makes sure that an sg node is of the very disk whose block node is driven: it takes no part in any claim,
// and a name may have gone to another drive.
func sameDisk(kernel sgKernel, block, node int) error {
	disk, errno := kernel.address(block, false)
	if errno != 0 {
		return fmt.Errorf("ask the block node for its SCSI address: %w", errno)
	}
	generic, errno := kernel.address(node, true)
	if errno != 0 {
		return fmt.Errorf("ask the sg node for its SCSI address: %w", errno)
	}
	if disk != generic {
		return fmt.Errorf("the sg node is that of SCSI device %s, and the disk is %s", generic, disk)
	}
	return nil
}
