package report

import (
	"fmt"
	"slices"
	"strconv"

	"qdsweep/sweep/stats"
)

// classicTables are the shapes in which the experiments were posted whose
// workloads qdsweep has, but for bonnie's, which is a format of its own.
func classicTables() []classic { return []classic{threadsTable(), ddTable(), sgpddTable()} }

// threadsTable is the one of 2007: drives by block size and threads, a column
// each for linear and random reads, writes, and both at once. It is made where
// the mode is an axis: only then does the summary have these far apart.
func threadsTable() classic {
	return classic{
		title: "MB/s (10^6 byte/s) by block size and threads; lin: sequential, rnd: random, rw: readers (r) and writers (w) at once",
		fits: func(c *stats.Cell, p *stats.Phase, ran stats.Ran) bool {
			return p.Type == "io" && hasAxis(c, "mode") && !surveyed(p, ran)
		},
		dropped: []string{"mode", "block_size", "threads"},
		own: []ownColumn{
			{name: "block", head: []string{"block", "KiB"}, of: func(r stats.Ran) string { return kib(r.BlockSize) }},
			{name: "threads", head: []string{"threads"}, of: threadsOf},
		},
		figures: func(lines []*line) (groups [][]column) {
			for _, of := range [][2]string{{"read", "lin_read"}, {"randread", "rnd_read"}, {"write", "lin_write"}, {"randwrite", "rnd_write"}, {"rw", "lin_mix"}, {"randrw", "rnd_mix"}} {
				if has(lines, of[0]) {
					groups = append(groups, []column{{head: []string{of[1]}, cells: rates(lines, of[0], threeDigits)}})
				}
			}
			for _, of := range [][2]string{{"read+write", "lin_rw"}, {"randread+randwrite", "rnd_rw"}} {
				if has(lines, of[0]+"/r") || has(lines, of[0]+"/w") {
					groups = append(groups, []column{
						{pair: of[1], head: []string{"", "r"}, cells: rates(lines, of[0]+"/r", threeDigits)},
						{head: []string{"", "w"}, cells: rates(lines, of[0]+"/w", threeDigits)},
					})
				}
			}
			return groups
		},
	}
}

// ddTable is the one of 1999: what `time dd` and `time rm` say.
func ddTable() classic {
	return classic{
		title:   "dd: elapsed time, CPU time of the workload, and rate (MB is 10^6 byte)",
		fits:    func(_ *stats.Cell, p *stats.Phase, _ stats.Ran) bool { return p.Type == "dd" },
		dropped: []string{"mode", "processes"},
		own: []ownColumn{
			{name: "size", head: []string{"size"}, of: func(r stats.Ran) string { return r.Parameter("size") }},
			{name: "processes", head: []string{"processes"}, dull: "1", of: threadsOf},
		},
		figures: func(lines []*line) (groups [][]column) {
			for _, of := range [][2]string{{"write", "write"}, {"read", "read"}, {"remove", "rm"}} {
				if !has(lines, of[0]) {
					continue
				}
				list := phase(lines, of[0])
				group := []column{
					{pair: of[1], head: []string{"", "real", "s"}, cells: figures(list, 3, func(s *stats.Summary) stats.Sample { return s.Seconds })},
					{head: []string{"", "user+sys", "s"}, cells: figures(list, 3, func(s *stats.Summary) stats.Sample { return s.CPUSeconds })},
				}
				if of[0] != "remove" {
					group[0].span = 3
					group = append(group, column{head: []string{"", "rate", "MB/s"}, cells: rates(lines, of[0], 2)})
				}
				groups = append(groups, group)
			}
			return groups
		},
	}
}

// sgpddTable is that of sgpdd-survey: a line a record size, number of regions
// and number of threads; of writes and reads the rate by elapsed time, and
// beside it what it would be if all were as slow as the slowest.
func sgpddTable() classic {
	return classic{
		title: "sgpdd-survey: total_size is what was driven (-: the device), rsz the record, crg the regions, thr the threads; MB/s (10^6 byte/s, " +
			"sgpdd-survey's own MB is 2^20) by elapsed time, then threads × the slowest of them",
		fits:    func(_ *stats.Cell, p *stats.Phase, ran stats.Ran) bool { return surveyed(p, ran) },
		dropped: []string{"mode", "block_size", "threads", "regions"},
		own: []ownColumn{
			{name: "total_size", head: []string{"total_size", "KiB"}, of: func(r stats.Ran) string { return kib(bytesOf(r.Parameter("size"))) }},
			{name: "rsz", head: []string{"rsz", "KiB"}, of: func(r stats.Ran) string { return kib(r.BlockSize) }},
			{name: "crg", head: []string{"crg"}, of: func(r stats.Ran) string { return r.Parameter("regions") }},
			{name: "thr", head: []string{"thr"}, of: threadsOf},
		},
		figures: func(lines []*line) (groups [][]column) {
			for _, name := range []string{"write", "read"} {
				if has(lines, name) {
					groups = append(groups, []column{
						{pair: name, head: []string{"", "MB/s"}, cells: rates(lines, name, threeDigits)},
						{head: []string{"", "thr x slowest"}, cells: slowest(phase(lines, name))},
					})
				}
			}
			return groups
		},
	}
}

// surveyed says whether a phase is one that sgpdd-survey has: sequential, by
// SCSI commands, and not dd's, which has a table of its own.
func surveyed(p *stats.Phase, ran stats.Ran) bool {
	return p.Type == "io" && ran.Engine == "sg" && (p.Phase == "read" || p.Phase == "write")
}

// slowest is the check of sgpdd-survey: 4 x 11.2 = 44.8.
func slowest(list []*stats.Summary) []string {
	var each []float64
	for _, s := range list {
		if s != nil && s.MBPerSSlowest.N > 0 && s.Ran.Threads > 0 {
			each = append(each, s.MBPerSSlowest.Median/float64(s.Ran.Threads))
		}
	}
	digits := decimals(each)
	cells := make([]string, len(list))
	for i, s := range list {
		if cells[i] = none; s == nil || s.MBPerSSlowest.N == 0 || s.Ran.Threads == 0 {
			continue
		}
		all := s.MBPerSSlowest.Median
		cells[i] = fmt.Sprintf("%d x %.*f = %.*f", s.Ran.Threads, digits, all/float64(s.Ran.Threads), digits, all)
	}
	return cells
}

func rates(lines []*line, name string, digits int) []string {
	return figures(phase(lines, name), digits, func(s *stats.Summary) stats.Sample { return s.MBPerS })
}

func hasAxis(c *stats.Cell, axis string) bool {
	return slices.ContainsFunc(c.Levels, func(l stats.Level) bool { return l.Axis == axis })
}

func threadsOf(r stats.Ran) string {
	if r.Threads == 0 {
		return ""
	}
	return strconv.FormatInt(r.Threads, 10)
}

// kib is a number of bytes in KiB: 1024, 0.5; "" for none.
func kib(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(bytes)/1024, 'f', -1, 64)
}

// bytesOf reads a size of the column parameters: 8g; 0 for none.
func bytesOf(text string) int64 {
	v, ok := size(text)
	if !ok {
		return 0
	}
	return int64(v)
}
