package sysfs

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// KernelLog reads what the kernel logs from a moment on (Documentation/ABI/testing/dev-kmsg). It is for one goroutine.
type KernelLog struct {
	fd   int
	buf  []byte
	rest []byte // of a plain file: a line that is not whole yet
}

// kernelLogBurst bounds what one call of Messages gives: a driver in a loop can log faster than anybody reads.
const kernelLogBurst = 10_000

// WatchKernel begins to read /dev/kmsg behind its last message. It needs root where the kernel restricts dmesg; in a container there is
// often no such node.
func (h Host) WatchKernel() (*KernelLog, error) {
	fd, err := openRetry(h.path("/dev/kmsg"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open /dev/kmsg, the kernel's log: %w", err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("go to the end of /dev/kmsg, the kernel's log: %w", err)
	}
	// A record is at most 8192 bytes (CONSOLE_EXT_LOG_MAX); a read with less room than it has is EINVAL.
	return &KernelLog{fd: fd, buf: make([]byte, 16<<10)}, nil
}

// Messages gives what the kernel itself has logged since the last call, in order, each without its head. What programs wrote into the
// log is left out: it says nothing of a drive. lost tells that the kernel overwrote messages before they were read.
func (l *KernelLog) Messages() (texts []string, lost bool) {
	for range kernelLogBurst {
		n, err := unix.Read(l.fd, l.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EPIPE): // the next read gives the oldest that is left
			lost = true
			continue
		case err != nil || n <= 0: // EAGAIN: there is nothing yet
			return texts, lost
		}
		l.rest = append(l.rest, l.buf[:n]...)
		whole := bytes.LastIndexByte(l.rest, '\n') + 1
		texts = append(texts, parseKernelLog(string(l.rest[:whole]))...)
		l.rest = append(l.rest[:0], l.rest[whole:]...)
		if len(l.rest) > len(l.buf) { // no record is that long
			l.rest, lost = l.rest[:0], true
		}
	}
	return texts, lost
}

// Close closes the log.
func (l *KernelLog) Close() error {
	if l.fd < 0 {
		return nil
	}
	err := unix.Close(l.fd)
	l.fd = -1
	return err
}

// parseKernelLog reads records: "priority,sequence,microseconds,flags[,…];text", each followed by lines " KEY=value" that belong to it.
// The low three bits of the priority are the level, the others who wrote it: 0 the kernel. Anything else is left out.
func parseKernelLog(records string) (texts []string) {
	for _, line := range strings.Split(records, "\n") {
		head, text, ok := strings.Cut(line, ";")
		if !ok || strings.HasPrefix(line, " ") {
			continue
		}
		priority, _, ok := strings.Cut(head, ",")
		if n, err := strconv.ParseUint(priority, 10, 32); !ok || err != nil || n>>3 != 0 {
			continue
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}
