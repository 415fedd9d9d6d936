package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/results"
	"qdsweep/sweep/wire"
	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
	"qdsweep/workload"
)

// TestMain lets this program be the worker of its own tests, and the keeper of its benchmarks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(serveKeeper())
	}
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		conn, err := wire.Inherited()
		if err == nil {
			err = workload.Serve(context.Background(), conn)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	systest.InMemory()
	os.Exit(m.Run())
}

// bench is a machine of systest, and what a sweep on it needs. The keeper runs in this process, on the machine's rules; the worker is a
// real process that reads and writes the file that stands for the disk.
type bench struct {
	*testing.T
	machine  *systest.Machine
	host     sysfs.Host
	profile  string
	state    string
	out      string
	observe  func(Event)
	results  []results.Option
	allow    map[string]bool
	csv      string
	erase    []string
	maker    maker
	start    func(context.Context) (*keeper.Client, error) // nil: b.keeper
	deadline time.Duration                                 // of one attribute write
	restless time.Duration                                 // of the wait for rest
	failures int                                           // in a row that end a target
	notify   *Notifier
	outputs  time.Duration // of the disk of the output folder
	keepers  sync.WaitGroup
}

func newBench(t *testing.T, matrix string, parts ...systest.Part) *bench {
	m := systest.New(t, parts...)
	b := &bench{T: t, machine: m, host: m.Host(), state: filepath.Join(t.TempDir(), "state"), out: filepath.Join(t.TempDir(), "out"),
		allow: map[string]bool{"volatile-state": true}}
	b.profile = "version: 1\nname: bench\ntarget: {device: sda}\nmatrix: " + matrix + "\nrepeats: 1\nsettle: 0s\norder: sequential\n" +
		"workloads:\n  - {name: r, type: io, mode: randread, engine: psync, runtime: 150ms, size: 1m}\n"
	return b
}

// on makes another device the target.
func (b *bench) on(device string) {
	b.profile = strings.Replace(b.profile, "device: sda", "device: "+device, 1)
}

func (b *bench) read() *Profile {
	b.Helper()
	p, err := ReadProfile("bench.yaml", strings.NewReader(b.profile))
	require.NoError(b, err)
	return p
}

func (b *bench) keeper(ctx context.Context) (*keeper.Client, error) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	j, err := keeper.OpenJournal(b.state)
	if err != nil {
		return nil, err
	}
	b.serve(theirs, j)
	return keeper.Connect(ctx, ours, keeper.Options{WriteTimeout: b.deadline, RestoreTimeout: b.deadline})
}

// serve is a keeper's process in a goroutine. What a process's end does, letting go of the locks, is waited for at the end of execute.
func (b *bench) serve(conn *wire.Conn, j *keeper.Journal) (ended <-chan struct{}) {
	done := make(chan struct{})
	b.keepers.Go(func() {
		defer close(done)
		_ = keeper.Serve(context.Background(), conn, b.host, j)
		conn.Close()
	})
	return done
}

func (b *bench) execute(ctx context.Context) (Outcome, error) {
	b.Helper()
	defer b.keepers.Wait()
	start := b.start
	if start == nil {
		start = b.keeper
	}
	return Execute(ctx, b.read(), b.host, Options{Out: b.out, CSV: b.csv, StateDir: b.state, Allow: b.allow, Erase: b.erase, Observe: b.observe, StartKeeper: start, Results: b.results, maker: b.maker, restless: b.restless, MaxFailures: b.failures, Notify: b.notify, outputs: b.outputs})
}

// run executes a sweep that is not refused.
func (b *bench) run() (Outcome, []results.Row) {
	b.Helper()
	o, err := b.execute(context.Background())
	require.NoError(b, err)
	return o, b.rows()
}

func (b *bench) rows() []results.Row {
	b.Helper()
	f, err := os.Open(filepath.Join(b.out, results.FileName))
	require.NoError(b, err)
	defer f.Close()
	var rows []results.Row
	for r, err := range results.Read(f) {
		require.NoError(b, err)
		rows = append(rows, r)
	}
	return rows
}

