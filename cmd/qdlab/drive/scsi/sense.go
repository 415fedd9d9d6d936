package scsi

import (
	"encoding/binary"
	"errors"
	"fmt"

	"qdsweep/cmd/qdlab/drive"
)

// sense is what CHECK CONDITION is about (SPC-4, 4.5): key, additional code and qualifier, and where it has one a sector.
type sense struct {
	key, code, qualifier byte
	sector               uint32
	hasSector            bool
}

var (
	sensePowerOn       = sense{key: 0x6, code: 0x29}
	senseOperation     = sense{key: 0x5, code: 0x20} // invalid command operation code
	senseRange         = sense{key: 0x5, code: 0x21} // logical block address out of range
	senseField         = sense{key: 0x5, code: 0x24} // invalid field in the CDB
	senseParameter     = sense{key: 0x5, code: 0x26} // invalid field in the parameter list
	senseListLength    = sense{key: 0x5, code: 0x1a}
	senseNoSavedValues = sense{key: 0x5, code: 0x39}
	senseAborted       = sense{key: 0xb}
	senseInternal      = sense{key: 0x4, code: 0x44} // internal target failure
)

func (s sense) Error() string { return fmt.Sprintf("sense %x/%02x/%02x", s.key, s.code, s.qualifier) }

// bytes is the fixed format.
func (s sense) bytes() []byte {
	b := make([]byte, 18)
	b[0], b[2], b[7], b[12], b[13] = 0x70, s.key, 10, s.code, s.qualifier
	if s.hasSector {
		b[0] |= 0x80
		binary.BigEndian.PutUint32(b[3:], s.sector)
	}
	return b
}

func senseOf(err error) sense {
	var bad *drive.BadSectorError
	if !errors.As(err, &bad) {
		return senseInternal
	}
	s := sense{key: 0x3, code: 0x11, sector: uint32(bad.LBA), hasSector: bad.LBA <= 0xffffffff}
	if bad.Write {
		s.code = 0x0c
	}
	return s
}
