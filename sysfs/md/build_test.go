package md

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCreateArguments(t *testing.T) {
	f := newFake(t)
	always := "--create /dev/md126 --run --config=none --homehost=any --name=qdsweep-21514354 --uuid=" + ourUUID + " --metadata=1.2 "
	for _, c := range []struct {
		name string
		set  func(*Spec)
		want string
	}{
		{"0", nil, "--level=0 --raid-devices=2"}, // a bitmap it cannot have, and nothing to be clean
		{"1", nil, "--level=1 --raid-devices=2 --bitmap=none --assume-clean"},
		{"5", func(s *Spec) { s.ChunkKB, s.Layout = 64, "parity-last" }, "--level=5 --raid-devices=2 --chunk=64 --layout=parity-last --bitmap=none --assume-clean"},
		{"10", func(s *Spec) { s.Bitmap = "internal" }, "--level=10 --raid-devices=2 --bitmap=internal --assume-clean"},
		{"5", func(s *Spec) { s.InitialSync = true }, "--level=5 --raid-devices=2 --bitmap=none"},
		{"0", func(s *Spec) { s.InitialSync, s.Bitmap = true, "none" }, "--level=0 --raid-devices=2"},
	} {
		s := f.spec(c.name, "sda", "sdb")
		if c.set != nil {
			c.set(&s)
		}
		assert.Equal(t, always+c.want+" /dev/sda /dev/sdb", strings.Join(s.createArguments("/dev/md126"), " "))
	}
}

func TestBuildAndTakeDown(t *testing.T) {
	for _, level := range Levels() {
		for _, fs := range []string{"ext4", ""} {
			t.Run(level+fs, func(t *testing.T) {
				f := newFake(t)
				before := f.state()
				s := f.spec(level, "sdd", "sdb", "sda", "sdc")
				if s.Filesystem = fs; fs == "" {
					s.MountPoint = ""
				}
				var steps []string
				built, err := f.build(context.Background(), s, func(p Progress) { steps = append(steps, p.Step) })
				require.NoError(t, err)
				want := "md126"
				if level == LevelNone {
					want = "sdd"
				}
				assert.Equal(t, want, built.Device.Name)
				assert.Equal(t, s.MountPoint, built.Directory)
				assert.Equal(t, level != LevelNone || fs != "", len(steps) > 0)
				if level == LevelNone && fs == "" {
					assert.Empty(t, f.changes)
					return
				}
				assert.NotEqual(t, before, f.state())

				mark := len(f.changes)
				left, err := f.look(context.Background(), s.Record())
				require.NoError(t, err)
				assert.Len(t, f.changes, mark, "looking changes nothing")
				did, err := f.takeDown(context.Background(), s.Record())
				require.NoError(t, err)
				assert.Len(t, did, len(left), "%q %q", left, did)
				assert.Equal(t, before, f.state())

				mark = len(f.changes)
				did, err = f.takeDown(context.Background(), s.Record())
				assert.NoError(t, err, "again")
				assert.Empty(t, did)
				assert.Len(t, f.changes, mark)
			})
		}
	}
}

func TestTakeDownSaysWhatItDid(t *testing.T) {
	f := newFake(t)
	s := f.spec("1", "sda", "sdb")
	_, err := f.build(context.Background(), s, nil)
	require.NoError(t, err)
	left, err := f.look(context.Background(), s.Record())
	require.NoError(t, err)
	assert.Equal(t, []string{"unmount " + point, "wipe the ext4 signature on md126", "stop the array md126",
		"zero the md superblock of sda", "zero the md superblock of sdb", "remove the folder " + point}, left)
	did, err := f.takeDown(context.Background(), s.Record())
	require.NoError(t, err)
	assert.Equal(t, []string{"unmounted " + point, "wiped the ext4 signature on md126", "stopped the array md126",
		"zeroed the md superblock of sda", "zeroed the md superblock of sdb", "removed the folder " + point}, did)
}

// Whatever step fails, what was made is taken down, and nothing of anybody else's is touched.
func TestBuildFailsAtEveryStep(t *testing.T) {
	for _, level := range []string{LevelNone, "5"} {
		for k := 1; ; k++ {
			f := newFake(t)
			before := f.state()
			f.failAt = k
			_, err := f.build(context.Background(), f.spec(level, "sda", "sdb"), nil)
			if f.steps < k {
				require.NoError(t, err)
				require.Greater(t, k, 3, "there were steps")
				break
			}
			require.ErrorContains(t, err, "played failure", "step %d", k)
			assert.NotContains(t, err.Error(), "not all taken down")
			assert.Equal(t, before, f.state(), "raid%s failed at step %d", level, k)
			assert.Empty(t, f.shells(), "raid%s failed at step %d", level, k)
		}
	}
}

