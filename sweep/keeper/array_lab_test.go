//go:build lab

package keeper

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
)

func mdadm(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("mdadm", args...).CombinedOutput()
	require.NoError(t, err, "mdadm %s: %s", strings.Join(args, " "), out)
}

// labArray is the entry of an array on three disks, and those disks.
func labArray(t *testing.T) (a Array, disks []Member, nodes []string) {
	t.Helper()
	a = Array{UUID: "0badcafe:00004000:80000000:0000beef", Level: "5"}
	for _, serial := range []string{"QDLAB-SATA-2", "QDLAB-SATA-3", "QDLAB-SATA-4"} {
		s, err := sysfs.NewHost("/").Resolve("serial:" + serial)
		require.NoError(t, err)
		d := s.Device
		a.Members = append(a.Members, ArrayMember{Identity: d.Identity, Name: d.Name, Bytes: d.Bytes})
		disks = append(disks, Member{Name: d.Name, Identity: d.Identity})
		nodes = append(nodes, d.Path)
	}
	return a, disks, nodes
}

// An array of a sweep before a real md: its own knobs and those of its disks are set and come back, also through a keeper that
// is killed; it cannot be stopped while the keeper holds it, and can when it is let go of.
func TestLabSataKeeperAndArray(t *testing.T) {
	ctx := context.Background()
	a, disks, nodes := labArray(t)
	p := plot{Root: "/", State: stateDir(t)}
	k, err := Start(ctx, p.options())
	require.NoError(t, err)
	require.NoError(t, k.Claim(ctx, disks, time.Minute))
	require.NoError(t, k.Array(ctx, a, true))

	mdadm(t, append([]string{"--create", "/dev/md7", "--run", "--uuid=" + a.UUID, "--homehost=any", "--level=5", "--assume-clean", "--bitmap=none", "--raid-devices=3"}, nodes...)...)
	stopped := false
	stop := func() error {
		out, err := exec.Command("mdadm", "--stop", "/dev/md7").CombinedOutput()
		stopped = stopped || err == nil
		t.Logf("%s", out)
		return err
	}
	t.Cleanup(func() {
		if !stopped {
			require.NoError(t, stop())
		}
		mdadm(t, append([]string{"--zero-superblock"}, nodes...)...)
	})
	d, err := sysfs.NewHost("/").Device("md7")
	require.NoError(t, err)
	assert.True(t, a.is(sysfs.NewHost("/"), d), "it is %s", d.Identity)
	byMembers := d
	byMembers.Identity = "" // as of a kernel that does not tell
	assert.True(t, a.is(sysfs.NewHost("/"), byMembers))
	md := Member{Name: "md7", Identity: d.Identity}
	require.NoError(t, k.Claim(ctx, []Member{md}, 0))

	state := func() map[string]string {
		p.Members = append(append([]Member{}, disks...), md)
		all := map[string]string{}
		for _, m := range p.Members {
			for _, pattern := range []string{"queue/*", "queue/iosched/*", "device/queue_depth", "md/stripe_cache_size", "md/group_thread_cnt"} {
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
	before := state()
	apply := func(k *Client) {
		t.Helper()
		rows, err := k.ApplyWhole(ctx, append(orders(disks, set("queue_depth", "4", "max_sectors_kb", "8")),
			Order{Member: md, Set: set("stripe_cache_size", "1024", "group_thread_count", "2", "read_ahead_kb", "64")}))
		require.NoError(t, err)
		for _, r := range rows {
			assert.Empty(t, r.Err, r.Knob)
			assert.Equal(t, r.Level, r.Effective, "%s of %s", r.Knob, r.Name)
		}
		assert.Equal(t, "1024", get(t, "/", "sys/block/md7/md/stripe_cache_size"))
	}
	apply(k)
	require.NoError(t, k.Flush(ctx, disks...))
	moved, err := k.Check(ctx)
	require.NoError(t, err)
	assert.Empty(t, moved)
	_, err = k.Restore(ctx)
	require.NoError(t, err)
	assert.Equal(t, before, state())

	// The keeper is killed: the next one puts all back and has the array.
	apply(k)
	require.NoError(t, unix.Kill(k.PID(), unix.SIGKILL))
	gone(t, k.PID())
	k, err = Start(ctx, p.options())
	require.NoError(t, err)
	all, err := k.Recover(ctx)
	require.NoError(t, err)
	assert.Len(t, all, 4)
	assert.Equal(t, before, state())
	assert.Equal(t, []string{"array-" + a.UUID}, entries(t, p.State))
	require.NoError(t, k.Claim(ctx, append(append([]Member{}, disks...), md), time.Minute))

	// What mdadm --stop does in the end; it would try for 5 s.
	require.ErrorIs(t, os.WriteFile("/sys/block/md7/md/array_state", []byte("clear"), 0), unix.EBUSY, "the keeper has it open")
	require.NoError(t, k.Release(ctx, md))
	require.NoError(t, stop())
	require.NoError(t, k.Array(ctx, a, false))
	assert.Empty(t, entries(t, p.State))
	require.NoError(t, k.Close())
}

// A keeper that is killed while the kernel does not come back from a write: it is not gone, and main does not wait for it. The
// drive holds its one command for 6 s; a write of scheduler waits for that, uninterruptibly.
func TestLabDelayKilledKeeperInTheKernel(t *testing.T) {
	const delay = "/sys/bus/pseudo/drivers/scsi_debug/delay"
	ctx := context.Background()
	found, err := filepath.Glob("/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*:*/block/*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found), 2)
	p := plot{Root: "/", State: stateDir(t)}
	for _, f := range found[:2] {
		d, err := sysfs.NewHost("/").Device(filepath.Base(f))
		require.NoError(t, err)
		p.Members = append(p.Members, Member{Name: d.Name, Identity: d.Identity})
	}
	hanging := p.Members[0].Name
	was := get(t, "/", "sys/block/"+hanging+"/queue/scheduler")
	k, err := Start(ctx, p.options())
	require.NoError(t, err)
	require.NoError(t, k.Claim(ctx, p.Members, time.Minute))

	nanoseconds := get(t, "/", strings.TrimPrefix(strings.Replace(delay, "delay", "ndelay", 1), "/"))
	require.NoError(t, os.WriteFile(delay, []byte("1500\n"), 0)) // of 1/250 s
	t.Cleanup(func() {                                           // EBUSY while a command is with a drive
		require.Eventually(t, func() bool {
			return os.WriteFile(strings.Replace(delay, "delay", "ndelay", 1), []byte(nanoseconds+"\n"), 0) == nil
		}, 30*time.Second, 50*time.Millisecond)
	})
	reader := exec.Command("dd", "if=/dev/"+hanging, "of=/dev/null", "bs=4096", "count=1", "iflag=direct")
	require.NoError(t, reader.Start())
	require.Eventually(t, func() bool { return strings.Fields(get(t, "/", "sys/block/"+hanging+"/inflight"))[0] == "1" }, 5*time.Second, time.Millisecond)
	answered := make(chan error, 1)
	go func() {
		_, err := k.Apply(ctx, []Order{{Member: p.Members[0], Set: set("scheduler", "none")}, {Member: p.Members[1], Set: set("queue_depth", "4")}})
		answered <- err
	}()
	require.Eventually(t, func() bool { return inTheKernel(k.PID()) }, 5*time.Second, time.Millisecond)

	require.NoError(t, unix.Kill(k.PID(), unix.SIGKILL))
	killed := time.Now()
	require.ErrorIs(t, <-answered, ErrKeeperDied)
	<-k.Died()
	require.ErrorIs(t, k.Close(), ErrKeeperDied)
	took := time.Since(killed)
	select {
	case <-k.process.Exited():
		t.Error("it was gone by then: this test shows nothing")
	default:
	}
	t.Logf("known to be dead, and given up, after %v", took)
	assert.Less(t, took, 3*(lastWords+lastWords+dyingPoll))

	next, err := Start(ctx, p.options())
	require.NoError(t, err)
	_, err = next.Recover(ctx)
	require.NoError(t, err, "the command has ended within the new keeper's patience")
	require.NoError(t, reader.Wait())
	assert.Equal(t, was, get(t, "/", "sys/block/"+hanging+"/queue/scheduler"))
	assert.Empty(t, entries(t, p.State))
	require.NoError(t, next.Close())
}

// inTheKernel says whether a thread of a process is in uninterruptible sleep.
func inTheKernel(pid int) bool {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if _, rest, ok := strings.Cut(string(b), ") "); ok && strings.HasPrefix(rest, "D") {
			return true
		}
	}
	return false
}
