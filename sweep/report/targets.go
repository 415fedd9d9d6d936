package report

import (
	"cmp"
	"slices"
	"strings"

	"qdsweep/sweep/results"
)

// targetFacts is one of the things that a sweep drove: the only one, or the one
// that a level of raid_level or device picks.
type targetFacts struct {
	Target    string `json:"target"`
	RAIDLevel string `json:"raid_level,omitempty"`
	Device    string `json:"device,omitempty"` // the identity that the level is
	Members   string `json:"members"`

	level string // of the axis device, as cells have it
}

// target notes on what a row ran.
func (f *sweepFacts) target(r results.Row) {
	is := targetFacts{Target: r.Target, RAIDLevel: r.RAIDLevel, Members: r.Members, level: results.LevelIn(r.Cell, "device")}
	for _, t := range f.Targets {
		if t.Target == is.Target && t.RAIDLevel == is.RAIDLevel && t.level == is.level {
			t.Members = is.Members // what a drive that came back is called now
			return
		}
	}
	is.Device = results.ParseLevel(is.level)
	f.Targets = append(f.Targets, &is)
}

// settle sorts the targets by what picks them, and says all of them and all
// their members in one.
func (f *sweepFacts) settle() {
	slices.SortStableFunc(f.Targets, func(a, b *targetFacts) int {
		return cmp.Or(compareLevels(a.RAIDLevel, b.RAIDLevel), natural(a.short(), b.short()))
	})
	var targets []string
	var members []results.Member
	for _, t := range f.Targets {
		if !slices.Contains(targets, t.Target) {
			targets = append(targets, t.Target)
		}
		for _, m := range results.ParseMembers(t.Members) {
			if !slices.Contains(members, m) {
				members = append(members, m)
			}
		}
	}
	if len(f.Targets) > 1 {
		slices.SortStableFunc(members, func(a, b results.Member) int { return natural(a.Name, b.Name) })
	}
	f.Target, f.Members = strings.Join(targets, ", "), results.FormatMembers(members)
}

// natural orders names of devices: sdb before sdaa, nvme2n1 before nvme10n1.
func natural(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// short is a target's name among others: md5, /mnt/r5; of one that is named by
// a link or an identity the name of its disk; of one that was built what it is,
// without what it was built from.
func (t *targetFacts) short() string {
	name := strings.TrimPrefix(t.Target, "/dev/")
	if what, _, built := strings.Cut(name, "raid"+t.RAIDLevel+" on "); built {
		return what + "raid" + t.RAIDLevel
	}
	link := name != t.Target && strings.HasPrefix(name, "disk/")
	identity := strings.HasPrefix(name, "wwid:") || strings.HasPrefix(name, "serial:")
	members := results.ParseMembers(t.Members)
	if !link && !identity || len(members) != 1 {
		return name
	}
	if i := strings.LastIndex(name, "-part"); i >= 0 {
		return members[0].Name + name[i:]
	}
	return members[0].Name
}

// memberNames is a short list of the disks in a members column.
func memberNames(column string) string {
	var names []string
	for _, m := range results.ParseMembers(column) {
		names = append(names, m.Name)
	}
	return results.ShortNames(names)
}

// labels are what stands in a table for the levels of the axis device, which
// are identities: the name where that is one drive's all along, else the serial,
// else the identity itself. By the level as cells have it.
func labels(sweeps []*sweepFacts) map[string]string {
	names, serials := map[string][]string{}, map[string][]string{}
	note := func(of map[string][]string, level, name string) {
		if !slices.Contains(of[level], name) {
			of[level] = append(of[level], name)
		}
	}
	for _, f := range sweeps {
		for _, t := range f.Targets {
			if t.level == "" {
				continue
			}
			note(names, t.level, t.short())
			serial := ""
			if members := results.ParseMembers(t.Members); len(members) == 1 {
				serial = members[0].Serial
			}
			note(serials, t.level, serial)
		}
	}
	list := map[string]string{}
	for level := range names {
		label := results.ParseLevel(level)
		if only(names, level) {
			label = names[level][0]
		} else if only(serials, level) {
			label = serials[level][0]
		}
		list[level] = label
	}
	return list
}

// only says whether a level has one text, and no other level has it.
func only(of map[string][]string, level string) bool {
	if len(of[level]) != 1 || of[level][0] == "" {
		return false
	}
	for other, texts := range of {
		if other != level && slices.Contains(texts, of[level][0]) {
			return false
		}
	}
	return true
}

// deviceLegend says which drive each label is.
func deviceLegend(sweeps []*sweepFacts, labels map[string]string) string {
	var parts []string
	for _, f := range sweeps {
		for _, t := range f.Targets {
			label, ok := labels[t.level]
			if !ok {
				continue
			}
			words := label + ":"
			if members := results.ParseMembers(t.Members); len(members) == 1 {
				words += " " + members[0].Model
				if members[0].Serial != label {
					words += " " + members[0].Serial
				}
			} else {
				words += " on " + memberNames(t.Members)
			}
			if words = strings.Join(strings.Fields(words), " "); !slices.Contains(parts, words) {
				parts = append(parts, words)
			}
		}
	}
	return strings.Join(parts, "; ")
}

// memberLegend says which members each raid level has, where they are not the
// same ones all along.
func memberLegend(sweeps []*sweepFacts) string {
	var parts []string
	for _, f := range sweeps {
		for _, t := range f.Targets {
			if t.RAIDLevel == "" {
				continue
			}
			if part := t.RAIDLevel + " on " + memberNames(t.Members); !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	differ := slices.ContainsFunc(parts, func(p string) bool {
		_, first, _ := strings.Cut(parts[0], " on ")
		_, this, _ := strings.Cut(p, " on ")
		return first != this
	})
	if !differ {
		return ""
	}
	return "raid_level " + strings.Join(parts, "; ")
}
