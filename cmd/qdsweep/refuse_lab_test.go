//go:build lab

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const readOnly = `version: 1
name: reads
matrix: {queue_depth: [1]}
repeats: 1
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 2, runtime: 200ms}]
`

const writing = `version: 1
name: writes
matrix: {queue_depth: [1]}
repeats: 1
settle: 0s
workloads: [{name: w, type: io, mode: randwrite, iodepth: 2, runtime: 200ms}]
`

// refused runs a sweep that must be refused with that code, words in its message, and nothing touched.
func (l *lab) refused(code int, disk, words string, args ...string) {
	l.Helper()
	before := l.settings(disk)
	out := l.path("refused")
	s := l.run(append(append([]string{"run"}, args...), "--out", out)...)
	assert.Equal(l, code, s.code)
	for _, w := range strings.Split(words, "|") {
		assert.Contains(l, s.err, w)
	}
	assert.NoDirExists(l, out)
	assert.True(l, l.journalEmpty())
	assert.Equal(l, before, l.settings(disk))
}

func (l *lab) allowed(args ...string) {
	l.Helper()
	out, err := os.MkdirTemp(l.dir, "allowed-")
	require.NoError(l, err)
	s := l.run(append(append([]string{"run"}, args...), "--out", out)...)
	assert.Equal(l, 0, s.code)
}

