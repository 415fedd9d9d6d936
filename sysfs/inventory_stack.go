package sysfs

import "strings"

// byMember says of the knobs of a stacked device's members that they are not set on itself. Its own attributes of these names, where it
// has them, are shown as they are and are never changed.
func (i *Info) byMember() {
	for _, k := range Knobs() {
		if k.Scope == OnMembers {
			st := i.Knobs[k.Name]
			st.Allowed, st.Writable, st.Reason = Allowed{}, false, "set on each member"
			i.Knobs[k.Name] = st
		}
	}
}

// usedBy is who uses a device, with what /proc/mdstat says of a member that holds no data.
func (h Host) usedBy(u Use) string {
	if u.Kind == UseMD {
		state := "," + h.text("/sys/block/"+u.By+"/md/dev-"+u.Device+"/state") + ","
		switch {
		case strings.Contains(state, ",faulty,"):
			return u.By + " (F)"
		case strings.Contains(state, ",spare,"):
			return u.By + " (S)"
		}
	}
	return u.By
}

// describeModel is what the MODEL column says: of a disk its model, of what is stacked what it is.
func (i Info) describeModel() string {
	if i.Detail == "" {
		return i.Device.Model
	}
	parts := strings.Split(i.Detail, ", ")
	return strings.Join(parts[:min(len(parts), 2)], ", ")
}

// describeSerial is what the SERIAL column says: of an array the beginning of its UUID.
func (i Info) describeSerial() string {
	if uuid, ok := strings.CutPrefix(i.WWID, "md-uuid-"); ok {
		short, _, _ := strings.Cut(uuid, ":")
		return "uuid " + short + "…"
	}
	return i.Serial
}

// memberNote names the members of an array that hold no data.
func (i Info) memberNote() string {
	var bad []string
	for _, part := range strings.Split(i.Detail, ", ") {
		if strings.HasSuffix(part, " faulty") || strings.HasSuffix(part, " spare") || strings.HasSuffix(part, " gone") {
			bad = append(bad, part)
		}
	}
	if bad == nil {
		return ""
	}
	return i.Name + ": " + strings.Join(bad, ", ")
}
