package sysfs

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteInventory writes the table of `qdsweep devices`, at most width columns wide; verbose adds every knob of every device.
func WriteInventory(w io.Writer, infos []Info, width int, verbose bool) error {
	if len(infos) == 0 {
		_, err := fmt.Fprintln(w, "no block device")
		return err
	}
	t := table{{"DEVICE", "MODEL", "SERIAL", "SIZE", "BY", "QUEUE_DEPTH", "WRITE_CACHE", "MAX_SECTORS_KB", "USED BY", "AS A TARGET"}}
	var notes []string
	note := func(text string) string {
		for i, n := range notes {
			if n == text {
				return fmt.Sprintf(" (!%d)", i+1)
			}
		}
		notes = append(notes, text)
		return fmt.Sprintf(" (!%d)", len(notes))
	}
	example := ""
	for _, d := range infos {
		row := []string{d.Name, orDash(d.describeModel()), orDash(d.describeSerial()), Size(d.SizeBytes), orDash(d.Driver)}
		if len(d.Members) > 0 && d.Device.Kind != KindDisk && d.Device.Kind != KindLoop {
			row[4] = string(d.Device.Kind)
			row = append(row, plural(len(d.Members), "member"), "by member", "by member")
		} else {
			row = append(row, depthCell(d, note), cacheCell(d, note), rangeCell(d.Knobs["max_sectors_kb"]))
		}
		row = append(row, orDash(strings.Join(d.UsedBy, " ")), targetCell(d, note))
		if text := d.memberNote(); text != "" {
			row[len(row)-1] += note(text)
		}
		t = append(t, row)
		if example == "" && d.Refused == "" && len(d.UsedBy) == 0 && d.Device.Kind == KindDisk {
			example = d.Path
		}
	}
	var b strings.Builder
	t, left := t.narrowed(width)
	t.write(&b, width, "MODEL", "USED BY")
	if caches := cacheTable(infos, note); caches != nil {
		b.WriteByte('\n')
		caches.write(&b, width, "WRITE CACHE OF")
	}
	for i, n := range notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		writeNote(&b, fmt.Sprintf("!%d", i+1), n, width)
	}
	if len(left) > 0 {
		b.WriteByte('\n')
		writeNote(&b, "Too narrow for", strings.ToLower(strings.Join(left, ", "))+": -v has all", width)
	}
	if verbose {
		for _, d := range infos {
			writeKnobs(&b, d)
		}
	}
	b.WriteByte('\n')
	if example != "" {
		fmt.Fprintf(&b, "Try it, one minute, reads only:  sudo qdsweep run quick --device %s\n", example)
	}
	if !verbose {
		b.WriteString("Everything a device can be set to:  qdsweep devices -v DEVICE\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func depthCell(d Info, note func(string) string) string {
	k := d.Knobs["queue_depth"]
	switch {
	case k.Value == "" && d.Transport == "nvme":
		return "none" + note("NVMe has no queue_depth: sweep the workload's iodepth instead (profile iodepth-ladder)")
	}
	return rangeCell(k)
}

func rangeCell(k KnobState) string {
	switch {
	case k.Absent:
		return "none"
	case k.Value == "":
		return "unknown"
	case !k.Writable:
		return k.Value + ", fixed"
	case k.Allowed.Levels != nil:
		return k.Value + " of " + strings.Join(k.Allowed.Levels, " ")
	}
	return fmt.Sprintf("%s of %s", k.Value, k.Allowed.Span())
}

// Span is a range of numbers; a limit that no hardware has (scsi_debug's is 2147483647) is not shown as one.
func (a Allowed) Span() string {
	if a.Max >= 1<<30 {
		return fmt.Sprintf("≥ %d", a.Min)
	}
	return fmt.Sprintf("%d-%d", a.Min, a.Max)
}

func targetCell(d Info, note func(string) string) string {
	switch {
	case d.Shared:
		return "--allow shared-disk" + note(visible(d.Refused))
	case d.Refused != "":
		return "no" + note(visible(d.Refused))
	case d.Device.Identity == "":
		return "reading only" + note("no identity (WWID or serial number): it can be swept reading, or by directory, and put back in the same boot only")
	}
	return "yes"
}

func writeKnobs(b *strings.Builder, d Info) {
	fmt.Fprintf(b, "\n%s  %s  identity %s\n", d.Name, d.Path, orDash(string(d.Device.Identity)))
	if d.Detail != "" {
		fmt.Fprintf(b, "  %s, on %s\n", visible(d.Detail), strings.Join(d.Members, " "))
	} else {
		fmt.Fprintf(b, "  model %s  serial %s  wwid %s  by %s\n", orDash(d.Model), orDash(d.Serial), orDash(d.WWID), orDash(d.Driver))
	}
	names := make([]string, 0, len(d.Knobs))
	for n := range d.Knobs {
		names = append(names, n)
	}
	sort.Strings(names)
	t := table{}
	for _, n := range names {
		k := d.Knobs[n]
		if knob, _ := LookupKnob(n); k.Absent && knob.Scope == OnArrays && d.Device.Kind != KindMD {
			continue
		}
		why := k.Reason
		switch {
		case n == "write_cache":
			why = cacheWhy(d)
		case why == "" && !k.Writable:
			why = "cannot be changed"
		}
		allowed := ""
		if k.Writable {
			allowed = k.Allowed.Span()
			if k.Allowed.Levels != nil {
				allowed = strings.Join(k.Allowed.Levels, " ")
			}
		}
		t = append(t, []string{"  " + n, "now " + orDash(k.Value), "can be " + orDash(allowed), why})
	}
	t.write(b, 0)
}

// Size is a size as drive makers print it: decimal, three digits.
func Size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	v, u := float64(n), 0
	for v >= 999.5 && u < len(units)-1 {
		v, u = v/1000, u+1
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + " " + units[u]
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func orDash(s string) string {
	if s = visible(s); s == "" {
		return "-"
	}
	return s
}

// visible makes control characters of a device's text visible: a drive must not steer the terminal.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '\uFFFD'
		}
		return r
	}, s)
}

