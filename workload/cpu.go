package workload

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what getrusage(2) counts. The sum is exact to the nanosecond; how it splits into the two is the kernel's estimate.
type cpuTime struct{ user, system time.Duration }

func (t cpuTime) plus(o cpuTime) cpuTime  { return cpuTime{t.user + o.user, t.system + o.system} }
func (t cpuTime) minus(o cpuTime) cpuTime { return cpuTime{t.user - o.user, t.system - o.system} }
func (t cpuTime) sum() int64              { return int64(t.user + t.system) }

// processTime is the CPU time of this process up to now, kernel threads that work for it included.
func processTime() cpuTime { return cpuTimeOf(unix.RUSAGE_SELF) }

func cpuTimeOf(who int) cpuTime {
	var r unix.Rusage
	if err := unix.Getrusage(who, &r); err != nil {
		return cpuTime{}
	}
	return cpuTime{time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())}
}
