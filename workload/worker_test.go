package workload

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/wire"
)

func startWorker(t testing.TB, role string, stderr ...*os.File) (*Worker, *[]int) {
	t.Helper()
	var pids []int
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { null.Close() })
	stderr = append(stderr, null)
	w, err := Start(t.Context(), StartOptions{
		Env: []string{"WORKLOAD_TEST_ROLE=" + role}, Stderr: stderr[0],
		Started: func(pid int) error { pids = append(pids, pid); return nil },
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Close()) })
	return w, &pids
}

func TestWorkerRunsAndIsReused(t *testing.T) {
	w, pids := startWorker(t, "worker")
	group, err := unix.Getpgid(w.PID())
	require.NoError(t, err)
	assert.Equal(t, w.PID(), group)

	device := fileTarget(t, 1<<20)
	s := spec(t, "io", "runtime=0", "threads=2", "direct="+direct(t))
	for range 3 {
		require.NoError(t, w.Prepare(t.Context(), s, device, 1))
		results, err := w.Run(t.Context(), s, device, 1)
		require.NoError(t, err)
		require.Len(t, results, 1)
		assert.Empty(t, results[0].Err)
		assert.EqualValues(t, 1<<20, aPass(results[0]).Bytes)
		assert.NotEqual(t, "auto", results[0].Engine)
		assert.LessOrEqual(t, results[0].Window.End, Monotonic(), "the same clock in both processes")
	}
	dir := dirTarget(t)
	s = spec(t, "io", "mode=write", "size=1m", "runtime=0", "direct=false")
	require.NoError(t, w.Prepare(t.Context(), s, dir, 1))
	results, err := w.Run(t.Context(), s, dir, 1)
	require.NoError(t, err)
	assert.Empty(t, results[0].Err)
	assert.Equal(t, []int{w.PID()}, *pids)
}

func TestWorkerWithoutDescriptorForNull(t *testing.T) {
	w, _ := startWorker(t, "worker")
	results, err := w.Run(t.Context(), spec(t, "io", "engine=null", "runtime=10ms"), Target{Name: "nothing", Bytes: 1 << 30, LogicalBlock: 512}, 1)
	require.NoError(t, err)
	assert.Empty(t, results[0].Err)
	_, err = w.Run(t.Context(), spec(t, "io", "runtime=10ms"), Target{Name: "nothing", Bytes: 1 << 30, LogicalBlock: 512}, 1)
	assert.ErrorContains(t, err, "0 descriptors came")
}

func TestPrepareTellsErrno(t *testing.T) {
	w, _ := startWorker(t, "worker")
	dir := dirTarget(t)
	require.NoError(t, os.Remove(dir.Name)) // ENOENT for every file in it
	err := w.Prepare(t.Context(), spec(t, "io", "size=1m"), dir, 1)
	assert.ErrorIs(t, err, unix.ENOENT)
	assert.ErrorContains(t, err, "prepare w: open w.0 in ")
}

// whenBusy starts a worker that takes a request and never answers, and gives a channel that is closed
// when it has taken one.
func whenBusy(t *testing.T) (*Worker, *[]int, <-chan struct{}) {
	t.Helper()
	r, stderr, err := os.Pipe()
	require.NoError(t, err)
	w, pids := startWorker(t, "deaf", stderr)
	require.NoError(t, stderr.Close())
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		_, _ = r.Read(make([]byte, 1))
		_ = r.Close()
	}()
	return w, pids, busy
}

func TestCancelledRunIsKilledAndTheWorkerReplaced(t *testing.T) {
	w, pids, busy := whenBusy(t)
	device := fileTarget(t, 1<<20)
	s := spec(t, "io", "engine=null", "runtime=0")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	first := w.PID()
	go func() { <-busy; cancel(why) }()
	_, err := w.Run(ctx, s, device, 1)
	assert.ErrorIs(t, err, ErrKilled)
	assert.ErrorIs(t, err, why)
	assert.ErrorIs(t, unix.Kill(-first, 0), unix.ESRCH, "nothing of its group is left")

	_, err = w.Run(ctx, s, device, 1)
	assert.ErrorIs(t, err, ErrKilled, "not begun")
	assert.Len(t, *pids, 1)

	w.o.Env, w.o.Stderr = []string{"WORKLOAD_TEST_ROLE=worker"}, nil
	results, err := w.Run(t.Context(), s, device, 1)
	require.NoError(t, err)
	assert.Empty(t, results[0].Err)
	assert.Len(t, *pids, 2)
	assert.NotEqual(t, first, w.PID())
}

func TestTimeoutOfAWorkload(t *testing.T) {
	w, _ := startWorker(t, "worker")
	_, err := w.Run(t.Context(), spec(t, "io", "engine=null", "runtime=1h", "timeout=20ms"), fileTarget(t, 1<<20), 1)
	assert.ErrorIs(t, err, ErrKilled)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "timeout of 20ms")
}

func TestAPanicIsAnErrorOfThatRun(t *testing.T) {
	w, pids := startWorker(t, "panic")
	_, err := w.Run(t.Context(), spec(t, "io"), fileTarget(t, 1<<20), 1)
	assert.ErrorIs(t, err, ErrDied)
	assert.ErrorContains(t, err, "exit status 2")
	_, err = w.Run(t.Context(), spec(t, "io"), fileTarget(t, 1<<20), 1)
	assert.ErrorIs(t, err, ErrDied)
	assert.Len(t, *pids, 2, "replaced")
}

func TestAWorkerThatDoesNotGoIsStuck(t *testing.T) {
	w, pids, busy := whenBusy(t)
	stuck := w.PID()
	w.patience = 10 * time.Millisecond
	w.kill = func(*wire.Process) {} // as if it waited for the device in the kernel
	defer func() { _ = unix.Kill(-stuck, unix.SIGKILL) }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-busy; cancel() }()
	_, err := w.Run(ctx, spec(t, "io"), fileTarget(t, 1<<20), 1)
	assert.ErrorIs(t, err, ErrStuck)
	assert.NotErrorIs(t, err, ErrKilled)
	assert.Len(t, *pids, 1)
}

func TestServeEndsWithItsLine(t *testing.T) {
	ours, theirs, err := wire.Pair()
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), theirs) }()
	require.NoError(t, ours.Send(request{Do: "dance"}))
	var r reply
	_, err = ours.Receive(&r)
	require.NoError(t, err)
	assert.Contains(t, r.Err, "0 descriptors")
	require.NoError(t, ours.Close())
	assert.NoError(t, <-done)
}

// The wall clock is in none of it: instants are CLOCK_MONOTONIC's (field case 29).
func TestMonotonicIsTheKernelsClock(t *testing.T) {
	var ts unix.Timespec
	before := Monotonic()
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	after := Monotonic()
	assert.LessOrEqual(t, before, ts.Nano())
	assert.LessOrEqual(t, ts.Nano(), after)
}

func TestFilesAreNotLeaked(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	target := fileTarget(t, 1<<20)
	s := spec(t, "io", "runtime=0", "threads=3", "iodepth=2", "engine=io_uring")
	ask(s, target, "run")
	before := count()
	for range 10 {
		ask(s, target, "run")
	}
	assert.LessOrEqual(t, count(), before) // fewer where an earlier test's lines were still closing
}

func TestUnknownRequest(t *testing.T) {
	assert.Contains(t, ask(spec(t, "io"), fileTarget(t, 512), "dance").Err, `cannot "dance"`)
}
