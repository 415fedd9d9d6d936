package stats

import (
	"strings"

	"qdsweep/sweep/results"
)

// Ran is how a phase was driven.
type Ran struct {
	Engine                      string
	BlockSize, Threads, IODepth int64 // 0: the rows do not say
	Parameters                  string
}

// Parameter is one of the further parameters of the workload, "" when it has
// none of that name.
func (r Ran) Parameter(name string) string { return results.LevelIn(r.Parameters, name) }

func ran(r results.Row) Ran {
	of := Ran{Engine: r.Engine, Parameters: r.Parameters}
	of.BlockSize, _ = r.BlockSize.Get()
	of.Threads, _ = r.Threads.Get()
	of.IODepth, _ = r.IODepth.Get()
	return of
}

// cpuOf is the CPU time of a row, and its share of the elapsed time in per cent.
func cpuOf(r results.Row) (seconds, percent results.Num) {
	user, ok := r.CPUUserS.Get()
	sys, also := r.CPUSysS.Get()
	if !ok || !also {
		return results.Num{}, results.Num{}
	}
	elapsed, _ := r.Seconds.Get()
	return results.NumOf(user + sys), results.NumOf(100 * (user + sys) / elapsed) // of no time: no number
}

// overLimit is the errno of a row whose record was over the device's limit, ""
// of any other row.
func overLimit(reason string) string {
	for _, part := range results.SplitReasons(reason) {
		if results.CodeOf(part) != results.OverTheLimit {
			continue
		}
		for word := range strings.FieldsFuncSeq(strings.TrimPrefix(part, string(results.OverTheLimit)), notErrno) {
			if len(word) > 2 && word[0] == 'E' {
				return word
			}
		}
		return "over"
	}
	return ""
}

func notErrno(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
