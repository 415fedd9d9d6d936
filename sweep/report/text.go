package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"qdsweep/sweep/results"
)

// Text writes the summary: a table with what was asked, what was in force and
// what was seen beside each other, how sure the figures are, the audit, what is
// not ok and why, and what to type next. Lines are at most width wide where the
// words allow it (0: 120).
func Text(w io.Writer, d Data, width int) error {
	s, err := summarise(d)
	if err != nil {
		return err
	}
	if width <= 0 {
		width = 120
	}
	p := &page{width: max(width, 40)}
	p.paragraph("", title(d, s))
	if len(s.sweeps) > 1 { // the table has only their names
		for _, f := range s.sweeps {
			p.paragraph("  ", f.title(f.Sweep))
		}
	}
	if d.Description != "" {
		p.paragraph("", d.Description)
	}
	p.blank()
	if len(s.table.Cells) > 0 && len(s.table.Phases) > 0 {
		p.table(d, s)
		p.blank()
		if d.All {
			p.classics(s)
		}
	}
	p.audit(d, s)
	p.problems(s)
	p.notes(s)
	for _, warning := range s.warnings {
		p.paragraph("warning    ", warning)
	}
	p.settings(d, s)
	p.results(d, s)
	if d.Next != "" {
		p.line("next       " + d.Next) // in one piece, to be copied
	}
	_, err = io.WriteString(w, p.text.String())
	return err
}

// page collects lines. Whatever goes through it cannot drive the terminal.
type page struct {
	text  strings.Builder
	width int
}

func (p *page) line(s string) {
	p.text.WriteString(strings.TrimRight(Printable(s), " ") + "\n")
}

func (p *page) blank() { p.text.WriteByte('\n') }

// paragraph writes words after a label, broken at the page's width.
func (p *page) paragraph(label, words string) {
	line, indent := label, strings.Repeat(" ", utf8.RuneCountInString(label))
	empty := true
	for word := range strings.FieldsSeq(strings.ReplaceAll(Printable(words), " %", noBreak+"%")) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > p.width {
			p.line(line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+strings.ReplaceAll(word, noBreak, " "), false
	}
	p.line(line)
}

// noBreak keeps a per cent sign with its number. Printable text cannot hold it.
const noBreak = "\x00"

func (p *page) audit(d Data, s *summary) {
	if d.Audit.Planned < 0 {
		p.paragraph("", d.Audit.String())
	} else {
		p.line(d.Audit.String()) // one line, for scripts that look for it
	}
	if s.repeated > 0 {
		p.paragraph("  repeated ", count(s.repeated, "row")+" of earlier attempts, not counted")
	}
}

// listed is how many runs that are not ok are listed one by one.
const listed = 20

func (p *page) problems(s *summary) {
	for i, pr := range s.problems {
		if i == listed {
			p.line(fmt.Sprintf("  … and %d more; --format json lists all", len(s.problems)-listed))
			break
		}
		run, reason := pr.Run, pr.Reason
		if len(s.sweeps) > 1 {
			run = pr.Sweep + " " + run
		}
		if pr.Status == results.Suspect {
			reason = strings.TrimSpace(reason + " (left out above)")
		}
		label := fmt.Sprintf("  %-8s ", pr.Status)
		if utf8.RuneCountInString(Printable(label+run+"  "+reason)) <= p.width {
			p.line(label + run + "  " + reason)
			continue
		}
		p.line(label + run) // in one piece, to be found in the CSV
		p.paragraph(strings.Repeat(" ", len(label)+2), reason)
	}
}

func (p *page) notes(s *summary) {
	for i, n := range s.notes {
		if i == listed {
			p.line(fmt.Sprintf("  … and %d more; --format json lists all", len(s.notes)-listed))
			break
		}
		words := fmt.Sprintf("%d of %s", n.Rows, count(n.Of, "ok row"))
		if n.Phase != "" {
			words += " of " + n.Workload + " " + n.Phase
		}
		words += ": " + n.Example
		if n.differs {
			words += ", and the like"
		}
		p.paragraph("  note     ", words)
	}
}

func (p *page) settings(d Data, s *summary) {
	switch {
	case len(d.Settings) > 0:
		label := "settings   "
		for _, line := range d.Settings {
			p.paragraph(label, line)
			label = "           "
		}
	case len(s.notRestored) > 0:
		p.paragraph("settings   ", fmt.Sprintf("NOT put back after %s, the last of them %s: sudo qdsweep restore",
			count(len(s.notRestored), "run"), s.notRestored[len(s.notRestored)-1]))
	case s.rows > 0:
		p.paragraph("settings   ", "put back after every run, by its rows")
	}
}

func (p *page) results(d Data, s *summary) {
	files := d.resultFiles()
	for i, name := range files {
		words := name
		if i == len(files)-1 {
			words += " (" + count(s.rows, "row")
			if len(files) > 1 {
				words += " in all"
			}
			words += ")"
		}
		p.line("results    " + words)
	}
}

func (d Data) resultFiles() []string {
	if len(d.Results) == 0 && d.Dir != "" {
		return []string{inDir(d.Dir, results.FileName)}
	}
	return d.Results
}

// inDir names a file the way the folder was named: ./x stays ./x.
func inDir(dir, file string) string {
	return strings.TrimRight(dir, "/") + "/" + file
}

// Printable makes text from a device or a profile safe for a terminal: what
// does not print (escape sequences, line breaks, direction marks) is shown as an
// escape of Go's.
func Printable(s string) string {
	ok := true
	for _, r := range s {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			ok = false
			break
		}
	}
	if ok {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(s[:size])
		} else {
			q := strconv.QuoteToASCII(s[:size])
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// count is "1 row", "2 rows".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
