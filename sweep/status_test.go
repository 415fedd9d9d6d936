package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/results"
	"qdsweep/sysfs/systest"
)

// A sweep is looked at from outside while it runs, as its user would, and after it; the CSV is whole at every moment.
func TestStatusWhileItRuns(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 3]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.profile = strings.Replace(b.profile, "150ms", "1200ms", 1) // status.json is a second old at most
	seen := make(chan SweepStatus, 1)
	b.observe = func(e Event) {
		if e.Kind != PhaseBegan || e.Phase != "drain" || e.Run.Index != 2 {
			return
		}
		assert.Len(t, b.rows(), 1, "the rows of what is over")
		for until := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			found, err := ReadStatus(context.Background(), b.host, b.out)
			if !assert.NoError(t, err) || found.Phase == "r" || time.Now().After(until) {
				seen <- found
				return
			}
		}
	}
	o, _ := b.run()
	require.Equal(t, ExitOK, o.ExitCode())
	n := <-seen
	assert.Equal(t, []any{Running, os.Getpid(), "bench", "queue_depth=2#1", 2, "r"}, []any{n.State, n.PID, n.Profile, n.Run, n.Index, n.Phase})
	assert.Equal(t, []int{3, 1, 0, 2}, []int{n.Planned, n.OK, n.Failed, n.Remaining})
	require.NotNil(t, n.Before)
	assert.Equal(t, []string{"queue_depth=1#1", "ok", "r", "randread"}, []string{n.Before.Run, n.Before.Status, n.Before.Phases[0].Workload, n.Before.Phases[0].Phase})
	assert.Positive(t, *n.Before.Phases[0].IOPS)
	assert.Contains(t, logText(n.Log), "queue_depth=2#1")

	n, err := ReadStatus(context.Background(), b.host, b.out)
	require.NoError(t, err)
	assert.Equal(t, []any{Ended, 3, 0, 0, "", 0}, []any{n.State, n.OK, n.Remaining, *n.Exit, n.Run, n.Index})
	assert.Equal(t, "qdsweep report "+b.out, n.Next)
	assert.Equal(t, o.Audit.String(), n.audit())
	var text bytes.Buffer
	require.NoError(t, WriteStatus(&text, n, 120, time.Now()))
	for _, want := range []string{"bench: ended ", ", exit 0\n", "so far   3 planned = 3 ok", "before   queue_depth=3#1: ok", " IOPS\n", "next     qdsweep report "} {
		assert.Contains(t, text.String(), want)
	}
	all, err := Sweeps(context.Background(), b.host, b.state)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, n.Sweep, all[0].Sweep)
}

// A sweep that ended early says why, also one whose disk was full when it ended.
func TestStatusOfAnEarlyEnd(t *testing.T) {
	dir := t.TempDir()
	mountSmall(t, dir)
	b := newBench(t, "{queue_depth: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.profile = strings.Replace(b.profile, "150ms", "10ms", 1)
	b.out = filepath.Join(dir, "out")
	b.observe = once(working(2), func() {
		b := make([]byte, 4096)
		f, err := os.Create(filepath.Join(dir, "filler"))
		require.NoError(t, err)
		for err == nil {
			_, err = f.Write(b)
		}
		f.Close()
	})
	o, err := b.execute(context.Background())
	require.NoError(t, err)
	require.Contains(t, o.Stopped, "no space left")
	n, err := ReadStatus(context.Background(), b.host, b.out)
	require.NoError(t, err)
	assert.Equal(t, Ended, n.State)
	require.NotNil(t, n.Exit)
	assert.Equal(t, ExitIncomplete, *n.Exit)
	assert.Equal(t, o.Stopped, n.Stopped)
}

// The file is overwritten only where it is nobody else's.
func TestNoOtherFileIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	f := folder{dir: dir, uid: -1, gid: -1}
	victim := filepath.Join(dir, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
	require.NoError(t, os.Link(victim, f.path(StatusFile)))
	require.Error(t, f.overwrite(StatusFile, []byte("{}")))
	require.NoError(t, os.Remove(f.path(StatusFile)))
	require.NoError(t, os.Symlink(victim, f.path(StatusFile)))
	require.Error(t, f.overwrite(StatusFile, []byte("{}")))
	text, err := os.ReadFile(victim)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(text))
	require.NoError(t, os.Remove(f.path(StatusFile)))
	require.NoError(t, os.WriteFile(f.path(StatusFile), []byte("a longer text"), 0o600))
	require.NoError(t, f.overwrite(StatusFile, []byte("{}")))
	text, err = os.ReadFile(f.path(StatusFile))
	require.NoError(t, err)
	assert.Equal(t, "{}", string(text))
}

