package md

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// usersOf names the processes that keep a mount busy, by what they have open and where they are; "" where none is seen. It is for an error
// only: the kernel has decided already.
func (m machine) usersOf(point string) string {
	entries, err := os.ReadDir(m.path("/proc"))
	if err != nil {
		return ""
	}
	point = m.realPoint(point)
	var who []string
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && m.uses(pid, point) {
			name, _ := m.host.Read(fmt.Sprintf("/proc/%d/comm", pid)) // it may have ended
			who = append(who, fmt.Sprintf("pid %d (%s)", pid, name))
		}
		if len(who) == 5 {
			break
		}
	}
	return strings.Join(who, ", ")
}

func (m machine) uses(pid int, point string) bool {
	dir := m.path(fmt.Sprintf("/proc/%d", pid))
	links := []string{dir + "/cwd", dir + "/root"}
	open, _ := os.ReadDir(dir + "/fd")
	for _, e := range open {
		links = append(links, filepath.Join(dir, "fd", e.Name()))
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && (to == point || strings.HasPrefix(to, point+"/")) {
			return true
		}
	}
	return false
}
