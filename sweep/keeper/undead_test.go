package keeper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// undead lets a process not go away when it is killed, as one does of which a thread is in the kernel: a tracer holds that
// thread where it exits, before it closes anything. The leader is a zombie then, the descriptors are open, the process is
// not waited for, and its pidfd tells nothing.
func undead(t *testing.T, pid int) (release func()) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	require.NoError(t, err)
	seized, let := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // a tracer is a thread
		defer runtime.UnlockOSThread()
		tid := 0
		for _, task := range tasks {
			if n, err := strconv.Atoi(task.Name()); err == nil && n != pid {
				tid = n
			}
		}
		if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, unix.PTRACE_O_TRACEEXIT, 0, 0); errno != 0 {
			seized <- os.NewSyscallError("ptrace", errno)
			return
		}
		seized <- nil
		<-let
		_, _ = unix.Wait4(tid, nil, unix.WALL|unix.WNOHANG, nil)
		_ = unix.PtraceDetach(tid)
	}()
	if err := <-seized; os.Getenv("CI") == "" && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)) {
		t.Skipf("no process may be traced here: %v", err)
	} else {
		require.NoError(t, err)
	}
	released := false
	release = func() {
		if !released {
			released = true
			close(let)
		}
	}
	t.Cleanup(release)
	return release
}

// Field case 16, of a keeper that somebody kills because it hangs: main learns of it and does not wait for it, and another
// keeper puts the drives back, though the first still has their locks. They stay recorded until it is gone, for its command
// may still change something.
func TestCase16AKilledKeeperThatDoesNotGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	root, state := plain(t, "sda", "sdb"), stateDir(t)
	originals := contents(t, root)
	k, err := Start(ctx, optionsOf(root, state))
	require.NoError(t, err)
	require.NoError(t, k.Claim(ctx, []Member{sda, sdb}, 0))
	_, err = k.Apply(ctx, orders([]Member{sda, sdb}, depth("1")))
	require.NoError(t, err)
	release := undead(t, k.PID())
	require.NoError(t, unix.Kill(k.PID(), unix.SIGKILL))
	select {
	case <-k.Died():
	case <-time.After(10 * time.Second):
		t.Fatal("main waits for a killed keeper")
	}
	_, err = k.Restore(ctx)
	require.ErrorIs(t, err, ErrKeeperDied)
	began := time.Now()
	require.ErrorIs(t, k.Close(), ErrKeeperDied)
	assert.Less(t, time.Since(began), lastWords+time.Second)
	select {
	case <-k.process.Exited():
		t.Fatal("it is gone: this test shows nothing")
	default:
	}

	next, err := Start(ctx, optionsOf(root, state))
	require.NoError(t, err)
	all, err := next.Recover(ctx)
	var not *NotRestoredError
	require.ErrorAs(t, err, &not)
	require.Len(t, all, 2)
	for _, r := range all {
		assert.Contains(t, r.Err, "all settings are as they were, but the entry stays")
		assert.Contains(t, r.Err, "pid "+strconv.Itoa(k.PID()))
	}
	assert.Equal(t, originals, contents(t, root))
	assert.Len(t, entries(t, state), 2)
	require.NoError(t, next.Close())

	// So does `restore`, and a dry run touches nothing.
	put(t, root, "sys/block/sda/device/queue_depth", "1")
	h := sysfs.NewHost(root)
	for _, o := range restore(t, h, state, RestoreOptions{DryRun: true}) {
		assert.Equal(t, StateBusy, o.State)
		assert.Equal(t, k.PID(), o.PID)
	}
	assert.Equal(t, "1", get(t, root, "sys/block/sda/device/queue_depth"))
	found := restore(t, h, state, RestoreOptions{})
	assert.Equal(t, 3, RestoreExit(found))
	assert.Equal(t, originals, contents(t, root))

	// It comes back from the kernel, with a last change.
	require.NoError(t, os.WriteFile(filepath.Join(root, "sys/block/sdb/device/queue_depth"), []byte("1\n"), 0o644))
	release()
	<-k.process.Exited()
	assert.Zero(t, RestoreExit(restore(t, h, state, RestoreOptions{})))
	assert.Equal(t, originals, contents(t, root))
	assert.Empty(t, entries(t, state))
}
