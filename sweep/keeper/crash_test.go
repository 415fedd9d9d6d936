package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/sgio"
	"qdsweep/sysfs/systest"
)

// fault counts every file operation of journal, apply and restore, and makes the k-th fail. After a crash nothing
// works any more, as for a process that is no longer there.
type fault struct {
	root  string
	k     int
	crash bool // all that follows fails too
	late  bool // the k-th write still takes effect
	die   bool // the process dies instead

	mu sync.Mutex
	n  int
}

func (f *fault) step() (do bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	switch {
	case f.n == f.k && f.die:
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	case f.n == f.k:
		return f.late, errInjected
	case f.crash && f.n > f.k:
		return false, errInjected
	}
	return true, nil
}

func (f *fault) reached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n >= f.k
}

func (f *fault) hook(string) error { _, err := f.step(); return err }

func (f *fault) write(path, value string) error {
	do, err := f.step()
	if !do {
		return err
	}
	file, e := os.OpenFile(filepath.Join(f.root, path), os.O_WRONLY|os.O_TRUNC, 0)
	if e != nil {
		return e
	}
	defer file.Close()
	if _, e := file.WriteString(value + "\n"); e != nil {
		return e
	}
	return err
}

func sweepOnce(ctx context.Context, k *keeper) error {
	if err := k.Claim(ctx, []Member{sda, sdb}, 0); err != nil {
		return err
	}
	for range 2 {
		if _, err := k.Apply(ctx, k.orders([]sysfs.Setting{
			{Knob: "max_sectors_kb", Level: "8"}, {Knob: "queue_depth", Level: "1"}, {Knob: "nr_requests", Level: "16"},
		})); err != nil {
			_, _ = k.Restore(ctx)
			return err
		}
		if _, err := k.Restore(ctx); err != nil {
			return err
		}
	}
	return nil
}

// steps counts the operations of a sweep in which nothing fails.
func steps(t *testing.T) int {
	t.Helper()
	root, state := plain(t, "sda", "sdb"), stateDir(t)
	f := &fault{root: root}
	j := openJournal(t, state)
	j.Hook = f.hook
	k := serve(t, sysfs.NewHost(root, sysfs.WithWriter(f.write)), j, Options{})
	require.NoError(t, sweepOnce(context.Background(), k))
	require.NoError(t, k.Close())
	require.NoError(t, <-k.served)
	// Of a member and a cycle: a temp file is three, a rename, three writes, four back (max_sectors_kb is tried as 0
	// first), an unlink. And the folder is synced twice. Before all of it the folder is tried, once.
	require.Equal(t, 1+2*(2*(3+1+3+4+1)+2), f.n)
	return f.n
}

// A crash of the keeper at the k-th file operation, for every k: an original is never lost.
func TestCrashAtEveryOperation(t *testing.T) {
	total := steps(t)
	for _, late := range []bool{false, true} {
		for k := 1; k <= total; k++ {
			t.Run(fmt.Sprintf("late %v, operation %d", late, k), func(t *testing.T) {
				t.Parallel()
				crashAt(t, k, late)
			})
		}
	}
}

func crashAt(t *testing.T, k int, late bool) {
	root, state := plain(t, "sda", "sdb"), stateDir(t)
	originals := contents(t, root)
	f := &fault{root: root, k: k, crash: true, late: late}
	j := openJournal(t, state)
	j.Hook = f.hook
	first := serve(t, sysfs.NewHost(root, sysfs.WithWriter(f.write)), j, Options{})
	_ = sweepOnce(context.Background(), first)
	_ = first.mainDies(t)
	require.True(t, f.reached())

	// What is changed is recorded, with its true originals.
	all, err := openJournal(t, state).Entries()
	require.NoError(t, err)
	held := map[string]string{}
	for _, e := range all {
		require.Empty(t, e.Damage)
		for _, a := range e.Snapshot.Attributes {
			held["/sys/block/"+e.Name+"/"+a.Path] = a.Value
		}
	}
	now := contents(t, root)
	for path, was := range originals {
		if now[path] != was {
			require.Equal(t, was, held[path], "%s is %q now", path, now[path])
		}
	}

	// And somebody else can put it back.
	second := serve(t, sysfs.NewHost(root), openJournal(t, state), Options{})
	outcomes, err := second.RestoreJournal(context.Background(), RestoreOptions{})
	require.NoError(t, err)
	require.Zero(t, RestoreExit(outcomes), "%+v", outcomes)
	require.Equal(t, originals, contents(t, root))
	require.Empty(t, entries(t, state))
	require.NoError(t, second.Close())
}

// One operation fails, the process lives: all is put back, for Close tries once more.
func TestFailureAtEveryOperation(t *testing.T) {
	total := steps(t)
	for k := 1; k <= total; k++ {
		t.Run(fmt.Sprintf("operation %d", k), func(t *testing.T) {
			t.Parallel()
			root, state := plain(t, "sda", "sdb"), stateDir(t)
			originals := contents(t, root)
			f := &fault{root: root, k: k}
			j := openJournal(t, state)
			j.Hook = f.hook
			first := serve(t, sysfs.NewHost(root, sysfs.WithWriter(f.write)), j, Options{})
			_ = sweepOnce(context.Background(), first)
			require.NoError(t, first.Close())
			require.NoError(t, <-first.served)
			require.True(t, f.reached())
			require.Equal(t, originals, contents(t, root))
			require.Empty(t, entries(t, state))
		})
	}
}

// drive makes a played drive's commands part of what is counted. Asking it (IDENTIFY, MODE SENSE) is, too.
type drive struct {
	sgio.Device
	f *fault
}

func (d drive) Do(c *sgio.Command) error {
	do, err := d.f.step()
	if !do {
		return err
	}
	if e := d.Device.Do(c); e != nil {
		return e
	}
	return err
}

