//go:build lab

package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever ends a sweep that builds arrays, and whenever: `qdsweep restore` clears up, and touches nothing else.

// building is a sweep that builds an array with a file system, measures, takes it down and builds the other, on and on.
func building(disks []string) string {
	return `version: 1
name: building
target:
  build: {members: [/dev/` + strings.Join(disks, ", /dev/") + `], filesystem: ext4}
matrix: {raid_level: [1, 0], queue_depth: [4], write_cache: [off]}
repeats: 1000
order: sequential
settle: 0s
workloads: [{name: w, type: dd, mode: write, size: 4m, sync: fsync}]
`
}

// ours are the journal's entries of arrays.
func (l *lab) ours() []string {
	entries, err := filepath.Glob(l.state() + "/journal/array-*.json")
	require.NoError(l, err)
	return entries
}

// comesTo waits for a moment of such a sweep, as it is seen from outside.
func (u *underway) comesTo(moment, disk string) {
	u.Helper()
	u.until(moment, func() bool {
		depth := u.get(disk, "device/queue_depth")
		switch moment {
		case "building": // the array runs, and has no file system yet
			running, _ := filepath.Glob("/sys/block/" + disk + "/holders/md*")
			return len(u.ours()) > 0 && len(running) > 0
		case "measuring":
			return depth == "4"
		}
		rows, _ := os.ReadFile(u.out + "/results.csv") // taking down: the first run is done, and the second needs the other level
		return strings.Count(string(rows), "\n") >= 2 && depth != "4"
	})
}

// clearsUp asserts that restore leaves the disks as they were, and somebody else's array alone. What a dead sweep had started may still be dying: restore
// says so, and is asked again.
func (l *lab) clearsUp(name string, before map[string]map[string]string, parts []string, foreign string) {
	l.Helper()
	l.eventually(30*time.Second*timeScale, name+": restore", func() bool { return l.run("restore").code == 0 })
	l.eventually(30*time.Second*timeScale, name+": nothing that was started lives on", func() bool {
		return exec.Command("sh", "-c", "ps | grep -E '[m]dadm --(create|stop|zero)|[m]kfs|[q]dsweep (keeper|worker)'").Run() != nil
	})
	l.noArray(parts, foreign)
	for disk, was := range before {
		if disk == foreign {
			assert.Equal(l, was, l.arraySettings(foreign), name)
			continue
		}
		assert.Equal(l, was, l.settings(disk), name)
	}
	assert.True(l, l.journalEmpty(), name)
	require.False(l, l.Failed(), name)
}

// TestLabSataSIGKILLOfABuilder kills main, or main and the keeper, while an array is being built, measured and taken down.
func TestLabSataSIGKILLOfABuilder(t *testing.T) {
	l := newLab(t)
	disks := l.fourSATA()
	l.array("md100", "1", disks[2], disks[3])
	l.clean("md100")
	before := l.allSettings(disks)
	before["md100"] = l.arraySettings("md100")
	profile := building(disks[:2])
	rnd := rand.New(rand.NewPCG(chaosSeed(t), 2))
	type kill struct {
		when   string
		keeper bool
	}
	kills := []kill{{"building", true}, {"measuring", false}, {"taking down", true}}
	if os.Getenv("QDSWEEP_CHAOS") == "long" {
		for range 10 {
			kills = append(kills, kill{"building", true}, kill{"building", false}, kill{"measuring", true}, kill{"measuring", false},
				kill{"taking down", true}, kill{"taking down", false})
		}
	}
	for i, k := range kills {
		name := "main, " + k.when
		if k.keeper {
			name = "main and the keeper, " + k.when
		}
		u := l.start("out"+strconv.Itoa(i), profile, erase(1, 2)...)
		keeper := l.helper(u.pid, "keeper")
		u.comesTo(k.when, disks[0])
		time.Sleep(time.Duration(rnd.Int64N(int64(300 * time.Millisecond))))
		if k.keeper {
			u.kill(keeper)
		} else {
			u.kill()
		}
		t.Logf("%d: killed %s: %d arrays in the journal\n%s\n%s", i, name, len(l.ours()), l.shell("cat /proc/mdstat"), u.text())
		if i == 1 && len(l.ours()) > 0 {
			s := l.run(append([]string{"run", l.path("out1.yaml"), "--out", l.path("again"), "--wait", "30s"}, erase(1, 2)...)...)
			assert.Equal(t, 3, s.code)
			assert.Contains(t, s.err, "qdsweep restore")
			assert.NoDirExists(t, l.path("again"))
		}
		l.clearsUp(name, before, disks[:2], "md100")
	}
}

// TestLabSataASignalTakesDown: an interrupted sweep takes down itself what it built.
func TestLabSataASignalTakesDown(t *testing.T) {
	l := newLab(t)
	disks := l.fourSATA()
	before := l.allSettings(disks)
	profile := building(disks[:2])
	for _, when := range []string{"measuring", "building"} {
		u := l.start(when, profile, erase(1, 2)...)
		u.comesTo(when, disks[0])
		require.NoError(t, syscall.Kill(u.pid, syscall.SIGTERM))
		u.end(143)
		l.noArray(disks)
		assert.Equal(t, before, l.allSettings(disks), when)
		assert.True(t, l.journalEmpty())
	}
}
