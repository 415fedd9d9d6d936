package sweep

import (
	"context"
	"strings"

	"qdsweep/sysfs"
)

// Judge asks the safety gate what `run` would say to this plan as the machine is now, so that a plan shown in the evening
// does not end in a refusal at night. The answers are in Refused and Notes, and are shown by Text and JSON. It changes nothing.
func (p *Plan) Judge(ctx context.Context, h sysfs.Host, o PlanOptions) error {
	in := sysfs.Intent{Write: p.Writes(), Erase: o.Erase, SharedDisk: o.Allow["shared-disk"], NeedKnobs: p.NeedsKnobs()}
	var err error
	p.Refused, p.Notes, err = p.judgeTargets(ctx, h, in)
	return err
}

// textEnd says what `run` would refuse, and what to type.
func (p *Plan) textEnd(out *planText, command string) {
	for _, note := range p.Notes {
		out.wrap("      ", "note: "+note)
	}
	if len(p.Notes) > 0 {
		out.line("")
	}
	if len(p.Refused) > 0 {
		out.line("As things are, `run` refuses this:")
		for _, r := range p.Refused {
			text := r.Reason
			if r.Device != "" && !strings.HasPrefix(r.Reason, r.Device+" ") {
				text = r.Device + ": " + text
			}
			out.wrapFrom("  ", "    ", text)
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
	case len(p.Refused) > 0:
		out.line("Nothing was changed. To start, once that is settled:")
	default:
		out.line("Nothing was changed. To start:")
	}
	out.line("  " + command)
}
