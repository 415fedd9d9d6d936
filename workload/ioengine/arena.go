package ioengine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	page     = 4096
	hugePage = 2 << 20
	large    = 128 * page // of an arena: from here on it is worth whole huge pages
)

// Arena is the buffers of one engine, a slot an operation, outside the Go heap: the kernel holds their
// addresses, and pages that are there before the clock starts cost nothing inside it.
//
// Large arenas are in huge pages, whole ones also where they fill only a part of one. It is not only for speed
// (a direct read of 1 MiB pins one page instead of 256: 9 us of CPU time instead of 31): a request takes at most
// max_segments separate pieces of memory (168 on AHCI), so scattered 4 KiB pages would cap it far below max_sectors_kb.
type Arena struct {
	mapping []byte
	memory  []byte
	slots   int
	block   int
	stride  int
}

// NewArena makes slots buffers of block bytes each, page-aligned and resident.
func NewArena(slots, block int) (*Arena, error) {
	stride := (block + page - 1) &^ (page - 1)
	bytes := slots * stride
	room := bytes
	if bytes >= large {
		room = (bytes+hugePage-1)&^(hugePage-1) + hugePage // the last one whole, and room to begin at a boundary
	}
	mapping, err := unix.Mmap(-1, 0, room, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d buffers of %d bytes: %w", slots, block, err)
	}
	a := &Arena{mapping: mapping, memory: mapping[:bytes], slots: slots, block: block, stride: stride}
	if bytes >= large {
		skip := int(-uintptr(unsafe.Pointer(&mapping[0])) & (hugePage - 1))
		a.memory = mapping[skip : skip+bytes]
		_ = unix.Madvise(mapping, unix.MADV_HUGEPAGE) // a kernel without them is only slower
	}
	for i := 0; i < bytes; i += page {
		a.memory[i] = 0
	}
	return a, nil
}

// Buffer is the memory of one slot, block bytes.
func (a *Arena) Buffer(slot uint32) []byte {
	at := int(slot) * a.stride
	return a.memory[at : at+a.block : at+a.block]
}

// Slots is the number of buffers.
func (a *Arena) Slots() int { return a.slots }

func (a *Arena) at(slot uint32) unsafe.Pointer { return unsafe.Pointer(&a.memory[int(slot)*a.stride]) }

// Close gives the memory back. Nothing may be in flight.
func (a *Arena) Close() error { return unix.Munmap(a.mapping) }
