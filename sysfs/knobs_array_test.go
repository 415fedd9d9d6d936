package sysfs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// fourDisks is a machine with partitions 1 and 2 on each disk.
func fourDisks(t *testing.T, parts ...systest.Part) *systest.Machine {
	for _, name := range []string{"sda", "sdb", "sdc", "sdd"} {
		parts = append(parts, systest.Disk{Name: name})
	}
	m := systest.New(t, parts...)
	for _, name := range []string{"sda", "sdb", "sdc", "sdd"} {
		m.Partition(name, 1, 1<<20, 16<<20)
		m.Partition(name, 2, 32<<20, 16<<20)
	}
	return m
}

func resolve(t *testing.T, m *systest.Machine, target string) sysfs.Stack {
	t.Helper()
	s, err := m.Host().Resolve(target)
	if dir, ok := strings.CutPrefix(target, "dir:"); ok {
		s, err = m.Host().ResolveDirectory(dir)
	}
	require.NoError(t, err)
	return s
}

func deviceNames(devices []sysfs.Device) string {
	var all []string
	for _, d := range devices {
		all = append(all, d.Name)
	}
	return strings.Join(all, " ")
}

// Where knobs are set, what is snapshotted, and through which partitions a disk is reached.
func TestWhereKnobsAreSet(t *testing.T) {
	type want struct{ members, arrays, top, settable, parts string } // parts: of sda
	for name, c := range map[string]struct {
		set    func(m *systest.Machine)
		target string
		want   want
	}{
		"a disk":        {target: "sda", want: want{members: "sda", arrays: "sda", top: "sda", settable: "sda"}},
		"a partition":   {target: "sda2", want: want{members: "sda", arrays: "sda", top: "sda", settable: "sda", parts: "sda2"}},
		"an array":      {set: func(m *systest.Machine) { m.MD("md5", "raid5", "sda", "sdb", "sdc") }, target: "md5", want: want{members: "sda sdb sdc", arrays: "md5", top: "md5", settable: "sda sdb sdc md5"}},
		"on partitions": {set: func(m *systest.Machine) { m.MD("md5", "raid5", "sda1", "sdb1", "sdc1") }, target: "md5", want: want{members: "sda sdb sdc", arrays: "md5", top: "md5", settable: "sda sdb sdc md5", parts: "sda1"}},
		"two partitions of one disk, case 21": {set: func(m *systest.Machine) { m.MD("md5", "raid5", "sda1", "sda2", "sdc1") }, target: "md5",
			want: want{members: "sda sdc", arrays: "md5", top: "md5", settable: "sda sdc md5", parts: "sda1 sda2"}},
		"a partition and the disk itself": {set: func(m *systest.Machine) { m.DM("dm-0", "x", "", "sda1", "sda") }, target: "dm-0",
			want: want{members: "sda", arrays: "dm-0", top: "dm-0", settable: "sda dm-0"}},
		"a mirror has no stripes": {set: func(m *systest.Machine) { m.MD("md1", "raid1", "sda", "sdb") }, target: "md1",
			want: want{members: "sda sdb", arrays: "md1", top: "md1", settable: "sda sdb md1"}},
		"stripes over mirrors": {set: func(m *systest.Machine) {
			m.MD("md1", "raid1", "sda", "sdb")
			m.MD("md2", "raid1", "sdc", "sdd")
			m.MD("md0", "raid5", "md1", "md2")
		}, target: "md0", want: want{members: "sda sdb sdc sdd", arrays: "md0", top: "md0", settable: "sda sdb sdc sdd md1 md2 md0"}},
		"a partition of an array": {set: func(m *systest.Machine) {
			m.MD("md0", "raid5", "sda", "sdb", "sdc")
			dir := "/sys/devices/virtual/block/md0/md0p1"
			for name, v := range map[string]string{"partition": "1", "start": "2048", "size": "2048", "ro": "0", "dev": "259:77"} {
				m.Set(dir+"/"+name, v+"\n")
			}
			m.Link("/sys/class/block/md0p1", dir)
			m.Link("/sys/dev/block/259:77", dir)
		}, target: "md0p1", want: want{members: "sda sdb sdc", arrays: "md0", top: "md0", settable: "sda sdb sdc md0"}},
		"a volume on an array": {set: func(m *systest.Machine) {
			m.MD("md0", "raid6", "sda1", "sdb1", "sdc1", "sdd1")
			m.DM("dm-0", "vg-lv", "LVM-abc", "md0")
			m.DM("dm-1", "secret", "CRYPT-LUKS2-abc", "dm-0")
		}, target: "dm-1", want: want{members: "sda sdb sdc sdd", arrays: "md0", top: "dm-1", settable: "sda sdb sdc sdd md0 dm-0 dm-1", parts: "sda1"}},
		"what is lower comes first": {set: func(m *systest.Machine) { // dm-0 lies on dm-1 and beside it on a disk
			m.DM("dm-1", "low", "LVM-a", "sda")
			m.DM("dm-0", "high", "LVM-b", "sdb", "dm-1")
		}, target: "dm-0", want: want{members: "sda sdb", arrays: "dm-0", top: "dm-0", settable: "sda sdb dm-1 dm-0"}},
		"a directory": {set: func(m *systest.Machine) { m.Mount("sda2", "/mnt/x", "ext4") }, target: "dir:/mnt/x",
			want: want{members: "sda", arrays: "sda", top: "sda", settable: "sda", parts: "sda2"}},
		"a directory on an encrypted partition": {set: func(m *systest.Machine) {
			m.DM("dm-0", "secret", "CRYPT-LUKS2-abc", "sda1")
			m.Mount("dm-0", "/mnt/x", "ext4")
		}, target: "dir:/mnt/x", want: want{members: "sda", arrays: "dm-0", top: "dm-0", settable: "sda dm-0", parts: "sda1"}},
		"a directory in memory": {target: "dir:/", want: want{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := fourDisks(t)
			if c.set != nil {
				c.set(m)
			}
			s := resolve(t, m, c.target)
			carriers := func(knob string) string {
				k, ok := sysfs.LookupKnob(knob)
				require.True(t, ok)
				return deviceNames(s.Carriers(k))
			}
			got := want{carriers("queue_depth"), carriers("stripe_cache_size"), carriers("read_ahead_kb"), deviceNames(s.Settable()), deviceNames(s.OwnPartitions(m.Device("sda")))}
			assert.Equal(t, c.want, got)
			for _, k := range sysfs.Knobs() {
				for _, d := range s.Carriers(k) {
					assert.Contains(t, strings.Fields(got.settable), d.Name, "%s is set where nothing is put back", k.Name)
				}
			}
		})
	}
}

