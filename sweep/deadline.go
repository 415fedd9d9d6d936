package sweep

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// deadline is when a sweep is to be over. One that counts from the start goes by a clock that nobody sets, and that goes on while the machine is
// suspended; one that is a time of day goes by the machine's clock, as it may be set meanwhile.
type deadline struct {
	set  bool
	text string        // as the profile says it
	boot time.Duration // CLOCK_BOOTTIME
	wall time.Time     // without a monotonic part; zero where boot counts
}

// startDeadline is the deadline of a sweep that is started now.
func (p *Profile) startDeadline() deadline {
	switch {
	case p.Deadline > 0:
		return deadline{set: true, text: "deadline " + span(p.Deadline), boot: bootTime() + p.Deadline}
	case p.Until.Set:
		return deadline{set: true, text: "until " + p.Until.String(), wall: p.Until.Next(time.Now()).Round(0)}
	}
	return deadline{}
}

// left is how long there is yet; below 0 once it is over.
func (d deadline) left() time.Duration {
	if !d.wall.IsZero() {
		return d.wall.Sub(time.Now().Round(0))
	}
	return d.boot - bootTime()
}

// at is when it will be, for people.
func (d deadline) at() string {
	at := time.Now().Add(d.left())
	if d.left() > 20*time.Hour {
		return at.Format("Mon 15:04")
	}
	return at.Format("15:04")
}

// String is the deadline in words: "deadline 8h (06:14)".
func (d deadline) String() string {
	if !d.wall.IsZero() {
		return fmt.Sprintf("%s (in %s)", d.text, timeText(max(d.left(), 0)))
	}
	return fmt.Sprintf("%s (%s)", d.text, d.at())
}

// bootTime is the time since the machine was started, suspended or not.
func bootTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // fails for a clock that there is not, and Linux has it since 2.6.39
	return time.Duration(ts.Nano())
}
