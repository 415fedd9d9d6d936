package drive

import "io"

// Media keeps what is on the platters. A file is one, too.
type Media interface {
	io.ReaderAt
	io.WriterAt
}

// Platters are media in memory; what was never written is zeros and takes no room.
type Platters struct {
	parts map[int64]*[partSize]byte
}

const partSize = 64 << 10

func NewPlatters() *Platters { return &Platters{parts: map[int64]*[partSize]byte{}} }

func (p *Platters) ReadAt(to []byte, offset int64) (int, error) {
	for n := 0; n < len(to); {
		at := offset + int64(n)
		piece := to[n:min(len(to), n+partSize-int(at%partSize))]
		if part := p.parts[at/partSize]; part != nil {
			copy(piece, part[at%partSize:])
		} else {
			clear(piece)
		}
		n += len(piece)
	}
	return len(to), nil
}

func (p *Platters) WriteAt(from []byte, offset int64) (int, error) {
	for n := 0; n < len(from); {
		at := offset + int64(n)
		part := p.parts[at/partSize]
		if part == nil {
			part = new([partSize]byte)
			p.parts[at/partSize] = part
		}
		n += copy(part[at%partSize:], from[n:])
	}
	return len(from), nil
}
