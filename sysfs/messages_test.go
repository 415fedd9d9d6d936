package sysfs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKindsOfMessages(t *testing.T) {
	for message, want := range map[string]SignKind{
		"ata3.00: NCQ disabled due to excessive errors":                                                            NCQOff,
		"ata3.00: failed command: READ FPDMA QUEUED":                                                               ErrorHandling,
		"ata3.00: exception Emask 0x0 SAct 0x7fffffff SErr 0x0 action 0x6 frozen":                                  ErrorHandling,
		"ata3: hard resetting link":                                                                                ErrorHandling,
		"ata3: COMRESET failed (errno=-16)":                                                                        ErrorHandling,
		"ata3: limiting SATA link speed to 1.5 Gbps":                                                               SlowedDown,
		"ata3.00: limiting speed to UDMA/100:PIO4":                                                                 SlowedDown,
		"ata3.00: disabled":                                                                                        Gone,
		"ata3.00: disable device":                                                                                  Gone,
		"ata3: SATA link down (SStatus 0 SControl 300)":                                                            Gone,
		"ata3.00: detaching (SCSI 2:0:0:0)":                                                                        Gone,
		"sd 2:0:0:0: rejecting I/O to offline device":                                                              Gone,
		"sd 2:0:0:0: Device offlined - not ready after error recovery":                                             Gone,
		"sd 2:0:0:0: [sda] tag#12 FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK cmd_age=30s":           ErrorHandling,
		"sd 2:0:0:0: [sda] tag#12 Sense Key : Medium Error [current] ":                                             ErrorHandling,
		"sd 2:0:0:0: Power-on or device reset occurred":                                                            ErrorHandling,
		"sd 2:0:0:0: attempting task abort!scmd(0x00000000b2f4f0c5), outstanding for 30204 ms & timeout 30000 ms":  ErrorHandling,
		"I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2":                          ErrorHandling,
		"blk_update_request: I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0":      ErrorHandling,
		"critical medium error, dev sda, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2":              ErrorHandling,
		"Buffer I/O error on dev sda, logical block 256, async page read":                                          ErrorHandling,
		"nvme nvme0: I/O 5 (Read) QID 1 timeout, aborting":                                                         ErrorHandling,
		"nvme nvme0: I/O tag 5 (1005) opcode 0x2 (I/O Cmd) QID 1 timeout, reset controller":                        ErrorHandling,
		"nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10":                             ErrorHandling,
		"nvme nvme0: Removing after probe failure status: -19":                                                     Gone,
		"md/raid:md0: Disk failure on sda1, disabling device.":                                                     ErrorHandling,
		"md/raid1:md0: read error corrected (8 sectors at 2048 on sda1)":                                           ErrorHandling,
		"usb 2-1.4: reset SuperSpeed USB device number 3 using xhci_hcd":                                           ErrorHandling,
		"usb 1-1: reset high-speed USB device number 2 using ehci-pci":                                             ErrorHandling,
		"sd 6:0:0:0: [sdg] tag#5 uas_eh_abort_handler 0 uas-tag 6 inflight: CMD OUT ":                              ErrorHandling,
		"usb 2-1.4: USB disconnect, device number 3":                                                               Gone,
		"usb 2-1.4: new SuperSpeed USB device number 3 using xhci_hcd":                                             "",
		"sd 6:0:0:0: [sdg] Queue full, depth lowered to 97":                                                        QueueFull,
		"sd 6:0:0:0: task set full":                                                                                QueueFull,
		"ata3.00: configured for UDMA/133":                                                                         "",
		"ata3: EH complete":                                                                                        "",
		"ata3: SATA link up 3.0 Gbps (SStatus 123 SControl 300)":                                                   "",
		"ata3.00: NCQ (not used)":                                                                                  "",
		"ata3.00: 7814037168 sectors, multi 16: LBA48 NCQ (depth 32), AA":                                          "",
		"sd 2:0:0:0: [sda] Write cache: disabled, read cache: enabled, doesn't support DPO or FUA":                 "",
		"sd 2:0:0:0: [sda] Synchronizing SCSI cache":                                                               "",
		"EXT4-fs (sda1): mounted filesystem with ordered data mode. Quota mode: none.":                             "",
		"md: recovery of RAID array md0":                                                                           "",
		"audit: type=1400 msg=something about a device that is of no interest, with a file called queue-full.conf": "",
	} {
		assert.Equal(t, want, kindOfMessage(message), message)
	}
}

