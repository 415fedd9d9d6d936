package sweep

import (
	"fmt"
	"os"
	"slices"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// bestEngine is what auto means where the kernel allows it.
const bestEngine = "io_uring"

// settleEngines decides once for the whole sweep what `engine: auto` is on this kernel: a sweep of which the half was done with another
// engine could not be compared with itself. It also refuses an engine that is named and does not work here, before anything is touched.
//
// The kernel that runs this is asked, for this process: io_uring may be forbidden to it alone. So a captured machine, and somebody who may
// only plan, get no answer, and auto stays auto.
func (p *Plan) settleEngines(h sysfs.Host) []sysfs.Refusal {
	if !h.Live() || os.Geteuid() != 0 {
		return nil
	}
	return p.settleEnginesBy(workload.AutoEngine, workload.ProbeEngine)
}

func (p *Plan) settleEnginesBy(auto func(workload.Spec) string, probe func(engine string) error) (refusals []sysfs.Refusal) {
	p.Profile.Workloads = slices.Clone(p.Profile.Workloads)
	for i := range p.Profile.Workloads {
		w := &p.Profile.Workloads[i]
		if w.Engine == "auto" {
			w.Engine = auto(*w)
			if err := probe(bestEngine); err != nil && w.Has("iodepth") {
				p.Warnings = append(p.Warnings, fmt.Sprintf("workload %s: engine auto is %s here, for %s does not work: %v", w.Name, w.Engine, bestEngine, err))
			}
			continue
		}
		if err := probe(w.Engine); err != nil {
			refusals = append(refusals, sysfs.Refusal{Reason: fmt.Sprintf("workload %s: engine %s does not work on this kernel: %v", w.Name, w.Engine, err),
				Fix: "let it be engine: auto, which takes the best that does"})
		}
	}
	return refusals
}
