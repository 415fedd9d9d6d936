package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// kernelModules knows the modules of one kernel. Dependencies are read from the modules themselves
// (the .modinfo section, Documentation/kbuild/modules.rst): a package that is only unpacked has no
// modules.dep, depmod makes that at installation.
type kernelModules struct {
	dir     string            // …/lib/modules/RELEASE
	files   map[string]string // name with underscores → path relative to dir
	builtin map[string]bool
	info    map[string]moduleInfo
}

// moduleInfo is what .modinfo says of one module.
type moduleInfo struct {
	Depends []string // must be loaded first
	Before  []string // "softdep=pre:": loaded first where it exists
	Aliases []string
}

var errNoModule = errors.New("no such module")

func openModules(dir string) (*kernelModules, error) {
	m := &kernelModules{dir: dir, files: map[string]string{}, builtin: map[string]bool{}, info: map[string]moduleInfo{}}
	err := filepath.WalkDir(dir, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := moduleName(p); name != "" && !entry.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			m.files[name] = rel
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the modules of %s: %w", dir, err)
	}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("list what is built into the kernel: %w", err)
	}
	for _, line := range strings.Fields(string(list)) {
		m.builtin[moduleName(line)] = true
	}
	return m, nil
}

// moduleName is the name lsmod shows for a file: no folder, no ending, underscores. "" is not a module.
func moduleName(file string) string {
	base := filepath.Base(file)
	for _, ending := range []string{".ko", ".ko.xz", ".ko.zst", ".ko.gz"} {
		if name, is := strings.CutSuffix(base, ending); is {
			return strings.ReplaceAll(name, "-", "_")
		}
	}
	return ""
}

// Order gives the modules to load for names, in an order in which each finds what it needs. A module
// built into the kernel is left out. errNoModule: the kernel has neither.
func (m *kernelModules) Order(names ...string) ([]string, error) {
	var order []string
	state := map[string]int{} // 1: being visited, 2: in the order
	var visit func(name string, wanted bool) error
	visit = func(name string, wanted bool) error {
		name = strings.ReplaceAll(name, "-", "_")
		if state[name] != 0 || m.builtin[name] {
			return nil
		}
		if _, is := m.files[name]; !is {
			if !wanted {
				return nil
			}
			return fmt.Errorf("%w: %s is not in %s", errNoModule, name, m.dir)
		}
		state[name] = 1
		info, err := m.Info(name)
		if err != nil {
			return err
		}
		for _, before := range info.Before {
			if err := visit(before, false); err != nil {
				return err
			}
		}
		for _, needed := range info.Depends {
			if err := visit(needed, true); err != nil {
				return fmt.Errorf("%s needs %s: %w", name, needed, err)
			}
		}
		state[name] = 2
		order = append(order, name)
		return nil
	}
	for _, name := range names {
		if err := visit(name, true); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// Info reads the .modinfo of a module.
func (m *kernelModules) Info(name string) (moduleInfo, error) {
	if info, known := m.info[name]; known {
		return info, nil
	}
	content, err := m.Content(name)
	if err != nil {
		return moduleInfo{}, err
	}
	object, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return moduleInfo{}, fmt.Errorf("read module %s: %w", m.files[name], err)
	}
	section := object.Section(".modinfo")
	if section == nil {
		return moduleInfo{}, fmt.Errorf("read module %s: no .modinfo", m.files[name])
	}
	data, err := section.Data()
	if err != nil {
		return moduleInfo{}, fmt.Errorf("read module %s: %w", m.files[name], err)
	}
	info := parseModinfo(data)
	m.info[name] = info
	return info, nil
}

// Content is a module as the kernel loads it, decompressed.
func (m *kernelModules) Content(name string) ([]byte, error) {
	file := filepath.Join(m.dir, m.files[name])
	tool := map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}[filepath.Ext(file)]
	if tool == "" {
		return os.ReadFile(file)
	}
	content, err := exec.Command(tool, "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", file, err)
	}
	return content, nil
}

// Tables are modules.dep and modules.alias over the given modules, for modprobe in the guest.
func (m *kernelModules) Tables(names []string) (dep, alias []byte, err error) {
	var deps, aliases bytes.Buffer
	for _, name := range names {
		order, err := m.Order(name)
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&deps, "%s:", guestModule(name))
		for i := len(order) - 2; i >= 0; i-- { // modules.dep lists the last to load first
			fmt.Fprintf(&deps, " %s", guestModule(order[i]))
		}
		deps.WriteByte('\n')
		info, err := m.Info(name)
		if err != nil {
			return nil, nil, err
		}
		sort.Strings(info.Aliases)
		for _, a := range info.Aliases {
			fmt.Fprintf(&aliases, "alias %s %s\n", a, name)
		}
	}
	return deps.Bytes(), aliases.Bytes(), nil
}

// guestModule is where the guest keeps a module, relative to its lib/modules/RELEASE.
func guestModule(name string) string { return "kernel/" + name + ".ko" }

// parseModinfo reads NUL-separated key=value pairs.
func parseModinfo(data []byte) moduleInfo {
	var info moduleInfo
	for _, pair := range strings.Split(string(data), "\x00") {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			continue
		}
		switch key {
		case "depends":
			for _, name := range strings.Split(value, ",") {
				if name != "" {
					info.Depends = append(info.Depends, strings.ReplaceAll(name, "-", "_"))
				}
			}
		case "softdep":
			before := false
			for _, word := range strings.Fields(value) {
				switch {
				case strings.HasSuffix(word, ":"):
					before = word == "pre:"
				case before:
					info.Before = append(info.Before, word)
				}
			}
		case "alias":
			info.Aliases = append(info.Aliases, value)
		}
	}
	return info
}
