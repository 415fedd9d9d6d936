package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
	"qdsweep/sysfs/md"
)

// partition makes a partition of a disk, of MiB counted from its beginning.
func (m *planMachine) partition(disk string, n int, start, mib int64) {
	name := fmt.Sprintf("%s%d", disk, n)
	dir := m.devices[disk] + "/" + name
	number := fmt.Sprintf("259:%d", len(m.devices))
	m.devices[name] = dir
	m.file(dir+"/dev", number+"\n")
	m.file(dir+"/partition", fmt.Sprintln(n))
	m.file(dir+"/start", fmt.Sprintln(start*2048))
	m.file(dir+"/size", fmt.Sprintln(mib*2048))
	m.file(dir+"/ro", "0\n")
	m.file("/dev/"+name, "")
	m.link("/sys/class/block/"+name, dir)
	m.link("/sys/dev/block/"+number, dir)
}

func builtFrom(members, more string) string {
	return "version: 1\nname: a\nseed: 1\nrepeats: 2\ntarget: {build: {members: [" + members + "]" + more + "}}\n"
}

// Field case 21 at the plan: two partitions of one disk are one member, whose settings are judged and made once.
func TestPartitionsOfOneDiskAreOneMember(t *testing.T) {
	m := fourDisks(t)
	m.partition("sda", 1, 1, 1000)
	m.partition("sda", 2, 1001, 1000)
	m.partition("sdb", 1, 1, 1000)
	p, err := planOf(t, m.host(), builtFrom("sda1, sdb1, sda2", "")+"matrix: {raid_level: [none, 5], queue_depth: [1, 31]}"+readers, PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{"none: sda1: sda", "5: raid5 on sda1 sdb1 sda2: sda sdb"}, levelsAndTargets(p))
	require.Len(t, p.Knobs, 1)
	assert.Len(t, p.Knobs[0].Members, 2)
	assert.Contains(t, strings.Join(p.Warnings, "\n"), "sda1 and sda2 are on one disk, sda")
	assert.Len(t, p.Targets[1].Parts, 3)
	assert.Len(t, p.Targets[1].spec().Members, 3)
	assert.Equal(t, "sda1", p.Targets[0].spec().Members[0].Name)
	assert.Len(t, p.Targets[0].spec().Members, 1, "none is the first alone")
}

func TestMembersThatCannotBeBuiltFrom(t *testing.T) {
	m := fourDisks(t)
	m.partition("sda", 1, 1, 1000)
	m.partition("sda", 2, 1001, 1000)
	m.partition("sda", 5, 1002, 500) // a logical one in sda2
	m.link("/dev/disk/by-id/ata-b", "/dev/sdb")
	m.array("md7", "raid1", "sdc", "sdd")
	for members, want := range map[string]string{
		"sda, sda1":                      "sda1: sda and sda1 lie on the same bytes of sda",
		"sda2, sda5":                     "sda5: sda2 and sda5 lie on the same bytes of sda",
		"sdb, /dev/disk/by-id/ata-b":     "sdb: sdb and /dev/disk/by-id/ata-b are the same device",
		"sdb, wwid:naa.5000c50000000002": "sdb: sdb and wwid:naa.5000c50000000002 are the same device",
		"sda, md7":                       "md7: md7 is neither a disk nor a partition (md)",
		"sda, sdx":                       ": sdx: no such block device",
	} {
		_, err := planOf(t, m.host(), builtFrom(members, "")+"matrix: {raid_level: [0]}"+readers, PlanOptions{})
		assert.Equal(t, []string{want}, reasons(notHere(t, err)), members)
	}
	_, err := planOf(t, m.host(), builtFrom("sda1, sda2", "")+"matrix: {raid_level: [0]}"+readers, PlanOptions{})
	assert.NoError(t, err)
}

// What a target that is built will hold is guessed too low rather than too high, but not by much.
func TestCapacity(t *testing.T) {
	const gib = int64(1 << 30)
	parts := []sysfs.Stack{{Bytes: 10 * gib}, {Bytes: 12 * gib}, {Bytes: 10 * gib}, {Bytes: 10 * gib}}
	for _, c := range []struct {
		level, layout string
		data          int64 // members' worth
	}{{"0", "", 4}, {"1", "", 1}, {"4", "", 3}, {"5", "", 3}, {"6", "", 2}, {"10", "", 2}, {"10", "f2", 2}, {"10", "n4", 1}} {
		b := &BuildSpec{Layout: map[string]string{}}
		if c.layout != "" {
			b.Layout[c.level] = c.layout
		}
		got := b.capacity(c.level, parts)
		assert.LessOrEqual(t, got, c.data*10*gib-1<<20, "%v: metadata", c)
		assert.Greater(t, got, c.data*10*gib*995/1000, "%v", c)
	}
	assert.Equal(t, 10*gib, (&BuildSpec{}).capacity("none", parts[:1]), "a device alone has no metadata")
	assert.Zero(t, (&BuildSpec{}).capacity("5", []sysfs.Stack{{Bytes: 1000}, {Bytes: 1000}, {Bytes: 1000}}))
}

