//go:build lab

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// night is one sweep from its first start to the resume that ends it, with the misfortunes between, and what is held against it: each planned run exactly
// once, nothing lost that was measured, and every drive as it was, whatever it is called by then.
type night struct {
	*lab
	out  string
	args []string // of the first start: what is driven
	more []string // of every start
	nightMemory

	sized   int64 // results.csv, when the runs in it were counted last
	counted int
}

// nightMemory is what a test must know again after a power cut.
type nightMemory struct {
	Planned []string
	Before  map[string]map[string]string // settings before the first start, by WWID
	Starts  int
	kept    []byte // the whole runs of results.csv, as they were seen last
}

// newNight plans the sweep and looks at its drives.
func (l *lab) newNight(name, profile string, disks []string, args ...string) *night {
	l.Helper()
	require.NoError(l, os.MkdirAll(l.state(), 0o700)) // that of one that dies at once is asked about, too
	n := &night{lab: l, out: l.path(name), args: append([]string{l.write(name+".yaml", profile)}, args...)}
	text, err := l.command(append(append([]string{"plan"}, n.args...), "--format", "json")...).Output()
	require.NoError(l, err, "%s", text)
	var plan struct {
		Runs []struct {
			Run string `json:"run"`
		} `json:"runs"`
	}
	require.NoError(l, json.Unmarshal(text, &plan))
	for _, r := range plan.Runs {
		n.Planned = append(n.Planned, r.Run)
	}
	require.NotEmpty(l, n.Planned)
	n.Before = map[string]map[string]string{}
	for _, disk := range disks {
		n.Before[l.get(disk, "device/wwid")] = l.settings(disk)
	}
	require.Len(l, n.Before, len(disks))
	return n
}

// disk is what the drive is called now, "" while there is none.
func (l *lab) disk(wwid string) string {
	found, _ := filepath.Glob("/sys/block/*/device/wwid")
	for _, f := range found {
		if b, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(b)) == wwid {
			return strings.Split(f, "/")[3]
		}
	}
	return ""
}

// begun says whether there is something that can be resumed.
func (n *night) begun() bool {
	_, err := os.Stat(n.out + "/" + results.FileName)
	return err == nil
}

// goOn starts the sweep; one that has begun is resumed.
func (n *night) goOn(resume ...string) *underway {
	n.Helper()
	n.Starts++
	name := fmt.Sprintf("%s.%d", filepath.Base(n.out), n.Starts)
	if n.begun() {
		return n.begin(name, n.out, append(append([]string{"resume", n.out}, resume...), n.more...)...)
	}
	require.NoError(n, os.RemoveAll(n.out)) // it died before it had made anything that says what it was
	return n.begin(name, n.out, append(append(append([]string{"run"}, n.args...), "--out", n.out), n.more...)...)
}

// running says whether the sweep still goes on.
func (u *underway) running() bool {
	select {
	case <-u.ended:
		return false
	default:
		return true
	}
}

// child is the process of that name that the sweep has started, 0 while there is none.
func (u *underway) child(name string) int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, _ := os.ReadFile(file)
		var pid, parent int
		var state string
		_, rest, _ := strings.Cut(string(stat), ") ")
		if n, _ := fmt.Sscanf(rest, "%s %d", &state, &parent); n < 2 || parent != u.pid || state == "Z" {
			continue
		}
		cmd, _ := os.ReadFile(filepath.Dir(file) + "/cmdline")
		if n, _ := fmt.Sscanf(filepath.Base(filepath.Dir(file)), "%d", &pid); n == 1 && bytes.Contains(cmd, []byte("\x00"+name+"\x00")) {
			return pid
		}
	}
	return 0
}

