package workload

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// gone says whether a device that gave an error is there no more. What was in flight when a drive was
// pulled ends with EIO, as a bad sector's read does, so the device itself is asked: it opens no more, or
// has no size any more.
func (t Target) gone(errno syscall.Errno) bool {
	if t.File == nil || errno == 0 {
		return false
	}
	f, err := t.open("", unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		e := errnoOf(err)
		return e == unix.ENXIO || e == unix.ENODEV
	}
	defer f.Close()
	bytes, err := deviceBytes(int(f.Fd()))
	if err != nil {
		return false // not a block device
	}
	// ENOSPC inside what was the device is how a removed one answers a write.
	return bytes == 0 || errno == unix.ENOSPC
}

func deviceBytes(fd int) (int64, error) {
	var bytes uint64
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&bytes))); errno != 0 {
		return 0, errno
	}
	return int64(bytes), nil
}
