package main

import (
	"fmt"
	"slices"
	"strings"
)

// machine is everything QEMU's command line needs.
type machine struct {
	Guest       guest
	Kernel      string
	Initramfs   string
	Accelerator string            // "kvm" or "tcg"
	Images      map[string]string // disk serial → file; the scratch disk's too
	Shares      []share
	Socket      string // of the port that carries the frames
	Progress    progress
}

const portName = "qdlab"

// arguments are those of qemu-system-x86_64. The console goes to standard output.
func (m machine) arguments() []string {
	args := append(m.probeArguments(),
		"-device", "virtio-serial-pci", "-chardev", "socket,id=port,path="+quoted(m.Socket),
		"-device", "virtserialport,chardev=port,name="+portName)
	has := func(b bus) bool { return slices.ContainsFunc(m.Guest.Disks, func(d disk) bool { return d.Bus == b }) }
	if has(busUSB) {
		args = append(args, "-device", "qemu-xhci,id=xhci")
	}
	if has(busSCSI) {
		args = append(args, "-device", "virtio-scsi-pci,id=scsi")
	}
	for i, d := range append(slices.Clip(m.Guest.Disks), disk{Bus: busVirtio, Serial: scratchSerial}) {
		image, there := m.Images[d.Serial]
		if !there {
			continue
		}
		id := fmt.Sprintf("drive%d", i)
		// cache=unsafe: the host's fsync is not what is measured, and killing QEMU loses nothing that it
		// has written: it has no buffer of its own, and the host's page cache outlives it.
		file := ",file=" + quoted(image)
		if d.Faults != nil {
			file = ",rerror=report,file.driver=blkdebug,file.config=" + quoted(rulesOf(image)) + ",file.image.driver=file,file.image.filename=" + quoted(image)
		}
		args = append(args, "-drive", "if=none,format=raw,cache=unsafe,discard=unmap,id="+id+file, "-device", device(d, id, i))
	}
	for i, s := range m.Shares {
		mode := ",readonly=on"
		if s.Write {
			mode = ""
		}
		args = append(args, "-virtfs", fmt.Sprintf("local,path=%s,mount_tag=%s,security_model=none,multidevs=remap%s", quoted(s.Host), shareTag(i), mode))
	}
	return args
}

// probeArguments are those of a machine that boots and prints, no more.
func (m machine) probeArguments() []string {
	cpu := "host"
	if m.Accelerator == "tcg" {
		// Old and small on purpose: with AVX-512, raid6 and xor spend seconds on measuring themselves,
		// and five-level page tables cost every memory access of an emulated CPU.
		cpu = "Nehalem,+rdrand"
	}
	return []string{
		"-machine", "q35", "-accel", m.Accelerator, "-cpu", cpu, "-smp", fmt.Sprint(guestCPUs), "-m", fmt.Sprint(m.Guest.memory()),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "stdio",
		"-kernel", m.Kernel, "-initrd", m.Initramfs, "-append", kernelCommandLine() + " " + m.Progress.kernelParameters(),
	}
}

// device is the -device of a disk; i is its place among the guest's disks, and on the AHCI controller.
func device(d disk, id string, i int) string {
	switch d.Bus {
	case busSATA:
		text := fmt.Sprintf("ide-hd,drive=%s,serial=%s,bus=ide.%d", id, d.Serial, i)
		if d.WWN != 0 {
			text += fmt.Sprintf(",wwn=%#x", d.WWN)
		}
		return text
	case busNVMe:
		return fmt.Sprintf("nvme,drive=%s,serial=%s", id, d.Serial)
	case busSCSI:
		return fmt.Sprintf("scsi-hd,drive=%s,serial=%s,bus=scsi.0", id, d.Serial)
	case busUSB:
		return fmt.Sprintf("usb-storage,drive=%s,serial=%s,bus=xhci.0", id, d.Serial)
	default:
		return fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%s", id, d.Serial)
	}
}

// kernelCommandLine ends a panic at once (-no-reboot makes that QEMU's end) and leaves out what slows the boot.
func kernelCommandLine() string {
	return "console=ttyS0 panic=-1 oops=panic loglevel=5 mitigations=off audit=0 random.trust_cpu=on tsc=reliable cryptomgr.notests rcupdate.rcu_expedited=1"
}

func shareTag(i int) string { return fmt.Sprintf("share%d", i) }

// quoted doubles commas, which separate QEMU's options.
func quoted(p string) string { return strings.ReplaceAll(p, ",", ",,") }
