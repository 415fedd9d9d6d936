//go:build lab

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/profiles"
	"qdsweep/sweep/results"
)

// published is one published experiment at small scale in the guest: what is typed in addition, and the rows that must come of it.
type published struct {
	name    string
	edit    []string // of the shipped text: the target, and nothing else; nil: it is run as it is shipped
	args    []string
	planned int
	phases  []string
}

// small runs it as a user does, and asserts that every phase of every run gives a row that is ok, with a figure in it.
func (l *lab) small(e published) []results.Row {
	l.Helper()
	profile := e.name
	if e.edit != nil {
		text, err := profiles.Open(e.name)
		require.NoError(l, err)
		edited := strings.NewReplacer(e.edit...).Replace(string(text))
		require.NotEqual(l, string(text), edited)
		profile = l.write(e.name+".yaml", edited)
	}
	out := l.path(e.name)
	s := l.run(slices.Concat([]string{"run", profile, "--scale", "small", "--out", out}, e.args)...)
	require.Equal(l, 0, s.code)
	l.Logf("%s took %v", e.name, s.took.Round(100*time.Millisecond))
	assert.Contains(l, s.out, e.name+"-small on ")
	assert.Contains(l, s.out, fmt.Sprintf("%d planned = %[1]d ok + 0 failed + 0 suspect + 0 skipped + 0 remaining", e.planned))
	assert.NotContains(l, s.out, "+++", "what bonnie++ prints of a phase it could not time")
	if slices.Contains(e.phases, "bonnie seeks") {
		report := l.run("report", out, "--format", "bonnie")
		require.Equal(l, 0, report.code)
		assert.NotContains(l, report.out, "+++")
	}
	rows := l.rows(out)
	phases, runs := map[string]bool{}, map[string]int{}
	for _, r := range rows {
		what := r.Run + " " + r.Workload + " " + r.Phase
		phases[r.Workload+" "+r.Phase] = true
		runs[r.Run]++
		assert.Equal(l, results.OK, r.Status, "%s: %s", what, r.Reason)
		assert.True(l, r.Restored, what)
		assert.True(l, strings.HasSuffix(r.Sweep, "-small"), r.Sweep)
		if strings.Contains(r.Reason, string(results.OverTheLimit)) {
			continue // a finding: no rate
		}
		assert.Positive(l, num(l, r.Seconds), what)
		assert.Positive(l, num(l, r.IOPS), what)
		if bytes, ok := r.Bytes.Get(); ok && bytes > 0 {
			assert.Positive(l, num(l, r.MBPerS), what)
		}
	}
	for _, r := range rows {
		assert.Equal(l, r.Rows, runs[r.Run], "%s has all its rows", r.Run)
	}
	assert.Len(l, runs, e.planned)
	assert.Equal(l, slices.Sorted(slices.Values(e.phases)), slices.Sorted(maps.Keys(phases)))
	return rows
}

// onArrays makes the arrays of 2007, on partitions of the same four disks, and mounts them where the shipped profiles have them.
func (l *lab) onArrays(disks []string, f func()) {
	l.Helper()
	l.partition(disks, 56, 40)
	for level, part := range map[string]string{"5": "1", "10": "2"} {
		var parts []string
		for _, disk := range disks {
			parts = append(parts, disk+part)
		}
		l.shell("mdadm --create /dev/md%[1]s --run --quiet --level=%[1]s --raid-devices=%[2]d --assume-clean --bitmap=none --homehost=any /dev/%[3]s 2>&1",
			level, len(parts), strings.Join(parts, " /dev/"))
		l.shell("mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard /dev/md%[1]s && mkdir -p /mnt/raid%[1]s && mount /dev/md%[1]s /mnt/raid%[1]s", level)
		l.clean("md" + level)
	}
	defer l.blank(disks...)
	defer l.shell("umount /mnt/raid5 /mnt/raid10; mdadm --stop --quiet /dev/md5 /dev/md10")
	f()
}

// The six published experiments as they are shipped, at small scale: every phase of every run is a row that is ok, and all is as it was.
func TestLabSataPublishedExperiments(t *testing.T) {
	l := newLab(t)
	disks := l.fourSATA()
	before := l.allSettings(disks)
	began := time.Now()
	disk := "/dev/" + disks[0]
	driven := []string{"--device", disk, "--erase", "serial:QDLAB-SATA-1"}
	l.onArrays(disks, func() {
		l.small(published{name: "bonnie-2007", planned: 3, phases: []string{
			"bonnie putc", "bonnie write", "bonnie rewrite", "bonnie getc", "bonnie read", "bonnie seeks", "bonnie seq_create", "bonnie seq_stat",
			"bonnie seq_delete", "bonnie ran_create", "bonnie ran_stat", "bonnie ran_delete",
		}})
		rows := l.small(published{name: "max-sectors-2007", args: []string{"--directory", "/mnt/raid5", "--allow", "shared-disk"}, planned: 2, phases: []string{"dd write"}})
		for _, r := range rows {
			assert.LessOrEqual(t, num(t, r.ObservedRequestKB), float64(atoi(t, r.MaxSectorsKBEffective)), "%s: the requests of the members are what was set", r.Run)
		}
	})
	l.small(published{name: "threads-2007", args: driven, planned: 9, phases: []string{
		"direct read", "direct write", "direct randread", "direct randwrite", "direct read+write/r", "direct read+write/w",
		"direct randread+randwrite/r", "direct randread+randwrite/w",
	}})
	l.small(published{name: "wcache-tagging-1999", args: driven, planned: 8, phases: []string{"dd write"}})
	l.small(published{name: "sgpdd-2008", args: driven, planned: 8, phases: []string{"write write", "read read"}})
	l.small(published{
		name: "tagged-depth-1999", edit: []string{"/dev/disk/by-id/ata-EXAMPLE-1", disk, "/dev/disk/by-id/ata-EXAMPLE-2", "/dev/" + disks[1]}, args: erase(1, 2), planned: 4,
		phases: []string{
			"bonnie putc", "bonnie write", "bonnie rewrite", "bonnie getc", "bonnie read", "bonnie seeks", "dd write", "dd read", "dd remove",
		},
	})
	t.Logf("all took %v", time.Since(began).Round(time.Second))
	assert.Equal(t, before, l.allSettings(disks))
	l.noArray(disks)
	assert.True(t, l.journalEmpty())
}
