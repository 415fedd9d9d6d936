package scsi

import (
	"encoding/binary"

	"qdsweep/cmd/qdlab/drive"
)

// The caching mode page (SBC-3, 6.4.5) is the only one: WCE is what can be changed in it.
const (
	cachingPage   = 0x08
	cachingLength = 18 // behind the two bytes of its head
	writeCacheBit = 0x04
	savableBit    = 0x80
	dpofuaBit     = 0x10 // of the header's device-specific parameter: FUA is honoured
)

// The page control of MODE SENSE.
const (
	currentValues = iota
	changeableValues
	defaultValues
	savedValues
)

// modeSense is MODE SENSE(6) and (10) (SPC-4, 6.11).
func (t *Target) modeSense(task *Task) (*drive.Command, error) {
	b := task.CDB
	page, control := b[2]&0x3f, b[2]>>6
	if page != cachingPage && page != 0x3f || b[3] != 0 && b[3] != 0xff {
		return nil, senseField
	}
	if control == savedValues && !t.model.Caching.Savable {
		return nil, senseNoSavedValues
	}
	var descriptor []byte
	if b[1]&0x08 == 0 { // DBD
		descriptor = make([]byte, 8)
		binary.BigEndian.PutUint32(descriptor, uint32(min(t.model.Sectors(), 0xffffffff)))
		binary.BigEndian.PutUint32(descriptor[4:], drive.SectorSize)
	}
	body := append(descriptor, t.caching(control)...)
	if b[0] == 0x1a {
		data := append([]byte{byte(3 + len(body)), 0, dpofuaBit, byte(len(descriptor))}, body...)
		task.answer(data, int(b[4]))
		return nil, nil
	}
	data := append([]byte{0, byte(6 + len(body)), 0, dpofuaBit, 0, 0, 0, byte(len(descriptor))}, body...)
	task.answer(data, int(binary.BigEndian.Uint16(b[7:])))
	return nil, nil
}

// caching is the page with the values asked for.
func (t *Target) caching(control byte) []byte {
	page := make([]byte, 2+cachingLength)
	page[0], page[1] = cachingPage, cachingLength
	if t.model.Caching.Savable {
		page[0] |= savableBit
	}
	on := false
	switch control {
	case currentValues:
		on = t.drive.WriteCache()
	case changeableValues:
		on = true
	case defaultValues:
		on = t.model.Write.On
	case savedValues:
		on = t.model.Write.On
		if t.identity.Saved != nil {
			on = *t.identity.Saved
		}
	}
	if on {
		page[2] = writeCacheBit
	}
	return page
}

// modeSelect is MODE SELECT(6) and (10) (SPC-4, 6.9): when it switches the write cache off it comes back when what
// was in it is on the media.
func (t *Target) modeSelect(task *Task) (*drive.Command, error) {
	if t.model.Quirks.ModeSelect == drive.Refused {
		return nil, senseOperation
	}
	on, given, err := t.parseSelect(task)
	if err != nil || !given {
		return nil, err
	}
	if task.CDB[1]&1 != 0 { // SP
		if !t.model.Caching.Savable {
			return nil, senseField
		}
		if t.model.Quirks.ModeSelect != drive.Ignored {
			if err := t.save(on); err != nil {
				return nil, err
			}
		}
	}
	if t.model.Quirks.ModeSelect == drive.Ignored {
		return nil, nil
	}
	was := t.drive.WriteCache()
	t.drive.SetWriteCache(on)
	if was && !on {
		return &drive.Command{Kind: drive.Sync}, nil
	}
	return nil, nil
}

func (t *Target) save(on bool) error {
	if t.identity.Save != nil {
		if err := t.identity.Save(on); err != nil {
			return err
		}
	}
	t.identity.Saved = &on
	return nil
}

// parseSelect reads the parameter list; given is false where it holds no page, which is no error.
func (t *Target) parseSelect(task *Task) (on, given bool, err error) {
	b, list := task.CDB, task.Out
	header, length, descriptor := 4, int(b[4]), 3
	if b[0] == 0x55 {
		header, length, descriptor = 8, int(binary.BigEndian.Uint16(b[7:])), 7
	}
	switch {
	case b[1]&0x10 == 0: // PF: the pages are as the standard says
		return false, false, senseField
	case length == 0:
		return false, false, nil
	case length < header, len(list) < length:
		return false, false, senseListLength
	}
	list = list[:length]
	at := header + int(list[descriptor])
	for at < len(list) {
		if len(list) < at+2+cachingLength {
			return false, false, senseListLength
		}
		page := list[at : at+2+cachingLength]
		if page[0]&0x3f != cachingPage || page[1] != cachingLength {
			return false, false, senseParameter
		}
		now := t.caching(currentValues)
		for i := 2; i < len(page); i++ {
			changeable := byte(0)
			if i == 2 {
				changeable = writeCacheBit
			}
			if (page[i]^now[i])&^changeable != 0 {
				return false, false, senseParameter
			}
		}
		on, given = page[2]&writeCacheBit != 0, true
		at += len(page)
	}
	if on && t.model.Write.KB == 0 {
		return false, false, senseParameter
	}
	return on, given, nil
}
