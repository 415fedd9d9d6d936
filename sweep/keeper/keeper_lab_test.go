//go:build lab

package keeper

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

// The keeper before a real kernel and AHCI drives, looked at from outside by hdparm.

const labSerials = "QDLAB-SATA-1 QDLAB-SATA-2"

func labPlot(t *testing.T) plot {
	t.Helper()
	p := plot{Root: "/", State: stateDir(t), Settings: []sysfs.Setting{
		{Knob: "queue_depth", Level: "1"}, {Knob: "write_cache", Level: "off"}, {Knob: "max_sectors_kb", Level: "8"},
	}}
	for _, serial := range strings.Fields(labSerials) {
		s, err := sysfs.NewHost("/").Resolve("serial:" + serial)
		require.NoError(t, err)
		p.Members = append(p.Members, Member{Name: s.Device.Name, Identity: s.Device.Identity})
	}
	return p
}

func hdparm(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("hdparm", "-W", "/dev/"+name).CombinedOutput()
	require.NoError(t, err, string(out))
	_, state, found := strings.Cut(string(out), "write-caching = ")
	require.True(t, found, string(out))
	return strings.Fields(state)[1]
}

// labState is all of the drives that can be set.
func labState(t *testing.T, p plot) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, m := range p.Members {
		all[m.Name+" hdparm"] = hdparm(t, m.Name)
		for _, pattern := range []string{"queue/*", "queue/iosched/*", "device/queue_depth", "device/scsi_disk/*/cache_type"} {
			files, err := filepath.Glob("/sys/block/" + m.Name + "/" + pattern)
			require.NoError(t, err)
			for _, f := range files {
				if b, err := os.ReadFile(f); err == nil {
					all[f] = strings.TrimSpace(string(b))
				}
			}
		}
	}
	return all
}

func TestLabSataKeeper(t *testing.T) {
	script := labPlot(t)
	before := labState(t, script)
	changed := func(t *testing.T) {
		t.Helper()
		for _, m := range script.Members {
			assert.Equal(t, "(off)", hdparm(t, m.Name))
			assert.Equal(t, "1", get(t, "/", "sys/block/"+m.Name+"/device/queue_depth"))
			assert.Equal(t, "8", get(t, "/", "sys/block/"+m.Name+"/queue/max_sectors_kb"))
		}
	}
	restored := func(t *testing.T, p *played) {
		t.Helper()
		assert.Equal(t, before, labState(t, script))
		assert.Empty(t, entries(t, p.State))
	}
	for _, m := range script.Members {
		require.Equal(t, "(on)", hdparm(t, m.Name))
	}

	t.Run("main is killed", func(t *testing.T) {
		p := start(t, script)
		changed(t)
		began := time.Now()
		require.NoError(t, p.cmd.Process.Kill())
		gone(t, p.keeper)
		took := time.Since(began)
		t.Logf("restored, write cache too, in %v", took)
		assert.Less(t, took, 15*time.Second, "5 s, three times for a slow guest")
		gone(t, p.worker)
		restored(t, p)
	})
	t.Run("main is killed, no write cache", func(t *testing.T) {
		script := script
		script.Settings = []sysfs.Setting{{Knob: "queue_depth", Level: "1"}, {Knob: "max_sectors_kb", Level: "8"}}
		p := start(t, script)
		began := time.Now()
		require.NoError(t, p.cmd.Process.Kill())
		gone(t, p.keeper)
		took := time.Since(began)
		t.Logf("restored in %v", took)
		assert.Less(t, took, 6*time.Second, "2 s, three times for a slow guest")
		restored(t, p)
	})
	t.Run("the keeper is killed", func(t *testing.T) {
		p := start(t, script)
		require.NoError(t, unix.Kill(p.keeper, unix.SIGKILL))
		gone(t, p.keeper)
		changed(t)
		p.say("recover")
		p.line("died true")
		p.line("recovered 2 <nil>")
		p.line("again <nil>")
		p.say("close")
		p.line("closed <nil>")
		restored(t, p)
	})
	t.Run("both are killed", func(t *testing.T) {
		p := start(t, script)
		require.NoError(t, unix.Kill(p.keeper, unix.SIGKILL))
		require.NoError(t, p.cmd.Process.Kill())
		gone(t, p.keeper)
		gone(t, p.cmd.Process.Pid)
		changed(t)
		k, err := Start(context.Background(), script.options())
		require.NoError(t, err)
		defer k.Close()
		var left *UnrestoredError
		require.ErrorAs(t, k.Claim(context.Background(), script.Members, time.Minute), &left)
		all, err := k.RestoreJournal(context.Background(), RestoreOptions{Wait: time.Minute})
		require.NoError(t, err)
		assert.Zero(t, RestoreExit(all), "%+v", all)
		restored(t, p)
	})
	t.Run("flush, and a claim that others see", func(t *testing.T) {
		k, err := Start(context.Background(), script.options())
		require.NoError(t, err)
		require.NoError(t, k.Claim(context.Background(), script.Members, 0))
		require.NoError(t, k.Flush(context.Background()))
		node, err := os.Open("/dev/" + script.Members[0].Name)
		require.NoError(t, err)
		defer node.Close()
		assert.ErrorIs(t, unix.Flock(int(node.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
		require.NoError(t, k.Close())
		assert.NoError(t, unix.Flock(int(node.Fd()), unix.LOCK_SH|unix.LOCK_NB))
	})
}

// The keeper dies at a file operation of journal, apply or restore: at five of them by a seed, at all of them in `make chaos`.
func TestLabSataKeeperCrashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	script := labPlot(t)
	before := labState(t, script)
	// Two members: three for a temp file each, two renames, a sync, then some writes there and back, and the end.
	deaths := random.Perm(18)
	if os.Getenv("QDSWEEP_CHAOS") != "long" {
		deaths = deaths[:5]
	}
	for _, k := range deaths {
		crashing := script
		crashing.Crash = k + 1
		ctx := context.Background()
		first, err := Start(ctx, crashing.options())
		require.NoError(t, err)
		err = first.Claim(ctx, script.Members, time.Minute)
		for err == nil {
			if _, err = first.Apply(ctx, orders(script.Members, script.Settings)); err == nil {
				_, err = first.Restore(ctx)
			}
		}
		require.ErrorIs(t, err, ErrKeeperDied)
		gone(t, first.PID())
		second, err := Start(ctx, script.options())
		require.NoError(t, err)
		_, err = second.Recover(ctx)
		require.NoError(t, err, "operation %d", k+1)
		require.NoError(t, second.Close())
		require.Equal(t, before, labState(t, script), "operation %d", k+1)
		require.Empty(t, entries(t, script.State))
	}
}
