package sweep

import (
	"context"
	"slices"
	"strings"

	"qdsweep/sysfs"
)

// Judge asks the safety gate what `run` would say to this plan as the machine is now, so that a plan shown in the evening
// does not end in a refusal at night. The answers are in Refused and Notes, and are shown by Text and JSON. It changes nothing.
func (p *Plan) Judge(ctx context.Context, h sysfs.Host, o PlanOptions) error {
	in := sysfs.Intent{Write: p.Writes(), Erase: o.Erase, SharedDisk: o.Allow["shared-disk"], NeedKnobs: p.NeedsKnobs()}
	refused, notes, err := p.judgeTargets(ctx, h, in)
	if err != nil {
		return err
	}
	p.Refused, p.Notes = slices.Concat(refused, p.refuseReadOnly(h), p.refuseHooks(o.Allow)), notes
	p.EraseNeeded = nil
	for _, d := range p.overwritten() {
		argument := h.EraseArgument(d)
		if slices.ContainsFunc(refused, func(r sysfs.Refusal) bool { return strings.Contains(r.Fix, "--erase "+argument+" ") }) {
			p.EraseNeeded = append(p.EraseNeeded, argument)
		}
	}
	return nil
}

// textEnd says what `run` would refuse, and what to type.
func (p *Plan) textEnd(out *planText, command string) {
	noted := false
	for _, note := range p.Notes {
		if !strings.HasSuffix(note, sysfs.FurtherTarget) { // the targets are listed above
			out.wrap("      ", "note: "+note)
			noted = true
		}
	}
	if noted {
		out.line("")
	}
	if len(p.Refused) > 0 {
		out.line("As things are, `run` refuses this:")
		for _, r := range refusalTexts(p.Refused) {
			out.wrapFrom("  ", "    ", r.Reason)
			if r.Fix != "" {
				out.line("    " + r.Fix)
			}
		}
		out.line("")
	}
	switch {
	case command == "":
		out.line("Nothing was changed.")
		return
	case len(p.Refused) > len(p.EraseNeeded):
		out.line("Nothing was changed. To start, once that is settled:")
	case len(p.EraseNeeded) > 0:
		out.line("Nothing was changed. To start, with the consent to lose what is on " + plural(len(p.EraseNeeded), "device") + ":")
	default:
		out.line("Nothing was changed. To start:")
	}
	out.command(command)
}

// refusalTexts are refusals as they are printed: where several devices "is" the same and the same helps, they are one.
func refusalTexts(refusals []sysfs.Refusal) (texts []sysfs.Refusal) {
	var uses grouped // of what begins with "sda is "
	place := map[int]int{}
	for _, r := range refusals {
		use, is := strings.CutPrefix(r.Reason, r.Device+" is ")
		if is && r.Device != "" {
			before := len(uses.refusals)
			uses.add(r.Device, use, r.Fix)
			if len(uses.refusals) > before {
				place[before] = len(texts)
				texts = append(texts, sysfs.Refusal{Fix: r.Fix})
			}
			continue
		}
		if r.Device != "" && !strings.HasPrefix(r.Reason, r.Device+" ") {
			r.Reason = r.Device + ": " + r.Reason
		}
		texts = append(texts, r)
	}
	for i, r := range uses.refusals {
		who := r.Device
		if strings.Contains(who, ", ") {
			who = "each of " + who
		}
		texts[place[i]].Reason = who + " is " + r.Reason
	}
	return texts
}
