package sgio

import (
	"encoding/binary"
	"math"
)

// MaxCDB is the room for the longest command that Transfer makes.
const MaxCDB = 16

const fua = 1 << 3 // byte 1: the medium has it before the command is done

// Transfer makes READ(10) or WRITE(10), and READ(16) or WRITE(16) where the place or the number of blocks does
// not fit into those (SBC-4, 5.10 to 5.43), and gives its length. through sets FUA.
func Transfer(cdb *[MaxCDB]byte, write bool, lba uint64, blocks uint32, through bool) int {
	*cdb = [MaxCDB]byte{}
	if through {
		cdb[1] = fua
	}
	if lba <= math.MaxUint32 && blocks <= math.MaxUint16 {
		cdb[0] = 0x28
		if write {
			cdb[0] = 0x2a
		}
		binary.BigEndian.PutUint32(cdb[2:], uint32(lba))
		binary.BigEndian.PutUint16(cdb[7:], uint16(blocks))
		return 10
	}
	cdb[0] = 0x88
	if write {
		cdb[0] = 0x8a
	}
	binary.BigEndian.PutUint64(cdb[2:], lba)
	binary.BigEndian.PutUint32(cdb[10:], blocks)
	return 16
}

// TransferName is a command of those that move data to and from the medium, as the standard calls it.
func TransferName(cdb []byte) string {
	switch cdb[0] {
	case 0x28:
		return "READ(10)"
	case 0x35:
		return "SYNCHRONIZE CACHE(10)"
	case 0x2a:
		return "WRITE(10)"
	case 0x88:
		return "READ(16)"
	case 0x8a:
		return "WRITE(16)"
	}
	return "command"
}
