package sweep

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/wire"
	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// The first promise: nothing is left changed, and where it might be, that is said.

// lines keeps the lines to the keepers that a sweep starts; closing one is that keeper's death.
type lines struct {
	b    *bench
	all  []*wire.Conn
	gone []func() // waits until that keeper is gone, for itself and for main
	j    func(*keeper.Journal)
}

// kill ends the first keeper. One in this process takes its line's end for main's, and kills the worker: what it does is waited for, as a real one that is
// killed does nothing more. So is the worker's end: nothing else would tell main before it gives it work.
func (l *lines) kill() {
	l.all[0].Close()
	l.gone[0]()
	for hasWorker(l.b.T) {
		runtime.Gosched()
	}
}

// hasWorker says whether this process has a child that is not reaped: a worker is the only one it starts.
func hasWorker(t *testing.T) bool {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // ended meanwhile
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			return true
		}
	}
	return false
}

func (l *lines) start(ctx context.Context) (*keeper.Client, error) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	j, err := keeper.OpenJournal(l.b.state)
	if err != nil {
		return nil, err
	}
	if l.j != nil {
		l.j(j)
	}
	l.all = append(l.all, ours)
	ended := l.b.serve(theirs, j)
	c, err := keeper.Connect(ctx, ours, keeper.Options{})
	if err == nil {
		l.gone = append(l.gone, func() { <-ended; <-c.Died() })
	}
	return c, err
}

func (l *lines) execute(ctx context.Context, patience time.Duration) (Outcome, error) {
	b := l.b
	return Execute(ctx, b.read(), b.host, Options{Out: b.out, StateDir: b.state, Allow: b.allow, Observe: b.observe, StartKeeper: l.start, patience: patience})
}

// Field case 10: a RAID adapter refuses MODE SELECT. No other knob is touched, of any member, unless the profile says record.
func TestModeSelectRefused(t *testing.T) {
	for unsupported, want := range map[string]string{"refuse": "failed", "skip": "skipped", "record": "ok"} {
		t.Run(unsupported, func(t *testing.T) {
			b := newBench(t, "{write_cache: [off], queue_depth: [4]}",
				systest.Disk{Name: "sda", Transport: "sas", WriteCache: true}, systest.Disk{Name: "sdb", Transport: "sas", WriteCache: true, RefuseModeSelect: true})
			b.machine.MD("md0", "raid1", "sda", "sdb")
			b.profile = strings.Replace(b.profile, "device: sda", "device: md0", 1) + "unsupported: " + unsupported + "\n"
			before := b.machine.Settings("sda")
			o, rows := b.run()
			require.Len(t, rows, 1)
			assert.Equal(t, want, rows[0].Status, "%+v", rows[0].Reason)
			assert.Contains(t, rows[0].Reason, "sdb: write_cache off")
			assert.NotContains(t, rows[0].Reason, "not tried")
			assert.Equal(t, unsupported != "record", len(b.machine.WritesTo("device/queue_depth")) == 0)
			assert.Equal(t, before, b.machine.Settings("sda"))
			assert.Empty(t, o.Unrestored)
		})
	}
}

// The keeper dies between two runs, or where no setting is made at all: a new one takes over, and every run is done.
func TestKeeperDiesWhereNothingIsChanged(t *testing.T) {
	for name, c := range map[string]struct {
		matrix string
		when   func(Event) bool
	}{
		"between two runs":        {"{queue_depth: [1, 2]}", func(e Event) bool { return e.Kind == RunEnded }},
		"at the beginning of one": {"{queue_depth: [1, 2]}", func(e Event) bool { return e.Kind == RunBegan && e.Run.Index == 2 }},
		"no knob in the matrix":   {"{iodepth: [1, 2]}", working(1)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.matrix, systest.Disk{Name: "sda", QueueDepth: 32})
			l := &lines{b: b}
			b.observe = once(c.when, func() { l.kill() })
			before := b.machine.Settings("sda")
			o, err := l.execute(context.Background(), 0)
			require.NoError(t, err)
			rows := b.rows()
			assert.Equal(t, ExitOK, o.ExitCode(), "%+v\n%+v", o, rows)
			assert.Len(t, rows, 2)
			assert.Len(t, l.all, 2, "keepers")
			assert.Equal(t, before, b.machine.Settings("sda"))
		})
	}
}

// One that dies before the first run ends the start: what to type is said.
func TestKeeperDiesBeforeTheFirstRun(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	l := &lines{b: b}
	b.observe = once(func(e Event) bool { return e.Kind == Began }, func() { l.kill() })
	before := b.machine.Settings("sda")
	_, err := l.execute(context.Background(), 0)
	require.ErrorIs(t, err, keeper.ErrKeeperDied)
	assert.ErrorContains(t, err, "sudo qdsweep restore; then type it again")
	assert.Equal(t, ExitInternal, ExitCode(err))
	assert.Empty(t, b.rows())
	assert.Equal(t, before, b.machine.Settings("sda"))
}

