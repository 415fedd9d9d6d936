package sysfs

import "strings"

// cacheCell is a drive's write cache in a word or two, with a note where there is more to say.
func cacheCell(d Info, note func(string) string) string {
	k := d.Knobs["write_cache"]
	switch {
	case d.Disagreement != "" && d.Transport == "usb":
		return k.Value + note(d.Disagreement+": of a USB disk it often assumes, without asking")
	case d.Disagreement != "":
		return k.Value + note(d.Disagreement+": somebody changed one of them")
	case k.Absent:
		return "none"
	case k.Value == "":
		return "unknown" + cacheNote(k, note)
	case !k.Writable:
		return k.Value + ", fixed" + cacheNote(k, note)
	}
	return k.Value
}

// cacheNote says why a write cache is not known or cannot be changed.
func cacheNote(k KnobState, note func(string) string) string {
	if k.Reason == "" {
		return ""
	}
	return note("write cache: " + visible(k.Reason))
}

// cacheTable says of each drive what it says itself, what the kernel believes, and how its cache would be changed; drives of
// which the same is true share a line. nil where there is no drive.
func cacheTable(infos []Info, note func(string) string) table {
	t := table{{"WRITE CACHE OF", "THE DRIVE SAYS", "THE KERNEL BELIEVES", "CHANGED BY"}}
	lines := map[string]int{}
	for _, d := range infos {
		if d.Device.Kind != KindDisk {
			continue
		}
		k := d.Knobs["write_cache"]
		by := k.By
		switch {
		case k.Value != "" && !k.Writable:
			by = "nothing" + cacheNote(k, note)
		case d.Transport == "virtio":
			by = "the host's " + by
		}
		believes := k.Kernel
		if strings.Contains(believes, ",") { // two places, two levels: the note that the drive's cell has says which
			believes = "on and off"
		}
		row := []string{d.Name, cacheCell(d, note), orDash(believes), orDash(by)}
		key := strings.Join(row[1:], "\x00")
		if at, ok := lines[key]; ok {
			t[at][0] += " " + d.Name
			continue
		}
		lines[key] = len(t)
		t = append(t, row)
	}
	if len(t) == 1 {
		return nil
	}
	return t
}

// cacheWhy is what stands beside the levels of write_cache in the list of a device's knobs.
func cacheWhy(d Info) string {
	k := d.Knobs["write_cache"]
	var said []string
	switch {
	case k.Writable && d.Transport == "virtio":
		said = append(said, "the host's cache mode, by "+k.By)
	case k.Writable:
		said = append(said, "in the drive, by "+k.By)
	}
	if k.Kernel != "" {
		said = append(said, "the kernel believes: "+k.Kernel)
	}
	if k.Reason != "" {
		said = append(said, k.Reason)
	}
	return strings.Join(said, "; ")
}
