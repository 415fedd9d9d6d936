package workload

import (
	"os"
	"time"
)

// Target is what a workload drives. Exactly one of File and Dir is set.
type Target struct {
	File *os.File // a descriptor of the device node, in any access mode; reopened through /proc/self/fd
	Dir  *os.File // our own folder, in which files are made and removed
	Name string   // for messages: /dev/sdb

	Bytes        int64 // of the device; 0 for a directory
	LogicalBlock int   // bytes; what direct I/O must be aligned to

	// Of engine sg alone. A command counts its place from the begin of the whole disk, whatever node it is sent to.
	SG          *os.File // the disk's sg node, in any access mode; nil: none, and none is needed at iodepth 1
	Start       int64    // bytes: where the target begins on its disk
	MaxTransfer int64    // bytes that the device takes in one command; 0 unknown
}

// Window is the timed part of a phase: two instants of CLOCK_MONOTONIC in ns, comparable between the
// processes of one machine (see Monotonic).
type Window struct{ Start, End int64 }

// Seconds is how long the window is.
func (w Window) Seconds() float64 { return time.Duration(w.End - w.Start).Seconds() }

// Latency is of operations completed inside the window, from submission to completion, in microseconds.
type Latency struct {
	MeanUS, P50US, P95US, P99US, P999US, MaxUS float64
	Count                                      int64
}

// Result is one phase as measured. Where Err is set the phase failed, and its numbers are zero: what a
// failing device did before it failed is not a rate.
type Result struct {
	Phase   string
	Engine  string // the one used, never auto
	Threads int    // workers of this phase: threads, or dd's processes

	BlockSize int64
	IODepth   int // what the engine can really have outstanding in each worker: 1 with psync

	Bytes, Operations, Errors int64
	Window                    Window   // from the begin of the first pass to the end of the last one
	Passes                    []Window `json:",omitempty"` // more than one where a pass was too short to time; only time in them is the phase's

	SlowestBytesPerS      float64 // rate of the slowest worker alone
	Latency               Latency
	FirstDoneS, LastDoneS float64 // since Window.Start: when the first and the last worker was done (its fsync included; with a runtime, its last completion)
	CPUUserS, CPUSysS     float64 // of the worker process in the window
	Err                   string
	Idle                  bool // the error is that nothing was done in the window
	Errno                 int
	Lost                  bool    // the device is gone: 0 bytes inside it, ENODEV, ENXIO
	OverLimit             bool    // the kernel refused the record for being larger than the device takes: no error (Err is empty), Errno is how it said so, and there is no rate
	PerThreadBytes        []int64 `json:",omitempty"`
	Verified              int64   // bytes read back after the window and found as they were written
	VerifiedInMemory      int64   // of these, bytes that stayed in the page cache, so that no drive had to give them
	Corrupt               bool    // Err is that they were not
	Resident              int64   // bytes that were still in the page cache when a buffered read began, over all passes
}

// Windows are the timed parts of the phase: one, or one a pass.
func (r Result) Windows() []Window {
	if len(r.Passes) > 0 {
		return r.Passes
	}
	return []Window{r.Window}
}

// Seconds is how long the phase was timed.
func (r Result) Seconds() float64 {
	var timed int64
	for _, w := range r.Windows() {
		timed += w.End - w.Start
	}
	return time.Duration(timed).Seconds()
}
