package sweep

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"qdsweep/sysfs"
)

// shownRuns is how many runs the text names without verbose.
const shownRuns = 3

// Text writes the plan for people, in lines of at most width columns where words allow it: what is driven, what is set
// where, every run (verbose) or the first ones, how long it takes, and the command that starts it.
func (p *Plan) Text(w io.Writer, width int, verbose bool, command string) error {
	out := &planText{w: bufio.NewWriter(w), width: max(width, 40)}
	title := p.Profile.Name
	if p.Profile.Description != "" {
		title += ": " + p.Profile.Description
	}
	out.wrap("", title)
	out.line("")
	p.textTarget(out)
	p.textKnobs(out)
	for i, s := range p.Profile.Workloads {
		out.field(first(i, "work"), fmt.Sprintf("%s  %s", pad(s.Name, p.nameWidth()), p.swept(workText(s), i)))
	}
	if p.Profile.Scaled != nil {
		out.field("scale", "small: "+strings.Join(p.Profile.Scaled, "; "))
	}
	p.textHooks(out)
	p.textRuns(out)
	out.line("")
	p.textCells(out, verbose)
	if len(p.Warnings) > 0 {
		out.line("")
	}
	for _, warning := range p.Warnings {
		out.wrap("         ", "warning: "+warning)
	}
	out.line("")
	p.textEnd(out, command)
	if out.err != nil {
		return out.err
	}
	return out.w.Flush()
}

// first is the word of a field for its first line only.
func first(i int, word string) string {
	if i > 0 {
		return ""
	}
	return word
}

func (p *Plan) nameWidth() int {
	n := 0
	for _, s := range p.Profile.Workloads {
		n = max(n, len(s.Name))
	}
	return n
}

// swept says of a workload which of its parameters the matrix changes.
func (p *Plan) swept(text string, i int) string {
	var names []string
	for _, a := range p.Profile.Matrix.Axes {
		if _, knob := sysfs.LookupKnob(a.Name); !knob && p.Profile.Workloads[i].Has(a.Name) {
			names = append(names, a.Name+" "+strings.Join(abbreviated(a.Levels), " "))
		}
	}
	if len(names) == 0 {
		return text
	}
	return text + "; swept: " + strings.Join(names, ", ")
}

// abbreviated keeps an axis of hundreds of levels on a line.
func abbreviated(levels []string) []string {
	if len(levels) <= 12 {
		return levels
	}
	return append(append(slices.Clone(levels[:5]), "…"), levels[len(levels)-1])
}

// textKnobs is the table of what is set: what is asked, what it is now, what it can be.
func (p *Plan) textKnobs(out *planText) {
	if len(p.Knobs) == 0 {
		out.field("sets", "nothing")
		return
	}
	out.field("sets", p.setsText())
	var rows [][]string
	for _, k := range p.Knobs {
		unit := ""
		if k.Unit != "" {
			unit = " " + k.Unit
		}
		rows = append(rows, []string{
			k.Name, strings.Join(abbreviated(k.Levels), " ") + unit,
			strings.ReplaceAll(perMember(k.Members, isNow), ", now ", ", "),
			perMember(k.Members, canBe), p.knobNote(k),
		})
	}
	out.table("           ", rows)
	for _, u := range p.unsupportedTexts() {
		out.field("", u)
	}
}

// setsText says where and when settings are made; where else, knobNote says.
func (p *Plan) setsText() string {
	const when = "before each run; put back after it"
	for _, k := range p.Knobs {
		if knob, _ := sysfs.LookupKnob(k.Name); knob.Scope == sysfs.OnMembers {
			return "on every member, " + when
		}
	}
	return when
}

func isNow(m MemberState) string {
	switch {
	case m.Now != "":
		return "now " + m.Now
	case !m.Allowed.Writable:
		return ""
	case m.unmade:
		return "not built yet"
	}
	return "now unknown"
}

func canBe(m MemberState) string {
	switch {
	case strings.HasPrefix(m.Reason, "not checked"):
		return "not checked"
	case !m.Allowed.Writable:
		return "cannot be set"
	case m.Allowed.Levels != nil:
		return "can be " + strings.Join(m.Allowed.Levels, " ")
	}
	return "can be " + m.Allowed.Span()
}