// A keeper that dies while it puts back is told of, too, though no run begins again for it.
func TestKeeperDiesWhileItRestores(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	l := &lines{b: b}
	var notes []string
	kill := once(func(e Event) bool { return e.Kind == PhaseBegan && e.Phase == "restore" }, func() { l.kill() })
	b.observe = func(e Event) {
		kill(e)
		if e.Kind == Note && strings.Contains(e.Text, "keeper") {
			notes = append(notes, e.Text)
		}
	}
	o, err := l.execute(context.Background(), 0)
	require.NoError(t, err)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	assert.Len(t, b.rows(), 2)
	assert.Equal(t, []string{"the keeper died; a new one put every setting back, and the run " + b.rows()[0].Run + " counts"}, notes)
}

// No other keeper can be started: what the run had changed is not known to be back, which is exit 5 and names the drive.
func TestNoOtherKeeper(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	l := &lines{b: b}
	b.observe = once(working(1), func() {
		// A state folder that is not obeyed any more.
		require.NoError(t, os.Chmod(b.state, 0o777))
		l.kill()
	})
	o, err := l.execute(context.Background(), 0)
	require.NoError(t, err)
	assert.Equal(t, ExitNotRestored, o.ExitCode(), "%+v", o)
	require.Len(t, o.Unrestored, 1)
	assert.Equal(t, "sda", o.Unrestored[0].Name)
	assert.Contains(t, o.Unrestored[0].Err, "not known")
	assert.Equal(t, []string{"sda is NOT as it was"}, o.Settings)
}

// A keeper that gives no answer when it should restore is no internal error: something may be changed still, and which drive is said.
func TestKeeperDoesNotAnswer(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32})
	hold := make(chan struct{})
	l := &lines{b: b, j: func(j *keeper.Journal) {
		j.Hook = func(op string) error {
			if strings.HasPrefix(op, "unlink ") {
				<-hold // the state folder's disk does not answer
			}
			return nil
		}
	}}
	ended := time.AfterFunc(2*time.Second, func() { close(hold) }) // Close waits for it
	defer ended.Stop()
	o, err := l.execute(context.Background(), 100*time.Millisecond)
	require.NoError(t, err)
	assert.Equal(t, ExitNotRestored, o.ExitCode(), "%+v", o)
	require.Len(t, o.Unrestored, 1)
	assert.Equal(t, "sda", o.Unrestored[0].Name)
	assert.Equal(t, []string{"sda is NOT as it was"}, o.Settings)
	assert.False(t, b.rows()[0].Restored)
}

// A keeper that does not come back from its journal, for the disk of the state folder hangs: the wait is bounded, the run fails, and nothing
// was changed.
func TestKeeperHangsInItsJournal(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	hold := make(chan struct{})
	var hangs atomic.Bool
	l := &lines{b: b, j: func(j *keeper.Journal) {
		j.Hook = func(op string) error {
			if hangs.Load() && strings.HasPrefix(op, "fsync ") {
				<-hold
			}
			return nil
		}
	}}
	b.observe = once(func(e Event) bool { return e.Kind == RunBegan && e.Run.Index == 2 }, func() { hangs.Store(true) })
	ended := time.AfterFunc(4*time.Second, func() { close(hold) }) // Close waits for it
	defer ended.Stop()
	defer b.keepers.Wait()
	o, err := Execute(context.Background(), b.read(), b.host, Options{Out: b.out, StateDir: b.state, Allow: b.allow, Observe: b.observe, StartKeeper: l.start,
		answers: 2 * time.Second, patience: 100 * time.Millisecond})
	require.NoError(t, err)
	assert.Equal(t, ExitIncomplete, o.ExitCode(), "%+v", o)
	rows := b.rows()
	require.Len(t, rows, 2)
	assert.Contains(t, rows[1].Reason, "not applied: ")
	assert.Equal(t, []string{"1", "32"}, b.machine.WritesTo("device/queue_depth"), "nothing is changed before the journal has it")
}

// Ctrl-C before the first run, while another sweep is waited for: 130, and nothing is left.
func TestInterruptedBeforeTheFirstRun(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32})
	first := &lines{b: b}
	k, err := first.start(context.Background())
	require.NoError(t, err)
	d := b.machine.Device("sda")
	require.NoError(t, k.Claim(context.Background(), []keeper.Member{{Name: "sda", Identity: d.Identity}}, 0))
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(200*time.Millisecond, func() { cancel(&SignalError{unix.SIGINT}) })
	_, err = Execute(ctx, b.read(), b.host, Options{Out: b.out, StateDir: b.state, Allow: b.allow, StartKeeper: b.keeper, Wait: time.Minute})
	require.Error(t, err)
	assert.Equal(t, 130, ExitCode(err), "%v", err)
	assert.NoDirExists(t, b.out)
	require.NoError(t, k.Close())
	b.keepers.Wait() // a process's locks go with it; this one is a goroutine
	o, _ := b.run()
	assert.Equal(t, ExitOK, o.ExitCode(), "the locks are free")
}

