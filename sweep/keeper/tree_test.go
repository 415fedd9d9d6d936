package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qdsweep/sweep/wire"
	"qdsweep/sysfs"
)

// The trees here are plain files, which any process can work on; what needs a kernel's rules uses systest.

const boot = "11111111-2222-3333-4444-555555555555"

// plain makes a machine of SCSI disks whose attributes are plain files.
func plain(t *testing.T, disks ...string) (root string) {
	t.Helper()
	root = t.TempDir()
	put(t, root, "proc/sys/kernel/random/boot_id", boot)
	for i, name := range disks {
		plug(t, root, name, "naa.500000000000000"+string(rune('a'+i)), i)
	}
	return root
}

// plug adds a disk with a WWID, "" for none.
func plug(t *testing.T, root, name, wwid string, minor int) {
	t.Helper()
	dir := "sys/block/" + name + "/"
	for path, text := range map[string]string{
		"dev": fmt.Sprintf("8:%d", 16*minor), "size": "2048", "ro": "0", "removable": "0",
		"queue/nr_requests": "64", "queue/max_sectors_kb": "1280", "queue/read_ahead_kb": "128", "queue/nomerges": "0",
		"queue/logical_block_size": "512", "device/queue_depth": "32", "device/type": "0", "device/model": "DISK",
	} {
		put(t, root, dir+path, text)
	}
	require.NoError(t, os.Chmod(filepath.Join(root, dir, "queue/logical_block_size"), 0o444))
	if wwid != "" {
		put(t, root, dir+"device/wwid", wwid)
	}
	put(t, root, "dev/"+name, "")
}

func put(t *testing.T, root, path, text string) {
	t.Helper()
	full := filepath.Join(root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(t, os.WriteFile(full, []byte(text+"\n"), 0o644))
}

func get(t *testing.T, root, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}

// contents is all of /sys as text, to compare before with after.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "sys"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, root)] = strings.TrimSpace(string(b))
		return err
	}))
	return all
}

func wwid(c byte) sysfs.Identity { return sysfs.Identity("wwid:naa.500000000000000" + string(c)) }

var (
	sda = Member{Name: "sda", Identity: wwid('a')}
	sdb = Member{Name: "sdb", Identity: wwid('b')}
)

// orders gives members the same settings.
func orders(members []Member, set []sysfs.Setting) []Order {
	all := make([]Order, len(members))
	for i, m := range members {
		all[i] = Order{Member: m, Set: set}
	}
	return all
}

func depth(level string) []sysfs.Setting {
	return []sysfs.Setting{{Knob: "queue_depth", Level: level}}
}

// openJournal opens a journal that belongs to whoever runs the tests.
func openJournal(t *testing.T, state string) *Journal {
	t.Helper()
	j, err := OpenJournal(state, WithOwner(os.Getuid()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func stateDir(t *testing.T) string { return filepath.Join(t.TempDir(), "state") }

func entries(t *testing.T, state string) []string {
	t.Helper()
	all, err := openJournal(t, state).Entries()
	require.NoError(t, err)
	keys := []string{}
	for _, e := range all {
		keys = append(keys, e.Key())
	}
	return keys
}

// keeper is one that serves in this process.
type keeper struct {
	*Client
	conn    *wire.Conn // main's end: closing it is main's death
	served  chan error
	claimed []Member
}

// Claim notes what was claimed, for orders.
func (k *keeper) Claim(ctx context.Context, members []Member, wait time.Duration) error {
	err := k.Client.Claim(ctx, members, wait)
	if err == nil {
		k.claimed = members
	}
	return err
}

// orders gives all that was claimed last the same settings.
func (k *keeper) orders(set []sysfs.Setting) []Order { return orders(k.claimed, set) }

func serve(t *testing.T, h sysfs.Host, j *Journal, o Options) *keeper {
	t.Helper()
	ours, theirs, err := wire.Pair()
	require.NoError(t, err)
	k := &keeper{conn: ours, served: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := Serve(context.Background(), theirs, h, j)
		_ = theirs.Close()
		k.served <- err
	}()
	k.Client, err = Connect(context.Background(), ours, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ours.Close(); <-done }) // before its journal is closed
	return k
}

// mainDies closes main's end and waits for the keeper to be done.
func (k *keeper) mainDies(t *testing.T) error {
	t.Helper()
	_ = k.conn.Close()
	select {
	case err := <-k.served:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the keeper does not end")
		return nil
	}
}

func (k *keeper) apply(t *testing.T, set []sysfs.Setting) []Applied {
	t.Helper()
	rows, err := k.Apply(context.Background(), k.orders(set))
	require.NoError(t, err)
	return rows
}

var errInjected = errors.New("injected")
