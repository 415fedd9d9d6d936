package sweep

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cronJobs are the jobs of all crontabs that are due: of the system, and of its users.
func (a *agenda) cronJobs(now, end time.Time) (jobs []job) {
	files := []string{"/etc/crontab"}
	for _, pattern := range []string{"/etc/cron.d/*", "/var/spool/cron/*", "/var/spool/cron/crontabs/*"} {
		found, _ := filepath.Glob(a.path(pattern))
		for _, f := range found {
			name := strings.TrimPrefix(f, strings.TrimSuffix(a.root, "/"))
			if st, err := os.Stat(f); err == nil && st.Mode().IsRegular() && !strings.Contains(filepath.Base(f), ".") { // which cron passes over, too
				files = append(files, name)
			}
		}
	}
	for _, file := range files {
		for _, line := range a.lines(file) {
			times, command, ok := parseCron(line, strings.HasPrefix(file, "/etc/"))
			if !ok || a.guarded(command) {
				continue
			}
			at, ok := times.next(now, end)
			if !ok {
				continue
			}
			for _, j := range a.commands(file, command) {
				j.at = at
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

var (
	runParts   = regexp.MustCompile(`run-parts .*(/etc/cron\.[a-z]+)`)
	executable = regexp.MustCompile(`\[ -x (\S+) \] &&`)
	firstDays  = regexp.MustCompile(`date \+\\?%d\) -le ([0-9]+)`)
)

// commands are what a line does: itself, or the scripts of the folder that it runs.
func (a *agenda) commands(file, command string) []job {
	of := func(name, text string) job {
		return job{name: name, does: whatItDoes(text), fix: "take the right to execute it away, or its line out, till the morning"}
	}
	m := runParts.FindStringSubmatch(command)
	if m == nil {
		return []job{of(file, command)}
	}
	var jobs []job
	scripts, _ := os.ReadDir(a.path(m[1]))
	for _, s := range scripts {
		name := filepath.Join(m[1], s.Name())
		info, err := os.Stat(a.path(name))
		if err != nil || info.Mode()&0o111 == 0 {
			continue
		}
		text, _ := os.ReadFile(a.path(name))
		jobs = append(jobs, of(name, s.Name()+" "+strings.Join(slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "#") }), "\n")))
	}
	return jobs
}

// guarded says that a line does nothing here: distributions leave lines in crontabs that look for systemd, for anacron, or for the program, first.
func (a *agenda) guarded(command string) bool {
	if strings.Contains(command, "/run/systemd/system") && a.exists("/run/systemd/system") {
		return true
	}
	if strings.Contains(command, "-x /usr/sbin/anacron ||") && a.exists("/usr/sbin/anacron") {
		return true // which does it when it comes to it
	}
	m := executable.FindStringSubmatch(command)
	return m != nil && !a.exists(m[1])
}

// cronTimes are the minutes at which a line of a crontab is due, as sets of bits.
type cronTimes struct {
	minutes, hours, days, months, weekdays uint64
	either                                 bool // days and weekdays are both given: one of them is enough
}

// parseCron reads a line of a crontab; of the system's it has the user before the command. ok is false for what is no job at a time.
func parseCron(line string, user bool) (t cronTimes, command string, ok bool) {
	fields := 5
	if strings.HasPrefix(line, "@") {
		name, rest, _ := strings.Cut(line, " ")
		times := map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
			"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}[name]
		if times == "" {
			return t, "", false // @reboot
		}
		line = times + " " + rest
	}
	words := strings.Fields(line)
	if user {
		fields++
	}
	if len(words) <= fields {
		return t, "", false
	}
	for i, f := range []struct {
		to        *uint64
		low, high int
		names     string
	}{{&t.minutes, 0, 59, ""}, {&t.hours, 0, 23, ""}, {&t.days, 1, 31, ""}, {&t.months, 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"}, {&t.weekdays, 0, 7, "sun mon tue wed thu fri sat"}} {
		if *f.to, ok = cronSet(strings.ToLower(words[i]), f.low, f.high, strings.Fields(f.names)); !ok {
			return t, "", false
		}
	}
	t.weekdays |= t.weekdays >> 7 & 1 // Sunday is 0 and 7
	t.either = words[2][0] != '*' && words[4][0] != '*'
	command = strings.Join(words[fields:], " ")
	if m := firstDays.FindStringSubmatch(command); m != nil {
		last, _ := strconv.Atoi(m[1]) // digits, by the expression
		t.days, t.either = t.days&(1<<(min(last, 31)+1)-1), false
	}
	return t, command, true
}

// cronSet reads one field: *, numbers, names, ranges and steps, with commas between them.
func cronSet(text string, low, high int, names []string) (set uint64, ok bool) {
	number := func(s string) (int, bool) {
		if i := slices.Index(names, s); i >= 0 {
			return i + low, true
		}
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= low && n <= high
	}
	for part := range strings.SplitSeq(text, ",") {
		span, by, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(by)
			if err != nil || n < 1 {
				return 0, false
			}
			step = n
		}
		from, to := low, high
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			var good bool
			if from, good = number(first); !good {
				return 0, false
			}
			if to = from; ranged {
				if to, good = number(last); !good || to < from {
					return 0, false
				}
			} else if stepped {
				to = high
			}
		}
		for n := from; n <= to; n += step {
			set |= 1 << n
		}
	}
	return set, true
}

// next is the first such minute after now and not after end.
func (t cronTimes) next(now, end time.Time) (time.Time, bool) {
	for at := now.Truncate(time.Minute).Add(time.Minute); !at.After(end); at = at.Add(time.Minute) {
		day, weekday := t.days>>at.Day()&1 == 1, t.weekdays>>int(at.Weekday())&1 == 1
		if t.months>>int(at.Month())&1 == 1 && t.hours>>at.Hour()&1 == 1 && t.minutes>>at.Minute()&1 == 1 && (day && weekday || t.either && (day || weekday)) {
			return at, true
		}
	}
	return time.Time{}, false
}
