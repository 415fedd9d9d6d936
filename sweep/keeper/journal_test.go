package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"qdsweep/sysfs"
)

func entryOf(id sysfs.Identity, name string) Entry {
	return Entry{
		Identity: id, Name: name, BootID: boot, Sweep: "s1", PID: 42, Taken: time.Unix(1700000000, 0).UTC(),
		Snapshot: &sysfs.Snapshot{Identity: id, Name: name, Attributes: []sysfs.Attribute{{Path: "device/queue_depth", Value: "32"}}},
		Settings: depth("1"),
	}
}

func TestJournal(t *testing.T) {
	state := stateDir(t)
	j := openJournal(t, state)
	var ops []string
	j.Hook = func(op string) error { ops = append(ops, op); return nil }
	e := entryOf("wwid:naa.5", "sda")
	other := entryOf("", "vda")
	require.NoError(t, j.Save(e, other))
	assert.Equal(t, []string{
		"create wwid%3Anaa.5.json.tmp", "write wwid%3Anaa.5.json.tmp", "fsync wwid%3Anaa.5.json.tmp",
		"create name%3Avda.json.tmp", "write name%3Avda.json.tmp", "fsync name%3Avda.json.tmp",
		"rename wwid%3Anaa.5.json", "rename name%3Avda.json", "fsync folder",
	}, ops, "each is on disk before its name is, and the names before anything changes")

	// Another process sees it.
	again, err := openJournal(t, state).Entries()
	require.NoError(t, err)
	require.Len(t, again, 2)
	e.Version, e.File = 1, "wwid%3Anaa.5.json"
	assert.Equal(t, e, again[1])
	assert.Equal(t, "name:vda", again[0].Key())

	info, err := os.Stat(filepath.Join(state, "journal", e.File))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	for _, dir := range []string{state, state + "/journal", state + "/lock"} {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}

	ops = nil
	require.NoError(t, j.Clear(e, other))
	assert.Equal(t, "fsync folder", ops[len(ops)-1])
	assert.Empty(t, entries(t, state))
	require.NoError(t, j.Clear(e), "what is gone already is no error")
}

// A failure, or a crash, at any file operation leaves each entry old, new or absent, never half.
func TestJournalFailsAtEveryOperation(t *testing.T) {
	for _, crash := range []bool{false, true} {
		for k := 0; ; k++ {
			state := stateDir(t)
			j := openJournal(t, state)
			old, e := entryOf("wwid:naa.5", "old"), entryOf("wwid:naa.5", "new")
			require.NoError(t, j.Save(old))
			n := 0
			j.Hook = func(string) error {
				n++
				if n == k+1 || crash && n > k {
					return errInjected
				}
				return nil
			}
			err := j.Save(e)
			j.Hook = nil
			all, listed := openJournal(t, state).Entries()
			require.NoError(t, listed)
			require.Len(t, all, 1)
			require.Empty(t, all[0].Damage)
			if err == nil {
				require.Equal(t, "new", all[0].Name)
				require.Positive(t, k)
				break
			}
			require.ErrorIs(t, err, errInjected)
			require.Contains(t, []string{"old", "new"}, all[0].Name)
			require.NoError(t, j.Save(e), "and the next attempt is not in its way")
		}
	}
}

