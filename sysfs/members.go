package sysfs

import "slices"

// DataMembers gives the members that hold data of the target: not those of which its arrays have nothing but spares, or what they took
// for faulty. These carry no I/O of the target's.
func (h Host) DataMembers(s Stack) []Device {
	under, idle := map[string][]string{}, map[string]bool{}
	for _, l := range s.Layers {
		under[l.Device.Name] = l.under
	}
	for _, a := range h.Arrays(s) {
		for _, name := range slices.Concat(a.Spare, a.Faulty) {
			idle[name] = true
		}
	}
	reached := map[string]bool{}
	var reach func(name string)
	reach = func(name string) {
		if reached[name] || idle[name] {
			return
		}
		reached[name] = true
		for _, lower := range under[name] {
			reach(lower)
		}
	}
	for _, d := range append([]Device{s.Device}, s.More...) {
		reach(d.Name)
	}
	return slices.DeleteFunc(slices.Clone(s.Members), func(d Device) bool { return !reached[d.Name] })
}

// MemberNames gives the kernel names of what lies directly under an md or dm device: an array's members, faulty and spare ones too, and
// also one that the kernel has lost meanwhile and only the array still names.
func (d Device) MemberNames() []string {
	if d.Kind == KindPartition {
		return nil
	}
	return d.host.lowerNames(d.dir)
}
