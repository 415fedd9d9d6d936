package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"qdsweep/workload/ioengine"
)

// Unlimited is what buffered writes offer: the kernel sends them on, as many at once as the device takes.
const Unlimited = 1 << 20

func (s Spec) sequential() bool {
	return s.Type == "dd" || !strings.HasPrefix(s.Mode, "rand")
}

func (s Spec) apart() bool { return strings.Contains(s.Mode, "+") }

func (s Spec) regions() int {
	if s.Regions > 0 {
		return s.Regions
	}
	return s.Threads
}

func (s Spec) reads() bool {
	switch s.Type {
	case "bonnie":
		return slices.ContainsFunc(s.bonniePhases(), func(phase string) bool { reads, _ := bonnieReads(phase); return reads })
	case "dd":
		return strings.Contains(s.Mode, "read")
	default:
		return s.Mode != "write" && s.Mode != "randwrite"
	}
}

// Writes says whether the workload writes to its target, so that it needs consent and write access.
func (s Spec) Writes() bool {
	if s.bonnie() {
		return slices.ContainsFunc(s.bonniePhases(), func(phase string) bool { _, writes := bonnieReads(phase); return writes })
	}
	if s.Type == "dd" {
		return strings.Contains(s.Mode, "write")
	}
	return s.Mode != "read" && s.Mode != "randread"
}

// Offered is how many commands the workload can have outstanding at the target: a queue deeper than that
// cannot show. A buffered reader has one (it waits for each); buffered writes are Unlimited.
func (s Spec) Offered() int {
	if s.bonnie() {
		return s.bonnieOffers()
	}
	workers := s.workers()
	if !s.Direct {
		if s.Writes() && !s.reads() && s.Sync != "dsync" {
			return Unlimited
		}
		return workers
	}
	if s.Type == "dd" || s.Engine == "psync" {
		return workers
	}
	return workers * s.IODepth
}

// Phases are the names of the rows that the workload gives, in order.
func (s Spec) Phases() []string {
	switch {
	case s.bonnie():
		return s.bonniePhases()
	case s.Type == "dd":
		return strings.Split(s.Mode, "-")
	case s.apart():
		return []string{s.Mode + "/r", s.Mode + "/w"}
	default:
		return []string{s.Mode}
	}
}

// SpaceNeeded is what the workload's files take in a directory, in bytes.
func (s Spec) SpaceNeeded() int64 {
	if s.bonnie() {
		return s.bonnieSpace()
	}
	if s.Type == "dd" {
		return s.Size * int64(s.Processes)
	}
	return s.Size
}

// Estimate is how long the workload takes, where its parameters say so. A workload by bytes depends on
// the drive.
func (s Spec) Estimate() (time.Duration, bool) {
	if s.Type == "io" && s.Runtime > 0 {
		if s.Verify { // reading may take as long as writing did
			return s.Warmup + 2*s.Runtime, true
		}
		return s.Warmup + s.Runtime, true
	}
	return 0, false
}

// LeftOut is why a cell with these parameters is left out by rule, "" if it is not: fewer threads than
// regions, or a region smaller than a block. bytes is the size of the device, 0 where size must say it.
func (s Spec) LeftOut(bytes int64) string {
	if s.Type != "io" || !s.sequential() {
		return ""
	}
	if s.Threads < s.regions() {
		return fmt.Sprintf("%s: %d threads are fewer than %d regions", s.Name, s.Threads, s.regions())
	}
	if region := s.driven(bytes) / int64(s.walkers()); region > 0 && region < s.BlockSize {
		return fmt.Sprintf("%s: a region of %s is smaller than a block of %s", s.Name, FormatSize(region), FormatSize(s.BlockSize))
	}
	return ""
}

// maxBuffers keeps a workload from taking the machine's memory, and being killed for it in the night.
const maxBuffers = 4 << 30

func (s Spec) buffers() int64 { return s.BlockSize * int64(max(s.IODepth, 1)) * int64(s.workers()) }

// workers are all threads or processes.
func (s Spec) workers() int {
	switch {
	case s.bonnie():
		return s.Seekers
	case s.Type == "dd":
		return s.Processes
	case s.apart():
		return 2 * s.Threads
	default:
		return s.Threads
	}
}

// PhaseThreads is how many workers a phase of it has: its readers or its writers, where they are apart.
// Of bonnie each phase but the seeks has one.
func (s Spec) PhaseThreads() int {
	switch s.Type {
	case "dd":
		return s.Processes
	case "bonnie":
		return 1
	}
	return s.Threads
}

// Depth is how many operations each worker can really have outstanding, with its engine.
func (s Spec) Depth() int {
	if s.Type == "dd" || s.bonnie() {
		return 1
	}
	return ioengine.Depth(s.Engine, s.IODepth)
}

// PhaseReads says whether a phase, by its name, reads and whether it writes.
func (s Spec) PhaseReads(phase string) (reads, writes bool) {
	switch {
	case s.bonnie():
		return bonnieReads(phase)
	case s.Type == "dd":
		return phase == "read", phase == "write"
	case s.apart():
		return strings.HasSuffix(phase, "/r"), strings.HasSuffix(phase, "/w")
	default:
		return s.reads(), s.Writes()
	}
}

// EachOnce says whether the workload reads no place twice, so that a page cache that was empty before cannot serve it.
func (s Spec) EachOnce() bool { return s.sequential() && s.Runtime == 0 }

