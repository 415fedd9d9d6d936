package sgio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Identity is the 256 words of IDENTIFY DEVICE (ACS-4, 7.13).
type Identity [256]uint16

var (
	errIdentityEmpty    = errors.New("IDENTIFY data is all zero")
	errIdentityChecksum = errors.New("IDENTIFY data with a wrong checksum")
)

// ParseIdentity reads the 512 bytes that IDENTIFY DEVICE transfers.
func ParseIdentity(b []byte) (Identity, error) {
	var id Identity
	if len(b) < 512 {
		return id, fmt.Errorf("IDENTIFY data of %d bytes, not 512", len(b))
	}
	for i := range id {
		id[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	if id == (Identity{}) {
		return id, errIdentityEmpty
	}
	if b[510] == 0xa5 { // then byte 511 makes the sum of all zero
		sum := byte(0)
		for _, x := range b[:512] {
			sum += x
		}
		if sum != 0 {
			return id, errIdentityChecksum
		}
	}
	return id, nil
}

// ParseIdentityText reads /sys/class/ata_device/devN.0/id: 256 words in hexadecimal, 8 a line, the
// same text as hdparm --Istdout. The kernel refreshes it after each SET FEATURES.
func ParseIdentityText(text string) (Identity, error) {
	var id Identity
	words := strings.Fields(text)
	if len(words) != len(id) {
		return id, fmt.Errorf("IDENTIFY text of %d words, not 256", len(words))
	}
	for i, w := range words {
		v, err := strconv.ParseUint(w, 16, 16)
		if err != nil {
			return id, fmt.Errorf("IDENTIFY text, word %d is %q", i, w)
		}
		id[i] = uint16(v)
	}
	if id == (Identity{}) {
		return id, errIdentityEmpty
	}
	return id, nil
}

// WriteCache is the drive's own state: whether it has a write cache that can be switched (word 82
// bit 5) and whether it is on (word 85 bit 5). known is false where the words are not valid.
func (id Identity) WriteCache() (supported, on, known bool) {
	if id[83]>>14 != 1 {
		return false, false, false
	}
	supported = id[82]&(1<<5) != 0
	if id[87]>>14 != 1 {
		return supported, false, false
	}
	return supported, id[85]&(1<<5) != 0, true
}

// FlushExt says whether the drive has FLUSH CACHE EXT (word 83 bit 13).
func (id Identity) FlushExt() bool { return id[83]>>14 == 1 && id[83]&(1<<13) != 0 }

// NCQ says whether the drive takes queued commands (word 76 bit 8) and how many (word 75).
func (id Identity) NCQ() (ok bool, depth int) {
	if id[76] == 0xffff || id[76]&(1<<8) == 0 {
		return false, 1
	}
	return true, int(id[75]&0x1f) + 1
}

// Serial, Model and Firmware are trimmed of the blanks that ATA strings are padded with.
func (id Identity) Serial() string   { return id.text(10, 20) }
func (id Identity) Model() string    { return id.text(27, 47) }
func (id Identity) Firmware() string { return id.text(23, 27) }

func (id Identity) text(from, to int) string {
	b := make([]byte, 0, 2*(to-from))
	for _, w := range id[from:to] {
		b = append(b, byte(w>>8), byte(w))
	}
	return strings.TrimSpace(strings.TrimRight(string(b), "\x00"))
}