// Who could write to a drive by planting a journal entry?
func TestJournalIsNotObeyed(t *testing.T) {
	good := func(t *testing.T, state string) string {
		require.NoError(t, openJournal(t, state).Save(entryOf("wwid:naa.5", "sda")))
		return filepath.Join(state, "journal", "wwid%3Anaa.5.json")
	}
	t.Run("entries", func(t *testing.T) {
		for _, tt := range []struct {
			name, want string
			spoil      func(t *testing.T, file string)
		}{
			{"a link", "link", func(t *testing.T, file string) {
				require.NoError(t, os.Rename(file, file+".real"))
				require.NoError(t, os.Symlink(file+".real", file))
			}},
			{"a hard link", "hard link", func(t *testing.T, file string) { require.NoError(t, os.Link(file, file+".too")) }},
			{"written by others", "written by others", func(t *testing.T, file string) { require.NoError(t, os.Chmod(file, 0o666)) }},
			{"a pipe", "no plain file", func(t *testing.T, file string) {
				require.NoError(t, os.Remove(file))
				require.NoError(t, unix.Mkfifo(file, 0o600))
			}},
			{"torn", "damaged", func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 100)) }},
			{"empty", "damaged", func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 0)) }},
			{"zeros", "damaged", func(t *testing.T, file string) { require.NoError(t, os.WriteFile(file, make([]byte, 512), 0o600)) }},
			{"another version", "version 9", func(t *testing.T, file string) {
				require.NoError(t, os.WriteFile(file, []byte(`{"version": 9}`), 0o600))
			}},
			{"nothing in it", "neither", func(t *testing.T, file string) {
				require.NoError(t, os.WriteFile(file, []byte(`{"version": 1}`), 0o600))
			}},
			{"another drive's name", "differ", func(t *testing.T, file string) {
				require.NoError(t, os.Rename(file, filepath.Join(filepath.Dir(file), "wwid%3Anaa.6.json")))
			}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				state := stateDir(t)
				tt.spoil(t, good(t, state))
				all, err := openJournal(t, state).Entries()
				require.NoError(t, err)
				require.Len(t, all, 1, "it is there, and blocks")
				assert.Contains(t, all[0].Damage, tt.want)
				assert.Nil(t, all[0].Snapshot)
				assert.Contains(t, all[0].Key(), "wwid:naa.")
				// And it can be got rid of, without following anything.
				require.NoError(t, openJournal(t, state).Clear(all[0]))
				assert.Empty(t, entries(t, state))
			})
		}
	})
	t.Run("another owner", func(t *testing.T) {
		state := stateDir(t)
		good(t, state)
		_, err := OpenJournal(state, WithOwner(os.Getuid()+1))
		var bad *StateError
		require.ErrorAs(t, err, &bad)
		assert.Contains(t, err.Error(), "not obeyed")
	})
	t.Run("folders", func(t *testing.T) {
		for _, tt := range []struct {
			name, want string
			spoil      func(t *testing.T, state string)
		}{
			{"state is a link", "link", func(t *testing.T, state string) {
				require.NoError(t, os.Rename(state, state+".real"))
				require.NoError(t, os.Symlink(state+".real", state))
			}},
			{"journal is a link", "link", func(t *testing.T, state string) {
				require.NoError(t, os.Rename(state+"/journal", state+"/real"))
				require.NoError(t, os.Symlink("real", state+"/journal"))
			}},
			{"journal is a file", "link or no folder", func(t *testing.T, state string) {
				require.NoError(t, os.RemoveAll(state+"/journal"))
				require.NoError(t, os.WriteFile(state+"/journal", nil, 0o600))
			}},
			{"others can write", "written by others", func(t *testing.T, state string) {
				require.NoError(t, os.Chmod(state, 0o777))
			}},
			{"others can write above", "written by others", func(t *testing.T, state string) {
				require.NoError(t, os.Chmod(filepath.Dir(state), 0o777))
			}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				state := stateDir(t)
				good(t, state)
				tt.spoil(t, state)
				_, err := OpenJournal(state, WithOwner(os.Getuid()))
				var bad *StateError
				require.ErrorAs(t, err, &bad)
				assert.Contains(t, err.Error(), tt.want)
			})
		}
	})
	t.Run("a link above leads to where others can write", func(t *testing.T) {
		base := t.TempDir()
		require.NoError(t, os.MkdirAll(base+"/open/in", 0o755))
		require.NoError(t, os.Chmod(base+"/open", 0o777))
		require.NoError(t, os.Symlink("open/in", base+"/link"))
		_, err := OpenJournal(base+"/link/state", WithOwner(os.Getuid()))
		var bad *StateError
		require.ErrorAs(t, err, &bad)
		assert.Contains(t, err.Error(), "written by others")
		assert.NoDirExists(t, base+"/open/in/state")
	})
	t.Run("a temp that is a link is not written through", func(t *testing.T) {
		state := stateDir(t)
		j := openJournal(t, state)
		victim := filepath.Join(t.TempDir(), "victim")
		require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
		require.NoError(t, os.Symlink(victim, filepath.Join(state, "journal", "wwid%3Anaa.5.json.tmp")))
		require.NoError(t, j.Save(entryOf("wwid:naa.5", "sda")))
		b, err := os.ReadFile(victim)
		require.NoError(t, err)
		assert.Equal(t, "mine", string(b))
	})
	t.Run("a laxer folder is made strict", func(t *testing.T) {
		state := stateDir(t)
		require.NoError(t, os.Mkdir(state, 0o755))
		openJournal(t, state)
		info, err := os.Stat(state)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	})
}

// Whatever a drive calls itself: its own file, found again.
func TestJournalRoundTrip(t *testing.T) {
	state := stateDir(t)
	j := openJournal(t, state)
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`(wwid|serial):[ -~]{1,40}`), 1, 5, rapid.ID).Draw(t, "ids")
		var all []Entry
		for i, id := range ids {
			e := entryOf(sysfs.Identity(id), fmt.Sprintf("sd%c", 'a'+i))
			e.Snapshot.Attributes[0].Value = rapid.StringMatching(`[ -~]{0,30}`).Draw(t, "value")
			all = append(all, e)
		}
		if err := j.Save(all...); err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			got, ok := j.load(e.file())
			if !ok || got.Damage != "" || got.Identity != e.Identity || got.Snapshot.Attributes[0] != e.Snapshot.Attributes[0] {
				t.Fatalf("%q came back as %+v", e.Identity, got)
			}
			if strings.Contains(e.file(), "/") || len(e.file()) > 250 {
				t.Fatalf("bad file name %q", e.file())
			}
		}
		listed, err := j.Entries()
		if err != nil || len(listed) != len(all) {
			t.Fatalf("%d entries listed, %d saved, %v", len(listed), len(all), err)
		}
		if err := j.Clear(all...); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"version": 1, "identity": "wwid:x", "snapshot": {}}`))
	f.Add([]byte(`{"version": 1, "folder": {"id": "x", "path": "/x"}}`))
	f.Add([]byte(`{"version": 1, "array": {"uuid": "x", "members": [{"name": "sda1"}]}}`))
	f.Add([]byte(`{"version": 2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(b)
		if err == nil && (e.file() == "" || strings.ContainsAny(e.file(), "/\x00")) {
			t.Fatalf("file name %q", e.file())
		}
	})
}
