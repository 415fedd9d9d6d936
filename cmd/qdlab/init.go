package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// runInit is pid 1. It starts the second stage and from then on only reaps: qdsweep's keeper outlives
// its main here, and a zombie left behind would look like a process that is still there.
func runInit() {
	_ = os.Setenv("PATH", "/usr/sbin:/usr/bin")
	for _, m := range []struct{ kind, on string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := mountOn(m.kind, m.kind, m.on, 0, ""); err != nil {
			fmt.Fprintln(os.Stderr, "qdlab init:", err)
		}
	}
	stage := exec.Command("/usr/bin/qdlab", "guest-main")
	stage.Stdout, stage.Stderr = os.Stderr, os.Stderr
	if err := stage.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "qdlab init: start the second stage:", err)
		powerOff()
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid == stage.Process.Pid {
			break
		}
	}
	powerOff()
}

func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {} // pid 1 must not return
}

// guestMain is the second stage: modules, drives, mounts, then the command, then the report.
func guestMain() error {
	text, err := os.ReadFile(bootConfigFile)
	if err != nil {
		return err
	}
	var config bootConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read %s: %w", bootConfigFile, err)
	}
	if config.Probe {
		fmt.Println(probeAnswer)
		return nil
	}
	if err := prepareGuest(config); err != nil {
		return err
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	p := parseProgress(string(line))
	config.Env = append(config.Env, fmt.Sprintf("QDLAB_BOOT=%d", p.Boot), fmt.Sprintf("QDLAB_TEST=%d", p.Test))
	port, err := openPort()
	if err != nil {
		return err
	}
	return serveCommand(config, port)
}

// prepareGuest does what a distribution's boot would do.
func prepareGuest(config bootConfig) error {
	for _, m := range config.Modules {
		if err := loadModuleFile(m); err != nil {
			return err
		}
	}
	for _, m := range []struct{ kind, on, options string }{
		{"devpts", "/dev/pts", "mode=620,ptmxmode=666"}, {"tmpfs", "/dev/shm", ""}, {"tmpfs", "/run", ""}, {"tmpfs", "/tmp", "mode=1777"},
	} {
		if err := mountOn(m.kind, m.kind, m.on, 0, m.options); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		_ = os.Symlink(target, "/dev/"+name)
	}
	_ = os.WriteFile("/proc/sys/kernel/hostname", []byte("qdlab"), 0o644)
	_ = os.WriteFile("/proc/sys/kernel/printk", []byte("7 4 1 7"), 0o644) // the console is the evidence of a crash
	if err := awaitDrives(config.Drives, 30*time.Second); err != nil {
		return err
	}
	if config.Root != "" {
		if err := moveRoot(config.Root); err != nil {
			return err
		}
	}
	if err := mountScratch(config.Scratch); err != nil {
		return err
	}
	for i, s := range config.Shares {
		options := "trans=virtio,version=9p2000.L,msize=524288,cache=none,access=any"
		flags := uintptr(0)
		if !s.Write {
			options, flags = strings.Replace(options, "cache=none", "cache=loose", 1), unix.MS_RDONLY
		}
		if err := mountOn("9p", shareTag(i), s.Guest, flags, options); err != nil {
			return err
		}
	}
	for _, d := range config.Modelled {
		if _, err := startDrive(driveOptions{Model: d.Model, Serial: d.Serial, Speed: d.Speed}); err != nil {
			return err
		}
	}
	linkByID()
	return nil
}

func mountOn(kind, source, on string, flags uintptr, options string) error {
	if err := os.MkdirAll(on, 0o755); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, on, err)
	}
	if err := unix.Mount(source, on, kind, flags, options); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount %s on %s: %w", source, on, err)
	}
	return nil
}

func loadModuleFile(m loadModule) error {
	file, err := os.Open(m.File)
	if err != nil {
		return fmt.Errorf("load a module: %w", err)
	}
	defer func() { _ = file.Close() }()
	err = unix.FinitModule(int(file.Fd()), m.Options, 0)
	// ENODEV: crc32c_intel on a CPU without it. EEXIST: another one asked for it meanwhile.
	if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("load %s %s: %w", m.File, m.Options, err)
	}
	return nil
}

// awaitDrives waits until the kernel has found as many disks as there are; probing is asynchronous.
func awaitDrives(want int, patience time.Duration) error {
	end := time.Now().Add(patience)
	for {
		found := 0
		for _, kind := range []string{"sd*", "vd*", "nvme*"} {
			names, _ := filepath.Glob("/sys/block/" + kind)
			for _, name := range names {
				if _, err := os.Stat("/dev/" + filepath.Base(name)); err == nil {
					found++
				}
			}
		}
		if found >= want {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d drives came up within %v", found, want, patience)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// driveBySerial is the node of the disk with that serial.
func driveBySerial(serial string) (string, error) {
	names, _ := filepath.Glob("/sys/block/*")
	for _, name := range names {
		if diskSerial(name) == serial {
			return "/dev/" + filepath.Base(name), nil
		}
	}
	return "", fmt.Errorf("no drive has the serial %s: %w", serial, fs.ErrNotExist)
}

// diskSerial is the serial of /sys/block/NAME: virtio's and NVMe's attribute, else the SCSI page 80h, else
// the USB device's (of a stick the kernel reads no pages).
func diskSerial(dir string) string {
	for _, name := range []string{"serial", "device/serial"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && len(text) > 0 {
			return strings.TrimSpace(string(text))
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "device/vpd_pg80"))
	if err != nil || len(page) < 4 {
		return usbSerial(dir)
	}
	return strings.TrimSpace(strings.Trim(string(page[4:]), "\x00"))
}

// usbSerial is the serial of the USB device that a disk is in, "" where it is in none.
func usbSerial(dir string) string {
	device, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
	if err != nil {
		return ""
	}
	for ; strings.Contains(device, "/usb"); device = filepath.Dir(device) {
		if text, err := os.ReadFile(filepath.Join(device, "serial")); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	return ""
}

func mountScratch(serial string) error {
	node, err := driveBySerial(serial)
	if err != nil {
		return err
	}
	if err := mountOn("ext4", node, scratchFolder, unix.MS_NOATIME, ""); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(scratchFolder, "tmp"), 0o1777)
}

// moveRoot puts the root file system on a disk: some refusals are about the disk that carries it.
func moveRoot(serial string) error {
	node, err := driveBySerial(serial)
	if err != nil {
		return err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", node).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4 %s: %w\n%s", node, err, out)
	}
	const newRoot = "/mnt/newroot"
	if err := mountOn("ext4", node, newRoot, 0, ""); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", "/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc", "/root", "/var", newRoot).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the root file system to %s: %w\n%s", node, err, out)
	}
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "mnt"} {
		to := filepath.Join(newRoot, dir)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if dir == "mnt" {
			continue
		}
		if err := unix.Mount("/"+dir, to, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move /%s to the new root: %w", dir, err)
		}
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root to %s: %w", node, err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot to %s: %w", node, err)
	}
	return os.Chdir("/")
}