// shells are the empty arrays that nobody but the one who made them can tell to be his.
func (f *fake) shells() (names []string) {
	entries, err := os.ReadDir(f.path("/sys/block"))
	require.NoError(f.t, err)
	for _, e := range entries {
		if state, err := os.ReadFile(f.path("/sys/block/" + e.Name() + "/md/array_state")); err == nil && string(state) == "clear\n" {
			names = append(names, e.Name())
		}
	}
	return names
}

// The process dies at each step of building, and at each of the taking down after that.
func TestTakeDownAfterDeathAtEveryStep(t *testing.T) {
	for _, level := range []string{LevelNone, "5"} {
		for k := 1; ; k++ {
			f := newFake(t)
			before := f.state()
			f.dieAt = k
			s := f.spec(level, "sda", "sdb")
			if !dies(t, func() { _, _ = f.build(context.Background(), s, nil) }) {
				break
			}
			for {
				f.dieAt = f.steps + 2 // one step further each time
				var err error
				if !dies(t, func() { _, err = f.takeDown(context.Background(), s.Record()) }) {
					require.NoError(t, err)
					break
				}
			}
			assert.Equal(t, before, f.state(), "raid%s, died at step %d", level, k)
			for _, change := range f.changes {
				assert.NotContains(t, change, otherUUID)
				assert.NotContains(t, change, "md0")
			}
		}
	}
}

func TestBuildTakesAFreeName(t *testing.T) {
	f := newFake(t)
	f.assembled("md126", "raid1", "11111111-2222-4333-8444-555555555555", "sdd")
	first := true
	f.beforeCall = func(call string) {
		if strings.Contains(call, "--create /dev/md125") && first { // somebody is faster
			first = false
			f.assembled("md125", "raid1", "11111111-2222-4333-8444-666666666666", "sdc")
		}
	}
	built, err := f.build(context.Background(), f.spec("1", "sda", "sdb"), nil)
	require.NoError(t, err)
	assert.Equal(t, "md124", built.Device.Name)
}

func TestBuildRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*fake, *Spec)
		want    string
	}{
		"another drive under the name": {func(f *fake, s *Spec) { s.Members[1].Identity = "wwid:naa.1" }, "the member sdb is another device now"},
		"another size":                 {func(f *fake, s *Spec) { s.Members[1].Bytes++ }, "the member sdb is another device now"},
		"a drive that is gone":         {func(f *fake, s *Spec) { f.sys.Pull("sdb") }, "the member sdb: "},
		"read-only":                    {func(f *fake, s *Spec) { f.sys.Set("/sys/block/sdb/ro", "1\n") }, "the member sdb is read-only"},
		"a UUID that is there":         {func(f *fake, s *Spec) { f.superblocks["sda"] = ourUUID }, "there is something of the array"},
		"a mount point that is there":  {func(f *fake, s *Spec) { f.sys.Set(point+"/x", "precious") }, "make the mount point"},
		"not possible":                 {func(f *fake, s *Spec) { s.ChunkKB = 64 }, "has no chunks"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			s := f.spec("1", "sda", "sdb")
			c.prepare(f, &s)
			_, err := f.build(context.Background(), s, nil)
			assert.ErrorContains(t, err, c.want)
			assert.Empty(t, f.changes)
			if name == "a mount point that is there" {
				assert.Equal(t, "precious", f.sys.Get(point+"/x"))
			}
		})
	}
	t.Run("a captured machine", func(t *testing.T) {
		f := newFake(t)
		_, err := Build(context.Background(), f.host, f.spec("1", "sda", "sdb"), nil)
		assert.ErrorContains(t, err, "captured")
		_, err = TakeDown(context.Background(), f.host, f.spec("1", "sda", "sdb").Record())
		assert.ErrorContains(t, err, "captured")
		_, err = Look(context.Background(), f.host, f.spec("1", "sda", "sdb").Record())
		assert.ErrorContains(t, err, "captured")
		assert.Empty(t, f.calls)
	})
	t.Run("cancelled before", func(t *testing.T) {
		f := newFake(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := f.build(ctx, f.spec("1", "sda", "sdb"), nil)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, f.changes)
	})
}

// What mdadm made is compared with what was asked.
func TestBuildVerifies(t *testing.T) {
	for name, c := range map[string]struct {
		attribute, value, want string
	}{
		"level":   {"level", "raid4\n", "level raid4, not raid5"},
		"chunk":   {"chunk_size", "524288\n", "chunk_size 524288, not 65536"},
		"layout":  {"layout", "0\n", "layout 0, not 2"},
		"missing": {"degraded", "1\n", "degraded 1, not 0"},
		"state":   {"array_state", "broken\n", "the state broken, not clean"},
		"UUID":    {"uuid", otherUUID + "\n", "has not the UUID " + ourUUID},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			s := f.spec("5", "sda", "sdb", "sdc")
			s.ChunkKB, s.Layout = 64, "left-symmetric"
			before := f.state()
			ran := false
			s.Filesystem = ""
			f.atStep = func(change string) { ran = ran || change == "run md126" }
			run := f.run
			f.run = func(ctx context.Context, name string, args ...string) (said, error) {
				r, err := run(ctx, name, args...)
				if args[0] == "--create" {
					f.sys.Set("/sys/block/md126/md/"+c.attribute, c.value)
				}
				return r, err
			}
			_, err := f.build(context.Background(), s, nil)
			require.True(t, ran)
			assert.ErrorContains(t, err, c.want)
			if name != "UUID" { // that one is another's now, and what holds the members is said
				assert.Equal(t, before, f.state())
			} else {
				assert.ErrorContains(t, err, "not all taken down")
				assert.Contains(t, f.state(), "md126")
			}
		})
	}
}