// perMember is one text where all members agree, else each text with its members; of some there may be nothing to say.
func perMember(members []MemberState, text func(MemberState) string) string {
	var order []string
	who := map[string][]string{}
	silent := false
	for _, m := range members {
		t := text(m)
		if t == "" {
			silent = true
			continue
		}
		if who[t] == nil {
			order = append(order, t)
		}
		who[t] = append(who[t], m.Member)
	}
	if len(order) == 1 && !silent {
		return order[0]
	}
	for i, t := range order {
		order[i] = t + " (" + strings.Join(who[t], " ") + ")"
	}
	return strings.Join(order, ", ")
}

func (p *Plan) knobNote(k PlannedKnob) string {
	switch knob, _ := sysfs.LookupKnob(k.Name); {
	case knob.Scope == sysfs.OnArrays:
		return "on each array"
	case knob.Scope == sysfs.OnTop:
		return "on the target's own device"
	case k.Name == "write_cache":
		return "in the drive itself, not the kernel's view"
	case k.Name == "queue_depth" && slices.Contains(k.Levels, "1") && p.anyLibata():
		return "1 means NCQ off here (libata)"
	}
	return ""
}

func (p *Plan) anyLibata() bool {
	return slices.ContainsFunc(p.Members(), sysfs.Device.Libata)
}

// unsupportedTexts says what cannot be, and what becomes of it.
func (p *Plan) unsupportedTexts() []string {
	var g grouped
	for _, u := range p.Unsupported {
		g.add(u.Device, u.Reason, "")
	}
	become := "its runs are planned as skipped"
	if p.Profile.Unsupported == Record {
		become = "it is tried, and its rows go by what reads back"
	}
	texts := g.texts()
	for i := range texts {
		texts[i] += ": " + become
	}
	return texts
}

func (p *Plan) textRuns(out *planText) {
	rows := plural(p.work.rows[1], "row")
	if p.work.rows[0] != p.work.rows[1] {
		rows = fmt.Sprintf("%d to %s", p.work.rows[0], rows)
	}
	seed := fmt.Sprintf("seed %d", p.Profile.Seed)
	if p.SeedChosen {
		seed += fmt.Sprintf(" (chosen now; --seed %d gives this order again)", p.Profile.Seed)
	}
	text := fmt.Sprintf("%s × %s, %s each; ", plural(p.cells, "cell"), p.replicatesText(), rows)
	if p.Profile.Order == Interleaved {
		text += "shuffled in each replicate, " + seed
	} else {
		text += "in the order of the matrix, " + seed
	}
	if len(p.Profile.Matrix.hardLevels()) > 1 {
		text += ", one " + raidLevel + " after another"
	}
	out.field("runs", text)
	if p.skipped > 0 {
		out.field("", skippedText(p.skipped*p.Profile.least(), p.skipped*p.Profile.Repeats))
	}
	for i, reason := range p.LeftOut {
		out.field("", first(i, "left out by rule: ")+reason)
	}
	p.textTime(out)
}

func skippedText(least, most int) string {
	return span2(strconv.Itoa(least), strconv.Itoa(most)) + " of them are planned as skipped"
}

func (p *Plan) textCells(out *planText, verbose bool) {
	count := p.Count()
	digits := max(len(fmt.Sprint(count)), 3)
	out.line(fmt.Sprintf("  %*s  cell", digits, "run"))
	shown := 0
	for r := range p.Runs() {
		if !verbose && shown == shownRuns && count > shownRuns+1 {
			break
		}
		shown++
		cell := r.Cell.String()
		if cell == "" {
			cell = "(no axis)"
		}
		if r.Skip != "" {
			cell += "   skipped: " + r.Skip
		}
		out.line(fmt.Sprintf("  %*d  %s", digits, r.Index, cell))
		if out.err != nil {
			return
		}
	}
	if rest := count - shown; rest > 0 {
		out.line(fmt.Sprintf("  %*s  … %d more (-v lists all)", digits, "", rest))
	}
}
