package sweep

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machine2007 has the two arrays of the 2007 experiment on the same six disks, each with a file system, and two disks more.
func machine2007(t *testing.T) *planMachine {
	m := newPlanMachine(t)
	six := []string{"sda", "sdb", "sdc", "sdd", "sde", "sdf"}
	for _, name := range six {
		m.disk(name, planDisk{})
	}
	m.array("md5", "raid5", six...)
	m.array("md10", "raid10", six...)
	m.disk("sdg", planDisk{})
	m.disk("sdh", planDisk{sizeMiB: 200_000, scsi: true})
	m.file("/proc/self/mountinfo", "1 0 0:1 / / rw - rootfs rootfs rw\n2 1 8:96 / /mnt/r5 rw - ext4 /dev/md5 rw\n3 1 8:112 / /mnt/r10 rw - ext4 /dev/md10 rw\n")
	m.file("/mnt/r5/x", "")
	m.file("/mnt/r10/x", "")
	return m
}

func TestPlanTextOfSeveralTargets(t *testing.T) {
	const work = "\nworkloads:\n  - {name: seq, type: dd, mode: write-read-remove, size: 16g}\n  - {name: seeks, type: io, mode: randread, engine: psync, size: 16g, threads: 3}\n"
	for name, test := range map[string]struct {
		source string
		free   bool // the arrays are not there
		widths []int
	}{
		"arrays": {"version: 1\nname: bonnie-2007\ndescription: NCQ on and off, write cache on and off, on RAID-5 and RAID-10\nseed: 42\n" +
			"target: {arrays: {5: /mnt/r5, 10: /mnt/r10}}\nmatrix:\n  queue_depth: [1, 31]\n  write_cache: [off, on]\n  exclude: [{queue_depth: 1, write_cache: on}]" + work, false, []int{120, 80}},
		"build": {"version: 1\nname: built\ndescription: the same, built for it\nseed: 42\n" +
			"target: {build: {members: [sda, sdb, sdc, sdd], chunk_kb: 64, layout: f2, filesystem: ext4}}\n" +
			"matrix: {raid_level: [none, 0, 5, 10], queue_depth: [1, 31]}" + work, true, []int{120, 80}},
		"knobs": {"version: 1\nname: stripes\nseed: 42\nunsupported: skip\n" +
			"target: {build: {members: [sda, sdb, sdc, sdd], initial_sync: yes}}\n" +
			"matrix: {raid_level: [none, 5, 10], stripe_cache_size: [256, 4096, 65536], read_ahead_kb: [64, 128], queue_depth: [31]}" + readers, true, []int{120}},
		"devices": {"version: 1\nname: drives\nseed: 42\ntarget: {devices: [sdg, /dev/sdh]}\nmatrix: {queue_depth: [1, 31]}" + readers, true, []int{120}},
		"in-use":  {"version: 1\nname: built\nseed: 42\ntarget: {build: {members: [sda, sdb]}}\nmatrix: {raid_level: [0, 1]}" + readers, false, []int{120}},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine2007(t)
			if test.free {
				m = newPlanMachine(t)
				for _, name := range []string{"sda", "sdb", "sdc", "sdd", "sdg"} {
					m.disk(name, planDisk{})
				}
				m.disk("sdh", planDisk{sizeMiB: 200_000})
			}
			p, err := planOf(t, m.host(), test.source, PlanOptions{})
			require.NoError(t, err)
			require.NoError(t, p.Judge(t.Context(), m.host(), PlanOptions{}))
			command := "sudo qdsweep run " + p.Profile.Name + ".yaml"
			for _, e := range p.EraseNeeded {
				command += " --erase " + e
			}
			for _, width := range test.widths {
				var b bytes.Buffer
				require.NoError(t, p.Text(&b, width, false, command))
				golden(t, "testdata/plan/"+name+map[int]string{120: "-120", 80: "-80"}[width]+".txt", b.String())
			}
			var b bytes.Buffer
			require.NoError(t, p.JSON(&b))
			require.True(t, json.Valid(b.Bytes()), b.String())
			if name == "build" || name == "devices" {
				head, _, _ := strings.Cut(b.String(), `  "axes"`)
				golden(t, "testdata/plan/"+name+".json", head)
			}
		})
	}
}

// What is said of queue_depth is not said of a drive that has none to set.
func TestNoWarningOfADepthThatCannotBe(t *testing.T) {
	for _, unsupported := range []string{"skip", "record"} {
		m := newPlanMachine(t)
		m.disk("sda", planDisk{scsi: true})
		m.disk("sdb", planDisk{scsi: true, fixedDepth: true, depth: 1, requests: 2})
		p, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {devices: [sda, sdb]}\nunsupported: "+unsupported+"\nmatrix: {queue_depth: [1, 31]}\n"+
			"workloads: [{name: a, type: io, engine: libaio, iodepth: 32}]\n", PlanOptions{})
		require.NoError(t, err)
		assert.Equal(t, []string{"sda: queue_depth 1 is one command at a time, still tagged; it is NCQ off on libata only"}, p.Warnings, unsupported)
	}
}

func TestACommandIsCutBeforeFlags(t *testing.T) {
	assert.Equal(t, []string{"run x ", "--erase 'a --b' ", "--erase c"}, beforeFlags("run x --erase 'a --b' --erase c"))
	assert.Equal(t, []string{"run"}, beforeFlags("run"))
}
