package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// promised is what the rows of a sweep are held to that has come to its end, whatever happened on the way.
type promised struct {
	planned []string          // the runs, as the plan names them
	drives  map[string]string // what a cell says, "" of any, and the serial of the drive that it must be measured on
	atLast  []string          // statuses of a run's last attempt; nil: ok
}

// faults are what is wrong with a results.csv. It is read by encoding/csv alone: whoever wrote it with a fault may read it with the same one.
func (p promised) faults(text []byte) (list []string) {
	fault := func(format string, a ...any) { list = append(list, fmt.Sprintf(format, a...)) }
	if !bytes.HasSuffix(text, []byte("\n")) {
		fault("the file ends within a line")
	}
	if bytes.IndexByte(text, 0) >= 0 {
		fault("there are NULs in the file")
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll() // each as long as the header
	if err != nil {
		return append(list, fmt.Sprintf("it is no CSV: %v", err))
	}
	if len(lines) == 0 {
		return append(list, "there is not even a header")
	}
	done := map[string]*lastAttempt{}
	sweeps := map[string]bool{}
	var of *lastAttempt // whose rows are being read
	for i, line := range lines[1:] {
		get := func(column string) string { return line[slices.Index(lines[0], column)] }
		number := func(column string) int { n, _ := strconv.Atoi(get(column)); return n }
		run, attempt := get("run"), number("attempt")
		sweeps[get("sweep")] = true
		if number("row") == 1 {
			if of != nil {
				fault("line %d: run %s begins before the one above it is whole", i+2, run)
			}
			before := done[run]
			switch {
			case before == nil:
			case before.attempt >= attempt:
				fault("line %d: run %s attempt %d is there after its attempt %d", i+2, run, attempt, before.attempt)
			case before.status == "ok":
				fault("line %d: run %s was ok, and was repeated", i+2, run)
			}
			of = &lastAttempt{attempt: attempt, row: 1, status: get("status")}
			done[run] = of
		} else if of == nil || of != done[run] || of.attempt != attempt || of.row+1 != number("row") {
			fault("line %d: row %d of run %s attempt %d without the row before it", i+2, number("row"), run, attempt)
			continue
		} else {
			of.row++
			of.worse(get("status"))
		}
		if number("row") == number("rows") {
			of = nil
		}
		if get("status") == "ok" && get("reason") == "" {
			for _, knob := range []string{"queue_depth", "write_cache", "max_sectors_kb"} {
				if asked, had := get(knob), get(knob+"_effective"); asked != "" && asked != had {
					fault("line %d: run %s is ok with %s %s, and had %s", i+2, run, knob, asked, had)
				}
			}
		}
		for cell, serial := range p.drives {
			if strings.Contains(run, cell) && !strings.Contains(get("members")+";", ":"+serial+";") {
				fault("line %d: run %s was measured on %s, and not on %s", i+2, run, get("members"), serial)
			}
		}
	}
	if of != nil {
		fault("the last run is not whole")
	}
	if len(sweeps) > 1 {
		fault("there are rows of %d sweeps", len(sweeps))
	}
	return append(list, p.lost(done)...)
}

// lost are the runs that are not as they should be at the end, those planned that are not there, and those there that nobody planned.
func (p promised) lost(done map[string]*lastAttempt) (list []string) {
	atLast := p.atLast
	if atLast == nil {
		atLast = []string{"ok"}
	}
	for _, run := range p.planned {
		switch last := done[run]; {
		case last == nil:
			list = append(list, "run "+run+" is lost")
		case !slices.Contains(atLast, last.status):
			list = append(list, fmt.Sprintf("run %s is %s in its last attempt, %d", run, last.status, last.attempt))
		}
		delete(done, run)
	}
	for run := range done {
		list = append(list, "run "+run+" was never planned")
	}
	return list
}

// lastAttempt is what became of a run in the attempt read last.
type lastAttempt struct {
	attempt, row int
	status       string // of its worst row
}

func (a *lastAttempt) worse(status string) {
	order := []string{"ok", "skipped", "suspect", "failed"}
	if slices.Index(order, status) > slices.Index(order, a.status) {
		a.status = status
	}
}

// TestFaults: the judge of the lab's tests of misfortune sees each kind of fault.
func TestFaults(t *testing.T) {
	const header = "sweep,run,attempt,row,rows,members,queue_depth,queue_depth_effective,write_cache,write_cache_effective,max_sectors_kb,max_sectors_kb_effective,axes,axes_effective,status,reason\n"
	line := func(run string, attempt, row, rows int, status string) string {
		return fmt.Sprintf("s1,%s,%d,%d,%d,sda:M:S1,4,4,,,,,,,%s,\n", run, attempt, row, rows, status)
	}
	whole := header + line("a#1", 1, 1, 2, "ok") + line("a#1", 1, 2, 2, "ok") + line("b#1", 1, 1, 1, "ok")
	for _, c := range []struct {
		name, text string
		faults     []string
	}{
		{"whole", whole, nil},
		{"a failed run that was repeated", header + line("b#1", 1, 1, 1, "failed") + line("a#1", 1, 1, 1, "ok") + line("b#1", 2, 1, 1, "ok"), nil},
		{"no file", "", []string{"the file ends within a line", "there is not even a header"}},
		{"torn", whole[:len(whole)-9], []string{"the file ends within a line", "it is no CSV: record on line 4: wrong number of fields"}},
		{"NULs", whole + "\x00\x00\x00\n", []string{"there are NULs in the file", "it is no CSV: record on line 5: wrong number of fields"}},
		{"lost", header + line("b#1", 1, 1, 1, "ok"), []string{"run a#1 is lost"}},
		{"never planned", whole + line("c#1", 1, 1, 1, "ok"), []string{"run c#1 was never planned"}},
		{"twice", whole + line("b#1", 1, 1, 1, "ok"), []string{"line 5: run b#1 attempt 1 is there after its attempt 1"}},
		{"an ok one repeated", whole + line("b#1", 2, 1, 1, "ok"), []string{"line 5: run b#1 was ok, and was repeated"}},
		{"not whole", whole + line("c#1", 1, 1, 2, "ok"), []string{"the last run is not whole", "run c#1 was never planned"}},
		{"within another", header + line("a#1", 1, 1, 2, "ok") + line("b#1", 1, 1, 1, "ok"), []string{"line 3: run b#1 begins before the one above it is whole"}},
		{"a row alone", header + line("a#1", 1, 2, 2, "ok") + line("a#1", 1, 1, 1, "ok") + line("b#1", 1, 1, 1, "ok"), []string{"line 2: row 2 of run a#1 attempt 1 without the row before it"}},
		{"failed at last", header + line("a#1", 1, 1, 2, "ok") + line("a#1", 1, 2, 2, "failed") + line("b#1", 1, 1, 1, "ok"), []string{"run a#1 is failed in its last attempt, 1"}},
		{"another drive", strings.Replace(whole, "S1,4", "S2,4", 1), []string{"line 2: run a#1 was measured on sda:M:S2, and not on S1"}},
		{"another depth", strings.Replace(whole, "4,4", "4,8", 1), []string{"line 2: run a#1 is ok with queue_depth 4, and had 8"}},
		{"another sweep", strings.Replace(whole, "s1,b", "s2,b", 1), []string{"there are rows of 2 sweeps"}},
	} {
		p := promised{planned: []string{"a#1", "b#1"}, drives: map[string]string{"": "S1"}}
		assert.Equal(t, c.faults, p.faults([]byte(c.text)), c.name)
	}
}
