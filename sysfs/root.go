package sysfs

import (
	"path"
	"strings"
)

// rootDisks gives the whole disks under the root file system, each with the way it is found. Root can
// be an overlay or a loop device of a live system; then what these lie on counts. A root that is all
// in memory has none.
func (h Host) rootDisks() (map[string]string, error) {
	mounts, err := h.Mounts()
	if err != nil {
		return nil, err
	}
	disks := map[string]string{}
	h.addRoot(disks, mounts)
	// In a container our "/" is not the machine's.
	if text, err := h.readAll("/proc/1/mountinfo"); err == nil {
		if first, err := parseMountinfo(strings.NewReader(text)); err == nil {
			h.addRoot(disks, first)
		}
	}
	return disks, nil
}

func (h Host) addRoot(disks map[string]string, mounts []Mount) {
	seen := map[int]bool{}
	var follow func(m Mount, depth int)
	under := func(file string, depth int) {
		if m, ok := mountOf(mounts, path.Clean(file)); ok && strings.HasPrefix(file, "/") {
			follow(m, depth+1)
		}
	}
	follow = func(m Mount, depth int) {
		if seen[m.ID] || depth > 8 {
			return
		}
		seen[m.ID] = true
		for _, option := range strings.Split(m.SuperOptions, ",") {
			key, value, _ := strings.Cut(option, "=")
			switch strings.TrimSuffix(key, "+") {
			case "lowerdir", "upperdir", "workdir", "datadir":
				for _, dir := range strings.Split(unescape(value), ":") {
					if dir != "" {
						under(dir, depth)
					}
				}
			}
		}
		if noKnobs(m) != "" {
			return
		}
		devices, err := h.fileSystemDevices(m)
		if err != nil {
			return
		}
		for _, d := range devices {
			s := Stack{Device: d}
			if h.descend(&s) != nil {
				continue
			}
			for _, member := range s.Members {
				disks[member.Name] = m.Point
				if file := h.text(member.dir + "/loop/backing_file"); file != "" {
					under(file, depth)
				}
			}
		}
	}
	for _, m := range mounts { // every mount on "/", also one that is mounted over
		if m.Point == "/" {
			follow(m, 0)
		}
	}
}

// judgeRoot refuses the root file system's disk, and any part of it, as a device that is driven. No
// flag allows it: a sweep's settings and load would be the system's own.
func judgeRoot(s Stack, root map[string]string) (refusals []Refusal) {
	if s.Directory != "" {
		return nil
	}
	for _, m := range s.Members {
		if _, ok := root[m.Name]; ok {
			refusals = append(refusals, Refusal{m.Name, m.Name + " holds the root file system", "choose another disk, or a directory on it: --directory DIR"})
		}
	}
	return refusals
}
