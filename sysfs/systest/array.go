package systest

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// array is an md array or a device-mapper device: a block device whose queue has no requests of its own.
type array struct {
	name, level string // level "" of a mapping
	dir         string // "/sys/devices/virtual/block/md0"
	maxHW       int    // KiB
	defaultMax  int    // max_sectors_kb as it came up
	members     []string
}

// array finds an array or a mapping, nil for none.
func (m *Machine) array(name string) *array {
	for _, a := range m.arrays {
		if a.name == name {
			return a
		}
	}
	return nil
}

// MD makes an array of disks and partitions, clean and idle.
func (m *Machine) MD(name, level string, members ...string) {
	m.t.Helper()
	a := m.stack(name, m.arraySize(level, members), members)
	a.level = level
	md := a.dir + "/md/"
	rw := func(attribute string, v any) { m.put(md+attribute, fmt.Sprintln(v), 0o644) }
	ro := func(attribute string, v any) { m.put(md+attribute, fmt.Sprintln(v), 0o444) }
	rw("level", level)
	rw("array_state", "clean")
	rw("metadata_version", "1.2")
	rw("raid_disks", len(members))
	rw("chunk_size", 65536)
	rw("safe_mode_delay", "0.204")
	ro("uuid", fmt.Sprintf("%08x-0000-4000-8000-000000000000", len(m.arrays)))
	rw("consistency_policy", map[bool]string{true: "resync", false: "none"}[redundant(level)])
	if redundant(level) {
		rw("sync_action", "idle")
		rw("sync_min", 0)
		rw("sync_max", "max")
		rw("sync_speed_max", "200000 (system)")
		ro("sync_completed", "none")
		ro("sync_speed", "none")
		ro("degraded", 0)
		ro("mismatch_cnt", 0)
	}
	if parity(level) {
		rw("stripe_cache_size", 256)
		rw("group_thread_cnt", 0)
		rw("skip_copy", 0)
		rw("rmw_level", 1)
		rw("preread_bypass_threshold", 1)
		ro("stripe_cache_active", 0)
	}
	for slot, member := range members {
		m.bind(a, member, "in_sync", fmt.Sprint(slot))
	}
}

func redundant(level string) bool { return level != "raid0" && level != "linear" }
func parity(level string) bool    { return slices.Contains([]string{"raid4", "raid5", "raid6"}, level) }

// arraySize is what an array of a level can hold, in bytes, without what its metadata takes.
func (m *Machine) arraySize(level string, members []string) int64 {
	m.t.Helper()
	sum, least, n := int64(0), int64(0), int64(len(members))
	for _, member := range members {
		size := m.size(member)
		sum += size
		if least == 0 || size < least {
			least = size
		}
	}
	switch level {
	case "raid1":
		return least
	case "raid4", "raid5":
		return least * (n - 1)
	case "raid6":
		return least * (n - 2)
	case "raid10":
		return least * n / 2
	}
	return sum
}

func (m *Machine) size(name string) int64 {
	m.t.Helper()
	var sectors int64
	_, err := fmt.Sscan(m.Get(m.blockDir(name)+"/size"), &sectors)
	require.NoError(m.t, err)
	return sectors * 512
}

// bind makes an array's view of a member.
func (m *Machine) bind(a *array, member, state, slot string) {
	lower, dev := m.blockDir(member), a.dir+"/md/dev-"+member
	m.put(dev+"/state", state+"\n", 0o644)
	m.put(dev+"/slot", slot+"\n", 0o644)
	m.put(dev+"/errors", "0\n", 0o644)
	m.Link(dev+"/block", lower)
	m.Link(a.dir+"/slaves/"+member, lower)
	m.Link(lower+"/holders/"+a.name, a.dir)
	if !slices.Contains(a.members, member) {
		a.members = append(a.members, member)
	}
}

// Kick has md give up a member after an error: it stays in the array, faulty. Of a level that keeps nothing twice the array is broken then.
func (m *Machine) Kick(name, member string) {
	m.t.Helper()
	a := m.array(name)
	md := a.dir + "/md/"
	if !redundant(a.level) { // md refuses to take the member for faulty
		m.Set(md+"array_state", "broken\n")
		m.KernelSays(fmt.Sprintf("md/%s%s: Disk failure on %s detected, failing array.", a.level, name, member))
		return
	}
	degraded := 0
	_, err := fmt.Sscan(m.Get(md+"degraded"), &degraded)
	require.NoError(m.t, err)
	m.Set(md+"degraded", fmt.Sprintln(degraded+1))
	m.Set(md+"dev-"+member+"/state", "faulty\n")
	m.Set(md+"dev-"+member+"/slot", "none\n")
	m.KernelSays(fmt.Sprintf("md/raid:%s: Disk failure on %s, disabling device.", name, member))
}

// Join gives an array a further member: a spare, and where one is missing the recovery begins. As the kernel does, the array takes over
// limits of the new member that are lower than its own.
func (m *Machine) Join(name, member string) {
	m.t.Helper()
	a := m.array(name)
	md := a.dir + "/md/"
	slot := "none"
	if m.Get(md+"degraded") != "0" {
		slot = "0"
		m.Set(md+"sync_action", "recover\n")
		m.Set(md+"sync_completed", "512 / 2048\n")
		m.Set(md+"sync_speed", "64\n")
	}
	m.bind(a, member, "spare", slot)
	var own, lower int
	_, err := fmt.Sscan(m.Get(a.dir+"/queue/max_sectors_kb"), &own)
	require.NoError(m.t, err)
	_, err = fmt.Sscan(m.Get(m.wholeDir(member)+"/queue/max_sectors_kb"), &lower)
	require.NoError(m.t, err)
	m.Set(a.dir+"/queue/max_sectors_kb", fmt.Sprintln(min(own, lower)))
}