func TestWhoseAMessageIs(t *testing.T) {
	tr := newTree(t)
	for n, name := range map[int]string{1: "sda", 2: "sdb", 3: "sdc", 11: "sdaa", 13: "sdm"} {
		tr.sata(name, n, 100)
	}
	tr.partition("sda", "sda1", 1, 1, 10)
	// The second drive behind a port multiplier on port 5: libata makes the SCSI channel from the multiplier's port.
	tr.block("sde", "pci0000:00/0000:00:1f.2/ata5/host4/target4:1:0/4:1:0:0/block", 100)
	tr.link(tr.devPath["sde"]+"/device", "/sys/devices/pci0000:00/0000:00:1f.2/ata5/host4/target4:1:0/4:1:0:0")
	tr.dir("/sys/class/ata_link/link5.1")
	tr.block("nvme0n1", "pci0000:00/0000:00:03.0/nvme/nvme0", 100)
	tr.link(tr.devPath["nvme0n1"]+"/device", "/sys/devices/pci0000:00/0000:00:03.0/nvme/nvme0")
	tr.file("/sys/devices/pci0000:00/0000:00:03.0/nvme/nvme0/transport", "pcie\n")
	// A SAS drive, an older disk adapter's, a virtio disk.
	tr.block("sdg", "pci0000:00/0000:02:00.0/host16/target16:0:1/16:0:1:0/block", 100)
	tr.link(tr.devPath["sdg"]+"/device", "/sys/devices/pci0000:00/0000:02:00.0/host16/target16:0:1/16:0:1:0")
	tr.block("vda", "pci0000:00/0000:00:05.0/virtio2/block", 100)
	tr.link(tr.devPath["vda"]+"/device", "/sys/devices/pci0000:00/0000:00:05.0/virtio2")
	// A disk in a USB box, behind a hub.
	const box = "pci0000:00/0000:00:14.0/usb2/2-1/2-1.4/2-1.4:1.0/host17/target17:0:0/17:0:0:0"
	tr.block("sdh", box+"/block", 100)
	tr.link(tr.devPath["sdh"]+"/device", "/sys/devices/"+box)
	tr.md("md0", "sdb", "sdc")

	const ata, scsi = "%s: hard resetting link", "sd %s: Power-on or device reset occurred"
	for _, c := range []struct {
		message string
		whose   []string
	}{
		{fmt.Sprintf(ata, "ata1"), []string{"sda"}},
		{fmt.Sprintf(ata, "ata11"), []string{"sdaa"}},
		{fmt.Sprintf(ata, "ata13"), []string{"sdm"}},
		{fmt.Sprintf(ata, "ata31"), nil},
		{"ata1.00: failed command: READ FPDMA QUEUED", []string{"sda"}},
		{"ata1.01: failed command: READ DMA", nil}, // a slave, of which we know nothing
		{fmt.Sprintf(ata, "ata5.01"), []string{"sde"}},
		{fmt.Sprintf(ata, "ata5.02"), nil},
		{fmt.Sprintf(ata, "ata5.15"), []string{"sde"}},
		{fmt.Sprintf(ata, "ata5"), []string{"sde"}},
		{fmt.Sprintf(scsi, "0:0:0:0"), []string{"sda"}},
		{fmt.Sprintf(scsi, "10:0:0:0"), []string{"sdaa"}},
		{fmt.Sprintf(scsi, "16:0:1:0"), []string{"sdg"}},
		{fmt.Sprintf(scsi, "16:0:1:01"), nil},
		{fmt.Sprintf(scsi, "116:0:1:0"), nil},
		{"sd 0:0:0:0: [sda] tag#3 FAILED Result: hostbyte=DID_OK", []string{"sda"}},
		{"I/O error, dev sda, sector 1", []string{"sda"}},
		{"I/O error, dev sdaa, sector 1", []string{"sdaa"}},
		{"I/O error, dev sda1, sector 1", []string{"sda"}},
		{"Buffer I/O error on dev sda1, logical block 0, async page read", []string{"sda"}},
		{"I/O error, dev sdab, sector 1", nil},
		{"I/O error, dev asda, sector 1", nil},
		{"I/O error, dev vda, sector 1", []string{"vda"}},
		{"I/O error, dev nvme0n1, sector 1", []string{"nvme0n1"}},
		{"I/O error, dev nvme0n1p2, sector 1", []string{"nvme0n1"}},
		{"I/O error, dev nvme0c3n1, sector 1", []string{"nvme0n1"}},
		{"I/O error, dev nvme0n10, sector 1", nil},
		{"I/O error, dev nvme10n1, sector 1", nil},
		{"usb 2-1.4: reset SuperSpeed USB device number 3 using xhci_hcd", []string{"sdh"}},
		{"usb 2-1: reset high-speed USB device number 2 using xhci_hcd", nil}, // the hub
		{"usb 12-1.4: reset high-speed USB device number 2 using xhci_hcd", nil},
		{"sd 17:0:0:0: [sdh] tag#5 uas_eh_abort_handler 0 uas-tag 6 inflight: CMD OUT ", []string{"sdh"}},
		{"nvme nvme0: I/O 5 QID 1 timeout, aborting", []string{"nvme0n1"}},
		{"nvme nvme00: I/O 5 QID 1 timeout, aborting", nil},
		{"md/raid:md0: Disk failure on sdb, disabling device.", []string{"md0", "sdb"}},
		{"ata31.00: failed command: a name in what another drive says, sda", nil},
	} {
		var got []string
		for _, name := range []string{"md0", "nvme0n1", "sda", "sdb", "sdc", "sde", "sdg", "sdh", "sdm", "sdaa", "vda"} {
			d, err := tr.host().Device(name)
			require.NoError(t, err)
			if signs := tr.host().Signs(d, Health{}, Health{}, []string{c.message}); len(signs) > 0 {
				assert.Equal(t, []Sign{{name, kindOfMessage(c.message), c.message}}, signs)
				got = append(got, name)
			}
		}
		assert.Equal(t, c.whose, got, c.message)
	}
}
