package sweep

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/profiles"
	"qdsweep/sysfs"
)

const readers = "\nworkloads: [{name: rnd-4k, type: io, mode: randread, engine: libaio, block_size: 4k, iodepth: 48, runtime: 10s}]\n"

func planOf(t *testing.T, h sysfs.Host, source string, o PlanOptions) (*Plan, error) {
	t.Helper()
	p := read(t, source)
	return NewPlan(t.Context(), p, h, o)
}

func notHere(t *testing.T, err error) *NotHere {
	t.Helper()
	var e *NotHere
	require.ErrorAs(t, err, &e, "%v", err)
	return e
}

// reasons are the refusals as "device: reason".
func reasons(e *NotHere) []string {
	var all []string
	for _, r := range e.Refusals {
		all = append(all, r.Device+": "+r.Reason)
	}
	return all
}

// Field case 14: what this machine cannot have is said at the plan, all of it, with the limit's name.
func TestLevelsBeyondTheMachine(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{sectors: 120, hw: 120})
	h := m.host(sysfs.WithPageSize(16 * 1024))
	source := "version: 1\nname: a\nseed: 1\ntarget: {device: sda}\nmatrix: {max_sectors_kb: [8, 16, 120, 128]}" + readers
	_, err := planOf(t, h, source, PlanOptions{})
	assert.Equal(t, []string{
		"sda: max_sectors_kb 8 is below the page size (16)",
		"sda: max_sectors_kb 128 is above max_hw_sectors_kb 120",
	}, reasons(notHere(t, err))[:2])

	skipped, err := planOf(t, h, strings.Replace(source, "seed", "unsupported: skip\nseed", 1), PlanOptions{})
	require.NoError(t, err)
	skips := map[string]string{}
	for r := range skipped.Runs() {
		skips[r.Cell.String()] = r.Skip
	}
	assert.Equal(t, map[string]string{
		"max_sectors_kb=8": "max_sectors_kb 8 is below the page size (16)", "max_sectors_kb=16": "",
		"max_sectors_kb=120": "", "max_sectors_kb=128": "max_sectors_kb 128 is above max_hw_sectors_kb 120",
	}, skips)

	recorded, err := planOf(t, h, strings.Replace(source, "seed", "unsupported: record\nseed", 1), PlanOptions{Allow: map[string]bool{"raise": true}})
	require.NoError(t, err)
	for r := range recorded.Runs() {
		assert.Empty(t, r.Skip)
	}
	assert.Len(t, recorded.Unsupported, 2)
}

// Field case 2: a depth that somebody lowered is not raised without being told so.
func TestRaising(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{depth: 1})
	m.disk("sdb", planDisk{cacheOff: true})
	depth := "version: 1\nname: a\ntarget: {device: sda}\nmatrix: {queue_depth: [1, 4, 31]}" + readers
	_, err := planOf(t, m.host(), depth, PlanOptions{})
	e := notHere(t, err)
	assert.Equal(t, []string{"sda: queue_depth 4, 31 is above what it is now, 1; somebody may have lowered it for a reason"}, reasons(e))
	assert.Contains(t, e.Refusals[0].Fix, "--allow raise")

	cache := "version: 1\nname: a\ntarget: {device: sdb}\nmatrix: {write_cache: [off, on]}" + readers
	_, err = planOf(t, m.host(), cache, PlanOptions{})
	assert.Equal(t, []string{"sdb: write_cache on: it is off now, and while it is on a power cut can lose data"}, reasons(notHere(t, err)))

	for name, o := range map[string]PlanOptions{
		"allowed": {Allow: map[string]bool{"raise": true}}, "whole disk under erase": {Erase: []string{"/dev/sda", "/dev/sdb"}},
	} {
		for _, source := range []string{depth, cache} {
			_, err := planOf(t, m.host(), source, o)
			assert.NoError(t, err, name)
		}
	}
	_, err = planOf(t, m.host(), depth, PlanOptions{Erase: []string{"/dev/sdb", "/dev/nothing"}})
	assert.Error(t, err, "another disk under erase")
	_, err = planOf(t, m.host(), "version: 1\nname: a\ntarget: {device: sda}\nmatrix: {queue_depth: [1]}"+readers, PlanOptions{})
	assert.NoError(t, err, "nothing is raised")
}

