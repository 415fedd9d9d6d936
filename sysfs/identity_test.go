package sysfs

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// identifyText writes IDENTIFY data as libata shows it.
func identifyText(model, serial, firmware string) string {
	words := make([]uint16, 256)
	words[0] = 0x0040
	text := func(at, n int, s string) {
		b := []byte(fmt.Sprintf("%-*s", 2*n, s))
		for i := range n {
			words[at+i] = binary.BigEndian.Uint16(b[2*i:])
		}
	}
	text(10, 10, serial)
	text(23, 4, firmware)
	text(27, 20, model)
	var b strings.Builder
	for i, w := range words {
		fmt.Fprintf(&b, "%04x", w)
		b.WriteByte("       \n"[i%8])
	}
	return b.String()
}

// Field case 28: blanks at the end, and characters that mean something elsewhere, are kept as text.
func TestModelOfTheDriveItself(t *testing.T) {
	for _, model := range []string{"KINGSTON SFYR2S1T0      ", `A,B "quoted"`, "=cmd|' /C calc'!A0", "<script>alert(1)</script>", "ST1000NM0033-9ZM173 LONGER THAN SIXTEEN"} {
		tr := newTree(t)
		tr.sata("sda", 1, 10)
		tr.file("/sys/class/ata_device/dev1.0/id", identifyText(model, "      Z1W0ABCD", "SN03    "))
		d, err := tr.host().Device("sda")
		require.NoError(t, err)
		assert.Equal(t, strings.TrimSpace(model), d.Model)
		assert.Equal(t, "Z1W0ABCD", d.Serial)
		assert.Equal(t, "SN03", d.Firmware)
		assert.Equal(t, Identity("wwid:naa.5000c50000000001"), d.Identity)
	}
}

func TestModelFromATAInformationPage(t *testing.T) {
	tr := newTree(t)
	sas := "pci0000:00/0000:03:00.0/host0/port-0:1/end_device-0:1/target0:0:1/0:0:1:0"
	tr.block("sdc", sas+"/block", 10)
	tr.link(tr.devPath["sdc"]+"/device", "/sys/devices/"+sas)
	tr.file("/sys/devices/"+sas+"/model", "ST1000NM0033-9ZM\n")
	page := make([]byte, 60+512)
	page[1] = 0x89
	binary.LittleEndian.PutUint16(page[60:], 0x0040)
	copy(page[60+54:], "TS0100MN00339-MZ71 3") // byte-swapped
	tr.file("/sys/devices/"+sas+"/vpd_pg89", string(page))
	d, err := tr.host().Device("sdc")
	require.NoError(t, err)
	assert.Equal(t, "ST1000NM0033-9ZM173", d.Model)

	// scsi_debug has the page of another drive, the same for all.
	tr.file("/sys/devices/"+sas+"/model", "scsi_debug      \n")
	tr.file("/sys/devices/"+sas+"/vpd_pg80", "\x00\x80\x00\x0514000")
	copy(page[60+20:], "XXXXXXXX            ")
	tr.file("/sys/devices/"+sas+"/vpd_pg89", string(page))
	d, err = tr.host().Device("sdc")
	require.NoError(t, err)
	assert.Equal(t, "scsi_debug", d.Model)
	assert.Equal(t, "14000", d.Serial)
}

func vpd83(designators ...[]byte) []byte {
	page := []byte{0, 0x83, 0, 0}
	for _, d := range designators {
		page = append(page, d...)
	}
	binary.BigEndian.PutUint16(page[2:], uint16(len(page)-4))
	return page
}

