package sgio

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// <linux/nvme_ioctl.h>: _IO('N', 0x40), _IOWR('N', 0x41 and 0x43, struct nvme_passthru_cmd).
const (
	nvmeIoctlID    = 0x4e40
	nvmeIoctlAdmin = 0xc0484e41
	nvmeIoctlIO    = 0xc0484e43

	nvmeStatusMask = 0x7ff // type and code, without the bits for retrying and for more
)

// passthrough is struct nvme_passthru_cmd of <linux/nvme_ioctl.h>. Its addr is 64 bits wide everywhere;
// an unsafe.Pointer, which the garbage collector knows for what it is, fits on 64-bit machines, the only
// ones that this program is made for.
type passthrough struct {
	opcode      uint8
	flags       uint8
	_           uint16
	nsid        uint32
	cdw2, cdw3  uint32
	metadata    uint64
	data        unsafe.Pointer
	metadataLen uint32
	dataLen     uint32
	cdw10       uint32
	cdw11       uint32
	cdw12       uint32
	cdw13       uint32
	cdw14       uint32
	cdw15       uint32
	timeoutMS   uint32
	result      uint32
}

type namespace struct {
	file *os.File
	id   uint32
}

// OpenNVMe opens a namespace's block node for commands, read-only for the reason that Open gives.
// ENOTTY: the node is of something else.
func OpenNVMe(path string) (NVMe, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s for NVMe commands: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	id, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), nvmeIoctlID, 0)
	runtime.KeepAlive(file)
	if errno != 0 {
		_ = file.Close()
		return nil, fmt.Errorf("ask %s for its namespace id: %w", path, errno)
	}
	return &namespace{file, uint32(id)}, nil
}

func (n *namespace) Close() error      { return n.file.Close() }
func (n *namespace) Namespace() uint32 { return n.id }

func (n *namespace) Do(c *NVMeCommand) error {
	p := &passthrough{opcode: c.Opcode, nsid: c.NSID, cdw10: c.CDW10, cdw11: c.CDW11}
	if len(c.Data) > 0 {
		p.data = unsafe.Pointer(&c.Data[0])
		p.dataLen = uint32(len(c.Data))
	}
	request := uintptr(nvmeIoctlAdmin)
	if c.IO {
		request = nvmeIoctlIO
	}
	// EINTR is not tried again: whether the command was carried out is not known then.
	status, _, errno := unix.Syscall(unix.SYS_IOCTL, n.file.Fd(), request, uintptr(unsafe.Pointer(p)))
	runtime.KeepAlive(n)
	runtime.KeepAlive(p)
	runtime.KeepAlive(c.Data)
	if errno != 0 {
		return fmt.Errorf("send %s to %s: %w", c.Name, n.file.Name(), errno)
	}
	c.Status, c.Result = uint16(status)&nvmeStatusMask, p.result
	return nil
}
