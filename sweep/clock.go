package sweep

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Clock is a time of day, of any day or of one of the week, as the machine's clock shows it. The zero Clock is none.
type Clock struct {
	Set    bool
	OneDay bool // of Day alone
	Day    time.Weekday
	Hour   int
	Minute int
}

var clockText = regexp.MustCompile(`^(?:(sun|mon|tue|wed|thu|fri|sat) )?([01]?[0-9]|2[0-3]):([0-5][0-9])$`)

const clockAllowed = `a time of day, such as "07:00", or of a day of the week, such as "mon 07:00"`

// parseClock reads "07:00" or "mon 07:00"; ok is false when text is neither.
func parseClock(text string) (c Clock, ok bool) {
	m := clockText.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return Clock{}, false
	}
	c.Set = true
	for day := time.Sunday; day <= time.Saturday; day++ {
		if m[1] != "" && m[1] == shortDay(day) {
			c.OneDay, c.Day = true, day
		}
	}
	c.Hour, _ = strconv.Atoi(m[2]) // digits, by the expression
	c.Minute, _ = strconv.Atoi(m[3])
	return c, true
}

func shortDay(d time.Weekday) string { return strings.ToLower(d.String()[:3]) }

func (c Clock) String() string {
	if !c.Set {
		return ""
	}
	text := fmt.Sprintf("%02d:%02d", c.Hour, c.Minute)
	if c.OneDay {
		text = shortDay(c.Day) + " " + text
	}
	return text
}

// Next is the first such time after now, in now's zone. A time that summer time leaves out is an hour later that day.
func (c Clock) Next(now time.Time) time.Time {
	for days := 0; ; days++ {
		at := time.Date(now.Year(), now.Month(), now.Day()+days, c.Hour, c.Minute, 0, 0, now.Location())
		if at.After(now) && (!c.OneDay || at.Weekday() == c.Day) {
			return at
		}
	}
}