// once calls f at the first event that when matches.
func once(when func(Event) bool, f func()) func(Event) {
	done := false
	return func(e Event) {
		if !done && when(e) {
			done = true
			f()
		}
	}
}

func working(run int) func(Event) bool {
	return func(e Event) bool { return e.Kind == PhaseBegan && e.Phase == "r" && e.Run.Index == run }
}

// Field case 1: one write of 1, reads back 1, restored to 32.
func TestOneLevel(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32, WriteCache: true})
	before := b.machine.Settings("sda")
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode())
	assert.Equal(t, []string{"1", "32"}, b.machine.WritesTo("device/queue_depth"))
	assert.Equal(t, before, b.machine.Settings("sda"))
	require.Len(t, rows, 1)
	r := rows[0]
	assert.Equal(t, []string{"1", "1", "ok", "randread", "queue_depth=1#1"}, []string{r.QueueDepth, r.QueueDepthEffective, r.Status, r.Phase, r.Run})
	assert.True(t, r.Restored)
	n, _ := r.Bytes.Get()
	operations, _ := r.Operations.Get()
	assert.Positive(t, n)
	assert.Equal(t, operations*4096, n)
	assert.Equal(t, r.Bytes.String(), r.BytesPerThread, "of one thread")
	assert.Empty(t, r.WriteCache+r.WriteCacheEffective, "what is no axis is not guessed")
	for _, f := range []string{"profile.yaml", "environment.json", "consent.json", "status.json", "log.jsonl"} {
		assert.FileExists(t, filepath.Join(b.out, f))
	}
	info, err := os.Stat(filepath.Join(b.out, "consent.json"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestEveryCellOfEveryReplicate(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 4], write_cache: [off, on], max_sectors_kb: [8, 64]}", systest.Disk{Name: "sda", WriteCache: true})
	b.profile = strings.Replace(b.profile, "repeats: 1", "repeats: 2", 1)
	b.profile = strings.Replace(b.profile, "sequential", "interleaved", 1)
	before := b.machine.Settings("sda")
	o, rows := b.run()
	assert.Equal(t, "16 planned = 16 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining", o.Audit.String())
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.Cell]++
		assert.Equal(t, []string{r.QueueDepth, r.WriteCache, r.MaxSectorsKB}, []string{r.QueueDepthEffective, r.WriteCacheEffective, r.MaxSectorsKBEffective})
	}
	assert.Len(t, seen, 8)
	assert.Equal(t, before, b.machine.Settings("sda"))
}

// Field case 4: the drive's write cache comes back on by itself in the middle of a run.
func TestWriteCacheMovesDuringARun(t *testing.T) {
	b := newBench(t, "{write_cache: [off]}", systest.Disk{Name: "sda", WriteCache: true})
	b.observe = once(working(1), func() { b.machine.SetDriveCache("sda", true) })
	o, rows := b.run()
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	require.Len(t, rows, 1)
	assert.Equal(t, "suspect", rows[0].Status)
	assert.Contains(t, rows[0].Reason, "write_cache moved: off → on")
	assert.True(t, b.machine.DriveCache("sda"))
}

// Field case 7: noncq on a new kernel: the write succeeds and reads back 1.
func TestSilentClamp(t *testing.T) {
	for unsupported, want := range map[string]string{"refuse": "failed", "skip": "skipped", "record": "ok"} {
		t.Run(unsupported, func(t *testing.T) {
			b := newBench(t, "{queue_depth: [31]}", systest.Disk{Name: "sda", QueueDepth: 1, NoNCQ: true})
			b.profile += "unsupported: " + unsupported + "\n"
			b.allow["raise"] = true
			o, rows := b.run()
			require.Len(t, rows, 1)
			assert.Equal(t, want, rows[0].Status)
			assert.Contains(t, rows[0].Reason, "clamped queue_depth 31 → 1")
			assert.Equal(t, "1", rows[0].QueueDepthEffective)
			assert.Equal(t, unsupported == "refuse", o.ExitCode() == ExitIncomplete)
		})
	}
}

