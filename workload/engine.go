package workload

import "qdsweep/workload/ioengine"

// AutoEngine is the engine that a workload is run with here: its own, or what auto means on this kernel.
func AutoEngine(s Spec) string {
	switch {
	case s.Engine != "auto" && s.Engine != "":
		return s.Engine
	case s.Type == "dd", s.bonnie():
		return "psync"
	default:
		return ioengine.Auto(s.Direct)
	}
}

// ProbeEngine says why an engine does not work here; nil: it does.
// Whether sg does is a matter of the target.
func ProbeEngine(name string) error {
	if name == sgEngine {
		return nil
	}
	return ioengine.Probe(name)
}
