package workload

import (
	"time"
	_ "unsafe" // for go:linkname
)

// nanotime is CLOCK_MONOTONIC through the vDSO: about 20 ns, no system call, the instant itself. The
// time package gives only differences of it, and unix.ClockGettime enters the kernel.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// Monotonic is now by CLOCK_MONOTONIC, in ns: the same clock in every process, never set back.
func Monotonic() int64 { return nanotime() }

// sleepUntil waits for an instant of Monotonic, or for done.
func sleepUntil(instant int64, done <-chan struct{}) {
	for {
		left := time.Duration(instant - nanotime())
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-done:
			timer.Stop()
			return
		}
	}
}