// Sizes are judged target by target; what is left out by rule is so on all of them.
func TestSizesOfSeveralTargets(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{sizeMiB: 2000})
	m.disk("sdb", planDisk{sizeMiB: 100, block: 4096})
	source := "version: 1\nname: a\nrepeats: 1\ntarget: {devices: [sda, sdb]}\n"
	_, err := planOf(t, m.host(), source+"workloads: [{name: a, type: io, size: 1g}, {name: b, type: io, block_size: 512, size: 1m}]\n", PlanOptions{})
	assert.Equal(t, []string{
		"sdb: workload a: size: 1g is more than the device's 100m bytes",
		"sdb: workload b: block_size: 512 is not a multiple of the device's block of 4096 bytes, which direct I/O needs",
	}, reasons(notHere(t, err)))

	p, err := planOf(t, m.host(), source+"matrix: {block_size: [1m, 64m], regions: [1, 2], threads: [2]}\nworkloads: [{name: a, type: io, mode: read}]\n", PlanOptions{})
	require.NoError(t, err)
	var cells []string
	for r := range p.Runs() {
		cells = append(cells, r.Cell[1].Value+"/"+r.Cell[2].Value)
	}
	assert.Len(t, cells, 2*3, "64m blocks in two regions of 100m are left out on both: %v", cells)
	assert.Len(t, p.LeftOut, 1)

	// A kind of work that only a target large enough has is no reason against the plan.
	p, err = planOf(t, m.host(), source+"matrix:\n  mode: [read, randread]\n  exclude: [{device: sdb, mode: read}, {device: sdb, mode: randread}]\nworkloads: [{name: a, type: io, size: 1g}]\n", PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, 2, p.Count())
}

func TestFilesOfABuiltTarget(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{sizeMiB: 2000})
	m.disk("sdb", planDisk{sizeMiB: 2000})
	source := func(size string) string {
		return builtFrom("sda, sdb", ", filesystem: xfs") + "matrix: {raid_level: [0, 1]}\nworkloads: [{name: a, type: io, iodepth: 1, size: " + size + "}]\n"
	}
	_, err := planOf(t, m.host(), source("3g"), PlanOptions{})
	assert.Equal(t, []string{"xfs on raid1 on sda sdb: the files need 3.22 GB, and it will hold about 2.09 GB"}, reasons(notHere(t, err)))
	p, err := planOf(t, m.host(), source("1900m"), PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{"raid_level 1: the files need 1.99 GB, which fills the file system nearly: whether it fits shows when it is made"}, p.Warnings)
	_, err = planOf(t, m.host(), strings.Replace(source("1m"), ", size: 1m", "", 1), PlanOptions{})
	assert.ErrorContains(t, err, "workload a: in a directory it needs a size")
}

// A level that one array cannot have is no reason to skip the cells of another.
func TestLevelsAreSkippedTargetByTarget(t *testing.T) {
	m := fourDisks(t)
	m.array("md5", "raid5", "sda", "sdb", "sdc", "sdd")
	m.array("md10", "raid10", "sda", "sdb", "sdc", "sdd")
	arrays := "version: 1\nname: a\nseed: 1\nrepeats: 1\ntarget: {arrays: {5: md5, 10: md10}}\n"
	built := builtFrom("sda, sdb, sdc, sdd", "")
	const axis = "stripe_cache_size: [64, 128]"
	for name, source := range map[string]string{
		"existing": arrays + "matrix:\n  " + axis + "\n  include: [{raid_level: 10, stripe_cache_size: 256}]",
		"built":    built + "matrix:\n  raid_level: [5, 10]\n  " + axis + "\n  include: [{raid_level: 10, stripe_cache_size: 256}]",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := planOf(t, m.host(), source+readers, PlanOptions{})
			e := notHere(t, err)
			require.Len(t, e.Refusals, 1)
			assert.Contains(t, e.Refusals[0].Reason, "a raid10 array has no stripe_cache_size, only an md array of level 4, 5 or 6 has")
			assert.Contains(t, e.Refusals[0].Fix, "unsupported: skip, which leaves stripe_cache_size to the targets that have it")

			p, err := planOf(t, m.host(), "unsupported: skip\n"+source+readers, PlanOptions{})
			require.NoError(t, err)
			for r := range p.Runs() {
				level, _ := r.Cell.Get(raidLevel)
				assert.Equal(t, level == "10", r.Skip != "", r.ID)
			}
			assert.Equal(t, 3*p.Profile.Repeats, p.skipped*p.Profile.Repeats)
		})
	}
	// What is above the highest level is refused, of an array that is there and of one that is not.
	for _, source := range []string{arrays + "matrix: {raid_level: [5], stripe_cache_size: [65536]}", built + "matrix: {raid_level: [5], stripe_cache_size: [65536]}"} {
		_, err := planOf(t, m.host(), source+readers, PlanOptions{})
		assert.Contains(t, notHere(t, err).Error(), "stripe_cache_size 65536 is above the highest level, 32768")
	}
}

