package workload

// runBonnie does the phases of bonnie that this version has: none yet, and says so.
func runBonnie(s Spec, _ Target, _ uint64) []Result {
	return []Result{{Phase: s.Phases()[0], Engine: s.Engine, Threads: 1, BlockSize: s.BlockSize, IODepth: 1,
		Err: "bonnie's phases are not yet in this version"}}
}
