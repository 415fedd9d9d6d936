package sgio

import (
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const senseBufferSize = 64

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
	h := &Header{
		InterfaceID: InterfaceID,
		Direction:   NoData,
		CmdLen:      uint8(len(cdb)),
		MaxSenseLen: senseBufferSize,
		Cmd:         unsafe.Pointer(&cdb[0]),
		Sense:       unsafe.Pointer(&sense[0]),
		TimeoutMS:   uint32((timeout + time.Millisecond - 1) / time.Millisecond),
	}
	if len(c.Data) > 0 {
		h.Direction = c.Direction
		h.DataLen = uint32(len(c.Data))
		h.Data = unsafe.Pointer(&c.Data[0])
	}
	fd := n.file.Fd()
	var errno unix.Errno
	for {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, IoctlIO, uintptr(unsafe.Pointer(h)))
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
	h.Answer(c, sense)
	return nil
}
