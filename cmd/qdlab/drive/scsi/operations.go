package scsi

import (
	"encoding/binary"
	"math"

	"qdsweep/cmd/qdlab/drive"
)

// operation is one operation code.
type operation struct {
	length int  // of its CDB
	always bool // also while a unit attention is pending, which stays
	start  func(*Target, *Task) (*drive.Command, error)
}

// lookup finds what the first byte of a CDB asks for.
func lookup(cdb []byte) (operation, error) {
	if len(cdb) == 0 {
		return operation{}, senseOperation
	}
	o, is := map[byte]operation{
		0x00: {length: 6, start: nothing},                           // TEST UNIT READY
		0x03: {length: 6, always: true, start: requestSense},        // REQUEST SENSE
		0x08: {length: 6, start: transfer(drive.Read)},              // READ(6)
		0x0a: {length: 6, start: transfer(drive.Write)},             // WRITE(6)
		0x12: {length: 6, always: true, start: (*Target).inquiry},   // INQUIRY
		0x15: {length: 6, start: (*Target).modeSelect},              // MODE SELECT(6)
		0x1a: {length: 6, start: (*Target).modeSense},               // MODE SENSE(6)
		0x1b: {length: 6, start: synchronize},                       // START STOP UNIT: whoever stops it wants the data kept
		0x1d: {length: 6, start: nothing},                           // SEND DIAGNOSTIC
		0x25: {length: 10, start: readCapacity10},                   // READ CAPACITY(10)
		0x28: {length: 10, start: transfer(drive.Read)},             // READ(10)
		0x2a: {length: 10, start: transfer(drive.Write)},            // WRITE(10)
		0x35: {length: 10, start: synchronize},                      // SYNCHRONIZE CACHE(10)
		0x55: {length: 10, start: (*Target).modeSelect},             // MODE SELECT(10)
		0x5a: {length: 10, start: (*Target).modeSense},              // MODE SENSE(10)
		0x88: {length: 16, start: transfer(drive.Read)},             // READ(16)
		0x8a: {length: 16, start: transfer(drive.Write)},            // WRITE(16)
		0x91: {length: 16, start: synchronize},                      // SYNCHRONIZE CACHE(16)
		0x9e: {length: 16, start: serviceActionIn},                  // SERVICE ACTION IN(16)
		0xa0: {length: 12, always: true, start: reportLogicalUnits}, // REPORT LUNS
	}[cdb[0]]
	switch {
	case !is:
		return operation{}, senseOperation
	case len(cdb) < o.length:
		return operation{}, senseField
	}
	return o, nil
}

func nothing(*Target, *Task) (*drive.Command, error) { return nil, nil }

// requestSense has none: sense goes with the command that it is about.
func requestSense(t *Target, task *Task) (*drive.Command, error) {
	task.answer(t.attention.bytes(), int(task.CDB[4]))
	t.attention = sense{}
	return nil, nil
}

// answer is data for the host, who allows so many bytes.
func (task *Task) answer(data []byte, allowed int) { task.In = data[:min(len(data), allowed)] }

// transfer is READ and WRITE of any length.
func transfer(kind drive.Kind) func(*Target, *Task) (*drive.Command, error) {
	return func(t *Target, task *Task) (*drive.Command, error) {
		c := &drive.Command{Kind: kind}
		b, big := task.CDB, binary.BigEndian
		protect := byte(0)
		switch b[0] & 0xe0 {
		case 0x00:
			c.LBA, c.Sectors = uint64(big.Uint32(b)&0x1fffff), uint64(b[4])
			if c.Sectors == 0 {
				c.Sectors = 256
			}
		case 0x20:
			c.LBA, c.Sectors = uint64(big.Uint32(b[2:])), uint64(big.Uint16(b[7:]))
			protect, c.FUA = b[1]>>5, b[1]&0x08 != 0
		default:
			c.LBA, c.Sectors = big.Uint64(b[2:]), uint64(big.Uint32(b[10:]))
			protect, c.FUA = b[1]>>5, b[1]&0x08 != 0
		}
		capacity := t.model.Sectors()
		switch {
		case protect != 0:
			return nil, senseField
		case c.LBA > capacity || c.Sectors > capacity-c.LBA:
			return nil, senseRange
		case over(c.Sectors, t.model.Interface.LargestKB), over(c.Sectors, t.model.Quirks.LargestTransferKB):
			return nil, senseField
		}
		if kind == drive.Write {
			if uint64(len(task.Out)) < c.Sectors*drive.SectorSize {
				return nil, senseField
			}
			c.Data = task.Out[:c.Sectors*drive.SectorSize]
		}
		return c, t.room()
	}
}

func over(sectors uint64, kib int64) bool {
	return kib > 0 && sectors*drive.SectorSize > uint64(kib)<<10
}

// synchronize waits until what was acknowledged is on the media, or with IMMED only begins to.
func synchronize(t *Target, task *Task) (*drive.Command, error) {
	immediate := task.CDB[0] != 0x1b && task.CDB[1]&0x02 != 0 || task.CDB[0] == 0x1b && task.CDB[1]&0x01 != 0
	if immediate {
		return nil, nil // it destages by itself as soon as it can
	}
	return &drive.Command{Kind: drive.Sync}, t.room()
}

func readCapacity10(t *Target, task *Task) (*drive.Command, error) {
	data := make([]byte, 8)
	binary.BigEndian.PutUint32(data, uint32(min(t.model.Sectors()-1, math.MaxUint32)))
	binary.BigEndian.PutUint32(data[4:], drive.SectorSize)
	task.In = data
	return nil, nil
}

// serviceActionIn knows READ CAPACITY(16).
func serviceActionIn(t *Target, task *Task) (*drive.Command, error) {
	if task.CDB[1]&0x1f != 0x10 {
		return nil, senseField
	}
	data := make([]byte, 32)
	binary.BigEndian.PutUint64(data, t.model.Sectors()-1)
	binary.BigEndian.PutUint32(data[8:], drive.SectorSize)
	task.answer(data, int(binary.BigEndian.Uint32(task.CDB[10:])))
	return nil, nil
}

// reportLogicalUnits: there is one, 0.
func reportLogicalUnits(_ *Target, task *Task) (*drive.Command, error) {
	data := make([]byte, 16)
	data[3] = 8
	task.answer(data, int(binary.BigEndian.Uint32(task.CDB[6:])))
	return nil, nil
}
