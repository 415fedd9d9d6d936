package systest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

const swapsHeader = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"

// Partition makes partition number n of a disk, from start on, both in bytes, and gives its name.
func (m *Machine) Partition(disk string, n int, start, bytes int64) string {
	m.t.Helper()
	d := m.disk(disk)
	name := fmt.Sprintf("%s%d", disk, n)
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		name = fmt.Sprintf("%sp%d", disk, n)
	}
	dir := d.dir + "/" + name
	for attribute, v := range map[string]any{"partition": n, "start": start / 512, "size": bytes / 512, "ro": 0} {
		m.put(dir+"/"+attribute, fmt.Sprintln(v), 0o444)
	}
	m.put(dir+"/stat", zeroStat, 0o444)
	m.put(dir+"/inflight", "       0        0\n", 0o444)
	m.dir(dir + "/holders")
	m.number(dir, name)
	m.link(d, "/sys/class/block/"+name, dir)
	m.node(name, bytes)
	return name
}

// Mount mounts a device on a directory, which is made.
func (m *Machine) Mount(device, point, filesystem string) {
	m.t.Helper()
	number := m.Get(m.blockDir(device) + "/dev")
	m.mounts = append(m.mounts, fmt.Sprintf("%d 1 %s / %s rw,relatime - %s /dev/%s rw",
		len(m.mounts)+1, number, escape(point), filesystem, strings.ReplaceAll(device, "!", "/")))
	m.dir(point)
	m.Set("/proc/self/mountinfo", strings.Join(m.mounts, "\n")+"\n")
}

// Unmount takes a mount away.
func (m *Machine) Unmount(point string) {
	m.t.Helper()
	var kept []string
	for _, line := range m.mounts {
		if strings.Fields(line)[4] != escape(point) {
			kept = append(kept, line)
		}
	}
	m.mounts = kept
	m.Set("/proc/self/mountinfo", strings.Join(m.mounts, "\n")+"\n")
}

// Swap makes a device swap space.
func (m *Machine) Swap(device string) {
	m.t.Helper()
	m.swaps = append(m.swaps, fmt.Sprintf("/dev/%s partition\t1048572\t\t0\t\t-2\n", device))
	m.Set("/proc/swaps", swapsHeader+strings.Join(m.swaps, ""))
}

// blockDir is a device's directory without links.
func (m *Machine) blockDir(name string) string {
	m.t.Helper()
	p, err := filepath.EvalSymlinks(m.path("/sys/class/block/" + name))
	require.NoError(m.t, err)
	return strings.TrimPrefix(p, m.real(m.root))
}

// node makes a node: a file without blocks.
func (m *Machine) node(name string, bytes int64) {
	p := m.path("/dev/" + strings.ReplaceAll(name, "!", "/"))
	require.NoError(m.t, os.MkdirAll(path.Dir(p), 0o755))
	require.NoError(m.t, os.WriteFile(p, nil, 0o600))
	require.NoError(m.t, os.Truncate(p, bytes))
}

func escape(s string) string { return strings.ReplaceAll(s, " ", `\040`) }