// Field case 13: something resets max_sectors_kb mid-sweep: that run is suspect, the next applies again.
func TestASettingIsResetDuringARun(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8]}", systest.Disk{Name: "sda", MaxSectorsKB: 1280})
	b.profile = strings.Replace(b.profile, "repeats: 1", "repeats: 3", 1)
	b.observe = once(working(2), func() { b.machine.Set("/sys/block/sda/queue/max_sectors_kb", "1280") })
	o, rows := b.run()
	var statuses []string
	for _, r := range rows {
		statuses = append(statuses, r.Status)
	}
	assert.Equal(t, []string{"ok", "suspect", "ok"}, statuses)
	assert.Equal(t, "1280", b.machine.Get("/sys/block/sda/queue/max_sectors_kb"))
	assert.Equal(t, "3 planned = 2 ok + 0 failed + 1 suspect + 0 skipped + 0 remaining", o.Audit.String())
}

// Field case 16: a write that never returns: the other member is restored, exit 5, the journal stays, the process goes on.
func TestAWriteThatNeverReturns(t *testing.T) {
	b := newBench(t, "{max_sectors_kb: [8]}", systest.Disk{Name: "sda"}, systest.Disk{Name: "sdb"})
	b.machine.MD("md0", "raid1", "sda", "sdb")
	b.profile = strings.Replace(b.profile, "device: sda", "device: md0", 1)
	b.deadline = 200 * time.Millisecond
	original := b.machine.Get("/sys/block/sdb/queue/max_sectors_kb")
	b.observe = once(working(1), func() { b.machine.Hang("/sys/block/sda/queue/max_sectors_kb") })
	o, rows := b.run()
	assert.Equal(t, ExitNotRestored, o.ExitCode())
	require.Len(t, o.Unrestored, 1)
	assert.Equal(t, "sda", o.Unrestored[0].Name)
	assert.NotEmpty(t, o.Unrestored[0].ByHand)
	assert.Equal(t, original, b.machine.Get("/sys/block/sdb/queue/max_sectors_kb"))
	assert.False(t, rows[0].Restored)
	left, err := filepath.Glob(filepath.Join(b.state, "journal", "*.json"))
	require.NoError(t, err)
	assert.Len(t, left, 1)
	b.machine.Release("/sys/block/sda/queue/max_sectors_kb")
}

// Field case 17: Ctrl-C in run 3 of 10: no run 4, one restore, exit 130.
func TestInterrupted(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}", systest.Disk{Name: "sda", QueueDepth: 32})
	ctx, cancel := context.WithCancelCause(context.Background())
	b.observe = once(working(3), func() { cancel(&SignalError{unix.SIGINT}) })
	o, err := b.execute(ctx)
	require.NoError(t, err)
	assert.Equal(t, 130, o.ExitCode())
	assert.Equal(t, "10 planned = 2 ok + 0 failed + 0 suspect + 0 skipped + 8 remaining", o.Audit.String())
	assert.Equal(t, []string{"1", "32", "2", "32", "3", "32"}, b.machine.WritesTo("device/queue_depth"), "no run 4, one restore")
	assert.Len(t, b.rows(), 2)
}

// Field case 18: the restoring write fails: exit 5, the journal stays, and the next run refuses instead of taking 1 for the original.
func TestRestoreFails(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.observe = once(working(1), func() { b.machine.Fail("/sys/block/sda/device/queue_depth", unix.EIO) })
	o, rows := b.run()
	assert.Equal(t, ExitNotRestored, o.ExitCode())
	assert.False(t, rows[0].Restored)
	b.machine.Fail("/sys/block/sda/device/queue_depth", 0)
	b.out = filepath.Join(t.TempDir(), "again")
	_, err := b.execute(context.Background())
	var left *keeper.UnrestoredError
	require.ErrorAs(t, err, &left)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.NoDirExists(t, b.out)
}

