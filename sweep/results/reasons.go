package results

import "strings"

// Code is what a reason begins with. Scripts match on it, so a code never
// changes; what follows it is for people. docs/csv.md lists the same codes, and
// a test keeps the two equal.
type Code string

// The codes. What each means is in Codes.
const (
	Clamped           Code = "clamped"
	Differs           Code = "differs"
	DepthNotExercised Code = "depth not exercised"
	ClockStepped      Code = "clock stepped"
	OverTheLimit      Code = "over the limit"
	Cached            Code = "cached"
	Verified          Code = "verified"
	Repeated          Code = "repeated"
	KernelLogLost     Code = "kernel log lost"
	Moved             Code = "moved"
	ForeignIO         Code = "foreign I/O"
	NotAtRest         Code = "not at rest"
	Throttled         Code = "throttled"
	Suspended         Code = "suspended"
	NCQSwitchedOff    Code = "NCQ switched off"
	ErrorHandling     Code = "error handling"
	QueueFull         Code = "queue full"
	Unsupported       Code = "unsupported"
	Error             Code = "error"
	VerifyFailed      Code = "verify failed"
	NothingDone       Code = "nothing done"
	DeviceLost        Code = "device lost"
	Degraded          Code = "degraded"
	Changed           Code = "changed"
	NotApplied        Code = "not applied"
	NotBuilt          Code = "not built"
	Timeout           Code = "timeout"
	StuckInKernel     Code = "stuck in the kernel"
	WorkerDied        Code = "worker died"
	KeeperDied        Code = "keeper died"
	HookFailed        Code = "hook failed"
)

// CodeMeaning is one code explained.
type CodeMeaning struct {
	Code     Code
	Statuses []string // the statuses it is found with
	Meaning  string
}

// Codes lists every code, those of ok rows first, then suspect, skipped, failed.
func Codes() []CodeMeaning {
	return []CodeMeaning{
		{Clamped, []string{OK, Skipped, Failed}, "the level read back is not the level asked for; `unsupported:` in the profile decides the status"},
		{Differs, []string{OK}, "the members read back different levels; the lowest is in the row"},
		{DepthNotExercised, []string{OK}, "the device was never seen with 0.8 × the effective queue_depth outstanding: this row cannot show what the depth does"},
		{ClockStepped, []string{OK}, "the wall clock was set during the run; durations are monotonic and right, `started` may not be"},
		{OverTheLimit, []string{OK}, "the kernel refused a record larger than the device takes; a finding, with the errno and no rate"},
		{Cached, []string{OK, Suspect}, "the members moved less than the workload did: a cache did the rest, or what was read had never been written; suspect where that cannot be: direct I/O, or a buffered read of what should have been out of the page cache"},
		{Verified, []string{OK}, "with `verify: true`: so much was read back after the window, and each block held what was written there last"},
		{Repeated, []string{OK}, "one pass of the phase was too short to time: the row is of several, each from the same begin; bytes, operations and seconds are their sums"},
		{KernelLogLost, []string{OK}, "the kernel wrote more to its log during the run than it keeps: what it had to say of the members may have been among the lost messages"},
		{Moved, []string{Suspect}, "a setting changed during the run, and not by qdsweep: device, knob, from → to"},
		{ForeignIO, []string{Suspect}, "the members did I/O that the workload did not ask for"},
		{NotAtRest, []string{Suspect}, "the members were still busy when the wait for rest ran out, and the phase was started all the same"},
		{Throttled, []string{Suspect}, "the drive or its link slowed down during the run"},
		{Suspended, []string{Suspect}, "the machine was suspended during the run: its drives were without power, or asleep, while the workload stood still"},
		{NCQSwitchedOff, []string{Suspect}, "the kernel's error handler stopped using NCQ during the run, though queue_depth still reads as set"},
		{ErrorHandling, []string{Suspect}, "the kernel had to handle an error of a member during the run (a failed command, a reset of its link), which the workload did not get to see"},
		{QueueFull, []string{Suspect}, "a member answered that its queue is full, and the SCSI layer lowered its queue_depth by itself"},
		{Unsupported, []string{OK, Skipped, Failed}, "a member cannot have that level; ok with `unsupported: record`"},
		{Error, []string{Failed}, "the workload met an error, with its errno"},
		{VerifyFailed, []string{Failed}, "with `verify: true`: what was read back is not what was written; the first byte that differs, and what is there instead"},
		{NothingDone, []string{Failed}, "the workload completed not one operation in its window"},
		{DeviceLost, []string{Suspect, Failed}, "the device went away during the run; suspect where the workload did not meet it: a mirror read from its other half, or the drive came back"},
		{Degraded, []string{Failed}, "an array under the target lost a member during the run"},
		{Changed, []string{Failed}, "the target or a member is no longer what the sweep started with, or something else is using it"},
		{NotApplied, []string{Failed}, "a setting could not be made: the write failed or did not return"},
		{NotBuilt, []string{Failed}, "the array or the file system of this raid_level could not be made"},
		{Timeout, []string{Failed}, "the run took longer than its timeout and was killed"},
		{StuckInKernel, []string{Failed}, "the worker did not die within 10 s of SIGKILL: it waits in the kernel for the device"},
		{WorkerDied, []string{Failed}, "the process that does the I/O ended by itself"},
		{KeeperDied, []string{Failed}, "the process that holds the settings ended during the run; they were put back by a new one"},
		{HookFailed, []string{Failed}, "the profile's command `before_run` ended with an error, or was ended at its timeout; the run was not done"},
	}
}

// With is the reason "code: detail".
func (c Code) With(detail string) string {
	if detail == "" {
		return string(c)
	}
	return string(c) + ": " + detail
}

// ClampedReason is the reason of a level that reads back as another.
func ClampedReason(knob, asked, effective string) string {
	return string(Clamped) + " " + knob + " " + asked + " → " + effective
}

// JoinReasons puts several reasons into one cell, the gravest first by the
// caller's order; empty ones are left out.
func JoinReasons(reasons ...string) string {
	kept := make([]string, 0, len(reasons))
	for _, r := range reasons {
		if r != "" {
			kept = append(kept, r)
		}
	}
	return strings.Join(kept, "; ")
}

// SplitReasons takes a reason cell apart into its reasons; nil for none. A
// semicolon inside a reason's own words does not end it: only one before a code
// does.
func SplitReasons(cell string) []string {
	if cell == "" {
		return nil
	}
	var list []string
	for part := range strings.SplitSeq(cell, "; ") {
		if len(list) > 0 && CodeOf(part) == "" {
			list[len(list)-1] += "; " + part
			continue
		}
		list = append(list, part)
	}
	return list
}

// CodeOf is the code a single reason begins with, "" when it begins with none;
// the longest, for one code may begin as another does (error, error handling).
func CodeOf(reason string) (code Code) {
	for _, m := range Codes() {
		rest, ok := strings.CutPrefix(reason, string(m.Code))
		if ok && (rest == "" || rest[0] == ':' || rest[0] == ' ') && len(m.Code) > len(code) {
			code = m.Code
		}
	}
	return code
}