func TestVPDPages(t *testing.T) {
	naa := []byte{1, 3, 0, 8, 0x50, 0, 0xc5, 0, 1, 2, 3, 4}
	port := append([]byte{1, 0x13, 0, 8}, 0x50, 0, 0xc5, 0, 1, 2, 3, 5)
	t10 := append([]byte{2, 1, 0, 12}, "ATA     X 1 "...)
	eui := append([]byte{1, 2, 0, 8}, 0, 0x25, 0x38, 1, 2, 3, 4, 5)
	zero := append([]byte{1, 3, 0, 8}, make([]byte, 8)...)
	for _, c := range []struct {
		name string
		page []byte
		want string
	}{
		{"NAA before the others", vpd83(t10, eui, naa), "naa.5000c50001020304"},
		{"a port's name is not the unit's", vpd83(port, t10), "t10.ATA     X 1"},
		{"EUI", vpd83(t10, eui), "eui.0025380102030405"},
		{"all zero is no name", vpd83(zero, t10), "t10.ATA     X 1"},
		{"none", vpd83(), ""},
		{"cut off", vpd83(naa)[:10], ""},
		{"another page", []byte{0, 0x80, 0, 0}, ""},
		{"nothing", nil, ""},
	} {
		assert.Equal(t, c.want, parseVPD83(c.page), c.name)
	}
	assert.Equal(t, "QM00005", parseVPD80(append([]byte{0, 0x80, 0, 20}, "             QM00005"...)))
	assert.Equal(t, "AB", parseVPD80(append([]byte{0, 0x80, 0, 200}, "AB"...)))
	assert.Equal(t, "", parseVPD80([]byte{0, 0x83, 0, 2, 'A', 'B'}))
}

func TestIdentities(t *testing.T) {
	for _, c := range []struct {
		name   string
		wwid   string
		serial string
		model  string
		want   Identity
	}{
		{"wwid", "naa.5000c5001234\n", "X", "M", "wwid:naa.5000c5001234"},
		{"trailing blanks", "t10.ATA     QEMU HARDDISK      QM00001 \n", "", "", "wwid:t10.ATA     QEMU HARDDISK      QM00001"},
		{"serial", "", "S1 \n", "KINGSTON SFYR2S1T0      \n", "serial:S1:KINGSTON SFYR2S1T0"},
		{"a bridge's zeros", "naa.0000000000000000\n", "000000000000\n", "M", ""},
		{"none", "", "", "M", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			tr.block("vda", "pci0000:00/0000:00:05.0/virtio2/block", 10)
			tr.link(tr.devPath["vda"]+"/device", "/sys/devices/pci0000:00/0000:00:05.0/virtio2")
			dir := tr.devPath["vda"]
			if c.wwid != "" {
				tr.file(dir+"/wwid", c.wwid)
			}
			if c.serial != "" {
				tr.file(dir+"/serial", c.serial)
			}
			tr.file(dir+"/device/model", c.model)
			d, err := tr.host().Device("vda")
			require.NoError(t, err)
			assert.Equal(t, c.want, d.Identity)
		})
	}
}

func TestResolveByIdentity(t *testing.T) {
	tr := newTree(t)
	tr.sata("sda", 1, 10)
	tr.sata("sdb", 2, 10)
	tr.partition("sdb", "sdb2", 2, 1, 5)
	tr.file(tr.devPath["sdb"]+"/device/wwid", "t10.ATA     QEMU HARDDISK      QM00001 \n")
	tr.file(tr.devPath["sdb"]+"/serial", "QM00001")
	tr.byID("ata-QEMU_QM00001", "sdb")
	tr.byID("ata-QEMU_QM00001-part2", "sdb2")
	for target, want := range map[string]string{
		"wwid:naa.5000c50000000001":                         "sda",
		"wwid:NAA.5000C50000000001":                         "sda",
		"wwid:t10.ATA QEMU HARDDISK QM00001":                "sdb",
		"wwid:t10.ATA     QEMU HARDDISK      QM00001-part2": "sdb2",
		"serial:QM00001":                                    "sdb",
		"serial:QM00001:ST1000NM0033-9ZM":                   "sdb",
		"/dev/disk/by-id/ata-QEMU_QM00001":                  "sdb",
		"/dev/disk/by-id/ata-QEMU_QM00001-part2":            "sdb2",
		"/dev/disk/by-id/../by-id/ata-QEMU_QM00001":         "sdb",
	} {
		s, err := tr.host().Resolve(target)
		require.NoError(t, err, target)
		assert.Equal(t, want, s.Device.Name, target)
	}
	_, err := tr.host().Resolve("serial:QM00002")
	assert.ErrorIs(t, err, ErrNoDevice)

	tr.sata("sdc", 1+2, 10)
	tr.file(tr.devPath["sdc"]+"/device/wwid", "naa.5000c50000000001\n")
	_, err = tr.host().Resolve("wwid:naa.5000c50000000001")
	assert.ErrorContains(t, err, "sda, sdc")
}
