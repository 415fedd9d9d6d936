package sysfs

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var nvmeControllerName = regexp.MustCompile(`^nvme\d+$`)

// nvmeControllers gives the directories of the controllers through which an NVMe namespace is reached. A
// namespace hangs below its controller, or, where several controllers can share one (NVMe multipath),
// below a virtual subsystem that holds links to them.
func (h Host) nvmeControllers(d Device) []string {
	at := h.devicePath(d)
	if nvmeControllerName.MatchString(path.Base(at)) {
		return []string{at}
	}
	var all []string
	for _, name := range h.names(at) {
		if nvmeControllerName.MatchString(name) {
			all = append(all, h.real(at+"/"+name))
		}
	}
	return all
}

// nvmeShared says why the write cache of a namespace is not its own to switch: feature 06h belongs to a
// controller, so it holds for every namespace of that controller, and for none of another one's.
func (d Device) nvmeShared() string {
	controllers := d.host.nvmeControllers(d)
	if len(controllers) > 1 {
		var names []string
		for _, c := range controllers {
			names = append(names, path.Base(c))
		}
		return fmt.Sprintf("NVMe multipath: %s is reached through %s, each with a write cache setting of its own",
			d.Name, strings.Join(names, " and "))
	}
	var others []string
	for _, name := range d.host.names(d.host.devicePath(d)) {
		if nvmeName.MatchString(name) && name != d.Name {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		return fmt.Sprintf("the write cache is the controller's, and %s on the same controller would be switched with it", strings.Join(others, " "))
	}
	return ""
}

// nvmeControllerNode is the node that nvme-cli takes for a namespace's controller: "/dev/nvme0".
func (d Device) nvmeControllerNode() string {
	if c := d.host.nvmeControllers(d); len(c) == 1 {
		return "/dev/" + path.Base(c[0])
	}
	return d.Path
}
