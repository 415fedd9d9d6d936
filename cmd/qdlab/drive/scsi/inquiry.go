package scsi

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"

	"qdsweep/cmd/qdlab/drive"
)

// inquiry is the standard data, or with EVPD a page of vital product data (SPC-4, 6.4 and 7.8; SBC-3, 6.5).
func (t *Target) inquiry(task *Task) (*drive.Command, error) {
	allowed := int(binary.BigEndian.Uint16(task.CDB[3:]))
	if task.CDB[1]&1 == 0 {
		if task.CDB[2] != 0 {
			return nil, senseField
		}
		task.answer(t.standardInquiry(), allowed)
		return nil, nil
	}
	pages := t.vitalPages()
	page, is := pages[task.CDB[2]]
	if !is {
		return nil, senseField
	}
	data := append([]byte{0, task.CDB[2], byte(len(page) >> 8), byte(len(page))}, page...)
	task.answer(data, allowed)
	return nil, nil
}

// standardInquiry: a disk that queues commands (CMDQUE), SPC-4.
func (t *Target) standardInquiry() []byte {
	data := make([]byte, 36)
	copy(data, []byte{0, 0, 6, 2, 36 - 5, 0, 0, 0x02})
	copy(data[8:], fmt.Sprintf("%-8s%-16s%-4s", t.model.Vendor, t.model.Product, "1"))
	return data
}

// vitalPages are the pages by their codes, without the header of four bytes.
func (t *Target) vitalPages() map[byte][]byte {
	pages := map[byte][]byte{0xb0: t.blockLimits(), 0xb1: t.characteristics()}
	list := []byte{0x00, 0xb0, 0xb1}
	if !t.model.Quirks.NoSerial {
		pages[0x80] = []byte(t.identity.Serial)
		pages[0x83] = t.designators()
		list = []byte{0x00, 0x80, 0x83, 0xb0, 0xb1}
	}
	pages[0x00] = list
	return pages
}

// designators: an NAA name (IEEE registered, the OUI is that of Linux's own targets) made of the serial number.
func (t *Target) designators() []byte {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(t.identity.Serial))
	name := make([]byte, 8)
	binary.BigEndian.PutUint64(name, 0x5_001405_000000000|hash.Sum64()&0xfffffffff)
	return append([]byte{0x01, 0x03, 0, 8}, name...)
}

// blockLimits says what the largest transfer is.
func (t *Target) blockLimits() []byte {
	data := make([]byte, 60)
	largest := uint64(t.model.Interface.LargestKB) << 10 / drive.SectorSize
	binary.BigEndian.PutUint32(data[4:], uint32(min(largest, math.MaxUint32)))
	return data
}

// characteristics says that it turns, and how fast.
func (t *Target) characteristics() []byte {
	data := make([]byte, 60)
	binary.BigEndian.PutUint16(data, uint16(t.model.RPM))
	return data
}
