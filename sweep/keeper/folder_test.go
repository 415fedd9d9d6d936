package keeper

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs"
)

// ours makes a folder with files, as main does, and records it.
func ours(t *testing.T, k *keeper) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "qdsweep-s1")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "file"), []byte("x"), 0o600))
	require.NoError(t, os.Symlink("/etc", filepath.Join(dir, "link")))
	require.NoError(t, k.Folder(context.Background(), dir, true))
	return dir
}

func TestFolder(t *testing.T) {
	ctx := context.Background()
	setUp := func(t *testing.T) (h sysfs.Host, state string, k *keeper) {
		h, state = sysfs.NewHost(plain(t)), stateDir(t)
		return h, state, serve(t, h, openJournal(t, state), Options{})
	}
	// forsaken records a folder in a journal that nobody keeps any more.
	forsaken := func(t *testing.T, bootID string) (h sysfs.Host, state, dir string) {
		h, state, k := setUp(t)
		dir = ours(t, k)
		all, err := openJournal(t, state).Entries()
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.NoError(t, k.Folder(ctx, dir, false))
		all[0].BootID = bootID
		require.NoError(t, openJournal(t, state).Save(all[0]))
		return h, state, dir
	}

	t.Run("made and removed by main", func(t *testing.T) {
		_, state, k := setUp(t)
		dir := ours(t, k)
		require.NoError(t, k.Folder(ctx, dir, true), "twice is once")
		require.Len(t, entries(t, state), 1)
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, k.Folder(ctx, dir, false))
		assert.Empty(t, entries(t, state))
		require.NoError(t, k.Close())
	})
	t.Run("main dies", func(t *testing.T) {
		_, state, k := setUp(t)
		dir := ours(t, k)
		require.NoError(t, k.mainDies(t))
		assert.NoDirExists(t, dir)
		assert.DirExists(t, "/etc", "a link is not followed")
		assert.Empty(t, entries(t, state))
	})
	t.Run("a live sweep's", func(t *testing.T) {
		h, state, k := setUp(t)
		dir := ours(t, k)
		all := restore(t, h, state, RestoreOptions{})
		require.Len(t, all, 1)
		assert.Equal(t, StateBusy, all[0].State)
		assert.DirExists(t, dir)
	})
	t.Run("restore", func(t *testing.T) {
		for _, bootID := range []string{boot, "the boot before"} {
			h, state, dir := forsaken(t, bootID)
			all := restore(t, h, state, RestoreOptions{DryRun: true})
			assert.Equal(t, StateWouldRestore, all[0].State)
			assert.DirExists(t, dir)
			all = restore(t, h, state, RestoreOptions{})
			require.Len(t, all, 1)
			assert.Equal(t, StateRemoved, all[0].State, all[0].Reason)
			assert.Equal(t, dir, all[0].Name)
			assert.NoDirExists(t, dir)
			assert.Empty(t, entries(t, state))
		}
	})
	t.Run("another folder of that name is left alone", func(t *testing.T) {
		h, state, dir := forsaken(t, boot)
		require.NoError(t, os.Rename(dir, dir+".ours"))
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600))
		all := restore(t, h, state, RestoreOptions{})
		assert.Equal(t, StateLeft, all[0].State)
		assert.Contains(t, all[0].Reason, "another folder")
		assert.FileExists(t, filepath.Join(dir, "precious"))
		assert.Len(t, entries(t, state), 1)
	})
	t.Run("a link in its place is left alone", func(t *testing.T) {
		h, state, dir := forsaken(t, boot)
		require.NoError(t, os.Rename(dir, dir+".ours"))
		require.NoError(t, os.Symlink(dir+".ours", dir))
		all := restore(t, h, state, RestoreOptions{})
		assert.Equal(t, StateLeft, all[0].State)
		assert.DirExists(t, dir+".ours")
	})
	t.Run("gone already", func(t *testing.T) {
		h, state, dir := forsaken(t, boot)
		require.NoError(t, os.RemoveAll(dir))
		all := restore(t, h, state, RestoreOptions{})
		assert.Equal(t, StateRemoved, all[0].State)
		assert.Contains(t, all[0].Notes, "it was gone already")
		assert.Empty(t, entries(t, state))
	})
	t.Run("its file system is not mounted", func(t *testing.T) {
		h, state, dir := forsaken(t, boot)
		parent := filepath.Dir(dir)
		require.NoError(t, os.Rename(parent, parent+".away"))
		require.NoError(t, os.Mkdir(parent, 0o700))
		all := restore(t, h, state, RestoreOptions{})
		assert.Equal(t, StateGone, all[0].State)
		assert.Equal(t, 4, RestoreExit(all))
		require.NoError(t, os.Remove(parent))
		require.NoError(t, os.Rename(parent+".away", parent))
		all = restore(t, h, state, RestoreOptions{})
		assert.Equal(t, StateRemoved, all[0].State)
		assert.NoDirExists(t, dir)
	})
	t.Run("not a folder of ours to record", func(t *testing.T) {
		_, _, k := setUp(t)
		require.ErrorContains(t, k.Folder(ctx, "relative", true), "absolute")
		require.ErrorContains(t, k.Folder(ctx, "/nowhere/at/all", true), "no such file")
	})
}

// A worker that is being killed still makes the file that it had begun to make: the folder goes all the same.
func TestFolderOfADyingWorker(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ours")
	require.NoError(t, os.Mkdir(dir, 0o700))
	f, err := lookAt(dir)
	require.NoError(t, err)
	made := make(chan struct{})
	go func() {
		defer close(made)
		for i := range 2000 {
			if os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600) != nil {
				return
			}
		}
	}()
	require.NoError(t, removeDying(f))
	<-made
	require.NoDirExists(t, dir)
	require.NoError(t, RemoveFolder(dir), "one that is not there")
}

// Millions of files go a thousand at a time, from folders in folders.
func TestAFolderOfManyFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "many")
	for _, sub := range []string{"w.1/000000", "w.1/000001", "w.1/000001/deeper"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
		for i := range 2*atOnce + 1 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, sub, strconv.Itoa(i)), nil, 0o600))
		}
	}
	require.NoError(t, RemoveFolder(dir))
	assert.NoDirExists(t, dir)
}