// Whether a sweep that says it runs does so: by its process where that can be looked at, else by when it was last heard of.
func TestStatusState(t *testing.T) {
	m := systest.New(t)
	h := m.Host()
	boot, err := h.BootID()
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	since, err := keeper.Since(os.Getpid())
	require.NoError(t, err)
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	now := time.Now()
	mine := Status{State: Running, Host: host, PID: os.Getpid(), Since: since, BootID: boot, PIDSpace: pidSpace(), Updated: now}
	for name, c := range map[string]struct {
		change func(*Status)
		state  string
		why    string
	}{
		"it runs":                          {func(*Status) {}, Running, ""},
		"it has ended":                     {func(n *Status) { n.State, n.PID = Ended, dead.Process.Pid }, Ended, ""},
		"its process is gone":              {func(n *Status) { n.PID = dead.Process.Pid }, Died, "is gone"},
		"its number is another's":          {func(n *Status) { n.Since = "1" }, Died, "is gone"},
		"it runs, and cannot write":        {func(n *Status) { n.Updated = now.Add(-time.Hour) }, Running, ""},
		"the machine was restarted":        {func(n *Status) { n.BootID = "another" }, Died, "restarted"},
		"another machine's, fresh":         {func(n *Status) { n.BootID, n.Host = "another", "other" }, Running, ""},
		"another machine's, silent":        {func(n *Status) { n.BootID, n.Host, n.Updated = "another", "other", now.Add(-time.Hour) }, Unknown, "other"},
		"another container's, fresh":       {func(n *Status) { n.PIDSpace, n.PID = "pid:[1]", dead.Process.Pid }, Running, ""},
		"another container's, silent":      {func(n *Status) { n.PIDSpace, n.Updated = "pid:[1]", now.Add(-time.Hour) }, Unknown, "container"},
		"an earlier version's, silent":     {func(n *Status) { *n = Status{State: Running, PID: 1, Updated: now.Add(-time.Hour)} }, Unknown, ""},
		"the clock was set back meanwhile": {func(n *Status) { n.PIDSpace, n.Updated = "pid:[1]", now.Add(time.Hour) }, Running, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := mine
			c.change(&n)
			state, why := judgeState(h, n, now)
			assert.Equal(t, c.state, state)
			assert.Contains(t, why, c.why)
		})
	}
}

// A sweep that died says what to type, with the state folder it had; the folder's last torn line of the log is no line.
func TestStatusOfADeadSweep(t *testing.T) {
	h := systest.New(t).Host()
	boot, err := h.BootID()
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	dir := t.TempDir()
	n := Status{Sweep: "s1", Profile: "night\x1b[31m", State: Running, Host: host, PID: os.Getpid(), Since: "1", BootID: boot, PIDSpace: pidSpace(), StateDir: "/mnt/my state",
		Started: time.Now().Add(-48 * time.Hour), Updated: time.Now().Add(-time.Hour), Planned: 10, OK: 3, Remaining: 7, Run: "queue_depth=4#1", Index: 4, Phase: "rnd"}
	text, err := json.Marshal(n)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, StatusFile), text, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "log.jsonl"), []byte(`{"event":"phase","phase":"rnd","time":"2025-03-14T22:04:11Z"}`+"\n"+`{"event":"ph`), 0o644))
	found, err := ReadStatus(context.Background(), h, dir)
	require.NoError(t, err)
	assert.Equal(t, Died, found.State)
	assert.Equal(t, ExitIncomplete, StatusExit([]SweepStatus{found}))
	assert.Equal(t, "sudo qdsweep --state-dir '/mnt/my state' restore && sudo qdsweep --state-dir '/mnt/my state' resume "+dir, found.Next)
	var out bytes.Buffer
	require.NoError(t, WriteSweeps(&out, []SweepStatus{found}, "/var/lib/qdsweep", 80, false, time.Now()))
	assert.Contains(t, out.String(), ": died, its process")
	assert.Contains(t, out.String(), "4 of 10  queue_depth=4#1 (rnd)\n")
	assert.Contains(t, out.String(), "phase  rnd")
	assert.NotContains(t, out.String(), "\x1b")
}

