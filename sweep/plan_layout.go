package sweep

import (
	"bufio"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// planText writes lines, and keeps the first error of writing.
type planText struct {
	w     *bufio.Writer
	width int
	err   error
}

func (t *planText) line(s string) {
	if _, err := t.w.WriteString(strings.TrimRight(s, " ") + "\n"); err != nil && t.err == nil {
		t.err = err
	}
}

// field is a word in the first column and a text, wrapped, in the second.
func (t *planText) field(word, text string) {
	t.wrapFrom(pad(word, 9), "         ", text)
}

// wrap breaks a text at blanks; further lines begin with indent.
func (t *planText) wrap(indent, text string) { t.wrapFrom("", indent, text) }

func (t *planText) wrapFrom(begin, indent, text string) {
	line := begin
	rest := text
	for utf8.RuneCountInString(line+rest) > t.width {
		room := t.width - utf8.RuneCountInString(line)
		cut := lastBlank(rest, room)
		if cut < 0 {
			break
		}
		t.line(line + rest[:cut])
		rest = strings.TrimLeft(rest[cut:], " ")
		line = indent
	}
	t.line(line + rest)
}

// lastBlank is the place of the last blank within the first room columns, or of the first one after them; -1 for none.
func lastBlank(s string, room int) int {
	columns, last := 0, -1
	for i, c := range s {
		if c == ' ' && i > 0 {
			if columns > room {
				if last < 0 {
					last = i
				}
				return last
			}
			last = i
		}
		columns++
	}
	if columns <= room {
		return -1
	}
	return last
}

// table writes rows in columns; where a row is too wide its last column goes below it.
func (t *planText) table(indent string, rows [][]string) { t.tableFrom(indent, indent, rows) }

// tableFrom is table with a first line that begins otherwise.
func (t *planText) tableFrom(begin, indent string, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := begin
		begin = indent
		for i, cell := range row {
			if cell != "" && i > 1 && utf8.RuneCountInString(line)+utf8.RuneCountInString(cell) > t.width {
				t.line(line)
				line = indent + strings.Repeat(" ", widths[0]+3)
			}
			line += pad(cell, widths[i]) + "   "
		}
		t.line(line)
	}
}

// command is a command to copy. One that is too long for a line goes on in the next after a flag's argument, as a shell reads it.
func (t *planText) command(text string) {
	line := "  "
	for i, part := range beforeFlags(text) {
		if i > 0 && utf8.RuneCountInString(line+part)+2 > t.width {
			t.line(line + `\`)
			line = "    "
		}
		line += part
	}
	t.line(line)
}

// beforeFlags cuts a command before each of its flags; what is between quotes is never cut.
func beforeFlags(command string) (parts []string) {
	quoted, from := false, 0
	for i := range len(command) {
		quoted = quoted != (command[i] == '\'')
		if !quoted && i > 0 && strings.HasPrefix(command[i:], "--") && command[i-1] == ' ' {
			parts = append(parts, command[from:i])
			from = i
		}
	}
	return append(parts, command[from:])
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
}

// timeText is a time of a sweep as people say it: 5 h 30 min.
func timeText(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		if minutes := int(d.Minutes()) % 60; minutes != 0 {
			return fmt.Sprintf("%d h %d min", int(d.Hours()), minutes)
		}
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	}
}

// bytesText is a device's size as its label says it, in powers of 1000.
func bytesText(n int64) string {
	const units = "kMGTPE"
	value, unit := float64(n), ""
	for i := 0; i < len(units) && value >= 1000; i++ {
		value, unit = value/1000, units[i:i+1]
	}
	if value >= 100 || unit == "" {
		return fmt.Sprintf("%.0f %sB", value, unit)
	}
	return fmt.Sprintf("%.3g %sB", value, unit)
}
