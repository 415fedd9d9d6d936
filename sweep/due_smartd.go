package sweep

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// selfTests are the self-tests of the members that smartd starts: short and long ones, by the expressions of its configuration. A drive that tests itself
// answers more slowly, for hours in a long one.
func (a *agenda) selfTests(members []string, now, end time.Time) (jobs []job) {
	const file = "/etc/smartd.conf"
	for _, line := range a.lines(file) {
		words := strings.Fields(line)
		at := slices.Index(words, "-s")
		if at < 1 || at+1 >= len(words) {
			continue
		}
		drives := members
		if words[0] != "DEVICESCAN" && words[0] != "DEFAULT" {
			drives = slices.DeleteFunc(slices.Clone(members), func(m string) bool { return m != a.deviceName(words[0]) })
		}
		times, err := selfTestTimes(words[at+1])
		if err != nil || len(drives) == 0 {
			continue
		}
		for _, kind := range []struct{ letter, name string }{{"S", "short"}, {"L", "long"}, {"C", "conveyance"}, {"O", "offline"}} {
			for hour := now.Truncate(time.Hour).Add(time.Hour); !hour.After(end); hour = hour.Add(time.Hour) {
				if times.MatchString(selfTestText(kind.letter, hour)) {
					jobs = append(jobs, job{hour, "smartd", fmt.Sprintf("starts a %s self-test of %s", kind.name, strings.Join(drives, " ")), "stop smartd, or take its -s out of " + file})
					break
				}
			}
		}
	}
	return jobs
}

// deviceName is the drive that a name of smartd's means, also by a link.
func (a *agenda) deviceName(name string) string {
	if real, err := filepath.EvalSymlinks(a.path(name)); err == nil {
		return filepath.Base(real)
	}
	return filepath.Base(name)
}

var staggered = regexp.MustCompile(`:[0-9]{3}(-[0-9]{3})?`)

// selfTestTimes is the expression that the whole of T/MM/DD/d/HH has to match. Offsets of drives against each other (:NNN) are some hours.
func selfTestTimes(text string) (*regexp.Regexp, error) {
	return regexp.CompilePOSIX("^(" + staggered.ReplaceAllString(text, "") + ")$")
}

// selfTestText is an hour as smartd writes it: the days of a week are 1 to 7, from Monday on.
func selfTestText(kind string, hour time.Time) string {
	return fmt.Sprintf("%s/%02d/%02d/%d/%02d", kind, hour.Month(), hour.Day(), (int(hour.Weekday())+6)%7+1, hour.Hour())
}
