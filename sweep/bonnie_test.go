package sweep

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/workload"
)

const bonnieWork = "\nworkloads: [{name: b, type: bonnie}]\n"

func TestBonnieInAPlan(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{})
	m.file("/proc/self/mountinfo", "30 1 0:40 / /mnt rw - tmpfs tmpfs rw\n")
	_, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {directory: /mnt}"+bonnieWork, PlanOptions{})
	require.ErrorContains(t, err, "workload b: size: a directory needs one", "a machine that does not say how much memory it has")

	m.file("/proc/meminfo", "MemTotal:       16303432 kB\n")
	p, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {directory: /mnt}"+bonnieWork, PlanOptions{})
	require.NoError(t, err)
	assert.EqualValues(t, 32<<30, p.Profile.Workloads[0].Size)
	assert.Equal(t, [2]int{12, 12}, p.work.rows)
	assert.True(t, p.Writes())
	assert.Greater(t, p.SpaceNeeded(), int64(32<<30+16*1024*50000))
	assert.EqualValues(t, 1+16*1024+64+1, p.FilesNeeded())
	var out strings.Builder
	require.NoError(t, p.Text(&out, 200, false, ""))
	assert.Contains(t, out.String(), "bonnie 8k auto, size 32g, 8192 seeks by 3 seekers, 16 × 1024 files of 16 to 100000 bytes in 64")
	assert.Contains(t, out.String(), "12 rows each")

	_, err = planOf(t, m.host(), "version: 1\nname: a\ntarget: {device: sda}"+bonnieWork, PlanOptions{})
	require.ErrorContains(t, err, "bonnie works with files: give it a directory")
}

func TestBonnieAsksForDepth(t *testing.T) {
	for phases, want := range map[string][]string{
		"all":        {"the phase seeks of b has 3 seekers for queue_depth 31: it cannot show a depth above 3 a disk; raise its seekers"},
		"read seeks": {"the phase seeks of b has 3 seekers for queue_depth 31: it cannot show a depth above 3 a disk; raise its seekers"},
		"read":       {"b has 1 command for queue_depth 31: it cannot show a depth above 1 a disk; its other phases would"},
		"write read": nil,
	} {
		m := newPlanMachine(t)
		m.disk("sda", planDisk{})
		m.file("/proc/self/mountinfo", "30 1 8:0 / /mnt rw - ext4 /dev/sda rw\n")
		m.file("/proc/meminfo", "MemTotal:       16303432 kB\n")
		p, err := planOf(t, m.host(), "version: 1\nname: a\ntarget: {directory: /mnt}\nmatrix: {queue_depth: [1, 31]}\nworkloads: [{name: b, type: bonnie, phases: "+phases+"}]\n", PlanOptions{})
		require.NoError(t, err)
		assert.Equal(t, want, p.Warnings, phases)
	}
}

func TestBonnieAxesAndLists(t *testing.T) {
	p := read(t, "version: 1\nname: a\nmatrix: {chunk: [4k, 32768], seekers: [1, 31]}\nworkloads: [{name: b, type: bonnie, phases: [write, seeks], size: 1g}]\n")
	assert.Equal(t, "write seeks", p.Workloads[0].Get("phases"))
	var got []string
	p.Matrix.eachWorkloads(p.Workloads, func(k kindOfWork) bool {
		got = append(got, k.specs[0].Get("chunk")+" "+k.specs[0].Get("seekers"))
		return true
	})
	assert.Equal(t, []string{"4k 1", "4k 31", "32k 1", "32k 31"}, got)
}

// bonnie's rewrite reads and writes each byte that it counts; what it read has to have come from the members.
func TestWhatBonnieLeavesToTheCache(t *testing.T) {
	const mb = 1_000_000
	for _, c := range []struct {
		phase         string
		read, written int64 // of 100 MB
		reason        string
		wrong         bool
	}{
		{"write", 0, 101 * mb, "", false},
		{"rewrite", 100 * mb, 100 * mb, "", false},
		{"rewrite", 10 * mb, 100 * mb, "cached: the members read 10 of 100 MB", true},
		{"rewrite", 100 * mb, 10 * mb, "cached: the members wrote 10 of 100 MB", false},
		{"read", 90 * mb, 100 * mb, "cached: the members read 90 of 100 MB", true},
		{"getc", 100 * mb, 0, "", false},
		{"seeks", 91 * mb, 9 * mb, "", false},
		{"seeks", 20 * mb, 9 * mb, "cached: the members moved 29 of 100 MB", false},
		{"seq_stat", 20 * mb, 0, "cached: the members read 20 of 100 MB", false},
		{"ran_create", 0, 200 * mb, "", false},
	} {
		p := phase{spec: specOf(t, "bonnie", nil), result: workload.Result{Phase: c.phase, Engine: "psync", Bytes: 100 * mb},
			seen: summary{counted: true, read: c.read, written: c.written}}
		reason, wrong := cached(p)
		assert.Equal(t, c.reason, reason, c.phase)
		assert.Equal(t, c.wrong, wrong, c.phase)
	}
}

// A file system with few inodes is refused before, not met in the middle of the night.
func TestInodesAreJudged(t *testing.T) {
	dir := t.TempDir()
	err := unix.Mount("none", dir, "tmpfs", 0, "size=64m,nr_inodes=500")
	if errors.Is(err, unix.EPERM) && os.Getenv("CI") == "" {
		t.Skip("only root may mount a file system with few inodes")
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	spec := specOf(t, "bonnie", map[string]string{"size": "1m", "files": "1", "file_size_max": "16"})
	s := &Sweep{plan: &Plan{}}
	s.plan.work.add([]workload.Spec{spec})
	require.ErrorContains(t, s.checkSpace(dir), "inodes free, and the files need 1090")
	spec.Files = 0
	s.plan.work = work{}
	s.plan.work.add([]workload.Spec{spec})
	require.NoError(t, s.checkSpace(dir))
}
