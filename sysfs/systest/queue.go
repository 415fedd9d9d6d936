package systest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// queue makes queue/ as it is after boot.
func (m *Machine) queue(d *disk) {
	rw := func(name string, v any) { m.put(d.dir+"/queue/"+name, fmt.Sprintln(v), 0o644) }
	ro := func(name string, v any) { m.put(d.dir+"/queue/"+name, fmt.Sprintln(v), 0o444) }
	rw("nr_requests", d.NrRequests)
	rw("max_sectors_kb", d.MaxSectorsKB)
	ro("max_hw_sectors_kb", d.MaxHWSectorsKB)
	rw("read_ahead_kb", d.ReadAheadKB)
	rw("nomerges", 0)
	rw("rq_affinity", 1)
	rw("wbt_lat_usec", 75000)
	rw("add_random", 0)
	rw("rotational", 1)
	rw("iostats", 1)
	rw("io_poll", 0)
	rw("io_poll_delay", -1)
	rw("io_timeout", 30000)
	rw("stable_writes", 0)
	rw("discard_max_bytes", 0)
	rw("write_cache", "write through")
	ro("logical_block_size", 512)
	ro("physical_block_size", 512)
	ro("hw_sector_size", 512)
	ro("minimum_io_size", 512)
	ro("optimal_io_size", 0)
	ro("fua", 0)
	ro("zoned", "none")
	m.selectScheduler(d, d.Scheduler)
}

// selectScheduler shows the scheduler, and makes iosched/ anew.
func (m *Machine) selectScheduler(d *disk, name string) {
	var shown []string
	for _, s := range d.Schedulers {
		if s == name {
			s = "[" + s + "]"
		}
		shown = append(shown, s)
	}
	m.put(d.dir+"/queue/scheduler", strings.Join(shown, " ")+"\n", 0o644)
	require.NoError(m.t, os.RemoveAll(m.path(d.dir+"/queue/iosched")))
	for attribute, v := range map[string]map[string]int{
		"mq-deadline": {"read_expire": 500, "write_expire": 5000, "writes_starved": 2, "front_merges": 1, "fifo_batch": 16, "prio_aging_expire": 10000},
		"kyber":       {"read_lat_nsec": 2000000, "write_lat_nsec": 10000000},
		"bfq":         {"slice_idle": 8, "low_latency": 1, "back_seek_penalty": 2},
	}[name] {
		m.put(d.dir+"/queue/iosched/"+attribute, fmt.Sprintln(v), 0o644)
	}
	m.depthUpdated(d)
}

// depthUpdated: mq-deadline's async_depth follows nr_requests.
func (m *Machine) depthUpdated(d *disk) {
	if _, err := os.Stat(m.path(d.dir + "/queue/iosched/fifo_batch")); err != nil {
		return
	}
	n, _ := strconv.Atoi(m.Get(d.dir + "/queue/nr_requests"))
	m.put(d.dir+"/queue/iosched/async_depth", fmt.Sprintln(max(1, 3*n/4)), 0o644)
}

func (d *disk) defaultRequests(scheduler string) int {
	if scheduler == "none" {
		return d.CanQueue
	}
	return 2 * min(d.CanQueue, 128)
}