// A state folder that takes no journal entry: refused before the first run, nothing is made or changed.
func TestJournalFull(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32})
	l := &lines{b: b, j: func(j *keeper.Journal) { j.Hook = func(string) error { return unix.ENOSPC } }}
	_, err := l.execute(context.Background(), 0)
	assert.Equal(t, ExitNotHere, ExitCode(err), "%v", err)
	assert.ErrorContains(t, err, "make room")
	assert.Empty(t, b.machine.Writes())
	assert.NoDirExists(t, b.out)
}

// Two sweeps of one second have one default folder: the second does not write into the first one's.
func TestTwoSweepsOneFolder(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32})
	l := &lines{b: b, j: func(*keeper.Journal) { // after the folder was found absent
		require.NoError(t, os.MkdirAll(b.out, 0o755))
		for _, name := range []string{"log.jsonl", "profile.yaml"} {
			require.NoError(t, os.WriteFile(filepath.Join(b.out, name), []byte("another's"), 0o644))
		}
	}}
	_, err := l.execute(context.Background(), 0)
	assert.Equal(t, ExitUsage, ExitCode(err), "%v", err)
	for _, name := range []string{"log.jsonl", "profile.yaml"} {
		text, err := os.ReadFile(filepath.Join(b.out, name))
		require.NoError(t, err)
		assert.Equal(t, "another's", string(text))
	}
}

// The output folder may be a user's while this is root: a link there is not written through.
func TestNoFileIsWrittenThroughALink(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
	f := folder{dir: dir, uid: -1, gid: -1}
	require.NoError(t, os.Symlink(victim, f.path(".status.json.tmp")))
	require.NoError(t, f.save("status.json", []byte("{}"), 0o644))
	require.NoError(t, os.Symlink(victim, f.path("log.jsonl")))
	_, err := openLog(f)
	require.Error(t, err)
	text, err := os.ReadFile(victim)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(text))
}

// The array came to lie on other disks while the first ones were waited for: those are locked, and these would be set.
func TestMembersChangeBeforeTheClaim(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb"}, systest.Disk{Name: "sdc"})
	b.machine.MD("md0", "raid1", "sda", "sdb")
	b.profile = strings.Replace(b.profile, "device: sda", "device: md0", 1)
	l := &lines{b: b, j: func(*keeper.Journal) {
		for _, dir := range []string{"sys/block/md0/slaves/sdb", "sys/block/md0/md/dev-sdb", "sys/block/sdb/holders/md0"} {
			require.NoError(t, os.RemoveAll(filepath.Join(b.machine.Root(), dir)))
		}
	}}
	_, err := l.execute(context.Background(), 0)
	assert.Equal(t, ExitNotHere, ExitCode(err), "%v", err)
	assert.ErrorContains(t, err, "lay on sda")
	assert.Empty(t, b.machine.Writes())
}

// Ctrl-C while `restore` waits for a live sweep: 130, and that sweep is not disturbed.
func TestRestoreInterrupted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("restore is root's")
	}
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32})
	k, err := (&lines{b: b}).start(context.Background())
	require.NoError(t, err)
	sda := keeper.Member{Name: "sda", Identity: b.machine.Device("sda").Identity}
	require.NoError(t, k.Claim(context.Background(), []keeper.Member{sda}, 0))
	_, err = k.Apply(context.Background(), []keeper.Order{{Member: sda, Set: []sysfs.Setting{{Knob: "queue_depth", Level: "1"}}}})
	require.NoError(t, err)
	t.Setenv(testRoot, b.machine.Root())
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(500*time.Millisecond, func() { cancel(&SignalError{unix.SIGINT}) })
	_, err = Restore(ctx, b.state, keeper.RestoreOptions{Wait: time.Minute})
	require.Error(t, err)
	assert.Equal(t, 130, ExitCode(err), "%v", err)
	assert.Equal(t, "1", b.machine.Get("/sys/block/sda/device/queue_depth"))
	_, err = Restore(ctx, b.state, keeper.RestoreOptions{})
	assert.Equal(t, 130, ExitCode(err), "also before its keeper has started: %v", err)
	require.NoError(t, k.Close())
	assert.Equal(t, "32", b.machine.Get("/sys/block/sda/device/queue_depth"))
}
