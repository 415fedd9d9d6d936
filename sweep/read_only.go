package sweep

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// refuseReadOnly refuses settings that are made through /sys where that is read-only, as it is in a container: each run would fail. The write cache of a drive
// is none of them.
func (p *Plan) refuseReadOnly(h sysfs.Host) []sysfs.Refusal {
	if !h.Live() || !slices.ContainsFunc(p.Knobs, func(k PlannedKnob) bool { return k.Name != "write_cache" }) {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Join(h.Root(), "sys"), &st); err != nil || st.Flags&unix.ST_RDONLY == 0 {
		return nil
	}
	return []sysfs.Refusal{{Reason: "/sys is read-only here, so no setting can be made: this is a container",
		Fix: "give it the machine's /sys (docker run --privileged), or run qdsweep outside of it"}}
}