// done is how many runs have rows by now. It is asked every few milliseconds, and reads what has changed: the guest has better to do.
func (n *night) done() int {
	file := n.out + "/" + results.FileName
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	if info.Size() == n.sized {
		return n.counted
	}
	text, _ := os.ReadFile(file)
	seen := map[string]bool{}
	for r, err := range results.Read(bytes.NewReader(text)) {
		if err == nil {
			seen[r.Run] = true
		}
	}
	n.sized, n.counted = int64(len(text)), len(seen)
	return n.counted
}

// further waits until so many more runs have rows.
func (u *underway) further(n *night, runs int) {
	u.Helper()
	want := n.done() + runs
	u.until(fmt.Sprintf("%d runs are done", want), func() bool { return n.done() >= want })
}

// putBack has put back what a dead sweep left, and holds what is there then against what was.
func (n *night) putBack() {
	n.Helper()
	var text []byte
	defer func() { n.Logf("restore: %s", text) }()
	n.eventually(60*time.Second*timeScale, "everything is put back", func() (back bool) {
		var err error
		text, err = n.command("restore").CombinedOutput()
		return err == nil
	})
	n.asBefore()
}

// asBefore asserts that no setting is left changed, and that nothing is lost that was measured.
func (n *night) asBefore() {
	n.Helper()
	require.True(n, n.journalEmpty())
	for wwid, before := range n.Before {
		disk := n.disk(wwid)
		require.NotEmpty(n, disk, "%s is there", wwid)
		require.Equal(n, before, n.settings(disk), "%s (%s)", disk, wwid)
	}
	n.keeps()
}

// keeps asserts that the rows seen before are still there, byte for byte, and remembers those that came since.
func (n *night) keeps() {
	n.Helper()
	text, err := os.ReadFile(n.out + "/" + results.FileName)
	if errors.Is(err, os.ErrNotExist) {
		text = nil
	} else {
		require.NoError(n, err)
	}
	whole := len(text)
	for _, err := range results.Read(bytes.NewReader(text)) {
		var torn *results.TornError
		var header *results.HeaderError
		switch {
		case errors.As(err, &torn):
			whole = int(torn.Offset)
		case errors.As(err, &header):
			whole = 0
		default:
			require.NoError(n, err)
		}
	}
	require.True(n, bytes.HasPrefix(text[:whole], n.kept), "rows that were there are gone, or changed:\n%s\nwas\n%s", text, n.kept)
	n.kept = bytes.Clone(text[:whole])
}

// ends waits for the end of the last resume, after which all is as it was promised.
func (n *night) ends(u *underway, drives map[string]string) {
	n.Helper()
	<-u.ended
	n.Logf("exit %d\n%s", u.code, u.text())
	require.Equal(n, 0, u.code, u.text())
	assert.Contains(n, u.text(), fmt.Sprintf("%[1]d planned = %[1]d ok + 0 failed + 0 suspect + 0 skipped + 0 remaining", len(n.Planned)))
	text, err := os.ReadFile(n.out + "/" + results.FileName)
	require.NoError(n, err)
	require.Empty(n, promised{planned: n.Planned, drives: drives}.faults(text), "%s", text)
	n.asBefore()
	rescued, _ := filepath.Glob(n.state() + "/rescued/*")
	assert.Empty(n, rescued, "what was saved elsewhere is merged")
	n.eventually(30*time.Second*timeScale, "no process of ours lives on", func() bool {
		return exec.Command("sh", "-c", "ps | grep -E '[q]dsweep (keeper|worker)'").Run() != nil
	})
	require.False(n, n.Failed())
}

// dies kills the sweep's processes of these names, main where it is among them the last, and says which were there.
func (u *underway) dies(names ...string) (killed []string) {
	u.Helper()
	main := false
	for _, name := range names {
		if name == "main" {
			main = true
		} else if pid := u.child(name); pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed = append(killed, name)
		}
	}
	if main {
		if syscall.Kill(u.pid, syscall.SIGKILL) == nil {
			killed = append(killed, "main")
		}
		<-u.ended
	}
	return killed
}
