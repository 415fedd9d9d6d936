package sysfs

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// survey is one look at everything that is in use on a machine.
type survey struct {
	nodes map[string]*node
	uses  []Use
	via   map[Use]string // of a holder's use: the holder's kernel name
}

// node is what has to be known of a block device to tell who shares what.
type node struct {
	name, number string
	disk         string // of a partition: what it is a partition of
	start, size  int64  // bytes
	lower        []string
	container    string // of an array with metadata of a RAID adapter: the array that holds the metadata
}

func (h Host) survey() (*survey, error) {
	sv := &survey{nodes: map[string]*node{}, via: map[Use]string{}}
	names, err := h.wholeNames()
	if err != nil {
		return nil, err
	}
	byNumber := map[string]string{}
	for _, name := range names {
		for _, n := range h.nodesOf(name) {
			sv.nodes[n.name] = n
			byNumber[n.number] = n.name
		}
	}
	if err := h.surveyMounts(sv, byNumber); err != nil {
		return nil, err
	}
	h.surveyHolders(sv, byNumber)
	open, err := h.openForWriting()
	if err != nil {
		return nil, err
	}
	for _, o := range open {
		if name := byNumber[o.number]; name != "" && (o.pid != os.Getpid() || !h.Live()) {
			sv.add(Use{Device: name, Kind: UseOpen, By: fmt.Sprintf("pid %d (%s)", o.pid, o.command), PID: o.pid}, "")
		}
	}
	return sv, nil
}

// nodesOf gives a whole device and its partitions.
func (h Host) nodesOf(name string) []*node {
	dir := "/sys/block/" + name
	number := h.text(dir + "/dev")
	if number == "" {
		return nil
	}
	whole := &node{name: name, number: number, size: h.number(dir+"/size") * sectorSize}
	whole.lower = h.lowerNames(dir)
	if external, ok := strings.CutPrefix(h.text(dir+"/md/metadata_version"), "external:/"); ok {
		whole.container, _, _ = strings.Cut(external, "/")
	}
	nodes := []*node{whole}
	for _, part := range h.names(dir) {
		if !h.exists(dir + "/" + part + "/partition") {
			continue
		}
		nodes = append(nodes, &node{
			name: part, number: h.text(dir + "/" + part + "/dev"), disk: name,
			start: h.number(dir+"/"+part+"/start") * sectorSize, size: h.number(dir+"/"+part+"/size") * sectorSize,
			lower: []string{name},
		})
	}
	return nodes
}

func (sv *survey) add(u Use, holder string) {
	if !slices.Contains(sv.uses, u) {
		sv.uses = append(sv.uses, u)
		sv.via[u] = holder
	}
}

// surveyMounts collects mounts, also those of other mount namespaces, and swap.
func (h Host) surveyMounts(sv *survey, byNumber map[string]string) error {
	mounts, err := h.Mounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		for _, name := range h.mountedNames(m, byNumber) {
			sv.add(Use{Device: name, Kind: UseMounted, By: m.Point}, "")
		}
	}
	for _, other := range h.otherNamespaces() {
		for _, m := range other.mounts {
			for _, name := range h.mountedNames(m, byNumber) {
				if !slices.ContainsFunc(sv.uses, func(u Use) bool { return u.Device == name && u.Kind == UseMounted }) {
					sv.add(Use{Device: name, Kind: UseMounted, By: fmt.Sprintf("%s in the mount namespace of pid %d (%s)", m.Point, other.pid, h.command(other.pid))}, "")
				}
			}
		}
	}
	swaps, err := h.Swaps()
	if err != nil {
		return err
	}
	for _, s := range swaps {
		names := []string{}
		if s.File {
			if m, ok := mountOf(mounts, s.Name); ok {
				names = h.mountedNames(m, byNumber)
			}
		} else if major, minor, err := h.nodeNumber(s.Name); err == nil {
			names = append(names, byNumber[fmt.Sprintf("%d:%d", major, minor)])
		}
		for _, name := range names {
			if name != "" {
				sv.add(Use{Device: name, Kind: UseSwap, By: s.Name}, "")
			}
		}
	}
	return nil
}

// mountedNames gives the block devices a mount keeps busy: its own, all of a btrfs, and those named
// in its options (an XFS log, an ext4 journal).
func (h Host) mountedNames(m Mount, byNumber map[string]string) []string {
	var names []string
	add := func(node string) {
		if !strings.HasPrefix(node, "/dev/") {
			return
		}
		if major, minor, err := h.nodeNumber(node); err == nil {
			names = append(names, byNumber[fmt.Sprintf("%d:%d", major, minor)])
		}
	}
	switch {
	case m.Major != 0:
		names = append(names, byNumber[fmt.Sprintf("%d:%d", m.Major, m.Minor)])
	case m.Type == "btrfs":
		add(m.Source)
		for _, name := range slices.Clone(names) {
			names = append(names, h.btrfsSiblings(name)...)
		}
	case m.Type == "bcachefs":
		for _, source := range strings.Split(m.Source, ":") {
			add(source)
		}
	}
	for _, option := range strings.Split(m.SuperOptions, ",") {
		if _, value, ok := strings.Cut(option, "="); ok {
			add(unescape(value))
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

type namespace struct {
	pid    int
	mounts []Mount
}

// otherNamespaces reads the mounts of each mount namespace but ours, by one process of each.
func (h Host) otherNamespaces() []namespace {
	if !h.Live() {
		return nil
	}
	own, _ := os.Readlink("/proc/self/ns/mnt")
	seen := map[string]bool{own: true, "": true}
	var found []namespace
	for _, entry := range h.names("/proc") {
		if digits(entry) != len(entry) {
			continue
		}
		ns, err := os.Readlink("/proc/" + entry + "/ns/mnt")
		if err != nil || seen[ns] {
			continue
		}
		text, err := h.readAll("/proc/" + entry + "/mountinfo")
		if err != nil {
			continue
		}
		mounts, err := parseMountinfo(strings.NewReader(text))
		if err != nil {
			continue
		}
		seen[ns] = true
		n := namespace{mounts: mounts}
		_, _ = fmt.Sscan(entry, &n.pid) // a name of digits only
		found = append(found, n)
	}
	return found
}

// surveyHolders collects what lies on what. The kernel shows a holder as long as it exists, whether
// or not anybody uses it.
func (h Host) surveyHolders(sv *survey, byNumber map[string]string) {
	for _, n := range sv.nodes {
		if n.disk != "" {
			continue
		}
		kind, by := UseHolder, n.name
		dir := "/sys/block/" + n.name
		switch {
		case h.exists(dir + "/md"):
			kind = UseMD
		case h.exists(dir + "/dm"):
			kind = UseDM
			if name := h.text(dir + "/dm/name"); name != "" {
				by += " (" + name + ")"
			}
		}
		for _, lower := range n.lower {
			sv.add(Use{Device: lower, Kind: kind, By: by}, n.name)
		}
		if file := h.text(dir + "/loop/backing_file"); strings.HasPrefix(file, "/dev/") {
			if major, minor, err := h.nodeNumber(file); err == nil {
				if name := byNumber[fmt.Sprintf("%d:%d", major, minor)]; name != "" {
					sv.add(Use{Device: name, Kind: UseHolder, By: n.name}, n.name)
				}
			}
		}
	}
	slices.SortStableFunc(sv.uses, func(a, b Use) int { return cmp.Or(natural(a.Device, b.Device), natural(a.By, b.By)) })
}
