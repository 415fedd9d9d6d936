package sysfs

// MemberNames gives the kernel names of what lies directly under an md or dm device: an array's members, faulty and spare ones too, and
// also one that the kernel has lost meanwhile and only the array still names.
func (d Device) MemberNames() []string {
	if d.Kind == KindPartition {
		return nil
	}
	return d.host.lowerNames(d.dir)
}
