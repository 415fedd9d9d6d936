package report

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	head  []string // one a line
	pair  string   // a heading above this column and the next ones
	span  int      // how many columns pair is above; 0 is 2
	cells []string
	left  bool // aligned left
}

// group is how many columns the heading above this one covers: 1 without one.
func (c column) group() int {
	switch {
	case c.pair == "":
		return 1
	case c.span == 0:
		return 2
	}
	return c.span
}

func (c column) width() int {
	w := 0
	for _, s := range slices.Concat(c.head, c.cells) {
		w = max(w, utf8.RuneCountInString(s))
	}
	return w
}

func byRunes(a, b string) int { return utf8.RuneCountInString(a) - utf8.RuneCountInString(b) }

// layout makes the lines of a table: the headings, then a line a cell.
func layout(columns []column) []string {
	for i := range columns { // escapes change the width, so they come first
		columns[i].cells = slices.Clone(columns[i].cells)
		for j, c := range columns[i].cells {
			columns[i].cells[j] = Printable(c)
		}
		columns[i].head = slices.Clone(columns[i].head)
		for j, h := range columns[i].head {
			columns[i].head[j] = Printable(h)
		}
	}
	height := 0
	widths := make([]int, len(columns))
	for i, c := range columns {
		height = max(height, len(c.head))
		widths[i] = c.width()
	}
	for i, c := range columns {
		if c.pair != "" { // the heading above several columns may need more than they do
			last := i + c.group() - 1
			widths[last] += max(0, utf8.RuneCountInString(c.pair)-under(widths[i:last+1]))
		}
	}
	lines := make([]string, height+len(columns[0].cells))
	inGroup := 0 // columns to come that the heading last written is above, too
	for i, c := range columns {
		gap := "  "
		switch {
		case i == 0:
			gap = ""
		case inGroup > 0:
			gap = " "
		}
		for j := range lines {
			text := ""
			switch {
			case j >= height:
				text = c.cells[j-height]
			case j < len(c.head):
				text = c.head[j]
			}
			if j == 0 && c.pair != "" {
				lines[j] += gap + pad(c.pair, under(widths[i:i+c.group()]), true)
				continue
			}
			if j == 0 && inGroup > 0 {
				continue
			}
			lines[j] += gap + pad(text, widths[i], c.left)
		}
		if inGroup--; c.pair != "" {
			inGroup = c.group() - 1
		}
	}
	for j := range lines {
		lines[j] = strings.TrimRight(lines[j], " ")
	}
	return lines
}

// under is how wide the columns of a group are together.
func under(widths []int) int {
	sum := len(widths) - 1
	for _, w := range widths {
		sum += w
	}
	return sum
}

func pad(s string, width int, left bool) string {
	blanks := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if left {
		return s + blanks
	}
	return blanks + s
}