// TestLabSataRefusals: what is refused with exit 3, and what is allowed, on one disk after another state.
func TestLabSataRefusals(t *testing.T) {
	l := newLab(t)
	disk := l.sata(4)
	node := "/dev/" + disk
	blank := func() {
		l.shell("wipefs -aq %s 2>/dev/null; dd if=/dev/zero of=%s bs=1M count=4 2>/dev/null; sz=$(blockdev --getsz %s); dd if=/dev/zero of=%s seek=$((sz-4096)) bs=512 count=4096 2>/dev/null; blockdev --rereadpt %s; sync", node, node, node, node, node)
	}
	blank()
	defer blank()
	reads, writes := l.write("r.yaml", readOnly), l.write("w.yaml", writing)

	t.Run("a write workload without --erase", func(t *testing.T) {
		(&lab{t, l.dir}).refused(3, disk, "--erase", writes, "--device", node)
	})
	t.Run("a blank disk by its kernel name", func(t *testing.T) {
		(&lab{t, l.dir}).allowed(writes, "--device", node, "--erase", node)
	})
	t.Run("unknown data, only a kernel name", func(t *testing.T) {
		l := &lab{t, l.dir}
		l.shell("echo precious | dd of=%s bs=1 seek=4096 conv=notrunc,fsync 2>/dev/null", node)
		l.refused(3, disk, "--erase", writes, "--device", node, "--erase", node)
		l.allowed(writes, "--device", node, "--erase", "serial:QDLAB-SATA-4")
		blank()
	})
	t.Run("a file system, only a kernel name", func(t *testing.T) {
		l := &lab{t, l.dir}
		l.shell("mkfs.ext4 -q -F %s", node)
		l.refused(3, disk, "ext4|--erase", writes, "--device", node, "--erase", node)
	})
	t.Run("mounted", func(t *testing.T) {
		l := &lab{t, l.dir}
		l.shell("mkdir -p /tmp/m; mount %s /tmp/m", node)
		defer l.shell("umount /tmp/m")
		l.refused(3, disk, "/tmp/m", reads, "--device", node)
		l.allowed(reads[:len(reads)-len("r.yaml")]+filepath.Base(l.write("d.yaml", strings.Replace(readOnly, "runtime: 200ms", "size: 8m, runtime: 200ms", 1))), "--directory", "/tmp/m")
	})
	blank()
	t.Run("its parent, and a partition beside one in use", func(t *testing.T) {
		l := &lab{t, l.dir}
		l.shell("printf '2048,100M\n206848,100M\n' | sfdisk -q %s 2>/dev/null || printf 'n\np\n1\n2048\n+100M\nn\np\n2\n\n+100M\nw\n' | fdisk %s >/dev/null", node, node)
		// Left to itself ext4 writes its tables after the mount, and the journal's superblock: that would be foreign I/O.
		l.shell("mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 %s1; mkdir -p /tmp/m; mount -o noinit_itable %s1 /tmp/m; sync", node, node)
		defer blank()
		defer l.shell("umount /tmp/m")
		l.refused(3, disk, "/tmp/m", reads, "--device", node)
		l.refused(3, disk, "--allow shared-disk", reads, "--device", node+"2")
		l.allowed(reads, "--device", node+"2", "--allow", "shared-disk")
	})
	t.Run("an md member", func(t *testing.T) {
		l := &lab{t, l.dir}
		l.shell("mdadm --create /dev/md9 --run --level=1 --raid-devices=2 --metadata=1.2 --assume-clean %s missing 2>&1", node)
		defer blank()
		defer l.shell("mdadm --stop /dev/md9 2>&1; mdadm --zero-superblock %s", node)
		l.refused(3, disk, "md9", reads, "--device", node)
	})
	t.Run("swap", func(t *testing.T) {
		l := &lab{t, l.dir}
		l.shell("mkswap %s >/dev/null; swapon %s", node, node)
		defer blank()
		defer l.shell("swapoff %s", node)
		l.refused(3, disk, "swap", reads, "--device", node, "--allow", "shared-disk")
	})
	t.Run("open read-write in another process", func(t *testing.T) { // field case 37
		l := &lab{t, l.dir}
		c := exec.Command("sleep", "600")
		f, err := os.OpenFile(node, os.O_RDWR, 0)
		require.NoError(t, err)
		c.ExtraFiles = []*os.File{f}
		require.NoError(t, c.Start())
		f.Close()
		defer func() { c.Process.Kill(); c.Wait() }()
		l.refused(3, disk, "sleep", reads, "--device", node)
	})
	t.Run("an unprivileged user", func(t *testing.T) {
		c := exec.Command(program, "run", reads, "--device", node, "--out", "/tmp/nobody")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		c.Dir = "/"
		require.NoError(t, os.Chmod(l.dir, 0o755)) // so that nobody can read the profile
		out, err := c.CombinedOutput()
		assert.Equal(t, 3, exitCode(err), "%s", out)
		assert.Contains(t, string(out), "sudo")
	})
	t.Run("output that is not empty", func(t *testing.T) { // field case 26
		l := &lab{t, l.dir}
		require.NoError(t, os.MkdirAll(l.path("full"), 0o755))
		require.NoError(t, os.WriteFile(l.path("full/results.csv"), []byte("schema\n"), 0o644))
		s := l.run("run", reads, "--device", node, "--out", l.path("full"))
		assert.Equal(t, 2, s.code)
		assert.Contains(t, s.err, "results.csv")
	})
	t.Run("state in memory", func(t *testing.T) {
		l := &lab{t, l.dir}
		l.shell("mkdir -p /tmp/v && mount -t tmpfs none /tmp/v")
		defer l.shell("umount /tmp/v")
		l.refused(3, disk, "tmpfs|--allow volatile-state", reads, "--device", node, "--state-dir", "/tmp/v/state")
	})
	t.Run("/sys read-only, as in a container", func(t *testing.T) {
		l := &lab{t, l.dir}
		l.shell("mount -o remount,ro /sys")
		defer l.shell("mount -o remount,rw /sys")
		l.refused(3, disk, "/sys is read-only here|--privileged", reads, "--device", node)
	})
	t.Run("wrong profiles", func(t *testing.T) { // field case 20
		l := &lab{t, l.dir}
		l.refused(2, disk, "bad.yaml:3|bad.yaml:4|bad.yaml:5", l.write("bad.yaml", `version: 1
matrix:
  queue_depth: [01]
  nr_requests: [0x10]
  max_sectors_kb: ["8 "]
workloads: [{name: r, type: io}]
`), "--device", node)
	})
}

// TestLabRootDisk: the root file system's disk is never a block target, whatever is allowed.
func TestLabRootDisk(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	l.refused(3, disk, "root", l.write("r.yaml", readOnly), "--device", "/dev/"+disk, "--allow", "shared-disk")
}
