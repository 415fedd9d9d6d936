package sweep

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qdsweep/sysfs"
)

// levelsAndTargets are a plan's targets as "level: what is driven: members".
func levelsAndTargets(p *Plan) []string {
	var all []string
	for _, t := range p.Targets {
		text := t.Level.Value + ": " + t.Stack.Target + ":"
		for _, m := range t.Stack.Members {
			text += " " + m.Name
		}
		all = append(all, text)
	}
	return all
}

// planAgain is the plan of a plan's profile as it is written to the sweep's folder.
func planAgain(t *testing.T, p *Plan, h sysfs.Host) *Plan {
	t.Helper()
	profile, err := ReadProfile("again.yaml", bytes.NewReader(p.Profile.YAML()))
	require.NoError(t, err, string(p.Profile.YAML()))
	again, err := NewPlan(t.Context(), profile, h, PlanOptions{})
	require.NoError(t, err)
	return again
}

func idsOf(p *Plan) []string {
	var ids []string
	for r := range p.Runs() {
		ids = append(ids, r.ID)
	}
	return ids
}

func fourDisks(t *testing.T) *planMachine {
	m := newPlanMachine(t)
	for _, name := range []string{"sda", "sdb", "sdc", "sdd"} {
		m.disk(name, planDisk{})
	}
	return m
}

func TestArraysArePickedByRaidLevel(t *testing.T) {
	m := fourDisks(t)
	m.array("md5", "raid5", "sda", "sdb", "sdc", "sdd")
	m.array("md10", "raid10", "sda", "sdb", "sdc", "sdd")
	m.file("/proc/self/mountinfo", "1 0 0:1 / / rw - rootfs rootfs rw\n2 1 8:80 / /mnt/r10 rw - ext4 /dev/md10 rw\n")
	m.file("/mnt/r10/x", "")
	const work = "\nworkloads: [{name: a, type: io, mode: randread, engine: libaio, iodepth: 200, size: 1g}]\n"
	p, err := planOf(t, m.host(), "version: 1\nname: a\nseed: 1\nrepeats: 1\ntarget: {arrays: {5: /dev/md5, 10: /mnt/r10}}\nmatrix: {queue_depth: [1, 31]}"+work, PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{"5: /dev/md5: sda sdb sdc sdd", "10: /mnt/r10: sda sdb sdc sdd"}, levelsAndTargets(p))
	assert.Len(t, p.Members(), 4)
	ids := idsOf(p)
	slices.Sort(ids)
	assert.Equal(t, []string{"raid_level=10;queue_depth=1#1", "raid_level=10;queue_depth=31#1", "raid_level=5;queue_depth=1#1", "raid_level=5;queue_depth=31#1"}, ids)
	for r := range p.Runs() {
		level, _ := r.Cell.Get("raid_level")
		assert.Equal(t, level, p.TargetOf(r.Cell).Level.Value)
	}
	assert.Equal(t, idsOf(p), idsOf(planAgain(t, p, m.host())))

	_, err = planOf(t, m.host(), "version: 1\nname: a\ntarget: {arrays: {none: /dev/md5, 5: /mnt/r10, 0: /dev/sda, 1: md7}}"+work, PlanOptions{})
	assert.Equal(t, []string{
		"/dev/md5: md5 is raid5, not none", "/mnt/r10: md10 is raid10, not 5", "/dev/sda: /dev/sda is on no md array, not 0", ": md7: no such block device",
	}, reasons(notHere(t, err)))
}

func TestDevicesInTurnAreAnAxis(t *testing.T) {
	m := fourDisks(t)
	m.link("/dev/disk/by-id/ata-x", "/dev/sdb")
	m.block("vda", "virtual/block", 1000, 512) // has no identity
	source := "version: 1\nname: a\nseed: 1\nrepeats: 1\ntarget: {devices: [sda, /dev/disk/by-id/ata-x, vda]}\n" +
		"matrix:\n  iodepth: [1, 2]\n  exclude: [{device: vda, iodepth: 2}]\n  include: [{device: sda, iodepth: 4}]\nworkloads: [{name: a, type: io, engine: libaio}]\n"
	p, err := planOf(t, m.host(), source, PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"wwid:naa.5000c50000000001: sda: sda", "wwid:naa.5000c50000000002: /dev/disk/by-id/ata-x: sdb", "name:vda: vda: vda",
	}, levelsAndTargets(p))
	ids := idsOf(p)
	slices.Sort(ids)
	assert.Equal(t, []string{
		"device=name:vda;iodepth=1#1", "device=wwid:naa.5000c50000000001;iodepth=1#1", "device=wwid:naa.5000c50000000001;iodepth=2#1",
		"device=wwid:naa.5000c50000000001;iodepth=4#1", "device=wwid:naa.5000c50000000002;iodepth=1#1", "device=wwid:naa.5000c50000000002;iodepth=2#1",
	}, ids)
	assert.Equal(t, idsOf(p), idsOf(planAgain(t, p, m.host())))

	_, err = planOf(t, m.host(), "version: 1\nname: a\ntarget: {devices: [sdb, /dev/disk/by-id/ata-x, sdz]}"+readers, PlanOptions{})
	assert.Equal(t, []string{"sdb: sdb and /dev/disk/by-id/ata-x are the same device", ": sdz: no such block device"}, reasons(notHere(t, err)))
}