// A state folder of many sweeps: one of them runs, most have ended, a folder is gone, another holds a new sweep.
func TestStatusOfMany(t *testing.T) {
	h := systest.New(t).Host()
	state := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(state, "sweeps"), 0o700))
	zero := 0
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		dir := filepath.Join(t.TempDir(), "out-"+id)
		require.NoError(t, os.Mkdir(dir, 0o755))
		n := Status{Sweep: id, Profile: "p", State: Ended, Exit: &zero, Planned: 1, OK: 1, Updated: time.Now()}
		if id == "b" {
			n.Sweep = "z"
		}
		text, err := json.Marshal(n)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, StatusFile), text, 0o644))
		if id == "c" {
			require.NoError(t, os.RemoveAll(dir))
		}
		require.NoError(t, os.Symlink(dir, filepath.Join(state, "sweeps", id)))
	}
	all, err := Sweeps(context.Background(), h, state)
	require.NoError(t, err)
	require.Len(t, all, 12)
	assert.Contains(t, all[1].Why, "another sweep now, z")
	assert.Contains(t, all[2].Why, "not there any more")
	assert.Equal(t, ExitOK, StatusExit(all))
	var out bytes.Buffer
	require.NoError(t, WriteSweeps(&out, all, state, 200, false, time.Now()))
	assert.Contains(t, out.String(), "2 more have ended (-v lists them)\n")
	assert.NotContains(t, out.String(), "out-a:")
	assert.Contains(t, out.String(), "out-l: ended ")
	none, err := Sweeps(context.Background(), h, t.TempDir())
	require.NoError(t, err)
	assert.Empty(t, none)
}

func TestStatusOfNothing(t *testing.T) {
	h := systest.New(t).Host()
	_, err := ReadStatus(context.Background(), h, t.TempDir())
	assert.Equal(t, ExitUsage, ExitCode(err), "%v", err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, StatusFile), []byte("{"), 0o644))
	_, err = ReadStatus(context.Background(), h, dir)
	require.Error(t, err)
	if os.Geteuid() == 0 {
		return // may read everything
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, StatusFile), 0))
	_, err = ReadStatus(context.Background(), h, dir)
	assert.Equal(t, ExitNotHere, ExitCode(err), "%v", err)
}

// The sentence is what systemd and the like show.
func TestStatusSentence(t *testing.T) {
	left := 7300.0
	n := Status{State: Running, Planned: 500, Remaining: 489, OK: 9, Failed: 2, Run: "queue_depth=4#2", Index: 12, Phase: "rnd", Left: &left}
	assert.Equal(t, "run 12 of 500, queue_depth=4#2 (rnd), 2 failed, about 2 h 2 min left", n.Sentence())
	n.Run, n.Index, n.Phase, n.Left, n.Failed, n.Suspect = "", 0, "take down", nil, 0, 1
	assert.Equal(t, "11 of 500 runs over (take down), 1 suspect", n.Sentence())
	n.State = Ended
	assert.Equal(t, "ended: 500 planned = 9 ok + 0 failed + 1 suspect + 0 skipped + 489 remaining", n.Sentence())
}

// What is left gets less between two events.
func TestStatusLeft(t *testing.T) {
	f := &statusFile{left: -1, now: Status{State: Running}}
	f.update(Event{Kind: RunEnded, Run: Run{ID: "r"}, Left: time.Hour, Rows: []results.Row{{Status: results.OK}}})
	f.at = f.at.Add(-30 * time.Minute)
	_, err := f.text()
	require.NoError(t, err)
	require.NotNil(t, f.now.Left)
	assert.InDelta(t, 1800, *f.now.Left, 5)
	f.update(Event{Kind: Note, Left: -1})
	_, err = f.text()
	require.NoError(t, err)
	assert.Nil(t, f.now.Left)
}

// mountSmall mounts a file system that a few pages fill.
func mountSmall(t *testing.T, dir string) {
	t.Helper()
	err := unix.Mount("none", dir, "tmpfs", 0, "size=128k")
	if errors.Is(err, unix.EPERM) && os.Getenv("CI") == "" {
		t.Skip("only root may mount a small file system")
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}
