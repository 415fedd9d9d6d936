package tcmu

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qdsweep/cmd/qdlab/drive/scsi"
)

// kernel plays the other side of the ring, as drivers/target/target_core_user.c does.
type kernel struct {
	memory  []byte
	head    uint32
	cleaned uint32
	next    uint16
	sent    map[uint16][]byte // its CDB
	areas   map[uint16][]area
	free    []uint64 // data blocks
}

const (
	testStart = 128
	testSize  = 1024
	testBlock = 64
)

func newKernel(blocks int) *kernel {
	k := &kernel{memory: make([]byte, testStart+testSize+blocks*testBlock), sent: map[uint16][]byte{}, areas: map[uint16][]area{}}
	little := binary.LittleEndian
	little.PutUint16(k.memory, 2)
	little.PutUint16(k.memory[2:], 7)
	little.PutUint32(k.memory[4:], testStart)
	little.PutUint32(k.memory[8:], testSize)
	for i := range blocks {
		k.free = append(k.free, testStart+testSize+uint64(i)*testBlock)
	}
	return k
}

// send queues a command with so many pieces of data; false where there is no room.
func (k *kernel) send(operation byte, pieces int, rest ...byte) (id uint16, ok bool) {
	little := binary.LittleEndian
	length := uint32(max(entryIOV+16*pieces, answerEnd)+16+7) &^ 7
	room := func(n uint32) bool { return (k.cleaned+testSize-k.head-1)%testSize >= n }
	if pieces > len(k.free) {
		return 0, false
	}
	if k.head+length > testSize {
		pad := testSize - k.head
		if !room(pad + length) {
			return 0, false
		}
		little.PutUint32(k.memory[testStart+k.head:], pad)
		k.head = 0
	} else if !room(length) {
		return 0, false
	}
	entry := k.memory[testStart+k.head : testStart+k.head+length]
	clear(entry)
	k.next++
	id = k.next
	little.PutUint32(entry, length|operationTask)
	little.PutUint16(entry[entryID:], id)
	little.PutUint32(entry[entryIOVs:], uint32(pieces))
	for i := range pieces {
		a := area{k.free[0], testBlock}
		k.free, k.areas[id] = k.free[1:], append(k.areas[id], a)
		little.PutUint64(entry[entryIOV+16*i:], a.offset)
		little.PutUint64(entry[entryIOV+16*i+8:], a.length)
		for j := range uint64(testBlock) {
			k.memory[a.offset+j] = byte(id) + byte(i)
		}
	}
	cdb := k.head + length - 16
	little.PutUint64(entry[entryCDB:], uint64(testStart+cdb))
	entry[length-16], entry[length-1] = operation, byte(id)
	copy(entry[length-15:], rest)
	k.sent[id] = append([]byte(nil), entry[length-16:]...)
	k.head = (k.head + length) % testSize
	atomic.StoreUint32(k.word(offsetHead), k.head)
	return id, true
}

func (k *kernel) word(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&k.memory[offset])) }

// collect gives the answers up to the tail: status and first byte of sense by id.
func (k *kernel) collect(t require.TestingT) map[uint16][2]byte {
	little := binary.LittleEndian
	found := map[uint16][2]byte{}
	tail := atomic.LoadUint32(k.word(offsetTail))
	for k.cleaned != tail {
		entry := k.memory[testStart+k.cleaned:]
		length := little.Uint32(entry) &^ operationMask
		require.NotZero(t, length)
		if little.Uint32(entry)&operationMask == operationTask {
			id := little.Uint16(entry[entryID:])
			require.Contains(t, k.sent, id, "answered twice, or never asked")
			found[id] = [2]byte{entry[answerStatus], entry[answerSense]}
			delete(k.sent, id)
			for _, a := range k.areas[id] {
				k.free = append(k.free, a.offset)
			}
		}
		k.cleaned = (k.cleaned + length) % testSize
	}
	return found
}

// Whatever is asked and in whatever order it is answered, each command gets its own answer, once.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKernel(64)
		r, err := openRing(k.memory)
		require.NoError(t, err)
		var waiting []*scsi.Task
		expect := map[uint16]byte{}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				operation := rapid.SampledFrom([]byte{0x28, 0x2a, 0x00}).Draw(t, "operation")
				k.send(operation, rapid.IntRange(0, 6).Draw(t, "pieces"))
			},
			"take": func(t *rapid.T) {
				task, err := r.next()
				require.NoError(t, err)
				if task == nil {
					require.Equal(t, r.read, binary.LittleEndian.Uint32(k.memory[offsetHead:]))
					return
				}
				require.Equal(t, k.sent[task.ID], task.CDB)
				if task.CDB[0] == 0x2a {
					var want []byte
					for i := range k.areas[task.ID] {
						want = append(want, bytes.Repeat([]byte{byte(task.ID) + byte(i)}, testBlock)...)
					}
					require.Equal(t, want, task.Out)
				} else {
					require.Nil(t, task.Out)
				}
				waiting = append(waiting, task)
			},
			"answer": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("none waits")
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
				task := waiting[i]
				waiting = append(waiting[:i], waiting[i+1:]...)
				task.Status = scsi.Status(rapid.SampledFrom([]byte{0, 2, 0x28}).Draw(t, "status"))
				task.Sense = []byte{byte(task.ID)}
				task.In = bytes.Repeat([]byte{0xee}, testBlock+1)
				expect[task.ID] = byte(task.Status)
				areas := k.areas[task.ID]
				r.answer(task)
				for j, a := range areas {
					want := make([]byte, testBlock)
					switch {
					case task.CDB[0] == 0x2a:
						want = bytes.Repeat([]byte{byte(task.ID) + byte(j)}, testBlock)
					case j == 0:
						want = bytes.Repeat([]byte{0xee}, testBlock)
					case j == 1:
						want[0] = 0xee
					}
					require.Equal(t, want, k.memory[a.offset:a.offset+a.length], "piece %d", j)
				}
			},
			"collect": func(t *rapid.T) {
				for id, got := range k.collect(t) {
					require.Equal(t, [2]byte{expect[id], byte(id)}, got)
					delete(expect, id)
				}
				require.Empty(t, expect, "answered, and not seen")
			},
		})
	})
}

func TestARingOfPaddingAlone(t *testing.T) {
	k := newKernel(1)
	r, err := openRing(k.memory)
	require.NoError(t, err)
	binary.LittleEndian.PutUint32(k.memory[testStart:], 64)
	binary.LittleEndian.PutUint32(k.memory[offsetHead:], 64)
	task, err := r.next()
	require.NoError(t, err)
	require.Nil(t, task)
	r.skip()
	assert.Empty(t, k.collect(t))
	assert.Equal(t, uint32(64), k.cleaned, "the kernel has the room again")
}

func TestOpenRingRefuses(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"version":  func(m []byte) []byte { m[0] = 1; return m },
		"in order": func(m []byte) []byte { m[2] = 0; return m },
		"size":     func(m []byte) []byte { m[11] = 0xff; return m },
		"short":    func(m []byte) []byte { return m[:64] },
	} {
		_, err := openRing(change(newKernel(1).memory))
		require.ErrorIs(t, err, errRing, name)
	}
}
