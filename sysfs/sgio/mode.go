package sgio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// CachingPage is mode page 08h (SBC-4, 6.5.6). Its byte 2 bit 2 is WCE, bit 0 is RCD.
const CachingPage = 0x08

// PageControl says which values of a mode page are asked for (SPC-5, 6.13).
type PageControl byte

// Saved values are never asked for or written: SP is always 0 here.
const (
	CurrentValues    PageControl = 0
	ChangeableValues PageControl = 1
)

// ModePage is one mode page without the header and the block descriptors before it.
type ModePage struct {
	Medium byte   // the header's medium type
	Six    bool   // it was read by the 6-byte command, and is written by it
	Data   []byte // from the page code on: code, length, parameters
}

// WCE is the write-cache-enable bit of a caching page.
func (p ModePage) WCE() bool { return len(p.Data) > 2 && p.Data[2]&(1<<2) != 0 }

// WithWCE is a copy with nothing but WCE changed.
func (p ModePage) WithWCE(on bool) ModePage {
	p.Data = append([]byte(nil), p.Data...)
	p.Data[2] &^= 1 << 2
	if on {
		p.Data[2] |= 1 << 2
	}
	return p
}

// ParseModePage finds a page in what MODE SENSE gave back: a header of 8 bytes (4 with six), block
// descriptors, pages. The device may cut anywhere.
func ParseModePage(b []byte, six bool, page byte) (ModePage, error) {
	p := ModePage{Six: six}
	head, total, descriptors := 8, 0, 0
	if six {
		head = 4
	}
	if len(b) < head {
		return p, fmt.Errorf("mode data of %d bytes, shorter than its header", len(b))
	}
	if six {
		total, descriptors, p.Medium = int(b[0])+1, int(b[3]), b[1]
	} else {
		total, descriptors, p.Medium = int(binary.BigEndian.Uint16(b))+2, int(binary.BigEndian.Uint16(b[6:])), b[2]
	}
	b = b[:min(len(b), total)]
	for at := head + descriptors; at+2 <= len(b); {
		size := 2 + int(b[at+1])
		if b[at]&0x40 != 0 { // with a subpage the length has two bytes
			if at+4 > len(b) {
				break
			}
			size = 4 + int(binary.BigEndian.Uint16(b[at+2:]))
		} else if b[at]&0x3f == page {
			if at+size > len(b) || size < 3 {
				return p, fmt.Errorf("mode page %02xh is cut off", page)
			}
			p.Data = append([]byte(nil), b[at:at+size]...)
			return p, nil
		}
		at += size
	}
	return p, fmt.Errorf("no mode page %02xh in the answer", page)
}

// selectData is the parameter list of MODE SELECT for one page: a header whose length and
// device-specific byte are zero (WP and DPOFUA are reserved in that direction, and drives refuse
// them), no block descriptors (so that none can be changed), and the page with PS cleared.
func (p ModePage) selectData() []byte {
	head := make([]byte, 8)
	if p.Six {
		head = make([]byte, 4)
		head[1] = p.Medium
	} else {
		head[2] = p.Medium
	}
	data := append(head, p.Data...)
	data[len(head)] &^= 0x80
	return data
}

// ReadModePage sends MODE SENSE(10), and where the drive does not know it or answers nonsense,
// MODE SENSE(6); without block descriptors where the drive can leave them out.
func ReadModePage(d Device, page byte, pc PageControl, timeout time.Duration) (ModePage, error) {
	var errs []error
	for _, way := range []struct{ six, dbd bool }{{false, true}, {false, false}, {true, true}, {true, false}} {
		p, err := modeSense(d, page, pc, way.six, way.dbd, timeout)
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
		// Only a refusal or an unusable answer has another try: one that timed out must not be
		// asked four times.
		var sense *SenseError
		if errors.As(err, &sense) && !sense.Illegal() || !errors.As(err, &sense) && !errors.Is(err, ErrModeData) {
			return ModePage{}, err
		}
	}
	return ModePage{}, errs[0]
}

// ErrModeData says that MODE SENSE was answered with something that holds no such page.
var ErrModeData = errors.New("unusable mode data")

func modeSense(d Device, page byte, pc PageControl, six, dbd bool, timeout time.Duration) (ModePage, error) {
	const allocation = 252
	var b1 byte
	if dbd {
		b1 = 1 << 3
	}
	c := &Command{Name: "MODE SENSE(10)", Direction: FromDevice, Data: make([]byte, allocation), Timeout: timeout,
		CDB: []byte{0x5a, b1, byte(pc)<<6 | page, 0, 0, 0, 0, 0, allocation, 0}}
	if six {
		c.Name, c.CDB = "MODE SENSE(6)", []byte{0x1a, b1, byte(pc)<<6 | page, 0, allocation, 0}
	}
	if err := do(d, c); err != nil {
		return ModePage{}, err
	}
	p, err := ParseModePage(c.Data[:allocation-min(max(c.Residual, 0), allocation)], six, page)
	if err != nil {
		return p, fmt.Errorf("%s: %w: %w", c.Name, ErrModeData, err)
	}
	return p, nil
}

// WriteModePage sends MODE SELECT with SP = 0: for now only, not across power cycles.
func WriteModePage(d Device, p ModePage, timeout time.Duration) error {
	data := p.selectData()
	const pageFormat = 1 << 4
	c := &Command{Name: "MODE SELECT(10)", Direction: ToDevice, Data: data, Timeout: timeout,
		CDB: []byte{0x55, pageFormat, 0, 0, 0, 0, 0, byte(len(data) >> 8), byte(len(data)), 0}}
	if p.Six {
		c.Name, c.CDB = "MODE SELECT(6)", []byte{0x15, pageFormat, 0, 0, byte(len(data)), 0}
	}
	return do(d, c)
}

// SynchronizeCache sends SYNCHRONIZE CACHE(10) for the whole medium.
func SynchronizeCache(d Device, timeout time.Duration) error {
	return do(d, &Command{Name: "SYNCHRONIZE CACHE(10)", Direction: NoData, CDB: []byte{0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0}, Timeout: timeout})
}

// do sends a command, and once more after a unit attention: the first command after a reset or a
// mode change by somebody else is answered by news instead of being carried out.
func do(d Device, c *Command) error {
	for try := 0; ; try++ {
		if err := d.Do(c); err != nil {
			return err
		}
		err := c.Err()
		var sense *SenseError
		if try < 2 && errors.As(err, &sense) && sense.HasSense && sense.Sense.Key == KeyUnitAttention {
			continue
		}
		return err
	}
}