// Field case 9: no queue_depth on NVMe; the refusal names the profile that does the job, and nothing is created.
func TestQueueDepthOnNVMe(t *testing.T) {
	m := newPlanMachine(t)
	m.nvme("nvme0n1")
	before := files(t, m.root)
	_, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {device: /dev/nvme0n1}\nmatrix: {queue_depth: [1, 31]}"+readers, PlanOptions{})
	assert.Contains(t, notHere(t, err).Error(), "iodepth-ladder")
	assert.Equal(t, before, files(t, m.root))
}

func files(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := os.ReadFile(path)
			path += " " + string(text)
		}
		all = append(all, path)
		return err
	}))
	return all
}

func TestRefusalsComeAllAtOnce(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{})
	m.disk("sdb", planDisk{fixedDepth: true})
	m.disk("sdc", planDisk{depth: 1})
	m.array("md5", "raid5", "sda", "sdb", "sdc")
	_, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {device: /dev/md5}\nmatrix: {queue_depth: [1, 31, 64], scheduler: [bfq], max_sectors_kb: [64000]}"+
		"\nworkloads: [{name: a, type: io, size: 9t}]\n", PlanOptions{})
	golden(t, "testdata/plan/refused.txt", notHere(t, err).Error()+"\n")
}

func TestNoSuchTarget(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{})
	_, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {device: sdz}"+readers, PlanOptions{})
	assert.Contains(t, notHere(t, err).Error(), "sdz: no such block device")
	_, err = planOf(t, m.host(), "version: 1\nname: a"+readers, PlanOptions{})
	var wrong *ProfileErrors
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "test.yaml:2:7: target: this profile names no target: add --device DEVICE (`qdsweep devices` lists them) or --directory DIR", err.Error())
	_, err = planOf(t, m.host(), "version: 1\nname: a\ntarget: {directory: /mnt}"+readers, PlanOptions{})
	require.ErrorAs(t, err, &wrong)
	assert.Contains(t, err.Error(), "test.yaml:4:20: workload rnd-4k: in a directory it needs a size")
}

func TestDirectoryWithoutKnobs(t *testing.T) {
	m := newPlanMachine(t)
	m.file("/proc/self/mountinfo", "1 0 0:1 / / rw - rootfs rootfs rw\n2 1 0:2 / /mnt rw - nfs4 server:/export rw\n")
	m.file("/mnt/x", "")
	work := "\nworkloads: [{name: a, type: io, size: 1m, iodepth: 4}]\n"
	_, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {directory: /mnt}\nmatrix: {queue_depth: [1, 31]}"+work, PlanOptions{})
	assert.Contains(t, notHere(t, err).Error(), "queue_depth cannot be set below it")
	p, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {directory: /mnt}\nmatrix: {block_size: [4k, 8k]}"+work, PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, 6, p.Count())
	assert.False(t, p.NeedsKnobs())
	assert.EqualValues(t, 1<<20, p.SpaceNeeded())
}

// Rules of design section 9: a cell whose threads cannot have a region each is left out, and the plan says so.
func TestCellsLeftOutByRule(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{})
	p, err := planOf(t, m.host(), "version: 1\nname: a\nrepeats: 1\ntarget: {device: sda}\nmatrix: {threads: [1, 2, 4], regions: [1, 4]}\nworkloads: [{name: a, type: io, mode: read}]\n", PlanOptions{})
	require.NoError(t, err)
	var cells []string
	for r := range p.Runs() {
		cells = append(cells, r.Cell.String())
	}
	slices.Sort(cells)
	assert.Equal(t, []string{"regions=1;threads=1", "regions=1;threads=2", "regions=1;threads=4", "regions=4;threads=4"}, cells)
	assert.Len(t, p.LeftOut, 2)
	assert.Equal(t, 4, p.Count())
}