// DM makes a device-mapper device; uuid tells what made it: "LVM-…", "CRYPT-LUKS2-…", "mpath-…".
func (m *Machine) DM(name, label, uuid string, under ...string) {
	m.t.Helper()
	var bytes int64
	for _, lower := range under {
		bytes += m.size(lower)
	}
	if strings.HasPrefix(uuid, "mpath-") {
		bytes /= int64(len(under))
	}
	a := m.stack(name, bytes, under)
	m.put(a.dir+"/dm/name", label+"\n", 0o444)
	m.put(a.dir+"/dm/uuid", uuid+"\n", 0o444)
	m.put(a.dir+"/dm/suspended", "0\n", 0o444)
	for _, lower := range under {
		m.Link(a.dir+"/slaves/"+lower, m.blockDir(lower))
		m.Link(m.blockDir(lower)+"/holders/"+name, a.dir)
	}
	m.Link("/dev/mapper/"+label, "/dev/"+name)
}

// stack makes a virtual block device. Its limits are those that its lower devices have now.
func (m *Machine) stack(name string, bytes int64, under []string) *array {
	m.t.Helper()
	a := &array{name: name, dir: "/sys/devices/virtual/block/" + name, maxHW: 32767, defaultMax: 1280, members: slices.Clone(under)}
	for _, lower := range under {
		var max, hardware int
		_, err := fmt.Sscan(m.Get(m.wholeDir(lower)+"/queue/max_sectors_kb"), &max)
		require.NoError(m.t, err)
		_, err = fmt.Sscan(m.Get(m.wholeDir(lower)+"/queue/max_hw_sectors_kb"), &hardware)
		require.NoError(m.t, err)
		a.defaultMax, a.maxHW = min(a.defaultMax, max), min(a.maxHW, hardware)
	}
	ro := func(attribute string, v any) { m.put(a.dir+"/"+attribute, fmt.Sprintln(v), 0o444) }
	rw := func(attribute string, v any) { m.put(a.dir+"/queue/"+attribute, fmt.Sprintln(v), 0o644) }
	for attribute, v := range map[string]any{"size": bytes / 512, "ro": 0, "removable": 0, "hidden": 0, "queue/logical_block_size": 512,
		"queue/physical_block_size": 512, "queue/max_hw_sectors_kb": a.maxHW, "queue/zoned": "none"} {
		ro(attribute, v)
	}
	m.put(a.dir+"/stat", zeroStat, 0o444)
	m.put(a.dir+"/inflight", "       0        0\n", 0o444)
	m.dir(a.dir + "/holders")
	m.dir(a.dir + "/slaves")
	for attribute, v := range map[string]any{"max_sectors_kb": a.defaultMax, "read_ahead_kb": 512, "write_cache": "write back", "rotational": 1,
		"nomerges": 0, "iostats": 1, "add_random": 0, "stable_writes": 0, "discard_max_bytes": 0} {
		rw(attribute, v)
	}
	if m.kernel == OldKernel { // newer ones show these of queues that have requests only
		rw("scheduler", "none")
		rw("nr_requests", 128)
		rw("rq_affinity", 0)
	}
	m.number(a.dir, name)
	m.Link("/sys/block/"+name, a.dir)
	m.Link("/sys/class/block/"+name, a.dir)
	m.node(name, bytes)
	m.arrays = append(m.arrays, a)
	return a
}

// wholeDir is the directory of a device, of a partition that of its disk.
func (m *Machine) wholeDir(name string) string {
	dir := m.blockDir(name)
	if _, err := os.Stat(m.path(dir + "/partition")); err == nil {
		return dir[:strings.LastIndexByte(dir, '/')]
	}
	return dir
}

// writeStackedQueue is the kernel's store function of an attribute of queue/ where there are no requests: nothing can be scheduled.
func (m *Machine) writeStackedQueue(a *array, name, value string) error {
	switch name {
	case "nr_requests", "io_poll", "wbt_lat_usec":
		return unix.EINVAL
	case "scheduler": // taken, and nothing done
		return nil
	}
	return m.writeQueue(&disk{Disk: Disk{Name: a.name, MaxHWSectorsKB: a.maxHW, DefaultMaxSectorsKB: a.defaultMax}, dir: a.dir}, name, value)
}

// writeArray is md's store function.
func (m *Machine) writeArray(a *array, name, value string) error {
	at := a.dir + "/md/" + name
	limits := map[string][2]int{"stripe_cache_size": {17, 32768}, "group_thread_cnt": {0, 8192}}
	if l, ok := limits[name]; ok {
		n, err := parseUnsigned(value)
		if err != nil || n < l[0] || n > l[1] {
			return unix.EINVAL
		}
		m.put(at, fmt.Sprintln(n), 0o644)
		return nil
	}
	if name == "array_state" {
		ro := bit(value == "readonly")
		m.put(a.dir+"/ro", ro+"\n", 0o444)
	}
	m.put(at, value+"\n", 0o644)
	return nil
}
