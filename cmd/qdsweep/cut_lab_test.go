//go:build lab

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cutMemory is what boot 1 leaves for the later ones, by the drives' serials: their letters change.
type cutMemory struct {
	Settings []map[string]string
	Foreign  []string
}

// TestLabCutABuilder cuts the power while an array is being built, measured and taken down. After the next boot `qdsweep restore` clears up, whether the
// array was assembled at boot or not; write caches that are still off come back; somebody else's array stays.
func TestLabCutABuilder(t *testing.T) {
	l := &lab{t, os.Getenv("QDLAB_KEPT")}
	boot := atoi(t, os.Getenv("QDLAB_BOOT"))
	var disks []string
	for n := range 4 {
		disks = append(disks, l.sata(n+1))
	}
	superblocks := func() (found []string) {
		for _, disk := range disks[2:] {
			found = append(found, l.shell("mdadm --examine /dev/%s | grep -E 'Array UUID|Raid Level|Device Role'", disk))
		}
		return found
	}
	now := func() (m cutMemory) {
		for _, disk := range disks {
			m.Settings = append(m.Settings, l.settings(disk))
		}
		m.Foreign = superblocks()
		return m
	}
	memory := l.path("memory.json")
	if boot == 1 {
		l.shell("mdadm --create /dev/md100 --run --quiet --level=1 --raid-devices=2 --assume-clean --bitmap=none --homehost=any /dev/%s /dev/%s 2>&1", disks[2], disks[3])
		text, err := json.Marshal(now())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(memory, text, 0o644))
		l.shell("sync")
	} else {
		text, err := os.ReadFile(memory)
		require.NoError(t, err)
		var before cutMemory
		require.NoError(t, json.Unmarshal(text, &before))
		t.Logf("boot %d: %d arrays in the journal: %s", boot, len(l.ours()), l.shell("ls %s/journal", l.state()))
		if boot == 3 { // after a cut while it measured
			l.shell("hdparm -W0 /dev/%s /dev/%s", disks[0], disks[1]) // as a drive that remembers it is after a power loss; QEMU's forget
			l.shell("mdadm --assemble --scan 2>&1; cat /proc/mdstat") // what udev does at boot elsewhere
		} else {
			l.shell("mdadm --assemble --quiet /dev/md100 /dev/%s /dev/%s", disks[2], disks[3])
		}
		foreign := filepath.Base(l.shell("ls -d /sys/block/%s/holders/md*", disks[2]))
		assert.NotEmpty(t, l.run("restore", "--dry-run").out)
		require.Equal(t, 0, l.run("restore").code)
		l.noArray(disks[:2], foreign)
		require.Equal(t, before, now())
		require.True(t, l.journalEmpty())
		require.Equal(t, 0, l.run("restore").code, "nothing left to do")
		t.Cleanup(func() {
			l.shell("mdadm --stop --quiet /dev/%s; mdadm --zero-superblock /dev/%s /dev/%s", foreign, disks[2], disks[3])
		})
	}
	moments := []string{"building", "measuring", "taking down"}
	if boot > len(moments) || t.Failed() {
		return
	}
	u := l.start("out"+strconv.Itoa(boot), building(disks[:2]), erase(1, 2)...)
	u.comesTo(moments[boot-1], disks[0])
	text, err := exec.Command("qdlab", "cut").CombinedOutput() // does not return
	t.Fatalf("the power is still there: %v: %s", err, text)
}