// read_ahead_kb is a setting of what the page cache is filled from: the array, not its disks.
func TestReadAheadIsTheArrays(t *testing.T) {
	m := fourDisks(t)
	m.array("md5", "raid5", "sda", "sdb", "sdc", "sdd")
	m.file(m.devices["md5"]+"/queue/read_ahead_kb", "768\n")
	p, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {arrays: {5: md5}}\nmatrix: {read_ahead_kb: [0, 768]}"+readers, PlanOptions{})
	require.NoError(t, err)
	require.Len(t, p.Knobs[0].Members, 1)
	assert.Equal(t, "md5", p.Knobs[0].Members[0].Member)
	assert.Equal(t, "768", p.Knobs[0].Members[0].Now)
}

// Raising is consented to member by member: a whole disk under --erase may be raised, the one beside it not.
func TestRaisingTheMembersOfABuild(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{depth: 1})
	m.disk("sdb", planDisk{depth: 1})
	m.partition("sdb", 1, 1, 1000)
	source := builtFrom("sda, sdb", "") + "matrix: {raid_level: [0], queue_depth: [4]}" + readers
	for name, c := range map[string]struct {
		members string
		erase   []string
		refused string
	}{
		"none":             {"sda, sdb", nil, "sda, sdb"},
		"one":              {"sda, sdb", []string{"/dev/sda"}, "sdb"},
		"all":              {"sda, sdb", []string{"/dev/sda", "wwid:naa.5000c50000000002"}, ""},
		"a partition only": {"sda, sdb1", []string{"/dev/sda", "/dev/sdb1"}, "sdb"},
		"its disk":         {"sda, sdb1", []string{"/dev/sda", "/dev/sdb"}, "sdb"},
	} {
		_, err := planOf(t, m.host(), strings.Replace(source, "sda, sdb", c.members, 1), PlanOptions{Erase: c.erase})
		if c.refused == "" {
			assert.NoError(t, err, name)
			continue
		}
		assert.Equal(t, []string{c.refused + ": queue_depth 4 is above what it is now, 1; somebody may have lowered it for a reason"}, reasons(notHere(t, err)), name)
	}
}

// Building writes, whatever the workloads do: every part has to be named, and an --erase that names one is no slip for another.
func TestBuildNeedsConsentForEveryPart(t *testing.T) {
	m := fourDisks(t)
	p, err := planOf(t, m.host(), builtFrom("sda, sdb, sdc", "")+"matrix: {raid_level: [none, 5]}"+readers, PlanOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Judge(t.Context(), m.host(), PlanOptions{Erase: []string{"wwid:naa.5000c50000000002", "sdd"}}))
	assert.Equal(t, []string{"wwid:naa.5000c50000000001", "wwid:naa.5000c50000000003"}, p.EraseNeeded)
	require.Len(t, p.Refused, 2)
	assert.Equal(t, []string{"--erase sdd names nothing that this sweep uses"}, p.Notes)
	require.NoError(t, p.Judge(t.Context(), m.host(), PlanOptions{Erase: []string{"wwid:naa.5000c50000000001", "wwid:naa.5000c50000000002", "wwid:naa.5000c50000000003"}}))
	assert.Empty(t, p.Refused)
	assert.Empty(t, p.Notes)
	assert.Empty(t, p.EraseNeeded)

	// The first member alone, without a file system: nothing is made, and reading needs no consent.
	p, err = planOf(t, m.host(), builtFrom("sda, sdb", "")+"matrix: {raid_level: [none]}"+readers, PlanOptions{})
	require.NoError(t, err)
	assert.False(t, p.Writes())
	require.NoError(t, p.Judge(t.Context(), m.host(), PlanOptions{}))
	assert.Empty(t, p.Refused)
}

