package keeper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// Field case 27: the same drives twice.
func TestClaimIsRefusedWhileAnotherSweepHasIt(t *testing.T) {
	root, state := plain(t, "sda", "sdb"), stateDir(t)
	h := sysfs.NewHost(root)
	ctx := context.Background()
	first := serve(t, h, openJournal(t, state), Options{})
	require.NoError(t, first.Claim(ctx, []Member{sdb, sda}, 0))

	second := serve(t, h, openJournal(t, state), Options{})
	err := second.Claim(ctx, []Member{sdb}, 0)
	var busy *BusyError
	require.ErrorAs(t, err, &busy)
	assert.Equal(t, "sdb", busy.Name)
	assert.Equal(t, os.Getpid(), busy.PID)
	assert.Contains(t, err.Error(), "sdb is held by another sweep, pid ")
	assert.Contains(t, err.Error(), "--wait")

	require.NoError(t, first.Release(ctx))
	require.NoError(t, second.Claim(ctx, []Member{sdb}, 0))
	require.NoError(t, first.Claim(ctx, []Member{sda}, 0))
	require.ErrorAs(t, first.Claim(ctx, []Member{sda, sdb}, 0), &busy)
}

// All or none: what a failed claim took is free again.
func TestClaimIsAllOrNone(t *testing.T) {
	root, state := plain(t, "sda", "sdb"), stateDir(t)
	h := sysfs.NewHost(root)
	ctx := context.Background()
	first := serve(t, h, openJournal(t, state), Options{})
	require.NoError(t, first.Claim(ctx, []Member{sdb}, 0))
	second := serve(t, h, openJournal(t, state), Options{})
	require.Error(t, second.Claim(ctx, []Member{sda, sdb}, 0))
	require.NoError(t, first.Claim(ctx, []Member{sda}, 0))
}

// Field case 33: with --wait the second waits.
func TestClaimWaits(t *testing.T) {
	root, state := plain(t, "sda"), stateDir(t)
	h := sysfs.NewHost(root)
	ctx := context.Background()
	first := serve(t, h, openJournal(t, state), Options{})
	require.NoError(t, first.Claim(ctx, []Member{sda}, 0))
	first.apply(t, depth("1"))

	second := serve(t, h, openJournal(t, state), Options{})
	claimed := make(chan error, 1)
	go func() { claimed <- second.Claim(ctx, []Member{sda}, time.Minute) }()
	select {
	case err := <-claimed:
		t.Fatalf("claimed what another has: %v", err)
	case <-time.After(3 * claimPoll):
	}
	require.NoError(t, first.Close())
	require.NoError(t, <-first.served)
	require.NoError(t, <-claimed)
	rows := second.apply(t, depth("4"))
	require.Len(t, rows, 1)
	require.NoError(t, second.mainDies(t))
	assert.Equal(t, "32", get(t, root, "sys/block/sda/device/queue_depth"), "the second took the original, not the first's 1")
}

func TestClaimCanBeGivenUp(t *testing.T) {
	root, state := plain(t, "sda"), stateDir(t)
	h := sysfs.NewHost(root)
	first := serve(t, h, openJournal(t, state), Options{})
	require.NoError(t, first.Claim(context.Background(), []Member{sda}, 0))
	second := serve(t, h, openJournal(t, state), Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, second.Claim(ctx, []Member{sda}, time.Hour), context.DeadlineExceeded)
	// The keeper has given up too: it takes the next request, and ends when main does.
	require.NoError(t, second.Flush(context.Background()))
	require.NoError(t, second.mainDies(t))

	third := serve(t, h, openJournal(t, state), Options{})
	waiting := make(chan error, 1)
	go func() { waiting <- third.Claim(context.Background(), []Member{sda}, time.Hour) }()
	require.NoError(t, third.mainDies(t), "main's death ends the waiting")
	require.ErrorIs(t, <-waiting, ErrKeeperDied)
}

// udevd holds a shared lock on a node for moments.
func TestClaimWaitsForUdev(t *testing.T) {
	root, state := plain(t, "sda"), stateDir(t)
	node, err := os.Open(filepath.Join(root, "dev/sda"))
	require.NoError(t, err)
	defer node.Close()
	require.NoError(t, unix.Flock(int(node.Fd()), unix.LOCK_SH))
	k := serve(t, sysfs.NewHost(root), openJournal(t, state), Options{})
	claimed := make(chan error, 1)
	go func() { claimed <- k.Claim(context.Background(), []Member{sda}, 0) }()
	select {
	case err := <-claimed:
		t.Fatalf("claimed a node that is locked: %v", err)
	case <-time.After(3 * claimPoll):
	}
	require.NoError(t, unix.Flock(int(node.Fd()), unix.LOCK_UN))
	require.NoError(t, <-claimed)
}