func TestInitialSync(t *testing.T) {
	md := "/sys/block/md126/md/"
	begin := func(f *fake) Spec {
		s := f.spec("5", "sda", "sdb", "sdc")
		s.InitialSync = true
		return s
	}
	t.Run("waited for", func(t *testing.T) {
		f := newFake(t)
		var seen []Progress
		built, err := f.build(context.Background(), begin(f), func(p Progress) {
			if !strings.HasPrefix(p.Step, "initial sync of md126") {
				return
			}
			seen = append(seen, p)
			switch len(seen) {
			case 1:
				f.sys.Set(md+"sync_completed", "delayed\n")
			case 2:
				f.sys.Set(md+"sync_completed", "1024 / 4096\n")
				f.sys.Set(md+"sync_speed", "512\n")
			case 3: // over, and the last member not yet taken in
				f.sys.Set(md+"sync_action", "idle\n")
			case 4:
				f.sys.Set(md+"degraded", "0\n")
			}
		})
		require.NoError(t, err)
		assert.Equal(t, point, built.Directory)
		require.Len(t, seen, 5)
		assert.Contains(t, seen[1].Step, "waits for another array")
		assert.Equal(t, 0.25, seen[2].Done)
		assert.Equal(t, "3s", seen[2].Left.String())
		assert.Equal(t, 1.0, seen[4].Done)
	})
	t.Run("cancelled", func(t *testing.T) {
		f := newFake(t)
		before := f.state()
		ctx, cancel := context.WithCancelCause(context.Background())
		_, err := f.build(ctx, begin(f), func(p Progress) {
			if strings.HasPrefix(p.Step, "initial sync") {
				cancel(errors.New("Ctrl-C"))
			}
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, "initial sync of md126")
		assert.Equal(t, before, f.state())
	})
	t.Run("a member fails", func(t *testing.T) {
		f := newFake(t)
		before := f.state()
		_, err := f.build(context.Background(), begin(f), func(p Progress) {
			if strings.HasPrefix(p.Step, "initial sync") {
				f.sys.Set(md+"dev-sdc/state", "faulty\n")
			}
		})
		assert.ErrorContains(t, err, "failed members: sdc")
		assert.Equal(t, before, f.state())
	})
	t.Run("it stands still", func(t *testing.T) {
		f := newFake(t)
		before := f.state()
		s := begin(f)
		s.SyncStall = 300 * time.Millisecond
		looks := 0
		began := time.Now()
		_, err := f.build(context.Background(), s, func(p Progress) {
			if !strings.HasPrefix(p.Step, "initial sync of md126") {
				return
			}
			if looks++; time.Since(began) < 2*s.SyncStall { // while it moves, however slowly, it is waited for
				f.sys.Set(md+"sync_completed", fmt.Sprintf("%d / 4096\n", looks))
			}
		})
		assert.ErrorContains(t, err, "initial sync of md126: it has not moved for 300ms")
		assert.GreaterOrEqual(t, time.Since(began), 2*s.SyncStall)
		assert.Equal(t, before, f.state(), "and nothing is left of it")
	})
	t.Run("of a level without", func(t *testing.T) {
		f := newFake(t)
		s := begin(f)
		s.Level = "0"
		_, err := f.build(context.Background(), s, func(p Progress) { assert.NotContains(t, p.Step, "initial") })
		assert.NoError(t, err)
	})
}

// A cancelled build ends and leaves nothing, whenever it is cancelled; and mdadm is never cut off in the middle.
func TestBuildCancelledAtEveryStep(t *testing.T) {
	for k := 1; ; k++ {
		f := newFake(t)
		before := f.state()
		ctx, cancel := context.WithCancel(context.Background())
		f.atStep = func(string) {
			if f.steps == k {
				cancel()
			}
		}
		_, err := f.build(ctx, f.spec("5", "sda", "sdb"), nil)
		cancel()
		if f.steps < k {
			require.NoError(t, err)
			break
		}
		assert.ErrorIs(t, err, context.Canceled, "step %d", k)
		assert.Equal(t, before, f.state(), fmt.Sprintf("step %d", k))
	}
}