func TestBuildTargets(t *testing.T) {
	m := fourDisks(t)
	source := "version: 1\nname: a\nseed: 1\nrepeats: 2\ntarget: {build: {members: [sdd, /dev/sdb, sdc], chunk_kb: 64, filesystem: ext4}}\n" +
		"matrix: {raid_level: [none, 0, 5], queue_depth: [1, 31]}\nworkloads: [{name: a, type: io, size: 1g, iodepth: 100}]\n"
	p, err := planOf(t, m.host(), source, PlanOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{"none: ext4 on sdd: sdd", "0: ext4 on raid0 on sdd sdb sdc: sdb sdc sdd", "5: ext4 on raid5 on sdd sdb sdc: sdb sdc sdd"}, levelsAndTargets(p))
	assert.True(t, p.Writes())
	for _, target := range p.Targets {
		assert.True(t, target.Built())
		assert.Len(t, target.Parts, 3)
	}
	ids := idsOf(p)
	assert.Len(t, ids, 12)
	assert.Equal(t, ids, idsOf(planAgain(t, p, m.host())))

	_, err = planOf(t, m.host(), "version: 1\nname: a\ntarget: {build: {members: [sda, /dev/sda, sdx]}}\nmatrix: {raid_level: [0]}"+readers, PlanOptions{})
	assert.Equal(t, []string{"sda: sda and /dev/sda are the same device", ": sdx: no such block device"}, reasons(notHere(t, err)))
}

// A target that an axis picks is no one target: a flag cannot take its place.
func TestSeveralTargetsAreNotOverridden(t *testing.T) {
	for form, source := range map[string]string{
		"devices": "target: {devices: [sda, sdb]}", "arrays": "target: {arrays: {5: md5}}", "build": "target: {build: {members: [sda, sdb]}}\nmatrix: {raid_level: [0]}",
	} {
		p := read(t, "version: 1\nname: a\n"+source+readers)
		target := p.Target
		assert.ErrorContains(t, p.Override(Overrides{Device: "/dev/sdc"}), "--device /dev/sdc: this profile's target is picked by an axis ("+form+")")
		assert.ErrorContains(t, p.Override(Overrides{Directory: "/mnt"}), "--directory /mnt")
		assert.Equal(t, target, p.Target)
		assert.NoError(t, p.Override(Overrides{Repeats: "2"}))
	}
}

// Whatever an identity holds, the cell can be taken apart again.
func TestDeviceLevelsCanBeTakenApart(t *testing.T) {
	assert.Equal(t, "serial:S 1%3B%3D%23:MODEL%25 é", deviceLevel("serial:S 1;=#:MODEL% é"))
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "identity")
		level := deviceLevel(name)
		require.Equal(t, name, deviceOf(level))
		require.False(t, strings.ContainsAny(level, ";=#\n\t\x00"))
	})
}

func TestAnEntryThatNoLevelUsesIsAWarning(t *testing.T) {
	p := read(t, "version: 1\nname: a\ntarget:\n  arrays:\n    5: md5\n    6: md6\n    10: md10\nmatrix:\n  raid_level: [5]\n  include: [{raid_level: 10}]"+readers)
	assert.Equal(t, []string{"test.yaml:6: arrays: no raid_level of the matrix is 6: its entry is not driven"}, p.Warnings)
	assert.Equal(t, []string{"raid_level=5", "raid_level=10"}, cellsOf(p.Matrix))
	p = read(t, "version: 1\nname: a\ntarget: {build: {members: [a, b, c], layout: {5: parity-last, 10: f2}}}\nmatrix: {raid_level: [5]}"+readers)
	assert.Equal(t, []string{"test.yaml:3: layout: no raid_level of the matrix is 10: its entry is not used"}, p.Warnings)
}
