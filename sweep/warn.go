package sweep

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qdsweep/workload"
)

// warn says where a sweep is legal and cannot show what it is made for.
func (p *Plan) warn(ctx context.Context) []string {
	var all []string
	all = append(all, p.warnBuild()...)
	all = append(all, p.warnDepth()...)
	all = append(all, p.warnRequests(ctx)...)
	all = append(all, p.warnNCQ()...)
	all = append(all, p.warnCache()...)
	all = append(all, p.warnSectors()...)
	all = append(all, p.warnPhysical()...)
	for _, k := range p.Knobs {
		for _, m := range k.Members {
			if strings.HasPrefix(m.Reason, "not checked") {
				all = append(all, fmt.Sprintf("%s of %s is %s; `run` asks the drive before it changes anything", k.Name, m.Member, m.Reason))
			}
		}
	}
	return all
}

// deepest is the highest level of queue_depth that a target can have; 0 when there is none, or it is no axis.
func (p *Plan) deepest(t *Target) int {
	deepest := 0
	for _, level := range p.Profile.Matrix.levelsOf("queue_depth") {
		n, err := strconv.Atoi(level)
		if err == nil && p.skip[t.Level][Level{"queue_depth", level}] == "" {
			deepest = max(deepest, n)
		}
	}
	return deepest
}

// warnDepth compares what each workload offers with what the queues of all data members of a target together take.
func (p *Plan) warnDepth() []string {
	var all []string
	for _, l := range p.work.loads {
		offers := offer{l.name, plural(l.offered, "command"), "raise its iodepth, threads or processes", l.offered, l.writes}
		if l.largest.Type == "bonnie" {
			offers.raise = "its other phases would"
		}
		if l.offered > l.seeking {
			all = append(all, p.warnOffer(offers)...)
		}
		if l.seeking > 0 { // whatever else it does, this phase is made to fill a queue
			all = append(all, p.warnOffer(offer{"the phase seeks of " + l.name, plural(l.seeking, "seeker"), "raise its seekers", l.seeking, l.writes})...)
		}
	}
	return all
}

// offer is how many commands something can have outstanding.
type offer struct {
	who, what, raise string
	commands         int
	writes           bool
}

func (p *Plan) warnOffer(o offer) []string {
	var depth, shown, fewest, most int
	var short []string // levels of the targets whose queues it does not fill
	for _, t := range p.Targets {
		deepest, members := p.deepest(t), t.dataMembers(o.writes)
		if o.commands >= deepest*members {
			continue
		}
		if short = append(short, deviceOf(t.Level.Value)); len(short) == 1 {
			fewest = members
		}
		depth, fewest, most = max(depth, deepest), min(fewest, members), max(most, members)
		shown = max(shown, 1, (o.commands+members-1)/members)
	}
	if len(short) == 0 {
		return nil
	}
	takes := fmt.Sprintf("queue_depth %d", depth)
	switch {
	case fewest < most:
		takes += fmt.Sprintf(" × %d to %d data members", fewest, most)
	case most > 1:
		takes += fmt.Sprintf(" × %d data members", most)
	}
	if len(short) < len(p.Targets) {
		takes += " of " + p.Targets[0].Level.Axis + " " + strings.Join(short, ", ")
	}
	return []string{fmt.Sprintf("%s has %s for %s: it cannot show a depth above %d a disk; %s", o.who, o.what, takes, shown, o.raise)}
}

// dataMembers is the number of disks that a command is spread over: parity holds no data, and a mirror writes twice.
func (t *Target) dataMembers(writes bool) int {
	n := len(t.Stack.Members)
	if t.Built() {
		return max(dataOf("raid"+t.Level.Value, n, writes, int(t.Build.copies())), 1)
	}
	arrays := t.Stack.Device.Host().Arrays(t.Stack)
	for _, a := range arrays {
		if len(arrays) == 1 && a.Disks > 0 {
			n = min(n, a.Disks) // the others are spares
		}
		n = dataOf(a.Level, n, writes, 2)
	}
	return max(n, 1)
}

// dataOf is how many of n disks under an array a command is spread over.
func dataOf(level string, n int, writes bool, copies int) int {
	switch {
	case level == "raid4", level == "raid5":
		return n - 1
	case level == "raid6":
		return n - 2
	case level == "raid10" && writes:
		return n / copies
	case level == "raid1" && writes:
		return 1
	}
	return n
}

