package sgio

import (
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sgIO            = 0x2285 // <scsi/sg.h>
	interfaceID     = 'S'
	senseBufferSize = 64
)

// header is struct sg_io_hdr, version 3, of <scsi/sg.h>. Pointers are unsafe.Pointer so that the
// garbage collector knows them for what they are.
type header struct {
	interfaceID  int32
	direction    int32
	cmdLen       uint8
	maxSenseLen  uint8
	iovecCount   uint16
	dataLen      uint32
	data         unsafe.Pointer
	cmd          unsafe.Pointer
	sense        unsafe.Pointer
	timeoutMS    uint32
	flags        uint32
	packID       int32
	userPtr      unsafe.Pointer
	status       uint8
	maskedStatus uint8
	msgStatus    uint8
	senseLen     uint8
	hostStatus   uint16
	driverStatus uint16
	residual     int32
	durationMS   uint32
	information  uint32
}

type node struct{ file *os.File }

// Open opens a block or sg node for commands. It opens read-only: closing a disk that was open for
// writing makes udev probe it again, which on old kernels resets max_sectors_kb. SG_IO lets a
// privileged process send any command through a read-only descriptor.
func Open(path string) (Device, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s for SG_IO: %w", path, err)
	}
	return &node{os.NewFile(uintptr(fd), path)}, nil
}

func (n *node) Close() error { return n.file.Close() }

func (n *node) Do(c *Command) error {
	if len(c.CDB) < 6 || len(c.CDB) > 16 {
		return fmt.Errorf("%s: a command of %d bytes", c.Name, len(c.CDB))
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	sense := make([]byte, senseBufferSize)
	cdb := append([]byte(nil), c.CDB...)
	h := &header{
		interfaceID: interfaceID,
		direction:   int32(NoData),
		cmdLen:      uint8(len(cdb)),
		maxSenseLen: senseBufferSize,
		cmd:         unsafe.Pointer(&cdb[0]),
		sense:       unsafe.Pointer(&sense[0]),
		timeoutMS:   uint32((timeout + time.Millisecond - 1) / time.Millisecond),
	}
	if len(c.Data) > 0 {
		h.direction = int32(c.Direction)
		h.dataLen = uint32(len(c.Data))
		h.data = unsafe.Pointer(&c.Data[0])
	}
	fd := n.file.Fd()
	var errno unix.Errno
	for {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, sgIO, uintptr(unsafe.Pointer(h)))
		// EINTR comes before the command was queued: the kernel waits uninterruptibly after.
		if errno != unix.EINTR {
			break
		}
	}
	runtime.KeepAlive(n)
	runtime.KeepAlive(h)
	runtime.KeepAlive(cdb)
	runtime.KeepAlive(sense)
	runtime.KeepAlive(c.Data)
	if errno != 0 {
		return fmt.Errorf("send %s to %s: %w", c.Name, n.file.Name(), errno)
	}
	c.Status, c.HostStatus, c.DriverStatus = h.status, h.hostStatus, h.driverStatus
	c.Residual = int(h.residual)
	c.Sense = nil
	if h.senseLen > 0 {
		c.Sense = sense[:min(int(h.senseLen), len(sense))]
	}
	return nil
}
