package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"qdsweep/sysfs"
)

// sameDrives finds the drives of the sweep by what they are, whatever they are called now, and refuses others. The profile's targets are put by identity
// into the profile; a sweep of an older version, which did not record them, is left as the profile names it. Of several targets those that are not as they
// were are done without.
func (s *Sweep) sameDrives() error {
	was := s.before.targets()
	if was == nil {
		return s.sameMembersAsConsented()
	}
	s.profile.Target = byIdentity(s.profile.Target, was)
	boot, _ := s.host.BootID()
	var refusals []sysfs.Refusal
	away := map[int][]sysfs.Refusal{}
	for i := range was {
		found, err := s.another(i, boot)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			away[i] = found
		}
		for _, r := range found {
			if !slices.Contains(refusals, r) {
				refusals = append(refusals, r)
			}
		}
	}
	if len(away) == len(was) || len(away) > 0 && s.profile.Target.Build != nil { // all levels are built from the same parts
		return &RefusedError{refusals}
	}
	for i, t := range was {
		if found := away[i]; found != nil {
			s.goOnWithout(t, found)
		}
	}
	return nil
}

// missing names every drive of a target that is not there, or that cannot be told from another.
func (s *Sweep) missing(t begunTarget) (refusals []sysfs.Refusal) {
	seen := map[sysfs.Identity]bool{}
	wanted := slices.Concat(t.Members, t.Parts)
	if t.Device != nil {
		wanted = append(wanted, *t.Device)
	}
	for _, d := range wanted {
		if d.Identity == "" || seen[d.Identity] {
			continue
		}
		seen[d.Identity] = true
		_, err := s.host.Resolve(string(d.Identity))
		switch {
		case errors.Is(err, sysfs.ErrNoDevice):
			refusals = append(refusals, sysfs.Refusal{Device: d.Name, Reason: fmt.Sprintf("the sweep's %s is not there, under whatever name", d.key()),
				Fix: "put it back in, and type it again; `qdsweep devices` lists what there is"})
		case err != nil:
			refusals = append(refusals, sysfs.Refusal{Device: d.Name, Reason: err.Error(), Fix: "leave only one of them plugged in"})
		}
	}
	return refusals
}

// byIdentity is a target spec with the devices that were found then, by what they are. What has no identity stays as it is named.
func byIdentity(spec TargetSpec, was []begunTarget) TargetSpec {
	of := func(level string) string {
		for _, t := range was {
			if t.Device != nil && t.Directory == "" && (level == "" || t.Level != nil && t.Level.Value == level) {
				return string(t.Device.Identity)
			}
		}
		return ""
	}
	if id := of(""); spec.Device != "" && id != "" {
		spec.Device = id
	}
	spec.Arrays = slices.Clone(spec.Arrays)
	for i, a := range spec.Arrays {
		if id := of(a.Level); a.Device != "" && id != "" {
			spec.Arrays[i].Device = id
		}
	}
	if spec.Build != nil && len(was) > 0 {
		build := *spec.Build
		build.Members = slices.Clone(build.Members)
		for i, d := range was[0].Parts {
			if i < len(build.Members) && d.Identity != "" {
				build.Members[i] = string(d.Identity)
			}
		}
		spec.Build = &build
	}
	return spec
}

