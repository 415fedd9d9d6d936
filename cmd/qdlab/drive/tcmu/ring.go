package tcmu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"qdsweep/cmd/qdlab/drive/scsi"
)

// The layout of linux/target_core_user.h, version 2: a mailbox, behind it a ring of commands, and an area with their
// data. All offsets are from the mailbox on; numbers are the machine's own (little endian: the lab is amd64).
const (
	mailboxVersion  = 2
	offsetVersion   = 0  // u16
	offsetFlags     = 2  // u16
	offsetRing      = 4  // u32: cmdr_off
	offsetRingSize  = 8  // u32: cmdr_size
	offsetHead      = 12 // u32: where the kernel writes next
	offsetTail      = 64 // u32: how far commands have been answered; ours to write
	flagAnyOrder    = 1  // TCMU_MAILBOX_FLAG_CAP_OOOC: answers may come in any order
	entryID         = 4  // u16: cmd_id
	entryUserFlags  = 7  // u8: TCMU_UFLAG_…
	entryIOVs       = 8  // u32: iov_cnt
	entryCDB        = 24 // u64: cdb_off
	entryIOV        = 48 // struct iovec[]
	answerStatus    = 8  // u8: scsi_status
	answerSense     = 16 // u8[96]
	answerEnd       = 112
	operationMask   = 7 // the low bits of an entry's length
	operationTask   = 1
	longestCDB      = 16
	senseBufferSize = 96
)

// ring is the memory that is shared with the kernel.
type ring struct {
	memory []byte
	start  uint32 // of the ring
	size   uint32
	read   uint32 // how far commands have been taken off
	taken  map[uint16][]area
}

// area is a piece of a command's data.
type area struct{ offset, length uint64 }

var errRing = errors.New("not the ring that is expected")

func openRing(memory []byte) (*ring, error) {
	little := binary.LittleEndian
	if len(memory) < offsetTail+4 {
		return nil, fmt.Errorf("%w: %d bytes", errRing, len(memory))
	}
	version, flags := little.Uint16(memory[offsetVersion:]), little.Uint16(memory[offsetFlags:])
	if version != mailboxVersion || flags&flagAnyOrder == 0 {
		return nil, fmt.Errorf("%w: version %d, flags %#x", errRing, version, flags)
	}
	r := &ring{memory: memory, start: little.Uint32(memory[offsetRing:]), size: little.Uint32(memory[offsetRingSize:]), taken: map[uint16][]area{}}
	if uint64(r.start)+uint64(r.size) > uint64(len(memory)) || r.size == 0 {
		return nil, fmt.Errorf("%w: %d bytes at %d, of %d", errRing, r.size, r.start, len(memory))
	}
	r.read = r.load(offsetTail)
	return r, nil
}

func (r *ring) load(offset uint32) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.memory[offset])))
}

func (r *ring) store(offset, value uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.memory[offset])), value)
}

// entry is the one at a place of the ring.
func (r *ring) entry(at uint32) (entry []byte, operation, length uint32) {
	head := r.load(r.start + at)
	length = head &^ operationMask
	return r.memory[r.start+at : min(r.start+at+max(length, 8), r.start+r.size)], head & operationMask, length
}

// next takes a command off the ring; nil if there is none. Its data are copied: the kernel may use the entry again
// as soon as another command has been answered in it.
func (r *ring) next() (*scsi.Task, error) {
	for r.read != r.load(offsetHead) {
		entry, operation, length := r.entry(r.read)
		if length == 0 {
			return nil, fmt.Errorf("%w: an entry of no length at %d", errRing, r.read)
		}
		r.read = (r.read + length) % r.size
		if operation != operationTask {
			continue
		}
		return r.task(entry)
	}
	return nil, nil
}

func (r *ring) task(entry []byte) (*scsi.Task, error) {
	little := binary.LittleEndian
	task := &scsi.Task{ID: little.Uint16(entry[entryID:])}
	cdb := little.Uint64(entry[entryCDB:])
	if cdb+longestCDB > uint64(len(r.memory)) {
		return nil, fmt.Errorf("%w: a CDB at %d", errRing, cdb)
	}
	task.CDB = append([]byte(nil), r.memory[cdb:cdb+longestCDB]...)
	var areas []area
	for i := range little.Uint32(entry[entryIOVs:]) {
		at := entryIOV + 16*i
		if int(at)+16 > len(entry) {
			return nil, fmt.Errorf("%w: %d pieces of data in an entry of %d bytes", errRing, i+1, len(entry))
		}
		a := area{little.Uint64(entry[at:]), little.Uint64(entry[at+8:])}
		if a.offset+a.length > uint64(len(r.memory)) {
			return nil, fmt.Errorf("%w: data at %d, %d bytes", errRing, a.offset, a.length)
		}
		areas = append(areas, a)
	}
	r.taken[task.ID] = areas
	if sends(task.CDB[0]) {
		for _, a := range areas {
			task.Out = append(task.Out, r.memory[a.offset:a.offset+a.length]...)
		}
	}
	return task, nil
}

// sends: the host sends data with it. The kernel does not say which way they go.
func sends(operation byte) bool {
	switch operation {
	case 0x0a, 0x2a, 0x8a, 0x15, 0x55: // WRITE, MODE SELECT
		return true
	}
	return false
}

// answer gives a command back, in the entry that is next: not its own, where others were faster.
func (r *ring) answer(task *scsi.Task) {
	areas := r.taken[task.ID]
	delete(r.taken, task.ID)
	if !sends(task.CDB[0]) {
		in := task.In
		for _, a := range areas {
			to := r.memory[a.offset : a.offset+a.length]
			n := copy(to, in)
			clear(to[n:])
			in = in[n:]
		}
	}
	at := r.load(offsetTail)
	entry, operation, length := r.entry(at)
	for operation != operationTask {
		at = (at + length) % r.size
		entry, operation, length = r.entry(at)
	}
	binary.LittleEndian.PutUint16(entry[entryID:], task.ID)
	entry[entryUserFlags] = 0
	clear(entry[answerStatus:answerEnd])
	entry[answerStatus] = byte(task.Status)
	copy(entry[answerSense:answerSense+senseBufferSize], task.Sense)
	r.store(offsetTail, (at+length)%r.size)
}

// skip answers what needs no answer, once nothing else is waited for.
func (r *ring) skip() {
	for at := r.load(offsetTail); at != r.read; at = r.load(offsetTail) {
		_, operation, length := r.entry(at)
		if operation == operationTask {
			return
		}
		r.store(offsetTail, (at+length)%r.size)
	}
}
