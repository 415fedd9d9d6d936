package sweep

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs/systest"
)

// again goes on with the bench's sweep, by options that change may alter.
func (b *bench) again(change func(*Options)) (Outcome, error) {
	b.Helper()
	defer b.keepers.Wait()
	start := b.start
	if start == nil {
		start = b.keeper
	}
	o := Options{StateDir: b.state, Allow: map[string]bool{}, Observe: b.observe, StartKeeper: start, Results: b.results, maker: b.maker, restless: b.restless}
	if change != nil {
		change(&o)
	}
	return Resume(context.Background(), b.out, b.host, o)
}

// resumed goes on with a sweep that is not refused.
func (b *bench) resumed(change func(*Options)) (Outcome, []results.Row) {
	b.Helper()
	o, err := b.again(change)
	require.NoError(b, err)
	return o, b.rows()
}

// interrupted begins the bench's sweep and ends it by a signal in its nth run.
func (b *bench) interrupted(n int) {
	b.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	b.observe = once(working(n), func() { cancel(&SignalError{Signal: unix.SIGINT}) })
	o, err := b.execute(ctx)
	require.NoError(b, err)
	require.Equal(b, 130, o.ExitCode())
	require.Equal(b, n-1, o.Audit.Done())
	b.observe = nil
}

// exactlyOnce demands that each of the bench's planned runs has rows, of one attempt.
func (b *bench) exactlyOnce(rows []results.Row, planned int) {
	b.Helper()
	seen := map[string]int{}
	for _, r := range rows {
		if r.Row == 1 {
			seen[r.Run]++
		}
	}
	assert.Len(b, seen, planned)
	for run, n := range seen {
		assert.Equal(b, 1, n, run)
	}
}

func TestResumeGoesOnWhereTheRowsEnd(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 4], write_cache: [off, on]}", systest.Disk{Name: "sda", QueueDepth: 32, WriteCache: true})
	b.profile = strings.Replace(b.profile, "sequential", "interleaved\nseed: 7", 1)
	before := b.machine.Settings("sda")
	var planned []string
	p, err := NewPlan(context.Background(), b.read(), b.host, PlanOptions{})
	require.NoError(t, err)
	for r := range p.Runs() {
		planned = append(planned, r.ID)
	}
	b.interrupted(3)
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	assert.Equal(t, "6 planned = 6 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining", o.Audit.String())
	b.exactlyOnce(rows, 6)
	var done []string
	for _, r := range rows {
		done = append(done, r.Run)
		assert.Equal(t, rows[0].Sweep, r.Sweep)
		assert.Equal(t, "sda", r.Target)
		assert.Equal(t, 1, r.Attempt)
	}
	assert.Equal(t, planned, done, "the order is that of the plan")
	assert.Equal(t, before, b.machine.Settings("sda"))
}

// Nothing is left: no drive is looked at, and the exit code is that of the rows.
func TestResumeOfAFinishedSweep(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.run()
	writes := len(b.machine.Writes())
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode())
	assert.Len(t, rows, 2)
	assert.Len(t, b.machine.Writes(), writes)
	assert.Equal(t, "2 planned = 2 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining", o.Audit.String())
}

// A run of which a crash left half is done again; the half is set aside.
func TestResumeRepeatsATornRun(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.run()
	name := filepath.Join(b.out, results.FileName)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, text[:len(text)-20], 0o644))
	var said []string
	b.observe = func(e Event) { said = append(said, e.Text) }
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode())
	b.exactlyOnce(rows, 3)
	torn, err := os.ReadFile(name + results.TornSuffix)
	require.NoError(t, err)
	assert.Contains(t, string(torn), "queue_depth=4#1")
	assert.Contains(t, strings.Join(said, "\n"), "set aside in results.csv.torn")
}

// Field case 30, its second half: what a full disk sent to the state folder comes back.
func TestResumeMergesRescuedRows(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 3, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.fullAfter(2)
	o, rows := b.run()
	require.Equal(t, 1, o.Audit.Remaining)
	require.Len(t, rows, 2)

	_, err := b.again(nil)
	var refused *RefusedError
	require.ErrorAs(t, err, &refused, "it is full yet")
	assert.Contains(t, err.Error(), "no space left")
	assert.Contains(t, err.Error(), "make room")

	b.results = nil
	o, rows = b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode())
	b.exactlyOnce(rows, 4)
	rescued, err := filepath.Glob(filepath.Join(b.state, "rescued", "*"))
	require.NoError(t, err)
	assert.Empty(t, rescued)
}