// walkers is the number of regions in all: readers and writers apart have their own.
func (s Spec) walkers() int {
	if s.apart() {
		return 2 * s.regions()
	}
	return s.regions()
}

func (s Spec) driven(bytes int64) int64 {
	if s.Size > 0 {
		return s.Size
	}
	return bytes
}

// Validate looks at the parameters of a finished Spec together: what contradicts itself on any machine.
func (s Spec) Validate() []FieldError {
	var wrong []FieldError
	add := func(key, reason string) {
		wrong = append(wrong, FieldError{Key: key, Value: s.Get(key), Reason: reason})
	}
	if s.Type == "io" {
		if s.Runtime == 0 && s.Warmup > 0 {
			add("warmup", "needs a runtime: once through has none")
		}
		if s.Runtime > 0 && s.Sync == "fsync" {
			add("sync", "is for once through (runtime: 0s): at the end of a runtime nothing would be measured")
		}
		if s.sequential() && s.Threads < s.regions() {
			add("regions", fmt.Sprintf("is more than the %d threads", s.Threads))
		}
		if s.Engine == "libaio" && !s.Direct {
			add("direct", "does not go with libaio, which waits for buffered I/O in each submit")
		}
	}
	if s.SG() && !s.Direct {
		add("direct", "does not go with engine sg, which goes past the page cache: write direct: true")
	}
	if s.bonnie() {
		s.validateBonnie(add)
	}
	if buffers := s.buffers(); buffers > maxBuffers {
		add("block_size", fmt.Sprintf("makes buffers of %s with %d operations in each of %d threads: at most %s", FormatSize(buffers),
			max(s.IODepth, 1), s.workers(), FormatSize(maxBuffers)))
	}
	if !s.Writes() && s.Sync == "dsync" {
		add("sync", "is for writes, and this workload only reads")
	}
	if s.Verify && !s.Writes() {
		add("verify", "is for workloads that write, and this one only reads")
	}
	if s.Verify && s.Engine == "null" {
		add("verify", "has nothing to read back: engine null writes nothing")
	}
	if s.Direct && s.Size%512 != 0 {
		add("size", "is not a multiple of 512, which direct I/O needs at the least")
	}
	return wrong
}

// CheckTarget says everything that keeps the workload from running on a target: sizes beyond the device,
// alignment, what a directory or a device cannot do. bytes is 0 where there is no limit known (a
// directory, whose space is judged apart).
func (s Spec) CheckTarget(bytes int64, logicalBlock int, directory bool) error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("workload %s: "+format, append([]any{s.Name}, args...)...))
	}
	for _, e := range s.Validate() {
		add("%w", e)
	}
	if directory && s.Size == 0 {
		add("size: a directory needs one")
	}
	if directory && s.SG() {
		add("engine: sg sends commands to a disk, and a directory is none: give the disk itself, or take another engine")
	}
	if !directory && s.bonnie() {
		add("type: bonnie works with files: give it a directory (target: {directory: DIR}, or --directory DIR), or let the sweep build a file system")
		return errors.Join(errs...)
	}
	if !directory {
		if strings.HasSuffix(s.Mode, "remove") {
			add("mode: %q: a device cannot be removed, only a file in a directory", s.Mode)
		}
		if bytes <= 0 {
			add("the device has no size (is there a medium?)")
		}
	}
	if need := s.needs(); !directory && bytes > 0 && need > bytes {
		add("size: %s is more than the device's %s bytes", sizeText(s), FormatSize(bytes))
	}
	if lb := int64(logicalBlock); s.Direct && lb > 0 {
		if s.BlockSize%lb != 0 {
			add("block_size: %s is not a multiple of the device's block of %d bytes, which direct I/O needs", FormatSize(s.BlockSize), lb)
		}
		if s.Size%lb != 0 {
			add("size: %s is not a multiple of the device's block of %d bytes, which direct I/O needs", FormatSize(s.Size), lb)
		}
	}
	if bytes > 0 || s.Size > 0 {
		if s.each(bytes) < s.BlockSize && !(s.Type == "dd" && s.Size > 0) {
			add("block_size: %s is more than each worker's share of %s", FormatSize(s.BlockSize), FormatSize(s.each(bytes)))
		}
	}
	if s.Verify && (bytes > 0 || s.Size > 0) {
		blocks := blocksOf(s.driven(bytes), s.BlockSize)
		if s.Type == "dd" {
			blocks = int64(s.Processes) * blocksOf(s.each(bytes), s.BlockSize)
		}
		if blocks > mostVerified {
			add("verify: %d blocks of %s are more than the %d whose last write can be kept in mind: give a size, or a larger block_size", blocks,
				FormatSize(s.BlockSize), mostVerified)
		}
	}
	return errors.Join(errs...)
}

// needs is how much of the device the workload asks for by itself.
func (s Spec) needs() int64 { return s.SpaceNeeded() }

// each is the part of the device that one worker has for itself.
func (s Spec) each(bytes int64) int64 {
	switch {
	case s.bonnie():
		return s.Size
	case s.Type == "dd" && s.Size > 0:
		return s.Size
	case s.Type == "dd":
		return bytes / int64(s.Processes) &^ 4095 // every drive's block divides that
	case s.sequential():
		return s.driven(bytes) / int64(s.walkers())
	default:
		return s.driven(bytes)
	}
}

func sizeText(s Spec) string {
	if s.Type == "dd" && s.Processes > 1 {
		return fmt.Sprintf("%d × %s", s.Processes, FormatSize(s.Size))
	}
	return FormatSize(s.Size)
}
