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
	files, err := filepath.Glob(filepath.Join(s.opt.StateDir, "journal", "array-*.json"))
	if err != nil {
		return false // the pattern: a state folder with a bracket in its name
	}
	ours := map[sysfs.Identity]bool{}
	for _, t := range targets {
		for _, m := range t.Stack.Members {
			ours[m.Identity] = m.Identity != ""
		}
	}
	for _, name := range files {
		var e keeper.Entry
		text, err := os.ReadFile(name)
		if err != nil || json.Unmarshal(text, &e) != nil || e.Array == nil {
			continue // the keeper says what is wrong with it
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