// writeQueue is the kernel's store function of an attribute of queue/.
func (m *Machine) writeQueue(d *disk, name, value string) error {
	at := d.dir + "/queue/" + name
	show := func(v any) error { m.put(at, fmt.Sprintln(v), 0o644); return nil }
	switch name {
	case "scheduler":
		want := strings.TrimSpace(value)
		if !slices.Contains(d.Schedulers, want) {
			return unix.EINVAL
		}
		if strings.Contains(m.Get(at), "["+want+"]") {
			return nil
		}
		m.put(d.dir+"/queue/nr_requests", fmt.Sprintln(d.defaultRequests(want)), 0o644)
		m.selectScheduler(d, want)
		return nil
	case "write_cache":
		switch {
		case strings.HasPrefix(value, "write back"):
			if m.kernel == NewKernel && d.NoWriteCache {
				return unix.EINVAL
			}
			return show("write back")
		case strings.HasPrefix(value, "write through"), value == "none":
			return show("write through")
		}
		return unix.EINVAL
	case "nomerges", "rq_affinity", "add_random", "rotational", "iostats", "stable_writes":
		n, err := parseUnsigned(value)
		switch {
		case err != nil:
			return err
		case name == "rq_affinity" && n > 2:
			return nil
		case name == "rq_affinity" || name == "nomerges" && n == 2:
			return show(n)
		}
		return show(min(n, 1))
	case "io_poll":
		return unix.EINVAL
	case "wbt_lat_usec", "io_poll_delay":
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		switch {
		case err != nil || n < -1:
			return unix.EINVAL
		case n == -1 && name == "wbt_lat_usec":
			n = 75000
		}
		return show(n)
	}
	n, err := parseUnsigned(value)
	if err != nil {
		return err
	}
	switch name {
	case "nr_requests":
		limit := 2048
		if strings.Contains(m.Get(d.dir+"/queue/scheduler"), "[none]") {
			limit = d.CanQueue
		}
		if n > limit {
			return unix.EINVAL
		}
		_ = show(max(n, 4))
		m.depthUpdated(d)
		return nil
	case "max_sectors_kb":
		return m.writeMaxSectors(d, n)
	case "read_ahead_kb":
		page := m.page / 1024
		return show(n / page * page)
	}
	return show(n)
}

// writeMaxSectors: EINVAL above the hardware's limit on old kernels, a silent clamp on new ones, where
// the write also lifts a small read_ahead_kb.
func (m *Machine) writeMaxSectors(d *disk, n int) error {
	limit := d.MaxHWSectorsKB
	switch {
	case n == 0 && m.kernel == OldKernel:
		return unix.EINVAL
	case n == 0:
		n = d.DefaultMaxSectorsKB
	case n < m.page/1024:
		return unix.EINVAL
	case n > limit && m.kernel == OldKernel:
		return unix.EINVAL
	}
	if d.HiddenMaxKB > 0 {
		limit = min(limit, d.HiddenMaxKB)
	}
	m.put(d.dir+"/queue/max_sectors_kb", fmt.Sprintln(min(n, limit)), 0o644)
	if m.kernel == NewKernel {
		ra, _ := strconv.Atoi(m.Get(d.dir + "/queue/read_ahead_kb"))
		m.put(d.dir+"/queue/read_ahead_kb", fmt.Sprintln(max(ra, 128)), 0o644)
	}
	return nil
}

// writeDepth is device/queue_depth.
func (m *Machine) writeDepth(d *disk, value string) error {
	n, err := parseAnyBase(value)
	if err != nil || n < 1 || n > d.CanQueue {
		return unix.EINVAL
	}
	if d.NoNCQ {
		if n > 1 && m.kernel == OldKernel {
			return unix.EINVAL
		}
		n = 1
	}
	if most := d.maxDepth(); n > most {
		now, _ := strconv.Atoi(m.Get(d.device + "/queue_depth"))
		if m.kernel == NewKernel || now == most {
			return unix.EINVAL
		}
		n = most
	}
	m.put(d.device+"/queue_depth", fmt.Sprintln(n), 0o644)
	return nil
}

// parseUnsigned is kstrtoul(…, 10): digits and nothing else.
func parseUnsigned(value string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(value, "\n"), 10, 31)
	if err != nil {
		return 0, unix.EINVAL
	}
	return int(n), nil
}

// parseAnyBase is strtoul(…, 0), which stops at the first thing that is no digit.
func parseAnyBase(value string) (int, error) {
	base, digits := 10, "0123456789"
	switch {
	case strings.HasPrefix(value, "0x"):
		base, digits, value = 16, "0123456789abcdefABCDEF", value[2:]
	case strings.HasPrefix(value, "0") && len(value) > 1:
		base, digits = 8, "01234567"
	}
	end := 0
	for end < len(value) && strings.IndexByte(digits, value[end]) >= 0 {
		end++
	}
	n, err := strconv.ParseUint(value[:end], base, 31)
	return int(n), err
}
