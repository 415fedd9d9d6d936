package sweep

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"qdsweep/sysfs"
)

// job is something that this machine does by itself, at its next time.
type job struct {
	at   time.Time
	name string // fstrim.timer, /etc/cron.d/mdadm
	does string // to the drives: "trims file systems"; "" for one that is not known to
	fix  string // what keeps it from it
}

// agenda is where a machine has its jobs written.
type agenda struct {
	root   string // of its files
	timers func(ctx context.Context) ([]byte, error)
}

// horizon is how far ahead jobs are looked for.
const horizon = 31 * 24 * time.Hour

// due says which jobs come before end, for whoever starts a sweep in the evening: a check of an array at one in the morning is in all the figures after it.
func due(ctx context.Context, h sysfs.Host, members []sysfs.Device, end time.Time) []string {
	if !h.Live() {
		return nil // what a captured machine has planned is not known
	}
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	now := time.Now()
	if last := now.Add(horizon); end.After(last) {
		end = last
	}
	jobs, notes := (&agenda{h.Root(), listTimers}).jobs(ctx, names, now, end)
	return append(jobTexts(jobs, now, end), notes...)
}

// Due says which jobs of this machine come while the sweep would run, if it was started now; they are added to the plan's notes.
func (p *Plan) Due(ctx context.Context, h sysfs.Host) {
	left, _ := p.Estimate()
	if d := p.Profile.startDeadline(); d.set {
		left = d.left()
	}
	p.Notes = append(p.Notes, due(ctx, h, p.Members(), time.Now().Add(left))...)
}

// sayDue names them as the sweep begins.
func (s *Sweep) sayDue(ctx context.Context) {
	left := s.timeLeft()
	if s.pace.deadline.set {
		left = s.pace.deadline.left()
	}
	for _, text := range due(ctx, s.host, s.plan.Members(), time.Now().Add(left)) {
		s.note("%s", text)
	}
}

// jobs are all that are due between now and end; notes say what could not be read.
func (a *agenda) jobs(ctx context.Context, members []string, now, end time.Time) (jobs []job, notes []string) {
	if a.exists("/run/systemd/system") {
		text, err := a.timers(ctx)
		var found []job
		if err == nil {
			found, err = parseTimers(text)
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("which timers are due meanwhile is not known: systemctl list-timers: %v", err))
		}
		jobs = append(jobs, found...)
	}
	if a.runs("cron", "crond") {
		jobs = append(jobs, a.cronJobs(now, end)...)
	}
	if a.runs("smartd") {
		jobs = append(jobs, a.selfTests(members, now, end)...)
	}
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return j.at.Before(now) || j.at.After(end) })
	slices.SortStableFunc(jobs, func(x, y job) int { return cmp.Or(x.at.Compare(y.at), strings.Compare(x.name, y.name)) })
	return jobs, notes
}

// jobTexts names each job that goes to the drives, and the others together.
func jobTexts(jobs []job, now, end time.Time) (texts []string) {
	var others []string
	for _, j := range jobs {
		if j.does == "" {
			others = append(others, j.name+" "+dayText(j.at, now))
			continue
		}
		texts = append(texts, fmt.Sprintf("due at %s: %s %s; to keep it off: %s", dayText(j.at, now), j.name, j.does, j.fix))
	}
	const most = 12
	if more := len(others) - most; more > 0 {
		others = append(others[:most], fmt.Sprintf("and %d more", more))
	}
	if len(others) > 0 {
		texts = append(texts, fmt.Sprintf("also due before %s: %s", dayText(end, now), strings.Join(others, ", ")))
	}
	return texts
}

// dayText is a time, with its day where it is not within the next hours.
func dayText(at, now time.Time) string {
	switch ahead := at.Sub(now); {
	case ahead > 6*24*time.Hour:
		return at.Format("2 Jan 15:04")
	case ahead > 20*time.Hour:
		return at.Format("Mon 15:04")
	}
	return at.Format("15:04")
}

// whatItDoes is what a job with such a name, or command, does to the drives.
func whatItDoes(text string) string {
	for _, k := range []struct{ does, words string }{
		{"checks md arrays: every member is read from end to end", "mdcheck checkarray raid-check"},
		{"trims file systems", "fstrim"},
		{"reads whole file systems to check them", "scrub fsck"},
		{"starts self-tests of drives", "smartctl smartd"},
		{"reads the folders of all file systems", "updatedb locate"},
		{"copies files", "backup rsnapshot rsync borg restic snapper"},
	} {
		for word := range strings.FieldsSeq(k.words) {
			if strings.Contains(text, word) {
				return k.does
			}
		}
	}
	return ""
}

// listTimers asks systemd, which alone knows when its timers are due.
func listTimers(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "systemctl", "list-timers", "--all", "--output=json")
	c.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_PAGER=")
	c.WaitDelay = time.Second
	return c.Output()
}

// parseTimers reads what `systemctl list-timers --output=json` prints. next is in microseconds of the wall clock, null or 0 where a timer is not due.
func parseTimers(text []byte) ([]job, error) {
	var timers []struct {
		Next *int64 `json:"next"`
		Unit string `json:"unit"`
	}
	if err := json.Unmarshal(text, &timers); err != nil {
		return nil, fmt.Errorf("not the JSON that was asked for: %w", err)
	}
	var jobs []job
	for _, t := range timers {
		if t.Next != nil && *t.Next > 0 {
			jobs = append(jobs, job{time.UnixMicro(*t.Next), t.Unit, whatItDoes(t.Unit), "sudo systemctl stop " + ShellQuote(t.Unit) + ", and start it again afterwards"})
		}
	}
	return jobs, nil
}

func (a *agenda) path(name string) string { return filepath.Join(a.root, name) }

func (a *agenda) exists(name string) bool {
	_, err := os.Stat(a.path(name))
	return err == nil
}

// runs says whether a process of one of these names is there: a crontab without cron does nothing.
func (a *agenda) runs(names ...string) bool {
	files, _ := filepath.Glob(a.path("/proc/[0-9]*/comm"))
	return slices.ContainsFunc(files, func(file string) bool {
		comm, err := os.ReadFile(file)
		return err == nil && slices.Contains(names, strings.TrimSpace(string(comm)))
	})
}

// lines are those of a file, without the comments; of a file that cannot be read there are none.
func (a *agenda) lines(name string) (lines []string) {
	text, err := os.ReadFile(a.path(name))
	if err != nil {
		return nil
	}
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}
