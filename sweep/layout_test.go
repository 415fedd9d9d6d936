package sweep

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs"
	"qdsweep/sysfs/md"
	"qdsweep/sysfs/systest"
)

// A drive that does not answer while the files of its directory are made does not hold the sweep for ever: here the worker stands still. Nothing is left of it.
func TestFilesThatAreNeverMade(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	dir := t.TempDir()
	b.machine.Mount("sda", dir, "ext4")
	b.profile = strings.Replace(b.profile, "target: {device: sda}", "timeout: 1s\ntarget: {directory: "+dir+"}", 1)
	b.observe = once(func(e Event) bool { return strings.HasPrefix(e.Text, "laying out") }, func() { stopWorker(t) })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := b.execute(ctx)
	require.ErrorContains(t, err, "lay out the files of r")
	require.NoError(t, ctx.Err(), "it ended by itself")
	assert.ErrorIs(t, err, errTimeout)
	found, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	assert.Empty(t, found)
	assert.Empty(t, b.machine.Writes())
}

// stopWorker stops the only child that this process has.
func stopWorker(t *testing.T) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // ended meanwhile
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			require.NoError(t, err)
			require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
		}
	}
}

// The watchdog waits for what a built target takes: files of a terabyte, and a file system of a hundred, which end long after a run's timeout would have.
func TestWatchdogWaitsForFilesAndMkfs(t *testing.T) {
	const tb = 1e12
	s := &Sweep{plan: &Plan{Profile: read(t, "version: 1\nname: a\ntimeout: 10m\nworkloads: [{name: a, type: io}]\n")}}
	bare := s.longestStep()
	s.plan.work.loads = []load{{space: tb}}
	assert.Equal(t, bare, s.longestStep(), "a device has no files")
	s.plan.Targets = []*Target{{Stack: sysfs.Stack{Directory: "/mnt"}}}
	assert.Greater(t, s.longestStep(), bare+24*time.Hour)
	s.plan.work.loads = nil
	s.plan.Targets = []*Target{{Level: Level{"raid_level", "5"}, Build: &BuildSpec{Filesystem: "ext4"}, Stack: sysfs.Stack{Bytes: 100 * tb}}}
	assert.GreaterOrEqual(t, s.longestStep(), bare+md.MkfsLimit(100*tb))
}