func TestArrayKnobs(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		level, knob, was, to string
		err                  string // "" fine; else it is unsupported, for this reason
	}{
		"the stripe cache":              {"raid5", "stripe_cache_size", "256", "4096", ""},
		"the smallest":                  {"raid6", "stripe_cache_size", "256", "17", ""},
		"the largest":                   {"raid4", "stripe_cache_size", "256", "32768", ""},
		"larger":                        {"raid5", "stripe_cache_size", "256", "32769", "invalid argument"},
		"threads":                       {"raid5", "group_thread_count", "0", "4", ""},
		"none":                          {"raid5", "group_thread_count", "0", "0", ""},
		"too many":                      {"raid5", "group_thread_count", "0", "8193", "invalid argument"},
		"a mirror":                      {"raid1", "stripe_cache_size", "", "4096", "a raid1 array has no stripe_cache_size, only an md array of level 4, 5 or 6 has"},
		"a stripe":                      {"raid0", "group_thread_count", "", "4", "a raid0 array has no group_thread_count"},
		"a disk":                        {"", "stripe_cache_size", "", "4096", "this ata device has no stripe_cache_size, only an md array of level 4, 5 or 6 has"},
		"an array has no queue_depth":   {"raid5", "queue_depth", "", "4", "an md array has no queue_depth"},
		"read-ahead of the array":       {"raid5", "read_ahead_kb", "512", "1024", ""},
		"an array's own max_sectors_kb": {"raid5", "max_sectors_kb", "1280", "64", ""},
		"an array queues no requests":   {"raid5", "nr_requests", "", "64", "nr_requests"},
	} {
		for kernel, k := range map[string]systest.Kernel{"old": systest.OldKernel, "new": systest.NewKernel} {
			t.Run(name+", "+kernel, func(t *testing.T) {
				m := fourDisks(t, k)
				d := m.Device("sda")
				if c.level != "" {
					m.MD("md0", c.level, "sda", "sdb", "sdc", "sdd")
					d = m.Device("md0")
				}
				s := take(t, d)
				before := m.Settings(d.Name)
				effective, err := d.Apply(ctx, set(c.knob, c.to))
				if c.err != "" {
					assert.Empty(t, effective)
					require.ErrorIs(t, err, sysfs.ErrUnsupported)
					require.ErrorContains(t, err, c.err)
					assert.Equal(t, before, m.Settings(d.Name))
					return
				}
				require.NoError(t, err)
				assert.Equal(t, c.to, effective)
				now, err := d.Current(ctx, c.knob)
				require.NoError(t, err)
				assert.Equal(t, c.to, now)
				a, err := d.Allowed(ctx, c.knob)
				require.NoError(t, err)
				assert.True(t, a.Has(c.to), a)
				moved, err := d.Differences(ctx, s)
				require.NoError(t, err)
				if c.was != c.to {
					require.NotEmpty(t, moved)
					assert.Equal(t, sysfs.Moved{Device: "md0", Knob: c.knob, From: c.was, To: c.to}, moved[0])
				}
				require.NoError(t, d.Restore(ctx, s))
				assert.Equal(t, before, m.Settings(d.Name))
			})
		}
	}
}

