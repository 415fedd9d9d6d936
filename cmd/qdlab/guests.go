package main

import (
	"fmt"
	"slices"
	"strings"
)

// guest describes one kind of machine. A new kind is a new entry of guests().
type guest struct {
	Name        string
	Description string
	Disks       []disk
	Modules     []module // loaded in this order, after what every guest has
	RAMDrives   int      // drives that a module makes (scsi_debug); waited for at boot
	RootDisk    string   // serial of the disk that "/" is moved onto; "": "/" stays in memory
	MemoryMiB   int      // 0: defaultMemoryMiB
	Cuts        bool     // its power can be cut: see cut.go
	Modelled    []modelledDrive
}

// modelledDrive is served by a program in the guest: see drive.go.
type modelledDrive struct {
	Model  string // see drive/models
	Serial string
	Speed  float64
}

// disk is one emulated drive, a sparse file on the host.
type disk struct {
	Bus    bus
	Serial string // at most 20 characters, what the guest finds it by: letters come up in no fixed order
	MiB    int64
	WWN    uint64 // SATA only; 0: the drive has none, and its identity is its serial
	Faults []fault
}

type bus string

const (
	busSATA   bus = "sata"   // ide-hd on AHCI: real NCQ, real write cache commands
	busNVMe   bus = "nvme"   // no queue_depth in sysfs
	busVirtio bus = "virtio" // virtio-blk
	busSCSI   bus = "scsi"   // scsi-hd on virtio-scsi, whose driver tracks QUEUE_FULL
	busUSB    bus = "usb"    // usb-storage on xHCI: one command at a time, queue_depth 1 for ever
)

// module is a kernel module with its options.
type module struct {
	Name    string
	Options string
}

const (
	defaultMemoryMiB = 1536
	guestCPUs        = 2
	scratchSerial    = "QDLAB-SCRATCH"
	scratchFolder    = "/scratch" // ext4: qdsweep refuses state and output in memory
	scratchMiB       = 2048
)

// guests lists every kind. Tests pick one by name: TestLabSata… wants sata (see labtests.go).
func guests() []guest {
	sata := []disk{
		{Bus: busSATA, Serial: "QDLAB-SATA-1", MiB: 512, WWN: 0x5000c5000abc0001},
		{Bus: busSATA, Serial: "QDLAB-SATA-2", MiB: 512, WWN: 0x5000c5000abc0002},
		{Bus: busSATA, Serial: "QDLAB-SATA-3", MiB: 256},
		{Bus: busSATA, Serial: "QDLAB-SATA-4", MiB: 256},
	}
	faulty := disk{Bus: busSATA, Serial: "QDLAB-SATA-BAD", MiB: faultyMiB, Faults: ncqFaults()}
	md := []module{{Name: "crc32c_generic"}, {Name: "raid0"}, {Name: "raid1"}, {Name: "raid10"}, {Name: "raid456"}, {Name: "loop"}, {Name: "dm_mod"}}
	// Four RAM drives that answer after 10 ms and take 64 commands at once: IOPS must be 100 × depth.
	delay := module{Name: "scsi_debug", Options: "add_host=4 per_host_store=1 max_luns=1 num_tgts=1 dev_size_mb=64 max_queue=64 ndelay=10000000"}
	others := []disk{
		{Bus: busNVMe, Serial: "QDLAB-NVME-1", MiB: 256},
		{Bus: busVirtio, Serial: "QDLAB-VIRTIO-1", MiB: 256},
		{Bus: busUSB, Serial: "QDLAB-USB-1", MiB: 64},
		{Bus: busSCSI, Serial: "QDLAB-SCSI-FULL", MiB: faultyMiB, Faults: queueFullFaults()},
	}
	// A stick is given a second to settle before it is looked at, an emulated one needs none.
	buses := []module{{Name: "virtio_scsi"}, {Name: "xhci_pci"}, {Name: "usb_storage", Options: "delay_use=0"}, {Name: "uas"}}
	return []guest{
		{
			Name: "sata", Description: "four SATA drives on AHCI (NCQ, write cache), one with bad sectors, md, dm, loop",
			Disks: slices.Concat(sata, []disk{faulty}), Modules: md,
		},
		{
			Name: "delay", Description: "four scsi_debug drives with a latency of 10 ms and a queue of 64, md, dm, loop",
			Modules: slices.Concat(md, []module{delay}), RAMDrives: 4,
		},
		{
			Name: "all", Description: "the drives of sata and delay, one NVMe, one virtio, one USB stick, one SCSI drive that can be full; md, dm, loop",
			Disks: slices.Concat(sata, others), Modules: slices.Concat(md, buses, []module{delay}), RAMDrives: 4,
		},
		{
			Name: "root", Description: "two SATA drives, the first of which carries the root file system",
			Disks: sata[:2], RootDisk: sata[0].Serial,
		},
		{
			Name: "cut", Description: "four SATA drives, md, dm, loop; its power can be cut",
			Disks: sata, Modules: md, Cuts: true,
		},
		{
			Name: "model", Description: "modelled drives: one with NCQ, and those of the two experiments of 1999; md, dm, loop",
			Modules: slices.Concat(md, modelModules()), MemoryMiB: 2048,
			Modelled: []modelledDrive{
				{Model: "ncq-2007", Serial: "QDLAB-NCQ", Speed: 1},
				{Model: "tagged-depth-1999", Serial: "QDLAB-TAGS", Speed: 4},
				{Model: "wcache-tagging-1999", Serial: "QDLAB-2X2", Speed: 4},
			},
		},
	}
}

// modelModules serve a modelled drive to the kernel.
func modelModules() []module {
	return []module{{Name: "uio"}, {Name: "target_core_user"}, {Name: "tcm_loop"}}
}

// lookupGuest finds a kind by name; the error lists them all.
func lookupGuest(name string) (guest, error) {
	var names []string
	for _, g := range guests() {
		if g.Name == name {
			return g, nil
		}
		names = append(names, g.Name)
	}
	return guest{}, fmt.Errorf("no guest is called %q: there are %s", name, strings.Join(names, ", "))
}

// baseModules are loaded first in every guest.
func baseModules() []module {
	return []module{
		{Name: "virtio_pci"}, {Name: "virtio_console"}, {Name: "virtio_blk"}, {Name: "9pnet_virtio"}, {Name: "9p"},
		{Name: "crc32c_intel"}, {Name: "crc32c_generic"}, {Name: "ext4"},
		{Name: "ahci"}, {Name: "sd_mod"}, {Name: "sg"}, {Name: "nvme"},
	}
}

// spareModules are in the guest without being loaded: modprobe finds them.
func spareModules() []string {
	return []string{
		"loop", "null_blk", "overlay", "scsi_debug", "xfs", "raid0", "raid1", "raid10", "raid456", "linear",
		"dm_mod", "dm_delay", "dm_flakey", "dm_snapshot", "dm_multipath", "dm_round_robin", "dm_crypt", "xts", "algif_skcipher",
	}
}

// memory is the guest's memory in MiB.
func (g guest) memory() int {
	if g.MemoryMiB != 0 {
		return g.MemoryMiB
	}
	return defaultMemoryMiB
}

// drives is how many block devices the guest waits for at boot, the scratch disk included.
func (g guest) drives() int { return len(g.Disks) + g.RAMDrives + 1 }

// modules are all that the guest loads, in order.
func (g guest) modules() []module { return append(baseModules(), g.Modules...) }