// Field case 34: arrays that share their disks are no strangers to one another when both are in the profile; one of them alone is
// refused, with the flag that allows it.
func TestArraysOfOneProfileAreNoStrangers(t *testing.T) {
	m := fourDisks(t)
	for i, disk := range []string{"sda", "sdb", "sdc", "sdd"} {
		m.partition(disk, 1, 1, 1000)
		m.partition(disk, 2, int64(1001+i), 1000)
	}
	m.array("md5", "raid5", "sda1", "sdb1", "sdc1", "sdd1")
	m.array("md10", "raid10", "sda2", "sdb2", "sdc2", "sdd2")
	p, err := planOf(t, m.host(), "version: 1\nname: a\nseed: 1\ntarget: {arrays: {5: md5, 10: md10}}\nmatrix: {queue_depth: [1, 31]}"+readers, PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{"5: md5: sda sdb sdc sdd", "10: md10: sda sdb sdc sdd"}, levelsAndTargets(p))
	require.NoError(t, p.Judge(t.Context(), m.host(), PlanOptions{}))
	assert.Empty(t, p.Refused)

	p, err = planOf(t, m.host(), "version: 1\nname: a\nseed: 1\ntarget: {arrays: {5: md5}}"+readers, PlanOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Judge(t.Context(), m.host(), PlanOptions{}))
	require.NotEmpty(t, p.Refused)
	assert.Contains(t, p.Refused[0].Fix, "--allow shared-disk")
}

func TestWhatBuildingCosts(t *testing.T) {
	m := newPlanMachine(t)
	for _, name := range []string{"sda", "sdb", "sdc"} {
		m.disk(name, planDisk{sizeMiB: 100_000})
	}
	cost := func(more, levels string) time.Duration {
		p, err := planOf(t, m.host(), builtFrom("sda, sdb, sdc", more)+"matrix: {raid_level: ["+levels+"]}\nworkloads: [{name: a, type: io, size: 1g, runtime: 1s}]\n", PlanOptions{})
		require.NoError(t, err)
		builds, all := p.buildCost()
		assert.Equal(t, len(strings.Split(levels, ", ")), builds)
		whole, run := p.Estimate()
		assert.Equal(t, all+time.Duration(p.Count())*run, whole)
		return all
	}
	assert.Equal(t, 2*2*buildGuess, cost("", "0, 5"))
	sync := 2 * time.Duration(100_000<<20/100e6*float64(time.Second)) // twice 1048.6 s, of level 5 only
	assert.InDelta(t, float64(2*2*buildGuess+sync), float64(cost(", initial_sync: yes", "0, 5")), float64(time.Second))
	assert.Greater(t, cost(", filesystem: ext4", "0"), cost(", filesystem: xfs", "0"), "inode tables are written")
}

func TestProgramsThatAreNotInstalled(t *testing.T) {
	assert.Equal(t, []sysfs.Refusal{
		{Reason: "mdadm is not installed, and the sweep needs it to build its targets", Fix: "sudo apt install mdadm"},
		{Reason: "mkfs.xfs is not installed, and the sweep needs it to build its targets", Fix: "sudo apt install xfsprogs"},
	}, notInstalled([]string{"mdadm (apt install mdadm)", "mkfs.xfs (apt install xfsprogs)"}))
	assert.Empty(t, notInstalled(nil))
	p := &Plan{Profile: &Profile{}, Targets: []*Target{{Level: Level{raidLevel, "5"}, Build: &BuildSpec{}}}}
	assert.Empty(t, p.planBuild(sysfs.NewHost(t.TempDir())), "of a captured machine nobody knows")
}

// What a level does not know is left out of what md is asked for, and md takes the rest.
func TestSpecsOfABuild(t *testing.T) {
	m := fourDisks(t)
	p, err := planOf(t, m.host(), builtFrom("sda, sdb, sdc, sdd", ", chunk_kb: 64, layout: {10: f2, 6: left-asymmetric}, bitmap: internal, initial_sync: yes, filesystem: ext4, mkfs_options: -i 65536, mount_options: [noatime]")+
		"matrix: {raid_level: [none, 0, 1, 4, 5, 6, 10]}\nworkloads: [{name: a, type: io, size: 1g}]\n", PlanOptions{})
	require.NoError(t, err)
	for _, target := range p.Targets {
		s := target.spec()
		s.UUID, s.MountPoint = md.NewUUID(), filepath.Join(os.TempDir(), "x")
		assert.NoError(t, s.Check(), target.Level.Value)
		assert.Equal(t, md.HasChunk(s.Level), s.ChunkKB == 64)
		assert.Equal(t, md.HasBitmap(s.Level), s.Bitmap == "internal")
		assert.Equal(t, map[string]string{"6": "left-asymmetric", "10": "f2"}[s.Level], s.Layout)
		assert.True(t, s.InitialSync)
		assert.Equal(t, []string{"-i", "65536"}, s.MkfsOptions)
	}
	assert.Equal(t, p.Profile.Target, planAgain(t, p, m.host()).Profile.Target)
}