func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		disk             planDisk
		matrix, workload string
		want             []string
	}{
		"one synchronous reader": {planDisk{}, "queue_depth: [2, 31]", "{name: a, type: io, mode: read, engine: psync, runtime: 1s}",
			[]string{"a has 1 command for queue_depth 31: it cannot show a depth above 1 a disk; raise its iodepth, threads or processes"}},
		"iodepth is an axis that reaches it": {planDisk{}, "queue_depth: [2, 31], iodepth: [1, 32]", "{name: a, type: io, engine: libaio}", nil},
		"twenty dd's": {planDisk{}, "queue_depth: [2, 31]", "{name: a, type: dd, mode: read, processes: 20, size: 1g}",
			[]string{"a has 20 commands for queue_depth 31: it cannot show a depth above 20 a disk; raise its iodepth, threads or processes"}},
		"field case 8": {planDisk{requests: 4}, "queue_depth: [31]", "{name: a, type: io, engine: libaio, iodepth: 32}",
			[]string{"sda: nr_requests is 4, below the 31 commands that a and the queue depth allow: 4 is the real ceiling"}},
		"nr_requests swept": {planDisk{requests: 64}, "queue_depth: [31], nr_requests: [4, 8]", "{name: a, type: io, engine: libaio, iodepth: 32}",
			[]string{"sda: nr_requests is 8, below the 31 commands that a and the queue depth allow: 8 is the real ceiling"}},
		"depth 1 is not NCQ off on SAS": {planDisk{scsi: true}, "queue_depth: [1]", "{name: a, type: io, engine: libaio, iodepth: 32}",
			[]string{"sda: queue_depth 1 is one command at a time, still tagged; it is NCQ off on libata only"}},
		"the cache is not met": {planDisk{}, "write_cache: [off, on]", "{name: a, type: io}",
			[]string{"write_cache is swept and no workload writes: reads hardly show it; add a workload that writes"}},
		"the limit is not met": {planDisk{}, "max_sectors_kb: [8, 128]", "{name: a, type: io, block_size: 4k}",
			[]string{"max_sectors_kb is swept from 8 on, and no block is larger than 4 KiB: no request is split, so it cannot show"}},
		"512e": {planDisk{physical: 4096}, "block_size: [512, 4k, 6k]", "{name: a, type: io, mode: randwrite, engine: libaio}, {name: r, type: io, engine: libaio}",
			[]string{"a writes blocks of 512 bytes, and the physical blocks of sda have 4096: the drive reads before it writes each"}},
		"512e, and whole blocks": {planDisk{physical: 4096}, "block_size: [4k, 8k]", "{name: a, type: io, mode: randwrite, engine: libaio}", nil},
		"a parameter given twice": {planDisk{}, "iodepth: [1, 2]", "{name: a, type: io, iodepth: 8}",
			[]string{"test.yaml: workload a: iodepth 8 is replaced by each level of the axis iodepth"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newPlanMachine(t)
			m.disk("sda", test.disk)
			p, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {device: sda}\nmatrix: {"+test.matrix+"}\nworkloads: ["+test.workload+"]\n", PlanOptions{})
			require.NoError(t, err)
			assert.Equal(t, test.want, p.Warnings)
		})
	}
}

