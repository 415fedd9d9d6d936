package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// bonnie writes the table. A name that is too long for a column stands on a line
// of its own.
func (p *page) bonnie(list []*machine) {
	upper := bonnieTable{what: "Size", of: (*machine).size, phases: bonnieInOut(), unit: "KiB/s", heads: []string{"Per Chr", "Block", "Rewrite", "Per Chr", "Block", "Seeks"},
		over: []over{{"Sequential Output", 3}, {"Sequential Input", 2}, {"Random", 1}}}
	lower := bonnieTable{what: "files:max:min/dirs", of: (*machine).files, phases: bonnieFiles(), unit: "/sec", heads: []string{"Create", "Read", "Delete", "Create", "Read", "Delete"},
		over: []over{{"Sequential Create", 3}, {"Random Create", 3}}}
	for _, t := range []bonnieTable{upper, lower} {
		if slices.ContainsFunc(list, func(m *machine) bool { return t.has(m) }) {
			p.bonnieTable(t, list)
		}
	}
}

// bonnieTable is one half of the table.
type bonnieTable struct {
	what   string // heading of the size
	of     func(*machine) string
	phases []string
	heads  []string
	unit   string
	over   []over
}

// over is a heading over so many phases.
type over struct {
	text   string
	phases int
}

func (t bonnieTable) has(m *machine) bool {
	return slices.ContainsFunc(t.phases, func(p string) bool { return m.of[p] != nil })
}

func (p *page) bonnieTable(t bonnieTable, list []*machine) {
	rates, cpus := make([]int, len(t.phases)), make([]int, len(t.phases)) // widths
	name, size := utf8.RuneCountInString("Cell"), utf8.RuneCountInString(t.what)
	for i := range t.phases {
		rates[i], cpus[i] = len("KiB/s"), len("%CP")
	}
	for _, m := range list {
		name, size = max(name, utf8.RuneCountInString(Printable(m.name))), max(size, utf8.RuneCountInString(t.of(m)))
		for i, ph := range t.phases {
			rate, cpu := m.figures(ph)
			rates[i], cpus[i] = max(rates[i], len(rate)), max(cpus[i], len(cpu))
		}
	}
	figures := 0
	for i := range t.phases {
		figures += rates[i] + cpus[i] + 2
	}
	apart := name+1+size+figures > p.width // the names have lines of their own
	left := name + 1 + size
	if apart {
		left = max(size, min(p.width-figures, 20))
	}
	blank := strings.Repeat(" ", left)
	first, second, third := blank, blank, pad(t.what, left, false)
	if !apart {
		third = pad("Cell", name, true) + " " + pad(t.what, size, false)
	}
	i := 0
	for _, o := range t.over {
		width := -1
		for range o.phases {
			own := rates[i] + cpus[i] + 1
			second += " " + dashed(t.heads[i], own)
			unit := t.unit
			if t.phases[i] == "seeks" {
				unit = "/sec"
			}
			third += " " + pad(unit, rates[i], false) + " " + pad("%CP", cpus[i], false)
			width += own + 1
			i++
		}
		first += " " + dashed(o.text, width)
	}
	for _, line := range []string{first, second, third} {
		p.line(line)
	}
	for _, m := range list {
		line := pad(Printable(m.name), name, true) + " " + pad(t.of(m), size, false)
		if apart {
			p.line(m.name)
			line = pad(t.of(m), left, false)
		}
		for i, ph := range t.phases {
			rate, cpu := m.figures(ph)
			line += " " + pad(orNone(rate), rates[i], false) + " " + pad(orNone(cpu), cpus[i], false)
		}
		p.line(line)
	}
}

// dashed is a heading in the middle of a line: ---Block---.
func dashed(text string, width int) string {
	if fill := width - len(text); fill > 0 {
		return strings.Repeat("-", fill/2) + text + strings.Repeat("-", fill-fill/2)
	}
	return fmt.Sprintf("%.*s", width, text)
}

// size is the file's: 7952M.
func (m *machine) size() string {
	bytes := bytesOf(m.ran.Parameter("size"))
	if bytes == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', -1, 64) + "M"
}

// files is what was created: 16:100000:16/64.
func (m *machine) files() string {
	files := m.ran.Parameter("files")
	if files == "" {
		return ""
	}
	text := files
	for _, name := range []string{"file_size_max", "file_size_min"} {
		if v := m.ran.Parameter(name); v != "" {
			text += ":" + bytesText(v)
		}
	}
	if v := m.ran.Parameter("directories"); v != "" {
		text += "/" + v
	}
	return text
}

// bytesText is a size of the column parameters in bytes: 4k is 4096.
func bytesText(text string) string {
	v, ok := size(text)
	if !ok {
		return text
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