// table is rows of cells of equal number.
type table [][]string

// write aligns the columns. When a line would be wider than width (0: any), the widest of the shrinkable columns give way, with an
// ellipsis, and the others keep what they say.
func (t table) write(b *strings.Builder, width int, shrinkable ...string) {
	widths := t.widths()
	for width > 0 && lineWidth(widths) > width {
		widest := -1
		for i := range widths {
			if slices.Contains(shrinkable, t[0][i]) && widths[i] > narrowest && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for _, row := range t {
		var line strings.Builder
		for i, c := range row {
			if text := []rune(c); len(text) > widths[i] {
				c = string(text[:widths[i]-1]) + "…"
			}
			line.WriteString(c)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+gap))
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

func (t table) widths() (widths []int) {
	for _, row := range t {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	return widths
}

// least is how wide the table is when all that can give way has.
func (t table) least() int {
	widths := t.widths()
	for i := range widths {
		if name := t[0][i]; name == "MODEL" || name == "USED BY" {
			widths[i] = min(widths[i], narrowest)
		}
	}
	return lineWidth(widths)
}

// narrowed is the inventory for a terminal that it does not fit: first with shorter headings, then without the columns that tell least about
// settings. Names are those of the columns that are left out.
func (t table) narrowed(width int) (fits table, left []string) {
	if width <= 0 || t.least() <= width {
		return t, nil
	}
	t = slices.Clone(t)
	t[0] = slices.Clone(t[0])
	for i, name := range t[0] {
		if short := map[string]string{"QUEUE_DEPTH": "DEPTH", "WRITE_CACHE": "CACHE", "MAX_SECTORS_KB": "MAX_KB", "AS A TARGET": "TARGET"}[name]; short != "" {
			t[0][i] = short
		}
	}
	for _, name := range []string{"SERIAL", "BY", "MODEL", "USED BY", "SIZE"} {
		if t.least() <= width {
			break
		}
		at := slices.Index(t[0], name)
		for i := range t {
			t[i] = slices.Delete(slices.Clone(t[i]), at, at+1)
		}
		left = append(left, name)
	}
	return t, left
}

// writeNote writes a note, broken at blanks where it is too wide.
func writeNote(b *strings.Builder, mark, text string, width int) {
	line := mark
	for _, word := range strings.Fields(text) {
		if width > 0 && utf8.RuneCountInString(line+" "+word) > width && line != strings.Repeat(" ", len(mark)) {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(mark))
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

const (
	gap       = 2 // blanks between columns
	narrowest = 8 // no column is shrunk below this
)

func lineWidth(widths []int) int {
	n := -gap
	for _, w := range widths {
		n += w + gap
	}
	return n
}
