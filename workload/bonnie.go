package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The phases of bonnie, in the order in which they are done, by the names under which its figures have been published.
const (
	putc        = "putc"
	blockWrite  = "write"
	rewrite     = "rewrite"
	getc        = "getc"
	blockRead   = "read"
	randomSeeks = "seeks"
	seqCreate   = "seq_create"
	seqStat     = "seq_stat"
	seqDelete   = "seq_delete"
	ranCreate   = "ran_create"
	ranStat     = "ran_stat"
	ranDelete   = "ran_delete"
)

// BonniePhases are all phases of bonnie, in order.
func BonniePhases() []string {
	return []string{putc, blockWrite, rewrite, getc, blockRead, randomSeeks, seqCreate, seqStat, seqDelete, ranCreate, ranStat, ranDelete}
}

// allPhases is the parameter `phases` of all twelve.
const allPhases = "all"

// thousand is what `files` counts in, as bonnie++ does: nobody wants to test fewer.
const thousand = 1024

func (s Spec) bonnie() bool { return s.Type == "bonnie" }

// bonniePhases are the phases that are done. Without files there are none of files, as in bonnie++ -n 0.
func (s Spec) bonniePhases() []string {
	all := BonniePhases()
	if s.BonniePhases != allPhases {
		all = strings.Fields(s.BonniePhases)
	}
	if s.Files == 0 {
		all = slices.DeleteFunc(all, ofFiles)
	}
	return all
}

// ofFiles says whether a phase is one of many small files, and not of the one large file.
func ofFiles(phase string) bool { return strings.Contains(phase, "_") }

// ownFile says whether a phase writes the large file from nothing, so that none need be there.
func ownFile(phase string) bool { return phase == putc || phase == blockWrite }

// needsFile says whether the large file has to be laid out before the first phase.
func (s Spec) needsFile() bool {
	phases := s.bonniePhases()
	return len(phases) > 0 && !ofFiles(phases[0]) && !ownFile(phases[0])
}

// parsePhases reads a choice of phases; they are done in bonnie's order, so they have to be given in it.
func parsePhases(v string) (string, bool) {
	if v == allPhases {
		return v, true
	}
	order := BonniePhases()
	var phases []string
	last := -1
	for _, name := range strings.FieldsFunc(v, func(c rune) bool { return c == ' ' || c == ',' }) {
		i := slices.Index(order, name)
		if i <= last { // no phase, one twice, or out of order
			return "", false
		}
		last = i
		phases = append(phases, name)
	}
	if len(phases) == len(order) {
		return allPhases, true
	}
	return strings.Join(phases, " "), len(phases) > 0
}

// bonnieReads says what one phase does to the target.
func bonnieReads(phase string) (reads, writes bool) {
	switch phase {
	case getc, blockRead, seqStat, ranStat:
		return true, false
	case rewrite, randomSeeks:
		return true, true
	default:
		return false, true
	}
}

// Inline says whether a phase reads small files, whose contents a file system may keep with their names, where they cannot be dropped.
func (s Spec) Inline(phase string) bool { return s.bonnie() && ofFiles(phase) }

// BothWays says whether a phase reads and writes as many bytes as it counts, each: bonnie's rewrite reads every chunk and writes it
// back, and its rate, as published, counts a chunk once.
func (s Spec) BothWays(phase string) bool { return s.bonnie() && phase == rewrite }

// PhaseOffers is how many commands a phase, by its name, can have outstanding. Buffered writes are sent on by the kernel; a
// buffered reader waits for each.
func (s Spec) PhaseOffers(phase string) int {
	switch {
	case !s.bonnie():
		return s.Offered()
	case phase == randomSeeks:
		return s.Seekers
	}
	if _, writes := bonnieReads(phase); writes {
		return Unlimited
	}
	return 1
}

// Seeking is how many commands that phase keeps outstanding which is made to keep several: bonnie's seeks; 0: it has none.
func (s Spec) Seeking() int {
	if s.bonnie() && slices.Contains(s.bonniePhases(), randomSeeks) {
		return s.Seekers
	}
	return 0
}

func (s Spec) bonnieOffers() int {
	most := 1
	for _, phase := range s.bonniePhases() {
		most = max(most, s.PhaseOffers(phase))
	}
	return most
}

// FilesNeeded is how many files and folders the workload has at once, at the most.
func (s Spec) FilesNeeded() int64 {
	switch {
	case s.Type == "dd":
		return int64(s.Processes)
	case !s.bonnie():
		return 1
	}
	n := int64(1)
	if slices.ContainsFunc(s.bonniePhases(), ofFiles) {
		n += s.fileCount() + int64(s.Directories) + 1
	}
	return n
}

func (s Spec) fileCount() int64 { return int64(s.Files) * thousand }

// fileBytes is what the small files hold in the mean, all together.
func (s Spec) fileBytes() int64 { return s.fileCount() * ((s.FileSizeMin + s.FileSizeMax + 1) / 2) }

// fileOverhead is what a small file takes beyond its bytes: half a block at its end, its inode, its name.
const fileOverhead = 4096

func (s Spec) bonnieSpace() int64 {
	var bytes int64
	phases := s.bonniePhases()
	if slices.ContainsFunc(phases, func(phase string) bool { return !ofFiles(phase) }) {
		bytes = s.Size
	}
	if slices.ContainsFunc(phases, ofFiles) {
		bytes += s.fileBytes() + s.fileBytes()/50 + s.fileCount()*fileOverhead // sizes are drawn: a fiftieth is beyond what chance gives
	}
	return bytes
}

// perChar is how fast a CPU puts characters, bytes a second: a first guess for a plan.
const perChar = 300e6

// Guess is a first guess of how long bonnie takes on a target of that rate, in bytes and in operations a second.
func (s Spec) Guess(rate, operations float64) time.Duration {
	var seconds float64
	bytes, files := float64(s.Size), float64(s.fileCount())
	for _, phase := range s.bonniePhases() {
		switch phase {
		case putc, getc:
			seconds += bytes / min(rate, perChar)
		case blockWrite, blockRead:
			seconds += bytes / rate
		case rewrite:
			seconds += 2 * bytes / rate
		case randomSeeks:
			seconds += float64(s.Seeks) * 1.1 / operations
		case seqCreate, ranCreate:
			seconds += float64(s.fileBytes())/rate + files/(10*operations) // the journal takes many at once
		case seqStat, ranStat:
			seconds += max(float64(s.fileBytes())/rate, files/operations)
		default:
			seconds += files / (10 * operations)
		}
	}
	const year = 365 * 24 * 3600
	return time.Duration(min(seconds, year) * float64(time.Second))
}

// validateBonnie looks at what contradicts itself among bonnie's parameters.
func (s Spec) validateBonnie(add func(key, reason string)) {
	if s.Size%s.BlockSize != 0 {
		add("size", fmt.Sprintf("is not a multiple of the chunk of %s", FormatSize(s.BlockSize)))
	}
	if s.FileSizeMin > s.FileSizeMax {
		add("file_size_min", fmt.Sprintf("is more than file_size_max, %s", s.Get("file_size_max")))
	}
	if files := s.fileCount(); files > 0 && int64(s.Directories) > files {
		add("directories", fmt.Sprintf("is more than the %d files", files))
	}
	if len(s.bonniePhases()) == 0 {
		add("phases", "are all of files, and files is 0: nothing is left to do")
	}
}
