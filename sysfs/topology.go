package sysfs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// lower gives the devices directly under one: a partition's disk; the slaves of dm, md and whatever
// else the kernel stacks; the members an array has in md/ (a faulty one may be in one place only). md
// keeps the name of a member whose disk was pulled; that one is left out, and failedArrays speaks of it.
func (h Host) lower(d Device) ([]Device, error) {
	if d.Kind == KindPartition {
		whole, err := d.Whole()
		return []Device{whole}, err
	}
	var under []Device
	var lost []string
	for _, name := range h.lowerNames(d.dir) {
		l, err := h.Device(name)
		switch {
		case err == nil:
			under = append(under, l)
		case d.Kind == KindMD && errors.Is(err, ErrNoDevice):
			lost = append(lost, name)
		default:
			return nil, fmt.Errorf("look at %s under %s: %w", name, d.Name, err)
		}
	}
	if under == nil && lost != nil {
		return nil, fmt.Errorf("look at what is under %s: %s: %w", d.Name, strings.Join(lost, ", "), ErrNoDevice)
	}
	return under, nil
}

// lowerNames is lower for a whole device's directory, by name.
func (h Host) lowerNames(dir string) []string {
	names := h.names(dir + "/slaves")
	for _, entry := range h.names(dir + "/md") {
		name, ok := strings.CutPrefix(entry, "dev-")
		if !ok {
			continue
		}
		link := dir + "/md/" + entry + "/block"
		if p := h.real(link); p != link {
			name = path.Base(p)
		}
		names = append(names, name)
	}
	slices.SortFunc(names, natural)
	return slices.Compact(names)
}

// descend fills in layers and members, breadth first, each device once.
func (h Host) descend(s *Stack) error {
	queue := append([]Device{s.Device}, s.More...)
	seen := map[string]bool{}
	for len(queue) > 0 {
		d := queue[0]
		queue = queue[1:]
		if seen[d.Name] {
			continue
		}
		seen[d.Name] = true
		under, err := h.lower(d)
		if err != nil {
			return err
		}
		if len(under) == 0 {
			s.Members = append(s.Members, d)
			continue
		}
		l := Layer{Device: d, Detail: h.detail(d)}
		for _, u := range under {
			l.under = append(l.under, u.Name)
		}
		s.Layers = append(s.Layers, l)
		queue = append(queue, under...)
	}
	s.measure()
	slices.SortFunc(s.Members, func(a, b Device) int { return natural(a.Name, b.Name) })
	return nil
}

// measure gives each layer its height: one more than the highest of what it lies on. What comes first in the list may lie higher or
// lower than what comes after it, so that it takes as many rounds as there are heights.
func (s *Stack) measure() {
	height := map[string]int{}
	for range s.Layers {
		settled := true
		for i := range s.Layers {
			l, h := &s.Layers[i], 0
			for _, name := range l.under {
				h = max(h, height[name])
			}
			if l.height = h + 1; height[l.Device.Name] != l.height {
				height[l.Device.Name], settled = l.height, false
			}
		}
		if settled {
			return
		}
	}
}

// detail says in a few words what a layer is.
func (h Host) detail(d Device) string {
	switch d.Kind {
	case KindPartition:
		return fmt.Sprintf("partition, starts at byte %d", d.start())
	case KindMD:
		return h.arrayDetail(d)
	case KindDM:
		return h.mapperKind(d)
	}
	return string(d.Kind)
}

// mapperKind tells device-mapper devices apart by the prefix of their UUID; tables are not in sysfs.
func (h Host) mapperKind(d Device) string {
	uuid, name := h.text(d.dir+"/dm/uuid"), h.text(d.dir+"/dm/name")
	kind := "device-mapper"
	switch {
	case strings.HasPrefix(uuid, "LVM-"):
		kind = "LVM volume"
	case strings.HasPrefix(uuid, "CRYPT-"):
		kind = "crypt"
	case strings.HasPrefix(uuid, "mpath-"):
		kind = "multipath"
	}
	if name != "" {
		kind += " " + name
	}
	return kind
}

func nameList(devices []Device) string {
	names := make([]string, 0, len(devices))
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}