func TestParityHoldsNoData(t *testing.T) {
	for level, want := range map[string][2]int{"raid5": {3, 3}, "raid6": {2, 2}, "raid10": {4, 2}, "raid1": {4, 1}, "raid0": {4, 4}} {
		m := newPlanMachine(t)
		for _, name := range []string{"sda", "sdb", "sdc", "sdd"} {
			m.disk(name, planDisk{})
		}
		m.array("md0", level, "sda", "sdb", "sdc", "sdd")
		p, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {device: md0}"+readers, PlanOptions{})
		require.NoError(t, err)
		assert.Equal(t, want, [2]int{p.Targets[0].dataMembers(false), p.Targets[0].dataMembers(true)}, level)
	}
}

func TestASpareHoldsNoData(t *testing.T) {
	m := newPlanMachine(t)
	for _, name := range []string{"sda", "sdb", "sdc", "sdd"} {
		m.disk(name, planDisk{})
	}
	m.array("md0", "raid5", "sda", "sdb", "sdc", "sdd")
	m.file(m.devices["md0"]+"/md/raid_disks", "3\n")
	m.file(m.devices["md0"]+"/md/dev-sdd/state", "spare\n")
	p, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {device: md0}"+readers, PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, 2, p.Targets[0].dataMembers(false))
}

func TestPlanText(t *testing.T) {
	m := newPlanMachine(t)
	for _, name := range []string{"sda", "sdb", "sdc", "sdd"} {
		m.disk(name, planDisk{})
	}
	m.disk("sde", planDisk{depth: 8, hw: 120, sectors: 120, scsi: true})
	m.array("md5", "raid5", "sda", "sdb", "sdc", "sdd")
	m.nvme("nvme0n1")
	long := `
version: 1
name: two-factors
description: NCQ on and off, write cache on and off, on RAID-5
target: {device: /dev/md5}
matrix:
  queue_depth: [1, 31]
  write_cache: [off, on]
  max_sectors_kb: [8, 1280]
  iodepth: [1, 32]
seed: 42
workloads:
  - {name: rnd-4k, type: io, mode: randread, engine: libaio, threads: 4, runtime: 30s}
  - {name: seq-write, type: dd, mode: write-read, size: 10g}
`
	skip := "version: 1\nname: skip\nunsupported: skip\norder: sequential\nseed: 7\nrepeats: 2\ntarget: {device: sde}\nmatrix: {queue_depth: [1, 8, 64], max_sectors_kb: [64, 120, 128]}" + readers
	for name, test := range map[string]struct {
		source  string
		width   int
		verbose bool
		command string
	}{
		"array-120": {long, 120, false, "sudo qdsweep run two-factors.yaml --erase wwid:md-uuid-1"},
		"array-80":  {long, 80, false, "sudo qdsweep run two-factors.yaml --erase wwid:md-uuid-1"},
		"skip-120":  {skip, 120, true, "sudo qdsweep run skip.yaml"},
		"bare-120":  {"version: 1\nname: bare\nseed: 3\ntarget: {device: nvme0n1}" + readers, 120, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := planOf(t, m.host(), test.source, PlanOptions{})
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, p.Text(&b, test.width, test.verbose, test.command))
			golden(t, "testdata/plan/"+name+".txt", b.String())
		})
	}
}

// A plan shows what run would refuse, before the night it is meant for.
func TestThePlanShowsWhatRunRefuses(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{})
	m.disk("sdb", planDisk{})
	m.file("/proc/self/mountinfo", "1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 8:16 / /mnt/data rw - ext4 /dev/sdb rw\n")
	p, err := planOf(t, m.host(), "version: 1\nname: mounted\nseed: 1\nrepeats: 1\ntarget: {device: sdb}"+readers, PlanOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Judge(t.Context(), m.host(), PlanOptions{}))
	require.NotEmpty(t, p.Refused)
	var b bytes.Buffer
	require.NoError(t, p.Text(&b, 120, false, "sudo qdsweep run mounted.yaml"))
	golden(t, "testdata/plan/mounted-120.txt", b.String())
	b.Reset()
	require.NoError(t, p.JSON(&b))
	require.True(t, json.Valid(b.Bytes()))
	assert.Contains(t, b.String(), "/mnt/data")
}