// warnRequests finds the block layer's own limit below what would reach the device: then that is the real ceiling.
func (p *Plan) warnRequests(ctx context.Context) []string {
	swept := 0
	for _, level := range p.Profile.Matrix.levelsOf("nr_requests") {
		if n, err := strconv.Atoi(level); err == nil {
			swept = max(swept, n)
		}
	}
	var found grouped
	for _, t := range p.Targets {
		offered, name := 0, ""
		for _, l := range p.work.loads {
			data := t.dataMembers(l.writes)
			if one := (l.offered + data - 1) / data; one > offered {
				offered, name = one, l.name
			}
		}
		for _, m := range t.Stack.Members {
			limit := swept
			if limit == 0 {
				text, err := m.Current(ctx, "nr_requests")
				if limit, _ = strconv.Atoi(text); err != nil || limit == 0 {
					continue
				}
			}
			wanted := offered
			if depth := p.deepest(t); depth > 0 {
				wanted = min(wanted, depth)
			} else if text, err := m.Current(ctx, "queue_depth"); err == nil {
				if depth, err := strconv.Atoi(text); err == nil {
					wanted = min(wanted, depth)
				}
			}
			if wanted >= workload.Unlimited { // buffered writes fill whatever there is, and the device has no queue_depth
				continue
			}
			if limit < wanted {
				found.add(m.Name, fmt.Sprintf("nr_requests is %d, below the %d commands that %s and the queue depth allow: %d is the real ceiling", limit, wanted, name, limit), "")
			}
		}
	}
	return found.texts()
}

func (g grouped) texts() []string {
	var all []string
	for _, r := range g.refusals {
		all = append(all, r.Device+": "+r.Reason)
	}
	return all
}

// warnNCQ says where queue_depth 1 does not mean what people take it for.
func (p *Plan) warnNCQ() []string {
	if !slices.Contains(p.Profile.Matrix.levelsOf("queue_depth"), "1") {
		return nil
	}
	var others []string
	for _, m := range p.Members() {
		if !m.Libata() && !p.fixed("queue_depth", m.Name) {
			others = append(others, m.Name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: queue_depth 1 is one command at a time, still tagged; it is NCQ off on libata only", strings.Join(others, ", "))}
}

// fixed says that a knob of the plan cannot be set on a member.
func (p *Plan) fixed(knob, member string) bool {
	for _, k := range p.Knobs {
		for _, m := range k.Members {
			if k.Name == knob && m.Member == member {
				return !m.Allowed.Writable
			}
		}
	}
	return false
}

// warnCache: only writes meet the write cache.
func (p *Plan) warnCache() []string {
	if a, ok := p.Profile.Matrix.Axis("write_cache"); !ok || len(a.Levels) < 2 || p.Writes() {
		return nil
	}
	return []string{"write_cache is swept and no workload writes: reads hardly show it; add a workload that writes"}
}

// warnSectors: a request that is never larger than the limit does not meet it. Buffered I/O makes larger ones by itself.
func (p *Plan) warnSectors() []string {
	smallest := 0
	for _, level := range p.Profile.Matrix.levelsOf("max_sectors_kb") {
		if n, err := strconv.Atoi(level); err == nil && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	if smallest == 0 || len(p.work.loads) == 0 {
		return nil
	}
	var largest int64
	for _, l := range p.work.loads {
		if l.buffered {
			return nil
		}
		if !l.sg { // whose commands are as large as they are
			largest = max(largest, l.block)
		}
	}
	if largest > int64(smallest)*1024 {
		return nil
	}
	return []string{fmt.Sprintf("max_sectors_kb is swept from %d on, and no block is larger than %d KiB: no request is split, so it cannot show", smallest, largest/1024)}
}

// warnPhysical: a drive with 512-byte emulation takes a write of a part of its block by reading that block first.
func (p *Plan) warnPhysical() []string {
	var all []string
	for _, l := range p.work.loads {
		var names []string
		physical := 0
		for _, m := range p.Members() {
			if b := m.PhysicalBlock; l.smallest > 0 && b > 0 && l.smallest%int64(b) != 0 {
				names, physical = append(names, m.Name), max(physical, b)
			}
		}
		if len(names) > 0 {
			all = append(all, fmt.Sprintf("%s writes blocks of %d bytes, and the physical blocks of %s have %d: the drive reads before it writes each", l.name, l.smallest,
				strings.Join(names, ", "), physical))
		}
	}
	return all
}
