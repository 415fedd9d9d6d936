package report

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qdsweep/sweep/results"
)

// drives are three disks in turn, one of them a partition that is named by a link, of which one is clamped.
func devices() Data {
	var n night
	drives := []struct{ level, target, members string }{
		{"wwid:naa.5000c5000abc0001", "/dev/sdb", "sdb:DISK400SATA:S0000002"},
		{"wwid:t10.ATA     QEMU HARDDISK   %3BS-3", "/dev/sdaa", "sdaa:QEMU HARDDISK:%3BS-3"},
		{"serial:X1:DISK-part2", "/dev/disk/by-id/ata-DISK_X1-part2", "sdc:DISK:X1"},
	}
	for replicate := 1; replicate <= 2; replicate++ {
		for i, drive := range drives {
			for j, depth := range []string{"31", "1"} {
				n.run("device="+drive.level+";queue_depth="+depth, replicate, 1, []string{"randread"}, func(_ string, r *results.Row) {
					r.Target, r.Members = drive.target, drive.members
					r.Axes, r.AxesEffective = "device="+drive.level, "device="+drive.level
					r.IOPS, r.ObservedDepth = results.NumOf(float64(100*(i+1)*(2-j)+replicate)), results.NumOf(float64(30-29*j))
					if i == 1 && j == 0 {
						r.QueueDepthEffective, r.Reason = "30", results.ClampedReason("queue_depth", "31", "30")
					}
				})
			}
		}
	}
	return n.data()
}

// tagged1999 is one disk, and two as RAID-0, as the sweep builds them.
func tagged1999() Data {
	var n night
	const one, two = "sdb:DRIVE9G:S2", "sdb:DRIVE9G:S2;sdc:DRIVE9G:S3"
	for replicate := 1; replicate <= 3; replicate++ {
		for i, c := range []struct{ level, target, members, depth string }{
			{"0", "ext4 on raid0 on sdb sdc", two, "8"}, {"none", "ext4 on sdb", one, "1"}, {"0", "ext4 on raid0 on sdb sdc", two, "1"}, {"none", "ext4 on sdb", one, "8"},
		} {
			n.run("raid_level="+c.level+";queue_depth="+c.depth, replicate, 1, []string{"write", "read"}, func(phase string, r *results.Row) {
				r.Workload, r.Target, r.Members = "dd", c.target, c.members
				r.MBPerS = results.NumOf(float64(20+5*i+replicate) / 2)
				if r.ObservedDepth = results.NumOf(1.5); phase == "write" && c.level == "0" {
					r.Reason = results.Differs.With("the members differ in queue_depth, lowest " + c.depth)
				}
			})
		}
	}
	return n.data()
}

// A name that two drives had in turn, because the machine was started again in between, names none of them.
func TestNamesThatChange(t *testing.T) {
	rows := func(first, second string) (f []*sweepFacts) {
		f = []*sweepFacts{{}}
		for _, r := range []results.Row{
			{Cell: "device=wwid:1", Target: "wwid:1", Members: first + ":M:S1"},
			{Cell: "device=wwid:2", Target: "wwid:2", Members: second + ":M:S2"},
		} {
			f[0].target(r)
		}
		return f
	}
	apart := rows("sdb", "sdc")
	assert.Equal(t, map[string]string{"wwid:1": "sdb", "wwid:2": "sdc"}, labels(apart))
	assert.Equal(t, "sdb: M S1; sdc: M S2", deviceLegend(apart, labels(apart)))

	swapped := append(rows("sdb", "sdc"), rows("sdc", "sdb")...)
	assert.Equal(t, map[string]string{"wwid:1": "S1", "wwid:2": "S2"}, labels(swapped))
	assert.Equal(t, "S1: M; S2: M", deviceLegend(swapped, labels(swapped)))

	again := rows("sdb", "sdc")
	again[0].target(results.Row{Cell: "device=wwid:1", Target: "wwid:1", Members: "sdd:M:S1"})
	assert.Equal(t, map[string]string{"wwid:1": "sdd", "wwid:2": "sdc"}, labels(again), "a drive that came back: what it is called now")

	same := []*sweepFacts{{}}
	same[0].target(results.Row{Cell: "device=wwid:a%3Bb", Target: "wwid:1", Members: "sdb:M:"})
	same[0].target(results.Row{Cell: "device=wwid:c", Target: "wwid:2", Members: "sdb:M:"})
	assert.Equal(t, map[string]string{"wwid:a%3Bb": "wwid:a;b", "wwid:c": "wwid:c"}, labels(same), "neither name nor serial")
}

func TestSettleSaysAllMembersOnce(t *testing.T) {
	f := &sweepFacts{}
	f.target(results.Row{RAIDLevel: "10", Target: "/mnt/r10", Members: "sdb:M:2;sda:M:1"})
	f.target(results.Row{RAIDLevel: "5", Target: "/mnt/r5", Members: "sdc:M:3;sdb:M:2"})
	f.target(results.Row{RAIDLevel: "none", Target: "/dev/sdaa", Members: "sdaa:M:4"})
	f.settle()
	assert.Equal(t, "/dev/sdaa, /mnt/r5, /mnt/r10", f.Target)
	assert.Equal(t, "sda:M:1;sdb:M:2;sdc:M:3;sdaa:M:4", f.Members)
	assert.Equal(t, "x on sdaa, /mnt/r5, /mnt/r10 (sda-sdc sdaa)", f.title("x"))
	assert.Equal(t, "raid_level none on sdaa; 5 on sdc sdb; 10 on sdb sda", memberLegend([]*sweepFacts{f}))
}
