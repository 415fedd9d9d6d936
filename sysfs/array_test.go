package sysfs

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestArrayProgress(t *testing.T) {
	for name, c := range map[string]struct {
		action, completed, speed string
		done                     float64
		left                     time.Duration
		delayed                  bool
	}{
		"idle":             {"idle", "none", "none", -1, 0, false},
		"recovering":       {"recover", "102400 / 204800", "5120", 0.5, 10 * time.Second, false},
		"begun":            {"resync", "0 / 204800", "0", 0, 0, false},
		"done":             {"resync", "204800 / 204800", "5120", 1, 0, false},
		"delayed, case 38": {"resync", "delayed", "none", -1, 0, true},
		"frozen":           {"frozen", "none", "none", -1, 0, false},
		"not said":         {"check", "none", "17", -1, 0, false},
		"nonsense":         {"check", "7 / 0", "17", -1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			tr.sata("sda", 1, 100)
			tr.md("md0", "sda")
			md := tr.devPath["md0"] + "/md/"
			tr.file(md+"sync_action", c.action+"\n")
			tr.file(md+"sync_completed", c.completed+"\n")
			tr.file(md+"sync_speed", c.speed+"\n")
			tr.file(md+"uuid", "21514354-7f0c-e045-4c8d-4722426fdbbd\n")
			s, err := tr.host().Resolve("md0")
			require.NoError(t, err)
			a := tr.host().Arrays(s)[0]
			assert.Equal(t, "21514354:7f0ce045:4c8d4722:426fdbbd", a.UUID, "as mdadm writes it")
			assert.InDelta(t, c.done, a.SyncDone, 1e-9)
			assert.Equal(t, c.left, a.SyncLeft)
			assert.Equal(t, c.delayed, a.Delayed)
			array, action := tr.host().Resyncing(s)
			assert.Equal(t, a.Syncing(), array == "md0")
			if a.Syncing() {
				assert.Equal(t, c.action, action)
			}
		})
	}
}

// Which arrays may be swept, and which only read.
func TestArraysThatAreNotWhole(t *testing.T) {
	set := func(attributes ...string) func(*tree) {
		return func(tr *tree) {
			for i := 0; i < len(attributes); i += 2 {
				tr.file(tr.devPath["md0"]+"/"+attributes[i], attributes[i+1]+"\n")
			}
		}
	}
	for _, c := range []struct {
		name  string
		set   func(*tree)
		write bool
		want  string // in the refusals; "" none
		fix   string
		note  string
	}{
		{"clean", set(), true, "", "", ""},
		{"active", set("md/array_state", "active"), true, "", "", ""},
		{"degraded", set("md/degraded", "1"), false, "degraded: 1 of its 3 members missing", "mdadm /dev/md0 --add MEMBER", ""},
		{"recovering", set("md/degraded", "1", "md/sync_action", "recover", "md/dev-sdd/state", "spare", "md/dev-sdd/slot", "2"), false, "", "", "busy with a recover, which is waited for"},
		{"a recovery that leaves a gap", set("md/degraded", "2", "md/sync_action", "recover", "md/dev-sdd/state", "spare", "md/dev-sdd/slot", "2"), false, "degraded: 2 of its 3", "--add", "busy with a recover"},
		{"a check of a degraded one", set("md/degraded", "1", "md/sync_action", "check", "md/dev-sdd/state", "spare", "md/dev-sdd/slot", "none"), false, "degraded: 1 of its 3", "--add", ""},
		{"resync", set("md/sync_action", "resync", "md/sync_completed", "delayed"), false, "", "", "busy with a resync"},
		{"frozen", set("md/sync_action", "frozen"), false, "", "", "md0 is frozen (md/sync_action)"},
		{"inactive", set("md/array_state", "inactive"), false, "md0 is inactive", "mdadm --detail /dev/md0", ""},
		{"suspended", set("md/array_state", "suspended"), false, "md0 is suspended", "mdadm --detail", ""},
		{"a broken stripe", set("md/array_state", "broken", "md/level", "raid0"), false, "md0 is broken: it has lost a member, and its level (raid0) keeps nothing twice", "mdadm --detail", ""},
		{"a stripe that misses a member", set("md/level", "raid0", "md/raid_disks", "4"), false, "md0 has 3 of its 4 members", "mdadm --detail", ""},
		{"no journal", set("md/consistency_policy", "journal"), false, "md0 has lost its write journal", "--add-journal", ""},
		{"a journal", set("md/consistency_policy", "journal", "md/dev-sdd/state", "journal,in_sync"), false, "", "", ""},
		{"a failed journal", set("md/consistency_policy", "journal", "md/dev-sdd/state", "journal,faulty"), false, "has lost its write journal", "", ""},
		{"read-only, reading", set("md/array_state", "readonly", "ro", "1"), false, "", "", ""},
		{"read-only, writing", set("md/array_state", "readonly", "ro", "1"), true, "md0 is read-only and the workload writes", "mdadm --readwrite /dev/md0", ""},
		{"read-auto, reading", set("md/array_state", "read-auto"), false, "", "", ""},
		{"read-auto, writing", set("md/array_state", "read-auto"), true, "read-only until the first write (read-auto)", "mdadm --readwrite /dev/md0, and wait for the resync", ""},
		{"a faulty member beside", set("md/dev-sdd/state", "faulty,want_replacement"), false, "", "", "sdd is a faulty member of md0 (F) and holds no data: mdadm /dev/md0 --remove /dev/sdd takes it out"},
		{"a spare", set("md/dev-sdd/state", "spare", "md/dev-sdd/slot", "none"), false, "", "", "md0 has spare members (S), which are set too but hold no data: sdd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := machine(t)
			tr.md("md0", "sdb", "sdc", "sde")
			c.set(tr)
			h := tr.host()
			s, err := h.Resolve("md0")
			require.NoError(t, err)
			in := Intent{Write: c.write, Erase: []string{"md0:104857600"}}
			refusals, notes, err := h.Judge(context.Background(), s, in)
			require.NoError(t, err)
			again, err := h.Recheck(context.Background(), s, in)
			require.NoError(t, err)
			assert.Equal(t, again, refusals, "the gate says the same")
			if c.want == "" {
				assert.Empty(t, refusals)
			} else {
				require.Len(t, refusals, 1)
				assert.Contains(t, refusals[0].Reason, c.want)
				assert.Contains(t, refusals[0].Fix, c.fix)
				assert.Equal(t, "md0", refusals[0].Device)
			}
			if c.note == "" {
				c.note = "\n\n"
				notes = append(notes, c.note)
			}
			assert.Contains(t, strings.Join(notes, "\n"), c.note)
		})
	}
}

