package sgio

import "fmt"

// Sense is what a drive says about a command that did not simply succeed (SPC-5, 4.4).
type Sense struct {
	Key, ASC, ASCQ byte
	Deferred       bool       // about an earlier command
	Descriptor     bool       // format 72h or 73h
	ATA            *ATAStatus // the taskfile an ATA translation layer gives back, nil for none
}

// ATAStatus is the part of the ATA Status Return descriptor (SAT-4, 12.2.2.6) that tells success.
type ATAStatus struct{ Status, Error byte }

// The sense keys that callers tell apart.
const (
	KeyNone           = 0x0
	KeyRecovered      = 0x1
	KeyMedium         = 0x3
	KeyIllegalRequest = 0x5
	KeyUnitAttention  = 0x6
	KeyAborted        = 0xb
)

// ParseSense reads sense data of either format. ok is false for data that is too short, of another
// format, or all zero: such an answer says nothing, and must not be taken for "all is well".
func ParseSense(b []byte) (s Sense, ok bool) {
	if len(b) < 4 {
		return Sense{}, false
	}
	switch b[0] & 0x7f {
	case 0x70, 0x71:
		if len(b) < 8 {
			return Sense{}, false
		}
		return parseFixed(b), true
	case 0x72, 0x73:
		return parseDescriptors(b), true
	}
	return Sense{}, false
}

func parseFixed(b []byte) Sense {
	s := Sense{Key: b[2] & 0xf, Deferred: b[0]&0x7f == 0x71}
	b = b[:min(len(b), 8+int(b[7]))]
	if len(b) > 12 {
		s.ASC = b[12]
	}
	if len(b) > 13 {
		s.ASCQ = b[13]
	}
	// "ATA pass through information available": the information field is error, status, device,
	// count (SAT-4, 12.2.2.7).
	if s.ASC == 0x00 && s.ASCQ == 0x1d {
		s.ATA = &ATAStatus{Error: b[3], Status: b[4]}
	}
	return s
}

func parseDescriptors(b []byte) Sense {
	s := Sense{Key: b[1] & 0xf, ASC: b[2], ASCQ: b[3], Descriptor: true, Deferred: b[0]&0x7f == 0x73}
	if len(b) < 8 {
		return s
	}
	d := b[8:min(len(b), 8+int(b[7]))]
	for len(d) >= 2 {
		n := 2 + int(d[1])
		if n > len(d) {
			break
		}
		if d[0] == 0x09 && n >= 14 {
			s.ATA = &ATAStatus{Error: d[3], Status: d[13]}
		}
		d = d[n:]
	}
	return s
}

// String is the sense in words: "illegal request: invalid command operation code (05/20/00)".
func (s Sense) String() string {
	text := fmt.Sprintf("%s (%02x/%02x/%02x)", keyNames[s.Key&0xf], s.Key, s.ASC, s.ASCQ)
	if what, known := additional(s.ASC, s.ASCQ); known {
		text = fmt.Sprintf("%s: %s (%02x/%02x/%02x)", keyNames[s.Key&0xf], what, s.Key, s.ASC, s.ASCQ)
	}
	if s.ATA != nil {
		text += fmt.Sprintf(", ATA status %02x error %02x", s.ATA.Status, s.ATA.Error)
	}
	if s.Deferred {
		text += ", of an earlier command"
	}
	return text
}

// SenseError is a command that the drive, its adapter or the kernel did not carry out.
type SenseError struct {
	Command      string
	Status       byte
	HostStatus   uint16
	DriverStatus uint16
	Sense        Sense
	HasSense     bool
}

func (e *SenseError) Error() string {
	switch {
	case e.HostStatus != 0:
		return fmt.Sprintf("%s: the adapter says %s", e.Command, hostName(e.HostStatus))
	case e.HasSense:
		return fmt.Sprintf("%s: %s", e.Command, e.Sense)
	case e.Status != 0:
		return fmt.Sprintf("%s: %s, without sense", e.Command, statusName(e.Status))
	}
	return fmt.Sprintf("%s: the kernel says %s", e.Command, driverName(e.DriverStatus))
}

// Illegal says whether the drive refused the command or a field of it, rather than failed at it.
func (e *SenseError) Illegal() bool { return e.HasSense && e.Sense.Key == KeyIllegalRequest }

// Aborted says whether the drive itself turned an ATA command down (ABRT), as one it does not have. A
// command that the link or the host lost has an additional code.
func (e *SenseError) Aborted() bool {
	return e.HasSense && e.Sense.Key == KeyAborted && e.Sense.ASC == 0 && e.HostStatus == 0
}

// Err says in words why the command was not carried out; nil when it was. Recovered errors are
// success.
func (c *Command) Err() error {
	sense, has := ParseSense(c.Sense)
	e := &SenseError{Command: c.Name, Status: c.Status, HostStatus: c.HostStatus, DriverStatus: c.DriverStatus &^ driverSense, Sense: sense, HasSense: has}
	switch {
	case c.HostStatus != 0:
		return e
	case c.Status == statusCheckCondition:
		if has && !sense.Deferred && (sense.Key == KeyNone || sense.Key == KeyRecovered) {
			return nil
		}
		return e
	case c.Status != 0, e.DriverStatus != 0:
		return e
	}
	return nil
}
