package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGuestTable(t *testing.T) {
	names := map[string]bool{}
	for _, g := range guests() {
		t.Run(g.Name, func(t *testing.T) {
			assert.False(t, names[g.Name], "named twice")
			names[g.Name] = true
			assert.Regexp(t, `^[a-z]+$`, g.Name, "test names are made of it")
			assert.NotEmpty(t, g.Description)
			serials := map[string]bool{scratchSerial: true}
			sata := 0
			for _, d := range g.Disks {
				assert.False(t, serials[d.Serial], "serial %s twice", d.Serial)
				serials[d.Serial] = true
				assert.LessOrEqual(t, len(d.Serial), 20)
				assert.Positive(t, d.MiB)
				if d.Bus == busSATA {
					sata++
				} else {
					assert.Zero(t, d.WWN)
				}
			}
			assert.LessOrEqual(t, sata, 6, "the AHCI controller has six ports")
			for _, d := range g.Modelled {
				assert.False(t, serials[d.Serial], "serial %s twice", d.Serial)
				serials[d.Serial] = true
				_, err := driveOptions{Model: d.Model, Serial: d.Serial, Speed: d.Speed}.check()
				assert.NoError(t, err)
			}
			assert.True(t, g.RootDisk == "" || serials[g.RootDisk])
			assert.Equal(t, len(g.Disks)+g.RAMDrives+1, g.drives())
		})
	}
	_, err := lookupGuest("sata")
	require.NoError(t, err)
	_, err = lookupGuest("floppy")
	require.ErrorContains(t, err, `"floppy": there are sata, delay, all, root, cut, model`)
}

func TestFaults(t *testing.T) {
	rules := faultRules(ncqFaults())
	assert.Equal(t, 4, strings.Count(rules, "errno = \"5\"\nsector = \"131072\"\nonce = \"on\""), "zone 0 is at 64 MiB")
	assert.Equal(t, 4, strings.Count(rules, "sector = \"194560\"\n"), "zone 31 is at 95 MiB")
	assert.Equal(t, 1, strings.Count(rules, "sector = \"229376\"\nonce = \"off\""))
	rules = faultRules(queueFullFaults())
	assert.Equal(t, fullReads, strings.Count(rules, "errno = \"33\""))
	assert.Equal(t, 1, strings.Count(rules, "sector = \"131080\"\nonce = \"on\""))

	bad := disk{Bus: busSATA, Serial: "QDLAB-SATA-BAD", Faults: ncqFaults()}
	m := machine{Guest: guest{Disks: []disk{bad}}, Images: map[string]string{bad.Serial: "/im,ages/bad"}}
	assert.Contains(t, strings.Join(m.arguments(), " "),
		"id=drive0,rerror=report,file.driver=blkdebug,file.config=/im,,ages/bad.faults,file.image.driver=file,file.image.filename=/im,,ages/bad -device ide-hd,drive=drive0")
	for _, g := range guests() {
		for _, d := range g.Disks {
			for _, f := range d.Faults {
				assert.Less(t, f.Sector*512, d.MiB<<20, d.Serial)
			}
		}
	}
}

func TestGuestOfTest(t *testing.T) {
	for name, want := range map[string]string{
		"TestLabSataQueueDepth": "sata", "TestLabDelay": "delay", "TestLabAll_x": "all", "TestLabRoot2": "root", "TestLabCutJournal": "cut", "BenchmarkLabSataOverhead": "sata",
		"TestLabAllocation": "", "TestLabQueueDepth": "", "TestLab": "",
	} {
		kind, err := guestOfTest(name)
		if want == "" {
			assert.ErrorContains(t, err, "TestLabSata…", name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, want, kind, name)
	}
}

func TestMachineArguments(t *testing.T) {
	g, err := lookupGuest("all")
	require.NoError(t, err)
	m := machine{
		Guest: g, Kernel: "vmlinuz", Initramfs: "initramfs", Accelerator: "tcg", Socket: "/tmp/a,b/port", Images: map[string]string{},
		Shares: []share{{Host: "/src", Guest: "/src"}, {Host: "/o,ut", Guest: "/out", Write: true}},
	}
	for _, d := range g.Disks {
		m.Images[d.Serial] = "/images/" + d.Serial
	}
	m.Images[scratchSerial] = "/images/scratch"
	line := strings.Join(m.arguments(), " ")
	for _, part := range []string{
		"-accel tcg", "-no-reboot", "panic=-1",
		"socket,id=port,path=/tmp/a,,b/port",
		"ide-hd,drive=drive0,serial=QDLAB-SATA-1,bus=ide.0,wwn=0x5000c5000abc0001",
		"ide-hd,drive=drive3,serial=QDLAB-SATA-4,bus=ide.3 ",
		"nvme,drive=drive4,serial=QDLAB-NVME-1", "virtio-blk-pci,drive=drive5,serial=QDLAB-VIRTIO-1", "-device qemu-xhci,id=xhci", "usb-storage,drive=drive6,serial=QDLAB-USB-1,bus=xhci.0 ",
		"-device virtio-scsi-pci,id=scsi ", "scsi-hd,drive=drive7,serial=QDLAB-SCSI-FULL,bus=scsi.0 ",
		"virtio-blk-pci,drive=drive8,serial=QDLAB-SCRATCH",
		"local,path=/src,mount_tag=share0,security_model=none,multidevs=remap,readonly=on",
		"local,path=/o,,ut,mount_tag=share1,security_model=none,multidevs=remap",
	} {
		assert.Contains(t, line+" ", part)
	}
	assert.NotContains(t, line, "share1,security_model=none,multidevs=remap,readonly")
	assert.Equal(t, 1, strings.Count(line, "qemu-xhci"), "one controller for all sticks")
	m.Accelerator = "kvm"
	assert.Contains(t, strings.Join(m.arguments(), " "), "-accel kvm -cpu host")
}

// Kinds share a table of disks: what one kind's machine adds must not become another's disk.
func TestAMachineLeavesTheTableAlone(t *testing.T) {
	all := guests()
	for _, g := range all {
		m := machine{Guest: g, Images: map[string]string{}}
		_ = m.arguments()
	}
	for _, g := range all {
		for _, d := range g.Disks {
			assert.NotEqual(t, scratchSerial, d.Serial, g.Name)
		}
	}
}
