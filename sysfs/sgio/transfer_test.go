package sgio

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTransfer(t *testing.T) {
	for _, c := range []struct {
		name    string
		write   bool
		lba     uint64
		blocks  uint32
		through bool
		want    string
	}{
		{"READ(10)", false, 0, 8, false, "28000000000000000800"},
		{"READ(10)", false, 0xffffffff, 0xffff, false, "2800ffffffff00ffff00"},
		{"READ(16)", false, 0x100000000, 8, false, "88000000000100000000000000080000"},
		{"READ(16)", false, 0x1234, 0x10000, false, "88000000000000001234000100000000"},
		{"WRITE(10)", true, 0x12345678, 0x100, false, "2a001234567800010000"},
		{"WRITE(10)", true, 1, 1, true, "2a080000000100000100"},
		{"WRITE(16)", true, 0x123456789a, 1, true, "8a08000000123456789a000000010000"},
	} {
		cdb := [MaxCDB]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff} // of the command before
		n := Transfer(&cdb, c.write, c.lba, c.blocks, c.through)
		assert.Equal(t, c.want, hex.EncodeToString(cdb[:n]), c.name)
		assert.Equal(t, c.name, TransferName(cdb[:n]))
	}
}

func TestCleanHeader(t *testing.T) {
	for _, c := range []struct {
		what string
		h    Header
		want bool
	}{
		{"nothing to say", Header{}, true},
		{"only that there is sense", Header{DriverStatus: driverSense}, true},
		{"check condition", Header{Status: statusCheckCondition}, false},
		{"the adapter", Header{HostStatus: 1}, false},
		{"the mid layer", Header{DriverStatus: 6}, false},
	} {
		assert.Equal(t, c.want, c.h.Clean(), c.what)
	}
}
