package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// linkByID makes the links that udev would make of what is there now; nothing keeps them up to date later.
func linkByID() {
	_ = os.MkdirAll("/dev/disk/by-id", 0o755)
	names, _ := filepath.Glob("/sys/block/*")
	for _, dir := range names {
		name := filepath.Base(dir)
		serial := diskSerial(dir)
		var links []string
		switch {
		case serial == "":
		case strings.HasPrefix(name, "vd"):
			links = append(links, "virtio-"+serial)
		case strings.HasPrefix(name, "nvme"):
			links = append(links, "nvme-"+linkText(modelOf(dir))+"_"+serial)
		case strings.HasPrefix(name, "sd") && usbSerial(dir) != "":
			links = append(links, "usb-"+linkText(vendorOf(dir))+"_"+linkText(modelOf(dir))+"_"+linkText(serial)+"-0:0")
		case strings.HasPrefix(name, "sd") && vendorOf(dir) == "ATA":
			links = append(links, "ata-"+linkText(modelOf(dir))+"_"+serial)
		case strings.HasPrefix(name, "sd"):
			links = append(links, "scsi-S"+linkText(vendorOf(dir))+"_"+linkText(modelOf(dir))+"_"+linkText(serial))
		}
		if wwid, err := os.ReadFile(filepath.Join(dir, "device/wwid")); err == nil {
			if naa, is := strings.CutPrefix(strings.TrimSpace(string(wwid)), "naa."); is {
				links = append(links, "wwn-0x"+naa)
			}
		}
		if uuid, err := os.ReadFile(filepath.Join(dir, "dm/uuid")); err == nil && len(uuid) > 1 {
			links = append(links, "dm-uuid-"+strings.TrimSpace(string(uuid)), "dm-name-"+dmName(dir))
		}
		if uuid := arrayUUID(dir); uuid != "" {
			links = append(links, "md-uuid-"+uuid)
		}
		for _, link := range links {
			_ = os.Symlink("../../"+name, "/dev/disk/by-id/"+link)
		}
	}
}

// arrayUUID is what mdadm says: the kernel shows it from 6.8 on.
func arrayUUID(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "md")); err != nil {
		return ""
	}
	out, _ := exec.Command("mdadm", "--detail", "--export", "/dev/"+filepath.Base(dir)).Output()
	for _, line := range strings.Split(string(out), "\n") {
		if uuid, is := strings.CutPrefix(line, "MD_UUID="); is {
			return uuid
		}
	}
	return ""
}

func dmName(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "dm/name"))
	return strings.TrimSpace(string(text))
}

func modelOf(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "device/model"))
	return strings.TrimSpace(string(text))
}

func vendorOf(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "device/vendor"))
	return strings.TrimSpace(string(text))
}

func linkText(text string) string { return strings.ReplaceAll(text, " ", "_") }