// Field case 25: a run that measures nothing is an error, not 0 MB/s.
func TestNothingDone(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda"})
	b.observe = once(func(e Event) bool { return e.Kind == PhaseBegan && e.Phase == "settle" }, func() {
		require.NoError(t, os.Truncate(filepath.Join(b.machine.Root(), "dev/sda"), 0))
	})
	o, rows := b.run()
	require.Len(t, rows, 1)
	assert.Equal(t, "failed", rows[0].Status)
	_, has := rows[0].MBPerS.Get()
	assert.False(t, has)
	assert.Contains(t, []int{ExitIncomplete}, o.ExitCode())
}

// fullAfter has the output disk full after so many writes of rows.
func (b *bench) fullAfter(writes int) {
	b.results = []results.Option{results.WithHook(func(op string) error {
		if op == "write" {
			if writes--; writes < 0 {
				return unix.ENOSPC
			}
		}
		return nil
	})}
}

// Field case 30: the output disk is full. Nothing measured is lost, settings are back, the rest is remaining.
func TestOutputDiskFull(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 3, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.fullAfter(2)
	before := b.machine.Settings("sda")
	o, rows := b.run()
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	assert.Len(t, rows, 2, "what was written is still there")
	assert.Equal(t, "4 planned = 3 ok + 0 failed + 0 suspect + 0 skipped + 1 remaining", o.Audit.String())
	assert.Contains(t, o.Stopped, "no space left")
	rescued, err := filepath.Glob(filepath.Join(b.state, "rescued", "*.csv"))
	require.NoError(t, err)
	require.Len(t, rescued, 1)
	assert.Contains(t, o.Stopped, rescued[0])
	text, err := os.ReadFile(rescued[0])
	require.NoError(t, err)
	for r, err := range results.Read(strings.NewReader(string(text))) {
		require.NoError(t, err)
		assert.Equal(t, "queue_depth=3#1", r.Run)
	}
	assert.Equal(t, before, b.machine.Settings("sda"))
}

// The keeper dies in the middle of a run: a new one restores, and the run is done again, once.
func TestKeeperDies(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	before := b.machine.Settings("sda")
	l := &lines{b: b}
	b.observe = once(working(1), l.kill)
	o, err := l.execute(context.Background(), 0)
	require.NoError(t, err)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	rows := b.rows()
	require.Len(t, rows, 2)
	assert.Equal(t, before, b.machine.Settings("sda"))
	assert.Equal(t, 2, rows[0].Attempt, "the first run was begun twice")
}

func TestRefusedTouchesNothing(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda"})
	b.machine.Mount("sda", "/mnt", "ext4")
	_, err := b.execute(context.Background())
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.Empty(t, b.machine.Writes())
	assert.NoDirExists(t, b.out)
}

// Field case 26: a folder that holds something is never written into.
func TestOutputFolderInUse(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda"})
	require.NoError(t, os.MkdirAll(b.out, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(b.out, "results.csv"), []byte("schema\n"), 0o644))
	_, err := b.execute(context.Background())
	assert.Equal(t, ExitUsage, ExitCode(err))
	assert.Contains(t, err.Error(), "results.csv")
	assert.Empty(t, b.machine.Writes())
}

func TestExitCodePrecedence(t *testing.T) {
	bad := []keeper.Restored{{Name: "sda", Err: "EIO"}}
	for _, c := range []struct {
		o    Outcome
		want int
	}{
		{Outcome{Audit: results.Audit{Planned: 1, OK: 1}}, 0},
		{Outcome{Audit: results.Audit{Planned: 1, Remaining: 1}}, 4},
		{Outcome{Audit: results.Audit{Planned: 1, Skipped: 1}}, 4},
		{Outcome{Audit: results.Audit{Planned: 1, Skipped: 1}, SkipAllowed: true}, 0},
		{Outcome{Audit: results.Audit{Planned: 1, Remaining: 1}, Signal: unix.SIGTERM}, 143},
		{Outcome{Audit: results.Audit{Planned: 1, Remaining: 1}, Signal: unix.SIGTERM, Err: errors.New("x")}, 1},
		{Outcome{Audit: results.Audit{Planned: 1, Remaining: 1}, Signal: unix.SIGTERM, Err: errors.New("x"), Unrestored: bad}, 5},
	} {
		assert.Equal(t, c.want, c.o.ExitCode(), "%+v", c.o)
	}
}