// A sweep leaves everything else of md/ alone: most of it starts or stops something.
func TestSnapshotOfAnArrayIsItsKnobs(t *testing.T) {
	ctx := context.Background()
	m := fourDisks(t)
	m.MD("md0", "raid5", "sda", "sdb", "sdc")
	d := m.Device("md0")
	s := take(t, d)
	var ofMD []string
	for _, a := range s.Attributes {
		if strings.HasPrefix(a.Path, "md/") {
			ofMD = append(ofMD, a.Path+"="+a.Value)
		}
	}
	assert.Equal(t, []string{"md/stripe_cache_size=256", "md/group_thread_cnt=0"}, ofMD)
	assert.Equal(t, d.Identity, s.Identity)
	assert.NotEmpty(t, s.Identity)
	assert.Empty(t, s.WriteCache)
	assert.NotEmpty(t, s.WriteCacheReason)

	apply(t, d, set("stripe_cache_size", "1024"), set("group_thread_count", "2"), set("read_ahead_kb", "64"))
	m.Set("/sys/block/md0/md/sync_action", "check\n") // somebody's, and none of our business
	m.Set("/sys/block/md0/md/array_state", "active\n")
	m.Forget()
	require.NoError(t, d.Restore(ctx, s))
	for _, w := range m.Writes() {
		assert.Regexp(t, `/sys/block/md0/(queue/read_ahead_kb|md/stripe_cache_size|md/group_thread_cnt)$`, w.Path)
	}
	assert.Len(t, m.Writes(), 3)
	assert.Equal(t, "check", m.Get("/sys/block/md0/md/sync_action"))

	// What cannot be put back is named as the kernel names it, with what to type.
	apply(t, d, set("group_thread_count", "2"))
	m.Fail("/sys/block/md0/md/group_thread_cnt", unix.EBUSY)
	err := d.Restore(ctx, s)
	require.ErrorContains(t, err, "group_thread_count is 2, was 0 (by hand: echo 0 > /sys/block/md0/md/group_thread_cnt)")
}

