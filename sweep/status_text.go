package sweep

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"qdsweep/sweep/results"
)

// shownEnded is how many sweeps that have ended are listed without verbose.
const shownEnded = 10

// WriteStatus says for people how far one sweep is.
func WriteStatus(w io.Writer, found SweepStatus, width int, now time.Time) error {
	t := &planText{w: bufio.NewWriter(w), width: max(width, 40)}
	found.write(t, now)
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

// WriteSweeps says it of several: those that run or have died in full, those that have ended in a line each, the last ones without verbose.
func WriteSweeps(w io.Writer, all []SweepStatus, stateDir string, width int, verbose bool, now time.Time) error {
	t := &planText{w: bufio.NewWriter(w), width: max(width, 40)}
	var over, other []SweepStatus
	for _, found := range all {
		if found.State == Ended || found.State == Unknown && found.PID == 0 {
			over = append(over, found)
		} else {
			other = append(other, found)
		}
	}
	if len(all) == 0 {
		t.wrap("", "no sweep is known in "+visible(stateDir))
	}
	for i, found := range other {
		if i > 0 {
			t.line("")
		}
		found.write(t, now)
	}
	if len(other) > 0 && len(over) > 0 {
		t.line("")
	}
	if hidden := len(over) - shownEnded; hidden > 0 && !verbose {
		t.line(fmt.Sprintf("%d more have ended (-v lists them)", hidden))
		over = over[hidden:]
	}
	for _, found := range over {
		what := found.Why
		if found.State == Ended {
			what = "ended " + moment(found.Updated, now) + ", " + found.audit()
			if found.Exit != nil {
				what += fmt.Sprintf(" (exit %d)", *found.Exit)
			}
		}
		t.wrap("  ", visible(found.Dir)+": "+visible(what))
	}
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

func (n SweepStatus) audit() string {
	return results.Audit{Planned: n.Planned, OK: n.OK, Failed: n.Failed, Suspect: n.Suspect, Skipped: n.Skipped, Remaining: n.Remaining}.String()
}

func (n SweepStatus) write(t *planText, now time.Time) {
	title := n.Profile + ": " + n.State
	switch {
	case n.State == Ended && n.Exit != nil:
		title += fmt.Sprintf(" %s, exit %d", moment(n.Updated, now), *n.Exit)
	case n.State == Running:
		title += fmt.Sprintf(" (pid %d on %s)", n.PID, n.Host)
	case n.Why != "":
		title += ", " + n.Why
	}
	t.wrap("  ", visible(title))
	t.field("folder", visible(n.Dir))
	if n.Run != "" {
		run := fmt.Sprintf("%d of %d  %s", n.Index, n.Planned, n.Run)
		if n.Phase != "" {
			run += " (" + n.Phase + ")"
		}
		if n.RunStarted != nil && n.State == Running {
			run += ", for " + timeText(max(now.Sub(*n.RunStarted), 0))
		}
		t.field("run", visible(run))
	} else if n.Phase != "" && n.State == Running {
		t.field("now", visible(n.Phase))
	}
	t.field("so far", n.audit())
	n.writeBefore(t)
	times := "started " + moment(n.Started, now)
	if n.Left != nil && n.State == Running {
		left := time.Duration(*n.Left * float64(time.Second))
		times += fmt.Sprintf("; about %s left, until %s", timeText(left), moment(now.Add(left), now))
	}
	if n.State != Running {
		times += "; last heard of " + moment(n.Updated, now)
	}
	t.field("time", times)
	if n.Stopped != "" {
		for i, line := range strings.Split(n.Stopped, "\n") {
			t.field(first(i, "ended"), visible(line))
		}
	}
	if n.Last != "" && n.Last != n.Stopped {
		t.field("last", visible(strings.ReplaceAll(n.Last, "\n", " ")))
	}
	if line := logText(n.Log); line != "" {
		t.field("log", visible(line))
	}
	if n.State == Running && n.Age > staleAfter.Seconds() {
		t.field("warning", fmt.Sprintf("all this is %s old: the disk of the folder is full or does not answer, or the process is stopped", timeText(time.Duration(n.Age*float64(time.Second)))))
	}
	if n.Next != "" {
		t.line(pad("next", 9) + visible(n.Next)) // in one piece, to be copied
	}
}

// writeBefore is the last run that has rows, with its figures.
func (n SweepStatus) writeBefore(t *planText) {
	b := n.Before
	if b == nil {
		return
	}
	text := fmt.Sprintf("%s: %s, %s", b.Run, b.Status, timeText(time.Duration(b.Seconds*float64(time.Second))))
	if b.Reason != "" {
		text += ": " + b.Reason
	}
	t.field("before", visible(text))
	var rows [][]string
	for _, p := range b.Phases {
		var figures []string
		if p.MBPerS != nil {
			figures = append(figures, results.NumOf(*p.MBPerS).String()+" MB/s")
		}
		if p.IOPS != nil {
			figures = append(figures, results.NumOf(*p.IOPS).String()+" IOPS")
		}
		rows = append(rows, []string{visible(p.Workload), visible(p.Phase), strings.Join(figures, ", ")})
	}
	t.table("         ", rows)
}

// logText is a line of the log as people read it: when, what, and the rest of it.
func logText(line json.RawMessage) string {
	var l struct {
		Time                                    time.Time
		Event, Run, Phase, Status, Reason, Text string
	}
	if len(line) == 0 || json.Unmarshal(line, &l) != nil {
		return ""
	}
	text := l.Time.Local().Format("15:04:05") + " " + l.Event
	for _, more := range []string{l.Run, l.Phase, l.Status, l.Reason, l.Text} {
		if more != "" {
			text += "  " + more
		}
	}
	return text
}

// moment is a time of day, with its date where that is another one.
func moment(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04:05")
	}
	return at.Format("2006-01-02 15:04:05")
}

// visible keeps what was read from a folder that may be anybody's from driving the terminal.
func visible(s string) string {
	return strings.Map(func(c rune) rune {
		if strconv.IsPrint(c) {
			return c
		}
		return '\uFFFD'
	}, s)
}
