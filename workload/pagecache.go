package workload

import (
	"errors"
	"io"
	"math/bits"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cached is how many bytes of a file, or a device, the page cache holds.
func cached(f *os.File) (int64, error) {
	bytes, err := cachestat(f)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
		return mincore(f)
	}
	return bytes, err
}

// cachestat is the system call of that name, of kernels from 6.5 on: it looks only at what is there.
func cachestat(f *os.File) (int64, error) {
	const number = 451 // on every architecture
	var (
		whole struct{ offset, length uint64 } // length 0: to the end
		found struct{ cached, dirty, writeback, evicted, recentlyEvicted uint64 }
	)
	_, _, errno := syscall.Syscall6(number, f.Fd(), uintptr(unsafe.Pointer(&whole)), uintptr(unsafe.Pointer(&found)), 0, 0, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("cachestat", errno)
	}
	return int64(found.cached) * int64(os.Getpagesize()), nil
}

const (
	chunk      = int64(1) << 30
	mostChunks = 256 // about 5 s where every page has to be looked for
)

// mincore asks page by page, through a mapping. Of files above 256 GiB it looks at so many chunks of 1 GiB, evenly spread, and
// takes them for the whole.
func mincore(f *os.File) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return 0, err
	}
	chunks := (size + chunk - 1) / chunk
	look := min(chunks, mostChunks)
	page := int64(os.Getpagesize())
	state := make([]byte, min(chunk, size+page-1)/page+1)
	var pages, seen int64
	for i := range look {
		at := int64(mulDiv(uint64(i), uint64(chunks), uint64(look))) * chunk
		length := min(chunk, size-at)
		n, err := mincoreOf(f, at, length, state[:(length+page-1)/page])
		if err != nil {
			return 0, err
		}
		pages += n
		seen += length
	}
	return int64(mulDiv(uint64(pages*page), uint64(size), uint64(seen))), nil
}

func mincoreOf(f *os.File, at, length int64, state []byte) (pages int64, err error) {
	m, err := unix.Mmap(int(f.Fd()), at, int(length), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	defer func() { _ = unix.Munmap(m) }()
	if _, _, errno := syscall.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(length), uintptr(unsafe.Pointer(&state[0]))); errno != 0 {
		return 0, os.NewSyscallError("mincore", errno)
	}
	for _, s := range state {
		pages += int64(s & 1)
	}
	return pages, nil
}

// mulDiv is a × b ÷ c, for products beyond 64 bits.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	q, _ := bits.Div64(hi, lo, c)
	return q
}