func TestPlanJSON(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{})
	p, err := planOf(t, m.host(), "version: 1\nname: a\nseed: 42\nrepeats: 1\ntarget: {device: sda}\nmatrix: {queue_depth: [2, 31], write_cache: [on]}"+readers, PlanOptions{})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, p.JSON(&b))
	require.True(t, json.Valid(b.Bytes()), b.String())
	golden(t, "testdata/plan/plan.json", b.String())
}

func TestShippedProfilesPlan(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{depth: 32})
	m.nvme("nvme0n1")
	for _, name := range profiles.Names() {
		text, err := profiles.Open(name)
		require.NoError(t, err)
		if read(t, string(text)).Small != nil {
			continue // a published experiment: TestPublishedProfilesPlan
		}
		t.Run(name, func(t *testing.T) {
			device := "sda"
			for range 2 {
				p := read(t, string(text))
				assert.Equal(t, name, p.Name)
				assert.Empty(t, p.Warnings)
				require.NoError(t, p.Override(Overrides{Device: device}))
				plan, err := NewPlan(t.Context(), p, m.host(), PlanOptions{})
				require.NoError(t, err)
				assert.False(t, plan.Writes(), "the profiles to start from only read")
				again, err := ReadProfile("again.yaml", bytes.NewReader(plan.Profile.YAML()))
				require.NoError(t, err)
				assert.Equal(t, runIDs(plan.Profile), runIDs(again))
				if name == "quick" {
					whole, _ := plan.Estimate()
					assert.Less(t, whole, time.Minute)
					assert.Empty(t, plan.Knobs)
				}
				if name != "quick" && name != "iodepth-ladder" {
					break
				}
				device = "nvme0n1"
			}
		})
	}
}

func TestOverride(t *testing.T) {
	seed := uint64(9)
	p := read(t, "version: 1\nname: a\ntarget: {directory: /mnt}"+readers)
	require.NoError(t, p.Override(Overrides{Device: "/dev/sdb", Repeats: "7", Seed: &seed, Timeout: time.Hour}))
	assert.Equal(t, TargetSpec{Device: "/dev/sdb"}, p.Target)
	assert.Equal(t, 7, p.Repeats)
	assert.Equal(t, seed, p.Seed)
	assert.True(t, p.SeedGiven)
	assert.Equal(t, time.Hour, p.Timeout)
	err := p.Override(Overrides{Device: "a", Directory: "b", Repeats: "-1", Timeout: time.Millisecond})
	for _, flag := range []string{"--device and --directory", "--repeats -1", "--timeout 1ms"} {
		assert.ErrorContains(t, err, flag)
	}
	require.NoError(t, p.Override(Overrides{Directory: "x"}))
	assert.True(t, filepath.IsAbs(p.Target.Directory))
}

// An included cell has levels of its own: they are judged like the others.
func TestLevelsOfIncludedCells(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{depth: 8})
	source := "version: 1\nname: a\nrepeats: 1\ntarget: {device: sda}\nmatrix:\n  queue_depth: [1, 2]\n  include: [{queue_depth: 64}, {queue_depth: 31}]" + readers
	_, err := planOf(t, m.host(), source, PlanOptions{})
	assert.Equal(t, []string{
		"sda: queue_depth 64 is above the highest level, 32",
		"sda: queue_depth 31 is above what it is now, 8; somebody may have lowered it for a reason",
	}, reasons(notHere(t, err)))
	p, err := planOf(t, m.host(), "unsupported: skip\n"+source, PlanOptions{Allow: map[string]bool{"raise": true}})
	require.NoError(t, err)
	skipped := 0
	for r := range p.Runs() {
		if r.Skip != "" {
			skipped++
			assert.Equal(t, "queue_depth=64", r.Cell.String())
		}
	}
	assert.Equal(t, 1, skipped)
	assert.Equal(t, 4, p.Count())
}
