package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
)

// bootConfig is what the host tells the guest's init, in bootConfigFile.
type bootConfig struct {
	Guest   string
	Modules []loadModule
	Drives  int // block devices to wait for
	Scratch string
	Root    string // serial of the disk "/" is moved onto
	Shares  []share
	Args    []string
	Env     []string
	Dir     string
	TTY     bool
	Stdin   bool
	Rows    uint16
	Columns uint16
	Cuts    bool // programs may ask for a power cut
	Probe   bool // only says hello: does the accelerator work

	Modelled []modelledDrive
}

// loadModule is one finit_module(2).
type loadModule struct{ File, Options string }

// share is a folder of the host, by 9p.
type share struct {
	Host  string `json:"-"`
	Guest string
	Write bool
}

// addedFile is a file of the host put into the guest's memory.
type addedFile struct {
	Host, Guest string
	Content     []byte // instead of Host
	Mode        uint32
}

const bootConfigFile = "/etc/qdlab.json"

// guestFolders merges /bin, /sbin and /lib* into /usr, as the distributions do now; a guest path goes through usrMerged.
var mergedFolders = [...]string{"bin", "sbin", "lib", "lib64"}

func usrMerged(p string) string {
	for _, dir := range mergedFolders {
		if strings.HasPrefix(p, "/"+dir+"/") {
			return "/usr" + p
		}
	}
	return p
}

// writeInitramfs assembles the guest's memory file system: init is this very program. It is left
// uncompressed: unpacking costs an emulated CPU more than QEMU needs to load it.
func writeInitramfs(w io.Writer, k kernel, config bootConfig, extraTools []string, added []addedFile) error {
	archive := newCPIOWriter(w)
	for _, dir := range mergedFolders {
		archive.Folder("usr/"+dir, 0o755)
		archive.Symlink(dir, "usr/"+dir)
	}
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "root", "mnt", "etc", "var/lib", "var/log", strings.TrimPrefix(scratchFolder, "/")} {
		archive.Folder(dir, 0o755)
	}
	archive.Char("dev/console", 0o600, 5, 1)
	archive.Symlink("etc/mtab", "/proc/self/mounts")
	archive.File("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"))
	archive.File("etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n"))
	archive.File("etc/hostname", 0o644, []byte("qdlab\n"))

	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	programs := map[string]string{"/usr/bin/qdlab": self}
	if !config.Probe {
		if err := toolPrograms(programs, extraTools); err != nil {
			return err
		}
	}
	if err := addPrograms(archive, programs); err != nil {
		return err
	}
	archive.Symlink("init", "/usr/bin/qdlab")
	if !config.Probe {
		if err := addApplets(archive, programs); err != nil {
			return err
		}
		if err := addModules(archive, k, config); err != nil {
			return err
		}
	}
	for _, file := range added {
		if file.Content != nil {
			archive.File(usrMerged(file.Guest), file.Mode, file.Content)
		} else if err := archive.HostFile(usrMerged(file.Guest), file.Host); err != nil {
			return err
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	archive.File(bootConfigFile, 0o644, text)
	return archive.Close()
}

// toolPrograms adds where each tool is on the host, by its path in the guest.
func toolPrograms(programs map[string]string, extra []string) error {
	for _, t := range tools() {
		found, err := findProgram(t.Name)
		if err == nil {
			programs[usrMerged(found)] = found
		} else if t.Package != "" {
			return fmt.Errorf("%w: apt-get install %s", err, strings.Join(missingTools(), " "))
		}
	}
	for _, name := range extra {
		found, err := findProgram(name)
		if err != nil {
			return fmt.Errorf("--tool %w", err)
		}
		programs[usrMerged(found)] = found
	}
	return nil
}

// addPrograms adds programs (path in the guest → on the host) and the libraries they need, each once.
func addPrograms(archive *cpioWriter, programs map[string]string) error {
	done := map[string]bool{}
	for _, inGuest := range sortedKeys(programs) {
		files, err := programFiles(programs[inGuest])
		if err != nil {
			return err
		}
		for i, file := range files {
			name := usrMerged(file)
			if i == 0 {
				name = inGuest
			}
			if done[name] {
				continue
			}
			done[name] = true
			if err := archive.HostFile(name, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// addApplets links busybox to the names of all its applets but those that a real program has.
func addApplets(archive *cpioWriter, programs map[string]string) error {
	busybox, err := findProgram("busybox")
	if err != nil {
		return err
	}
	list, err := exec.Command(busybox, "--list-full").Output()
	if err != nil {
		return fmt.Errorf("busybox --list-full: %w", err)
	}
	real := map[string]bool{"busybox": true}
	for inGuest := range programs {
		real[path.Base(inGuest)] = true
	}
	for _, applet := range strings.Fields(string(list)) {
		name := usrMerged("/" + applet)
		if !real[path.Base(name)] {
			archive.Symlink(name, usrMerged(busybox))
		}
	}
	for _, name := range []string{"pvcreate", "vgcreate", "lvcreate", "pvs", "vgs", "lvs", "vgchange", "vgremove"} {
		archive.Symlink("/usr/sbin/"+name, "lvm")
	}
	return nil
}

// addModules adds what the guest loads and what modprobe may want later, with modprobe's tables.
func addModules(archive *cpioWriter, k kernel, config bootConfig) error {
	var wanted []string
	for _, m := range config.Modules {
		wanted = append(wanted, moduleName(m.File))
	}
	for _, name := range spareModules() {
		order, err := k.Modules.Order(name)
		if err != nil {
			continue // not loaded by any guest: kernelIn has checked those
		}
		wanted = append(wanted, order...)
	}
	wanted = distinct(wanted)
	dir := "/usr/lib/modules/" + k.Release + "/"
	for _, name := range wanted {
		content, err := k.Modules.Content(name)
		if err != nil {
			return err
		}
		archive.File(dir+guestModule(name), 0o644, content)
	}
	dep, alias, err := k.Modules.Tables(wanted)
	if err != nil {
		return err
	}
	archive.File(dir+"modules.dep", 0o644, dep)
	archive.File(dir+"modules.alias", 0o644, alias)
	return nil
}

// modulesToLoad turns a guest's modules into finit_module calls, dependencies first.
func modulesToLoad(k kernel, g guest) ([]loadModule, error) {
	options := map[string]string{}
	var names []string
	for _, m := range g.modules() {
		names = append(names, m.Name)
		options[strings.ReplaceAll(m.Name, "-", "_")] = m.Options
	}
	order, err := k.Modules.Order(names...)
	if err != nil {
		return nil, fmt.Errorf("guest %s: %w", g.Name, err)
	}
	load := make([]loadModule, 0, len(order))
	for _, name := range order {
		load = append(load, loadModule{"/usr/lib/modules/" + k.Release + "/" + guestModule(name), options[name]})
	}
	return load, nil
}