func TestClaimOfANodeThatStaysLocked(t *testing.T) {
	root := plain(t, "sda")
	node, err := os.Open(filepath.Join(root, "dev/sda"))
	require.NoError(t, err)
	defer node.Close()
	require.NoError(t, unix.Flock(int(node.Fd()), unix.LOCK_EX))
	put(t, root, "proc/locks", lockLine(t, node))
	d, err := sysfs.NewHost(root).Device("sda")
	require.NoError(t, err)
	err = (&claim{}).takeNode(context.Background(), sysfs.NewHost(root), d, claimPoll)
	var busy *BusyError
	require.ErrorAs(t, err, &busy)
	assert.True(t, busy.Node)
	assert.Equal(t, 431, busy.PID)
	assert.Contains(t, err.Error(), "another process, pid 431")
}

func lockLine(t *testing.T, f *os.File) string {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	return "1: POSIX  ADVISORY  WRITE 9 00:05:1 0 EOF\n" +
		"2: FLOCK  ADVISORY  WRITE 431 " + hex2(unix.Major(st.Dev)) + ":" + hex2(unix.Minor(st.Dev)) + ":" + decimal(st.Ino) + " 0 EOF"
}

func TestClaimRefuses(t *testing.T) {
	ctx := context.Background()
	t.Run("another drive under that name", func(t *testing.T) {
		root := plain(t, "sda", "sdb")
		k := serve(t, sysfs.NewHost(root), openJournal(t, stateDir(t)), Options{})
		err := k.Claim(ctx, []Member{{Name: "sda", Identity: wwid('b')}}, 0)
		var changed *ChangedError
		require.ErrorAs(t, err, &changed)
		assert.Equal(t, "sda is now wwid:naa.500000000000000a, it was wwid:naa.500000000000000b", err.Error())
	})
	t.Run("a drive that is gone", func(t *testing.T) {
		k := serve(t, sysfs.NewHost(plain(t, "sda")), openJournal(t, stateDir(t)), Options{})
		err := k.Claim(ctx, []Member{sdb}, 0)
		require.ErrorIs(t, err, sysfs.ErrNoDevice)
		var changed *ChangedError
		require.ErrorAs(t, err, &changed)
	})
	t.Run("two paths to one drive", func(t *testing.T) {
		k := serve(t, sysfs.NewHost(plain(t, "sda", "sdb")), openJournal(t, stateDir(t)), Options{})
		err := k.Claim(ctx, []Member{sda, {Name: "sdb", Identity: sda.Identity}}, 0)
		require.ErrorContains(t, err, "same drive")
	})
	t.Run("a drive that was not restored", func(t *testing.T) {
		state := stateDir(t)
		require.NoError(t, openJournal(t, state).Save(entryOf(sda.Identity, "sda")))
		k := serve(t, sysfs.NewHost(plain(t, "sda", "sdb")), openJournal(t, state), Options{})
		err := k.Claim(ctx, []Member{sda, sdb}, 0)
		var left *UnrestoredError
		require.ErrorAs(t, err, &left)
		assert.Equal(t, string(sda.Identity), left.Key)
		assert.Contains(t, err.Error(), "first: qdsweep restore")
		require.NoError(t, k.Claim(ctx, []Member{sdb}, 0), "it blocks only what touches it")
	})
	t.Run("an entry that cannot be read", func(t *testing.T) {
		state := stateDir(t)
		require.NoError(t, openJournal(t, state).Save(entryOf(sda.Identity, "sda")))
		require.NoError(t, os.Truncate(filepath.Join(state, "journal", sda.Identity.FileName()+".json"), 7))
		k := serve(t, sysfs.NewHost(plain(t, "sda")), openJournal(t, state), Options{})
		err := k.Claim(ctx, []Member{sda}, 0)
		var left *UnrestoredError
		require.ErrorAs(t, err, &left)
		assert.Contains(t, err.Error(), "--forget 'wwid:naa.500000000000000a'")
	})
}

// Field case 21: two partitions of one disk are one member, which is named twice.
func TestOneDiskNamedTwice(t *testing.T) {
	root := plain(t, "sda")
	k := serve(t, sysfs.NewHost(root), openJournal(t, stateDir(t)), Options{})
	require.NoError(t, k.Claim(context.Background(), []Member{sda, sda}, 0))
	require.NoError(t, k.Claim(context.Background(), []Member{sda}, 0))
	require.Len(t, k.apply(t, depth("1")), 1)
	all, err := k.Restore(context.Background())
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func hex2(n uint32) string { return fmt.Sprintf("%02x", n) }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
