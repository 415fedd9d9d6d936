package sweep

import (
	"slices"

	"qdsweep/sysfs"
)

// memoryFile is the size of bonnie's large file where the profile names none: twice the memory, so that it cannot be cached.
//
// What the kernel has to give out of the same memory differs a little from one kernel to the next, and with it the size would, and the
// figures of the two could not be compared. So the memory is rounded up to what is plugged in, or nearly: to whole GiB, and of a machine
// with less than 4 GiB to whole 64 MiB.
func memoryFile(memory int64) int64 {
	step := int64(1 << 30)
	if memory < 4<<30 {
		step = 64 << 20
	}
	return 2 * ((memory + step - 1) / step * step)
}

// settleSizes puts the sizes in that depend on the machine, once for the whole sweep, so that plan and rows say them. Where the machine does
// not say how much memory it has, the size stays unknown, which is refused as such.
func (p *Plan) settleSizes(h sysfs.Host) {
	p.Profile.Workloads = slices.Clone(p.Profile.Workloads)
	for i := range p.Profile.Workloads {
		if w := &p.Profile.Workloads[i]; w.Type == "bonnie" && w.Size == 0 {
			if memory, err := h.Memory(); err == nil {
				w.Size = memoryFile(memory)
			}
		}
	}
}