func TestResumeRetriesFailedRuns(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
	clamp := true
	b.machine.Intercept(func(path, value string) error {
		if clamp && strings.HasSuffix(path, "queue_depth") && value == "2" {
			return unix.EIO
		}
		return nil
	})
	o, _ := b.run()
	require.Equal(t, "3 planned = 2 ok + 1 failed + 0 suspect + 0 skipped + 0 remaining", o.Audit.String())
	assert.Contains(t, o.Next(), "resume --retry-failed")

	o, rows := b.resumed(nil)
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	assert.Len(t, rows, 3, "it is not repeated unasked")

	o, rows = b.resumed(func(o *Options) { o.RetryFailed = true })
	assert.Equal(t, "3 planned = 2 ok + 1 failed + 0 suspect + 0 skipped + 0 remaining", o.Audit.String())
	require.Len(t, rows, 4)
	assert.Equal(t, 2, rows[3].Attempt)

	clamp = false
	o, rows = b.resumed(func(o *Options) { o.RetryFailed = true })
	assert.Equal(t, "3 planned = 3 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining", o.Audit.String())
	assert.Equal(t, ExitOK, o.ExitCode())
	require.Len(t, rows, 5)
	assert.Equal(t, []any{"queue_depth=2#1", 3, "ok"}, []any{rows[4].Run, rows[4].Attempt, rows[4].Status})
}

func TestResumeRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(b *bench)
		code   int
		saying string
	}{
		{"an edited profile", func(b *bench) {
			b.edit("profile.yaml", "repeats: 1", "repeats: 2")
		}, ExitUsage, "not what the sweep was begun with"},
		{"another kernel", func(b *bench) {
			b.edit("environment.json", fmt.Sprintf(`"kernel": %q`, b.host.KernelRelease()), `"kernel": "2.6.18"`)
		}, ExitNotHere, "--allow changed-kernel"},
		{"another state folder", func(b *bench) { b.state += "2" }, ExitUsage, "--state-dir"},
		{"no sweep", func(b *bench) { os.Remove(filepath.Join(b.out, "environment.json")) }, ExitUsage, "no environment.json"},
		{"another drive under the name", func(b *bench) {
			b.machine = systest.New(b.T, systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.other"})
			b.host = b.machine.Host()
		}, ExitNotHere, "is not there, under whatever name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
			b.interrupted(2)
			c.do(b)
			writes := len(b.machine.Writes())
			_, err := b.again(nil)
			require.Error(t, err)
			assert.Equal(t, c.code, ExitCode(err), "%v", err)
			assert.Contains(t, err.Error(), c.saying)
			assert.Len(t, b.machine.Writes(), writes, "nothing was touched")
		})
	}
}

// edit changes a file of the output folder.
func (b *bench) edit(name, from, to string) {
	b.Helper()
	name = filepath.Join(b.out, name)
	text, err := os.ReadFile(name)
	require.NoError(b, err)
	require.Contains(b, string(text), from)
	require.NoError(b, os.WriteFile(name, []byte(strings.Replace(string(text), from, to, 1)), 0o644))
}

// Two of them would do each run twice.
func TestResumeOfASweepAtWork(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	var err error
	b.observe = once(working(1), func() { _, err = Resume(context.Background(), b.out, b.host, Options{StateDir: b.state}) })
	b.run()
	require.Error(t, err)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.Contains(t, err.Error(), fmt.Sprintf("kill %d", os.Getpid()))
}

// The drive comes back under another name, and its old one is another's: its runs go on, on it.
func TestResumeFollowsADrive(t *testing.T) {
	ours := systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.ours", Serial: "OURS"}
	b := newBench(t, "{queue_depth: [1, 2]}", ours)
	b.interrupted(2)
	ours.Name = "sdb"
	b.machine = systest.New(t, systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.other", Serial: "OTHER"}, ours)
	b.host = b.machine.Host()
	other := b.machine.Settings("sda")
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	b.exactlyOnce(rows, 2)
	assert.Contains(t, rows[0].Members, "sda:")
	assert.Contains(t, rows[1].Members, "sdb:")
	assert.Contains(t, rows[1].Members, "OURS")
	assert.Equal(t, "wwid:naa.ours", rows[1].Target, "sda would be another one")
	assert.Equal(t, other, b.machine.Settings("sda"))
	for _, w := range b.machine.Writes() {
		assert.NotContains(t, fmt.Sprint(w), "/sda/")
	}
}

// The history gets each run once, whatever ended a sweep and however often it was gone on with; rows of others stay.
func TestResumeCopiesToTheHistory(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
	history := filepath.Join(t.TempDir(), "history.csv")
	b.csv = history
	b.interrupted(3)
	for range 2 {
		b.resumed(func(o *Options) { o.CSV = history })
	}
	text, err := os.ReadFile(history)
	require.NoError(t, err)
	own, err := os.ReadFile(filepath.Join(b.out, results.FileName))
	require.NoError(t, err)
	assert.Equal(t, string(own), string(text))

	_, err = b.again(func(o *Options) { o.CSV = filepath.Join(b.out, "status.json") })
	assert.Equal(t, ExitUsage, ExitCode(err))
	assert.Contains(t, err.Error(), "was left alone")
}