// An array takes over a new member's limit that is lower than its own, and keeps it when the member's is put back. On newer kernels each
// write of a limit lifts a small read_ahead_kb as well.
func TestLimitsOfAnArrayComeBack(t *testing.T) {
	ctx := context.Background()
	for name, kernel := range map[string]systest.Kernel{"old": systest.OldKernel, "new": systest.NewKernel} {
		t.Run(name, func(t *testing.T) {
			m := fourDisks(t, kernel)
			m.MD("md0", "raid5", "sda", "sdb", "sdc")
			m.DM("dm-0", "vg-lv", "LVM-abc", "md0")
			m.Set("/sys/block/md0/queue/read_ahead_kb", "16\n")
			m.Set("/sys/block/dm-0/queue/read_ahead_kb", "32\n")
			m.Set("/sys/block/md0/queue/max_sectors_kb", "512\n")
			stack := resolve(t, m, "dm-0")
			var snapshots []sysfs.Snapshot
			before := map[string]map[string]string{}
			for _, d := range stack.Settable() {
				snapshots = append(snapshots, take(t, d))
				before[d.Name] = m.Settings(d.Name)
			}
			for _, d := range stack.Members {
				apply(t, d, set("max_sectors_kb", "8"))
			}
			apply(t, m.Device("sdd"), set("max_sectors_kb", "8"))
			m.Join("md0", "sdd")
			require.Equal(t, "8", m.Get("/sys/block/md0/queue/max_sectors_kb"))
			apply(t, m.Device("dm-0"), set("read_ahead_kb", "4096"))
			for i, d := range stack.Settable() {
				require.NoError(t, d.Restore(ctx, snapshots[i]))
			}
			for _, d := range stack.Settable() {
				assert.Equal(t, before[d.Name], m.Settings(d.Name), d.Name)
			}
		})
	}
}

func TestMappingsResolveToTheirDisks(t *testing.T) {
	m := fourDisks(t)
	m.DM("dm-0", "vg-lv", "LVM-abc", "sda1", "sdb1")
	m.DM("dm-1", "secret", "CRYPT-LUKS2-0123-secret", "sdc")
	m.DM("dm-2", "mpatha", "mpath-3500", "sda", "sdd")
	for name, c := range map[string]struct{ members, detail, identity string }{
		"dm-0":               {"sda sdb", "LVM volume vg-lv", "wwid:dm-uuid-LVM-abc"},
		"/dev/mapper/vg-lv":  {"sda sdb", "LVM volume vg-lv", "wwid:dm-uuid-LVM-abc"},
		"dm-1":               {"sdc", "crypt secret", "wwid:dm-uuid-CRYPT-LUKS2-0123-secret"},
		"/dev/mapper/mpatha": {"sda sdd", "multipath mpatha", "wwid:dm-uuid-mpath-3500"},
	} {
		s := resolve(t, m, name)
		assert.Equal(t, c.members, deviceNames(s.Members), name)
		assert.Equal(t, c.detail, s.Layers[0].Detail, name)
		assert.Equal(t, sysfs.Identity(c.identity), s.Device.Identity, name)
	}
	refusals, _, err := m.Host().Judge(context.Background(), resolve(t, m, "dm-2"), sysfs.Intent{SharedDisk: true})
	require.NoError(t, err)
	require.NotEmpty(t, refusals)
	assert.Contains(t, refusals[0].String(), "dm-2 is a dm-multipath map: settings of a path below it fail with EIO; multipath -f mpatha, then sweep one path")

	d := m.Device("dm-0")
	s := take(t, d)
	before := m.Settings("dm-0")
	apply(t, d, set("read_ahead_kb", "2048"), set("max_sectors_kb", "64"))
	require.NoError(t, d.Restore(context.Background(), s))
	assert.Equal(t, before, m.Settings("dm-0"))
}

// What a degraded array and a broken one say, as systest plays them: field case 5.
func TestAMemberIsLost(t *testing.T) {
	ctx := context.Background()
	for level, want := range map[string]string{
		"raid1":  "the array md0 is degraded: 1 of its 3 members missing (faulty: sdb)",
		"raid5":  "the array md0 is degraded: 1 of its 3 members missing (faulty: sdb)",
		"raid0":  "the array md0 is broken",
		"linear": "the array md0 is broken",
	} {
		t.Run(level, func(t *testing.T) {
			m := fourDisks(t)
			m.MD("md0", level, "sda", "sdb", "sdc")
			h, s := m.Host(), resolve(t, m, "md0")
			l := watch(t, h)
			refusals, err := h.Recheck(ctx, s, sysfs.Intent{})
			require.NoError(t, err)
			require.Empty(t, refusals)
			m.Kick("md0", "sdb")
			refusals, err = h.Recheck(ctx, s, sysfs.Intent{})
			require.NoError(t, err)
			require.Len(t, refusals, 1)
			assert.Contains(t, refusals[0].Reason, want)
			texts, _ := l.Messages()
			signs := h.Signs(m.Device("sdb"), sysfs.Health{}, sysfs.Health{}, texts)
			require.Len(t, signs, 1)
			assert.Contains(t, signs[0].Text, "Disk failure on sdb")
			if level == "raid5" {
				m.Join("md0", "sdd")
				array, action := h.Resyncing(resolve(t, m, "md0"))
				assert.Equal(t, []string{"md0", "recover"}, []string{array, action})
			}
		})
	}
}

