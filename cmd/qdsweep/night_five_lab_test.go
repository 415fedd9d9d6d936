//go:build lab

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// fiveNight is what the boots of TestLabCutANight tell each other.
type fiveNight struct {
	nightMemory
	Seed   uint64
	Drives []string // WWIDs
	Diary  []page
}

// page is what befell the sweep once.
type page struct {
	Done        int // how many runs had rows by then
	What, After string
}

// TestLabCutANight is a whole night: a sweep over two drives meets five misfortunes of different kinds, and one `resume` ends it. As `make night` it has 300 runs,
// and prints what docs/a-night.md shows.
func TestLabCutANight(t *testing.T) {
	l := &lab{t, os.Getenv("QDLAB_KEPT")}
	memory := l.path("memory.json")
	if os.Getenv("QDLAB_BOOT") == "1" {
		night := l.evening()
		text, err := json.Marshal(night)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(memory, text, 0o644))
		l.shell("sync %s", memory)
		text, err = exec.Command("qdlab", "cut").CombinedOutput() // does not return
		t.Fatalf("the power is still there: %v: %s", err, text)
	}
	var night fiveNight
	text, err := os.ReadFile(memory)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &night))
	l.morning(&night)
}

// fiveDrives is what a run's cell says of its drive, and the drive's serial.
func fiveDrives() map[string]string {
	return map[string]string{"abc0001;": "QDLAB-SATA-1", "abc0002;": "QDLAB-SATA-2"}
}

// evening is the sweep with its misfortunes, up to the moment of the power cut.
func (l *lab) evening() fiveNight {
	disks := []string{l.sata(1), l.sata(2)}
	night := fiveNight{Seed: chaosSeed(l)}
	for _, d := range disks {
		night.Drives = append(night.Drives, l.get(d, "device/wwid"))
	}
	n := l.newNight("night", fmt.Sprintf(`version: 1
name: a-night
target: {devices: [%q, %q]}
matrix: {queue_depth: [%s], write_cache: [off, on]}
repeats: %d
settle: 0s
timeout: 2m
workloads: [{name: r, type: io, mode: randread, iodepth: 32, runtime: 200ms}]
`, "wwid:"+night.Drives[0], "wwid:"+night.Drives[1], map[int]string{3: "1, 31", 25: "1, 8, 31"}[rounds(3, 25)], rounds(3, 25)), disks)
	rnd := rand.New(rand.NewPCG(night.Seed, 6))
	u := n.goOn()
	at := func(share float64) { // of the planned runs, and a moment more
		want := int(share * float64(len(n.Planned)))
		u.until(fmt.Sprintf("%d runs are done", want), func() bool { return n.done() >= want })
		time.Sleep(time.Duration(rnd.Int64N(int64(500 * time.Millisecond))))
	}
	befell := func(what, after string) {
		night.Diary = append(night.Diary, page{n.done(), what, after})
		l.Logf("%d runs are done: %s: %s", n.done(), what, after)
	}

	at(0.12)
	require.NotEmpty(l, u.dies("keeper"))
	befell("the keeper was killed", u.line("the keeper died"))

	at(0.25)
	l.shell("date -s @$(( $(date +%%s) - 3600 ))")
	befell("the clock was set back by an hour", u.reason("clock stepped"))

	at(0.38)
	u.until("the worker works, and dies", func() bool { return u.child("worker") != 0 && len(u.dies("worker")) > 0 })
	befell("the worker was killed", u.reason("worker died"))

	at(0.5)
	lost := l.disk(night.Drives[1])
	plug := l.pull(lost)
	befell("the drive "+lost+" was pulled", u.line(lost))

	at(0.58)
	plug()
	befell("it was put back", "it is called "+l.disk(night.Drives[1])+" now; its runs wait for the resume")

	at(0.66)
	require.True(l, u.running(), "the sweep ended before the power cut: %s", u.text())
	befell("the power was cut", "")
	night.nightMemory = n.nightMemory
	return night
}

// morning is after the power cut: one `restore`, one `resume`.
func (l *lab) morning(f *fiveNight) {
	for _, wwid := range f.Drives { // as a drive that remembers it is after a power loss; QEMU's forget
		if entries, _ := filepath.Glob(l.state() + "/journal/*" + wwid + "*"); len(entries) > 0 {
			l.shell("hdparm -W0 /dev/%s", l.disk(wwid))
		}
	}
	n := &night{lab: l, out: l.path("night"), nightMemory: f.nightMemory}
	had := n.done()
	restored := l.run("restore")
	require.Equal(l, 0, restored.code)
	n.asBefore()
	u := n.goOn("--retry-failed")
	n.ends(u, fiveDrives())
	last := &f.Diary[len(f.Diary)-1]
	last.After = fmt.Sprintf("`restore` put back what was left; `resume --retry-failed` found %d runs, and did the others", had)
	fmt.Print(n.published(f, restored.out, u.text()))
}

// line is the last thing the sweep says with these words, for which it is waited.
func (u *underway) line(words string) (found string) {
	u.Helper()
	u.until("it says "+words, func() bool {
		for line := range strings.Lines(u.text()) {
			if strings.Contains(line, words) && !strings.HasPrefix(line, "run ") {
				found = strings.TrimSpace(line)
			}
		}
		return found != ""
	})
	return found
}

// reason is what a row says, and of which run, that begins with that code; it is waited for.
func (u *underway) reason(code string) (found string) {
	u.Helper()
	u.until("a row says "+code, func() bool {
		for _, r := range u.wholeRows(u.out) {
			if strings.HasPrefix(r.Reason, code) {
				found = fmt.Sprintf("run %s is %s: %s", r.Run, r.Status, r.Reason)
			}
		}
		return found != ""
	})
	return found
}

// published is the part of docs/a-night.md that was measured.
func (n *night) published(f *fiveNight, restored, resumed string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- bench night -->\n| runs done | what befell the sweep | what became of it |\n|---|---|---|\n")
	for _, p := range f.Diary {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", p.Done, p.What, strings.ReplaceAll(p.After, "|", "\\|"))
	}
	fmt.Fprintf(&b, "\n%d runs, seed %d. The log, without the runs in which nothing happened:\n\n```\n%s```\n", len(n.Planned), f.Seed, n.events())
	fmt.Fprintf(&b, "\nAfter the boot:\n\n```\n$ sudo qdsweep restore\n%s$ sudo qdsweep resume --retry-failed night\n", restored)
	for line := range strings.Lines(resumed) {
		if !strings.HasPrefix(line, "run ") { // its progress
			b.WriteString(strings.ReplaceAll(line, n.dir+"/", ""))
		}
	}
	b.WriteString("```\n<!-- /bench -->\n")
	return b.String()
}

// events are the lines of the log that say of something that it was not as planned.
func (n *night) events() string {
	text, err := os.ReadFile(n.out + "/log.jsonl")
	require.NoError(n, err)
	var b strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var e struct{ Time, Event, Run, Status, Reason, Text string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // the one that the power cut tore
		}
		if e.Event == "phase" || e.Event == "run began" || e.Event == "run ended" && e.Status == results.OK && e.Reason == "" {
			continue
		}
		at, _ := time.Parse(time.RFC3339, e.Time)
		words := strings.Join(strings.Fields(strings.Join([]string{e.Event, e.Run, e.Status, e.Reason, e.Text}, " ")), " ")
		fmt.Fprintf(&b, "%s %s\n", at.Format("15:04:05"), strings.ReplaceAll(words, n.dir+"/", ""))
	}
	return b.String()
}