// Field case 34: arrays that share their disks, and are targets of one sweep.
func TestSiblings(t *testing.T) {
	share := func(tr *tree) {
		idleBeside(tr)
		tr.mount("/mnt/r1", "ext4", "/dev/md1", "")
	}
	for _, c := range []struct {
		name     string
		set      func(*tree)
		target   string
		siblings []string
		want     string // in the refusals; "" none
		note     string
	}{
		{"alone", share, "md0", nil, "sdb2 is a member of the array md1, on a disk of the target; mdadm --stop /dev/md1, or sweep /dev/md1, or --allow shared-disk", ""},
		{"both arrays", idleBeside, "md0", []string{"md1"}, "", "sdb2 is a member of the array md1: a further target of this sweep, on the same disk"},
		{"the other way round", idleBeside, "md1", []string{"md0"}, "", "sdb1 is a member of the array md0: a further target"},
		{"itself among them", idleBeside, "md0", []string{"md0", "md1"}, "", "a further target"},
		{"an array beside a directory", share, "md0", []string{"dir:/mnt/r1"}, "", "md1: a further target"},
		{"a directory beside an array", share, "dir:/mnt/r1/sub", []string{"md0"}, "", "md0: a further target"},
		{"an array that is mounted, and not as a directory", share, "md1", []string{"md0"}, "md1 is mounted on /mnt/r1", ""},
		{"a third array", func(tr *tree) {
			idleBeside(tr)
			tr.partition("sdb", "sdb3", 3, 201, 100)
			tr.md("md2", "sdb3", "sdd")
		}, "md0", []string{"md1"}, "sdb3 is a member of the array md2, on a disk of the target", "md1: a further target"},
		{"a partition mounted beside", func(tr *tree) {
			idleBeside(tr)
			tr.partition("sdb", "sdb3", 3, 201, 100)
			tr.mount("/home", "ext4", "/dev/sdb3", "")
		}, "md0", []string{"md1"}, "sdb3 is mounted on /home, on a disk of the target", ""},
		{"two directories of one disk", besideMountedTwice, "dir:/mnt/y", []string{"dir:/mnt/x"}, "", "sdb1 is mounted on /mnt/x: a further target"},
		{"two volumes", twoVolumes, "dm-0", []string{"dir:/lv1"}, "", "dm-1 is mounted on /lv1: a further target"},
		{"swap", func(tr *tree) {
			idleBeside(tr)
			tr.swap("/dev/md1", "partition")
		}, "md0", []string{"md1"}, "md1 holds swap (/dev/md1), on a disk of the target; swapoff /dev/md1", ""},
		{"swap on a disk", func(tr *tree) {
			idleBeside(tr)
			tr.partition("sdb", "sdb3", 3, 201, 100)
			tr.swap("/dev/sdb3", "partition")
		}, "md0", []string{"md1", "sdb3"}, "sdb3 holds swap", ""},
		{"a member of the array itself", raid, "md0", []string{"sdb"}, "", ""},
		{"the array on the disk itself", raid, "sdb", []string{"md0"}, "sdb is a member of the array md0", ""},
		{"open for writing in a sibling's partition", func(tr *tree) {
			idleBeside(tr)
			tr.open(431, "qemu", "/dev/sdb2", "02")
		}, "md0", []string{"md1"}, "sdb2 is open for writing in pid 431 (qemu), on a disk of the target", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := machine(t)
			c.set(tr)
			h := tr.host()
			resolve := func(target string) Stack {
				s, err := h.Resolve(target)
				if dir, ok := strings.CutPrefix(target, "dir:"); ok {
					s, err = h.ResolveDirectory(dir)
				}
				require.NoError(t, err)
				return s
			}
			in := Intent{}
			for _, sibling := range c.siblings {
				in.Siblings = append(in.Siblings, resolve(sibling))
			}
			s := resolve(c.target)
			refusals, notes, err := h.Judge(context.Background(), s, in)
			require.NoError(t, err)
			gate, err := h.Recheck(context.Background(), s, in)
			require.NoError(t, err)
			assert.Equal(t, text(refusals), text(gate), "the gate says the same")
			if c.want == "" {
				assert.Empty(t, refusals)
			}
			assert.Contains(t, text(refusals), c.want)
			assert.Contains(t, strings.Join(notes, "\n"), c.note)
		})
	}
}