// md keeps a pulled disk's name until it writes to it.
func TestADiskOfAnArrayIsPulled(t *testing.T) {
	ctx := context.Background()
	m := fourDisks(t)
	m.MD("md0", "raid1", "sda", "sdb")
	m.MD("md1", "raid0", "sdc", "sdd1")
	m.DM("dm-0", "vg-lv", "LVM-abc", "md0")
	before := resolve(t, m, "dm-0")
	m.Pull("sdb")
	m.Pull("sdc")
	refusals, err := m.Host().Recheck(ctx, before, sysfs.Intent{})
	require.NoError(t, err)
	assert.Contains(t, refusals[0].Reason, "sdb is gone (device lost)")
	for target, want := range map[string]string{"dm-0": "the array md0 has lost sdb: gone from the machine, and md has not noticed", "md1": "the array md1 has lost sdc"} {
		s := resolve(t, m, target)
		assert.Len(t, s.Members, 1, target)
		refusals, _, err := m.Host().Judge(ctx, s, sysfs.Intent{})
		require.NoError(t, err)
		require.Len(t, refusals, 1, target)
		assert.Contains(t, refusals[0].Reason, want)
		assert.Contains(t, refusals[0].Fix, "--fail detached --remove detached")
	}
	s := resolve(t, m, "md0")
	assert.Equal(t, "raid1, clean, 64 KiB chunk, 2 members, sdb gone", s.Layers[0].Detail)
	m.Pull("sda")
	_, err = m.Host().Resolve("md0")
	require.ErrorIs(t, err, sysfs.ErrNoDevice)
	assert.ErrorContains(t, err, "look at what is under md0: sda, sdb: no such block device")
}

// Another array under the same mapping, on the same disks: not what the sweep began with.
func TestALayerIsAnotherOne(t *testing.T) {
	m := fourDisks(t)
	m.MD("md0", "raid1", "sda", "sdb")
	m.DM("dm-0", "vg-lv", "LVM-abc", "md0")
	s := resolve(t, m, "dm-0")
	m.Set("/sys/block/md0/md/uuid", "ffffffff-0000-4000-8000-000000000000\n")
	refusals, err := m.Host().Recheck(context.Background(), s, sysfs.Intent{})
	require.NoError(t, err)
	require.Len(t, refusals, 1)
	assert.Contains(t, refusals[0].Reason, `md0 is now "wwid:md-uuid-ffffffff:`)
}

func TestWhatOthersDidOnADisk(t *testing.T) {
	m := fourDisks(t)
	m.MD("md0", "raid1", "sda1", "sdb1")
	s := resolve(t, m, "md0")
	parts := s.OwnPartitions(m.Device("sda"))
	require.Len(t, parts, 1)
	disk, err := sysfs.OpenProbe(m.Device("sda"))
	require.NoError(t, err)
	own, err := sysfs.OpenProbe(parts[0])
	require.NoError(t, err)
	m.Set("/sys/block/sda/stat", "100 0 800 0 50 0 400 0 0 0 0 0 0 0 0 0 0\n")
	m.Set("/sys/class/block/sda1/stat", "90 0 720 0 50 0 400 0 0 0 0 0 0 0 0 0 0\n")
	all, err := disk.Stat()
	require.NoError(t, err)
	ours, err := own.Stat()
	require.NoError(t, err)
	assert.EqualValues(t, 10, all.ReadIOs-ours.ReadIOs)
	assert.EqualValues(t, 80, all.ReadSectors-ours.ReadSectors)
	assert.Zero(t, all.WriteIOs-ours.WriteIOs)
	_, ok := own.Busy()
	assert.True(t, ok)
	require.NoError(t, disk.Close())
	require.NoError(t, own.Close())
}
