package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tool is a program of the host that every guest has.
type tool struct{ Name, Package string }

// tools are the real programs that the guest brings along; the rest is busybox.
func tools() []tool {
	return []tool{
		{"busybox", "busybox-static"}, {"mdadm", "mdadm"}, {"hdparm", "hdparm"}, {"sg_modes", "sg3-utils"}, {"sg_inq", "sg3-utils"},
		{"sg_dd", "sg3-utils"}, {"sdparm", "sdparm"}, {"nvme", "nvme-cli"}, {"blkid", "util-linux"}, {"lsblk", "util-linux"}, {"wipefs", "util-linux"}, {"losetup", "mount"}, {"sfdisk", "fdisk"},
		{"mkfs.ext4", "e2fsprogs"}, {"mkfs.xfs", "xfsprogs"}, {"lvm", "lvm2"}, {"dmsetup", "dmsetup"}, {"cryptsetup", "cryptsetup-bin"},
		{"systemd", "systemd"}, {"systemctl", "systemd"}, {"systemd-analyze", "systemd"},
	}
}

// hostTools are needed on the host itself.
func hostTools() []tool {
	return []tool{{"qemu-system-x86_64", "qemu-system-x86"}, {"mkfs.ext4", "e2fsprogs"}}
}

// missingTools are the packages that have to be installed, each once; a tool without a package is optional.
func missingTools() []string {
	var packages []string
	seen := map[string]bool{}
	for _, t := range append(hostTools(), tools()...) {
		if _, err := findProgram(t.Name); err != nil && t.Package != "" && !seen[t.Package] {
			seen[t.Package] = true
			packages = append(packages, t.Package)
		}
	}
	return packages
}

// findProgram looks in PATH, and where the system's programs are for those who have not got it there.
func findProgram(name string) (string, error) {
	if found, err := exec.LookPath(name); err == nil {
		return filepath.Abs(found)
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"} {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// programFiles are the files that a program needs to start: itself, its loader, and its shared libraries
// with theirs, as paths of the host. A static program needs itself alone; a script its interpreter too.
func programFiles(program string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	var visit func(file string) error
	visit = func(file string) error {
		if seen[file] {
			return nil
		}
		seen[file] = true
		files = append(files, file)
		if interpreter := scriptInterpreter(file); interpreter != "" {
			return visit(interpreter)
		}
		needs, err := elfNeeds(file)
		if err != nil {
			return err
		}
		for _, name := range needs {
			found, err := findLibrary(name, file)
			if err != nil {
				return fmt.Errorf("%s needs %s: %w", file, name, err)
			}
			if err := visit(found); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(program); err != nil {
		return nil, err
	}
	return files, nil
}

// elfNeeds are the loader (a path) and the libraries (names) that an ELF file names.
func elfNeeds(file string) ([]string, error) {
	object, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	defer func() { _ = object.Close() }()
	needs, err := object.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read the libraries of %s: %w", file, err)
	}
	for _, part := range object.Progs {
		if part.Type != elf.PT_INTERP {
			continue
		}
		loader := make([]byte, part.Filesz)
		if _, err := part.ReadAt(loader, 0); err != nil {
			return nil, fmt.Errorf("read the loader of %s: %w", file, err)
		}
		needs = append(needs, strings.TrimRight(string(loader), "\x00"))
	}
	return needs, nil
}

// findLibrary looks where ld.so looks, without its cache: beside the program, and in the usual folders.
func findLibrary(name, neededBy string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	folders := []string{
		filepath.Dir(neededBy), "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib",
	}
	nested, _ := filepath.Glob("/usr/lib/x86_64-linux-gnu/*/" + name) // RUNPATH folders, as pulseaudio/, ceph/
	for _, dir := range folders {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name), nil
		}
	}
	if len(nested) > 0 {
		return nested[0], nil
	}
	return "", fs.ErrNotExist
}

// scriptInterpreter is the program in a file's first line, "" where it is no script.
func scriptInterpreter(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 128)
	n, err := f.Read(head)
	if err != nil && !errors.Is(err, fs.ErrClosed) && n == 0 {
		return ""
	}
	line, is := strings.CutPrefix(strings.SplitN(string(head[:n]), "\n", 2)[0], "#!")
	if !is {
		return ""
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
