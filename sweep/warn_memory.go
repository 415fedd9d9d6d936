package sweep

import (
	"fmt"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// warnMemory says which workloads measure the machine's memory as much as its drives: those that go through the page cache, and are over
// while it still holds what they did. A workload that ends with an fsync is not, nor is a read that begins without its file in the cache.
// At small scale every size is too small, which is said of all of it.
func (p *Plan) warnMemory(h sysfs.Host) (all []string) {
	memory, err := h.Memory()
	if err != nil || p.Profile.Scaled != nil {
		return nil // a captured tree need not say
	}
	for _, s := range p.Profile.Workloads {
		bytes, instead := remains(s)
		if bytes > 0 && bytes < 2*memory {
			all = append(all, fmt.Sprintf("%s: %s is less than twice the memory of %s, so the page cache is in its figures: make size %s, or %s", s.Name,
				bytesText(bytes), bytesText(memory), workload.FormatSize(memoryFile(memory)), instead))
		}
	}
	return all
}

// remains is how much a workload leaves in the page cache when its clock stops, and what could be written instead of a size.
func remains(s workload.Spec) (bytes int64, instead string) {
	if s.Type != "bonnie" && s.Writes() && !s.Direct && s.Sync == "none" { // bonnie's writes end with an fsync
		return s.SpaceNeeded(), "write sync: fsync"
	}
	return 0, ""
}