// differs says how a target is another one than it was. A device without an identity is known by its name in the same boot only, or by the disks under it.
func differs(was, now begunTarget, sameBoot bool) (refusals []sysfs.Refusal) {
	refuse := func(device, format string, a ...any) {
		refusals = append(refusals, sysfs.Refusal{Device: device, Reason: fmt.Sprintf(format, a...), Fix: "the sweep goes on with the drives it began with; `qdsweep devices` shows what is there now"})
	}
	byMembers := !slices.ContainsFunc(was.Members, func(d begunDevice) bool { return d.Identity == "" })
	unknown := func(d begunDevice) bool { return d.Identity == "" && !sameBoot }
	switch {
	case was.Level != nil && (now.Level == nil || *was.Level != *now.Level):
		refuse(was.Target, "%s is not the target of that level any more", was.Target)
		return refusals
	case was.Device == nil || now.Device == nil:
	case was.Device.Identity != now.Device.Identity && was.Device.Identity != "":
		refuse(now.Device.Name, "%s lies on %s now, and lay on %s", was.Target, now.Device.key(), was.Device.key())
	case was.Device.Bytes != now.Device.Bytes:
		refuse(now.Device.Name, "%s has %d bytes now, and had %d", now.Device.Name, now.Device.Bytes, was.Device.Bytes)
	case unknown(*was.Device) && !byMembers:
		refuse(now.Device.Name, "%s has no WWID and no serial number: after a reboot it cannot be told whether it is the one that was measured", now.Device.Name)
	case sameBoot && was.Device.replaced(*now.Device) && !byMembers:
		refuse(now.Device.Name, replacedText, now.Device.Name)
	}
	for _, list := range []struct {
		what     string
		was, now []begunDevice
	}{{"members", was.Members, now.Members}, {"parts", was.Parts, now.Parts}} {
		a, b := keysOf(list.was), keysOf(list.now)
		if list.what == "members" {
			slices.Sort(a)
			slices.Sort(b)
		}
		if !slices.Equal(a, b) && len(refusals) == 0 {
			refuse(now.Target, "the %s of %s are %s now, and were %s", list.what, was.Target, strings.Join(b, ", "), strings.Join(a, ", "))
		}
		for _, d := range list.was {
			if unknown(d) && len(refusals) == 0 {
				refuse(d.Name, "%s has no WWID and no serial number: after a reboot it cannot be told whether it is the one that was measured", d.Name)
			}
			other := slices.ContainsFunc(list.now, func(n begunDevice) bool { return n.argument() == d.argument() && d.replaced(n) })
			if sameBoot && other && len(refusals) == 0 {
				refuse(d.Name, replacedText, d.Name)
			}
		}
	}
	return refusals
}

const replacedText = "%s was taken away and put back since, and has no WWID and no serial number: it cannot be told whether it is the one that was measured"

// replaced says that a name means another medium than it did in the same boot, by a number that the kernel gives to each. An older one gives none.
func (d begunDevice) replaced(now begunDevice) bool {
	return d.Identity == "" && d.Sequence != "" && now.Sequence != "" && d.Sequence != now.Sequence
}

// keysOf are devices by what they are; those that are nothing but a name, by that and their size.
func keysOf(devices []begunDevice) (keys []string) {
	for _, d := range devices {
		keys = append(keys, d.argument())
	}
	return keys
}

// sameMembersAsConsented is sameDrives for a folder that has only the members' identities.
func (s *Sweep) sameMembersAsConsented() error {
	targets, err := s.profile.resolveTargets(s.host, nil)
	if err != nil {
		return err
	}
	now := keysOf(begunDevices((&Plan{Targets: targets}).Members()))
	was := keysOf(s.before.consent.Members)
	slices.Sort(now)
	slices.Sort(was)
	if slices.Equal(was, now) {
		return nil
	}
	return &RefusedError{[]sysfs.Refusal{{Reason: fmt.Sprintf("the profile's target lies on %s now, and lay on %s", strings.Join(now, ", "), strings.Join(was, ", ")),
		Fix: "the sweep goes on with the drives it began with; `qdsweep devices` shows what is there now"}}}
}

// nameTargets calls targets that were found by identity as the profile does, where its name still means them.
func (s *Sweep) nameTargets(targets []*Target) {
	if s.before == nil {
		return
	}
	for _, was := range s.before.starts[0].Targets {
		i := slices.IndexFunc(targets, func(t *Target) bool { return was.Level == nil || t.Level == *was.Level })
		if i < 0 || targets[i].Built() || targets[i].Stack.Directory != "" {
			continue
		}
		t := targets[i]
		if found, err := s.host.Resolve(was.Target); err == nil && found.Device.Name == t.Stack.Device.Name {
			t.Stack.Target = was.Target
		}
	}
}
