package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
)

// builtBefore says whether the journal has an array, of a sweep that died or of one that lives, on disks of these targets. Then the keeper knows better than
// the safety gate what to do about it: the gate sees somebody's array, and says how to stop it. The journal is read for that alone; nothing of it is obeyed.
func (s *Sweep) builtBefore(targets []*Target) bool {
	ours := map[sysfs.Identity]bool{}
	for _, t := range targets {
		for _, m := range t.Stack.Members {
			ours[m.Identity] = m.Identity != ""
		}
	}
	for _, e := range journalled(s.opt.StateDir) {
		if e.Array == nil {
			continue
		}
		for _, m := range e.Array.Members {
			disk, _, _ := strings.Cut(string(m.Identity), "-part")
			if ours[m.Identity] || ours[sysfs.Identity(disk)] {
				return true
			}
		}
	}
	return false
}

// journalled are the entries of the journal, as far as they can be read.
func journalled(stateDir string) (entries []keeper.Entry) {
	dir := filepath.Join(stateDir, "journal")
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil // a state folder that was never used, or that the keeper says more of
	}
	for _, f := range files {
		var e keeper.Entry
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if filepath.Ext(f.Name()) == ".json" && err == nil && json.Unmarshal(text, &e) == nil {
			entries = append(entries, e)
		}
	}
	return entries
}
