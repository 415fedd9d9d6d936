package sysfs

// Resyncing names the first md array of the stack whose members do I/O of md's own, and the action: resync, recover, check, repair or reshape
// (Documentation/admin-guide/md.rst, sync_action; a DELAYED resync shows as resync too). Both are "" where there is none.
func (h Host) Resyncing(s Stack) (array, action string) {
	devices := append([]Device{s.Device}, s.More...)
	for _, l := range s.Layers {
		devices = append(devices, l.Device)
	}
	for _, d := range devices {
		if d.Kind != KindMD {
			continue
		}
		switch a := h.text(d.SysDir() + "/md/sync_action"); a {
		case "", "idle", "frozen":
		default:
			return d.Name, a
		}
	}
	return "", ""
}