// The same with drives that have a write cache and a kernel that has rules: every command, write and file operation.
func TestCrashAtEveryCommand(t *testing.T) {
	set := []sysfs.Setting{{Knob: "write_cache", Level: "off"}, {Knob: "scheduler", Level: "none"}, {Knob: "queue_depth", Level: "4"}}
	parts := []systest.Part{
		systest.Disk{Name: "sda", WriteCache: true, NrRequests: 24},
		systest.Disk{Name: "sdb", Transport: "sas", WriteCache: true},
	}
	run := func(t *testing.T, f *fault) (m *systest.Machine, state string, before [2]map[string]string) {
		m, state = systest.New(t, parts...), stateDir(t)
		before = [2]map[string]string{m.Settings("sda"), m.Settings("sdb")}
		j := openJournal(t, state)
		j.Hook = f.hook
		k := serve(t, m.Host(
			sysfs.WithWriter(func(path, value string) error {
				do, err := f.step()
				if do {
					err = errors.Join(err, m.Write(path, value))
				}
				return err
			}),
			sysfs.WithSG(func(node string) (sgio.Device, error) {
				d, err := m.Host().OpenSG(node)
				return drive{d, f}, err
			}),
		), j, Options{})
		ctx := context.Background()
		err := k.Claim(ctx, members(t, m), 0)
		if err == nil {
			_, err = k.Apply(ctx, k.orders(set))
		}
		if err == nil {
			_, _ = k.Restore(ctx)
		}
		_ = k.mainDies(t)
		return m, state, before
	}
	var counted fault
	run(t, &counted)
	require.Greater(t, counted.n, 30)
	for k := 1; k <= counted.n; k++ {
		t.Run(fmt.Sprintf("operation %d", k), func(t *testing.T) {
			t.Parallel()
			m, state, before := run(t, &fault{k: k, crash: true, late: k%2 == 0})
			all := restore(t, m.Host(), state, RestoreOptions{})
			require.Zero(t, RestoreExit(all), "%+v", all)
			require.Equal(t, before, [2]map[string]string{m.Settings("sda"), m.Settings("sdb")})
			require.Empty(t, entries(t, state))
		})
	}
}

// arrayOnce is a main that makes an array between claims and takes it down again; there is where the array itself is.
func arrayOnce(ctx context.Context, k *keeper, a Array, there *bool) error {
	if err := k.Claim(ctx, []Member{sda, sdb}, 0); err != nil {
		return err
	}
	if err := k.Array(ctx, a, true); err != nil {
		return err // and nothing is made
	}
	*there = true
	a.MountPoint = "/mnt/x"
	err := k.Array(ctx, a, true)
	if err == nil {
		_, err = k.Apply(ctx, k.orders(depth("1")))
		_, e := k.Restore(ctx)
		err = errors.Join(err, e)
	}
	if err != nil {
		return err
	}
	*there = false
	return k.Array(ctx, a, false)
}

// A crash of the keeper at the k-th operation while an array is recorded, used and taken down: an array that is there is
// recorded, whole, and its disks are nobody's; and all of it can be cleared up.
func TestCrashAtEveryOperationWithAnArray(t *testing.T) {
	a := Array{UUID: uuid, Level: "1", Members: []ArrayMember{{Identity: sda.Identity, Name: "sda"}, {Identity: sdb.Identity, Name: "sdb"}}}
	run := func(t *testing.T, f *fault) (h sysfs.Host, originals map[string]string, state string, there bool) {
		root := plain(t, "sda", "sdb")
		originals, state = contents(t, root), stateDir(t)
		f.root = root
		j := openJournal(t, state)
		j.Hook = f.hook
		k := serve(t, sysfs.NewHost(root, sysfs.WithWriter(f.write)), j, Options{Sweep: "s1"})
		err := arrayOnce(context.Background(), k, a, &there)
		require.Equal(t, f.k == 0, err == nil)
		_ = k.mainDies(t)
		return sysfs.NewHost(root), originals, state, there
	}
	var counted fault
	_, _, state, there := run(t, &counted)
	require.False(t, there)
	require.Empty(t, entries(t, state))
	// A try; the array's entry twice, five each; of two disks a temp file, a rename, a write and a write back, an unlink,
	// and two syncs of the folder; and the array's unlink and sync.
	require.Equal(t, 1+2*5+2*(3+1+1+1+1)+2+2, counted.n)
	for k := 1; k <= counted.n; k++ {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("late %v, operation %d", late, k), func(t *testing.T) {
				t.Parallel()
				ctx := context.Background()
				h, originals, state, there := run(t, &fault{k: k, crash: true, late: late})
				next := serve(t, h, openJournal(t, state), Options{})
				err := next.Claim(ctx, []Member{sdb}, 0)
				if there {
					var left *UnrestoredError
					require.ErrorAs(t, err, &left)
				}
				require.NoError(t, next.Release(ctx))
				all, err := next.RestoreJournal(ctx, RestoreOptions{})
				require.NoError(t, err)
				found := false
				for i, o := range all {
					if o.Array == nil {
						continue
					}
					found = true
					require.Equal(t, StateTakeDown, o.State)
					require.Equal(t, a.Members, o.Array.Members)
					require.NoError(t, next.Array(ctx, *o.Array, false))
					all[i].State = StateRemoved
				}
				require.True(t, found || !there, "the array is forgotten: %+v", all)
				require.Zero(t, RestoreExit(all), "%+v", all)
				require.Equal(t, originals, contents(t, strings.TrimSuffix(h.Root(), "/")))
				require.Empty(t, entries(t, state))
				require.NoError(t, next.Claim(ctx, []Member{sda, sdb}, 0))
			})
		}
	}
}
