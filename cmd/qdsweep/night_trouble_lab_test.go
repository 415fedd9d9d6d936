//go:build lab

package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostOf is the SCSI host that a disk hangs on.
func (l *lab) hostOf(disk string) string {
	l.Helper()
	place, err := filepath.EvalSymlinks("/sys/block/" + disk + "/device") // …/hostN/targetN:0:0/N:0:0:0
	require.NoError(l, err)
	return filepath.Base(filepath.Dir(filepath.Dir(place)))
}

// pull takes a drive out, and gives what puts it back, under whatever name the kernel has for it then. A drive keeps its write cache meanwhile.
func (l *lab) pull(disk string) (plug func()) {
	l.Helper()
	wwid, host := l.get(disk, "device/wwid"), l.hostOf(disk)
	l.shell("echo 1 > /sys/block/%s/device/delete", disk)
	l.eventually(30*time.Second*timeScale, disk+" is gone", func() bool { return l.disk(wwid) == "" })
	return func() {
		l.Helper()
		l.shell("echo '- - -' > /sys/class/scsi_host/%s/scan", host)
		l.eventually(30*time.Second*timeScale, wwid+" is back", func() bool { return l.disk(wwid) != "" })
	}
}

// reads is how many reads of a disk the kernel has counted.
func (l *lab) reads(disk string) int {
	l.Helper()
	return atoi(l, strings.Fields(l.get(disk, "stat"))[0])
}

// TestLabSataPulledAndResumed pulls the drive in the middle of a sweep, and another one; they come back with each other's letters. What is done then is done on
// the drive that it was begun on, and the other one is not read.
func TestLabSataPulledAndResumed(t *testing.T) {
	l := newLab(t)
	rnd := rand.New(rand.NewPCG(chaosSeed(t), 5))
	first, second := l.get(l.sata(1), "device/wwid"), l.get(l.sata(2), "device/wwid")
	disk := l.disk(first)
	n := l.newNight("night", shortRuns("{queue_depth: [1, 4], write_cache: [off]}", 6), []string{disk, l.disk(second)}, "--device", "/dev/"+disk)
	u := n.goOn()
	for _, how := range []string{"while it runs", "and it is killed"} {
		u.further(n, 2)
		time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
		disk, other := l.disk(first), l.disk(second)
		if how == "and it is killed" {
			u.dies("keeper", "main") // nobody puts anything back
		}
		plug, plugOther := l.pull(disk), l.pull(other)
		<-u.ended
		t.Logf("pulled %s: exit %d\n%s", how, u.code, u.text())
		switch u.code {
		case 5:
			assert.Contains(t, u.text(), "NOT RESTORED: "+disk)
			assert.Contains(t, u.text(), "restore --forget")
		case 4: // between two runs all is as it was
		default:
			require.Equal(t, 137, u.code)
		}
		entries, _ := filepath.Glob(l.state() + "/journal/*.json")
		if s := l.run("restore"); len(entries) > 0 {
			assert.Equal(t, 4, s.code, "the drive is gone, and its record stays")
		} else {
			assert.Equal(t, 0, s.code)
		}
		if disk < other {
			plugOther()
			plug()
		} else {
			plug()
			plugOther()
		}
		require.Equal(t, []string{other, disk}, []string{l.disk(first), l.disk(second)}, "they have each other's names")
		n.putBack()
		before := l.reads(l.disk(second))
		u = n.goOn("--retry-failed")
		u.further(n, 1)
		assert.Less(t, l.reads(l.disk(second))-before, 50, "the other drive is not measured")
	}
	n.ends(u, map[string]string{"": "QDLAB-SATA-1"})
}

// TestLabDelayErrorsAndResumed: read errors fail their runs and those alone; when the drive is well again `resume --retry-failed` repeats them.
func TestLabDelayErrorsAndResumed(t *testing.T) {
	l := newLab(t)
	disk := l.delayed(2)
	const opts = "/sys/bus/pseudo/drivers/scsi_debug/opts"
	was, err := os.ReadFile(opts)
	require.NoError(t, err)
	well := func() { require.NoError(t, os.WriteFile(opts, was, 0o644)) }
	t.Cleanup(well)
	profile := strings.Replace(shortRuns("{queue_depth: [4, 8], max_sectors_kb: [64]}", 4), "mode: randread, iodepth: 8, size: 256k,", "mode: read, block_size: 64k, iodepth: 8, size: 4m,", 1)
	n := l.newNight("night", profile, []string{disk}, "--device", "/dev/"+disk)
	u := n.goOn()
	u.further(n, 2)
	require.NoError(t, os.WriteFile(opts, []byte("0x2"), 0o644)) // medium errors at sectors 0x1234 to 0x123d (scsi_debug)
	u.further(n, 2)
	well()
	rows := u.end(4)
	failed := 0
	for _, r := range rows {
		if r.Status == "failed" {
			failed++
			assert.Contains(t, r.Reason, "ENODATA (medium error")
		}
	}
	assert.GreaterOrEqual(t, failed, 1)
	assert.Len(t, rows, len(n.Planned), "the others were done")
	n.putBack()
	n.ends(n.goOn("--retry-failed"), nil)
}

// TestLabDelayHungAndResumed: the target stops to answer, the worker does not die of SIGKILL, and the sweep ends without it. When the target answers again `resume`
// does what was left.
func TestLabDelayHungAndResumed(t *testing.T) {
	l := newLab(t)
	disk := l.delayed(1)
	l.shell("dmsetup create hung --table \"0 $(cat /sys/block/%s/size) linear /dev/%s 0\" && dmsetup mknodes", disk, disk)
	defer l.shell("dmsetup remove --retry hung")
	profile := strings.Replace(shortRuns("{queue_depth: [4, 8]}", 4), "timeout: 2m", "timeout: 5s", 1)
	n := l.newNight("night", profile, []string{disk}, "--device", "/dev/mapper/hung")
	u := n.goOn()
	u.further(n, 2)
	l.shell("dmsetup suspend --noflush --nolockfs hung")
	answers := func() { l.shell("dmsetup resume hung") }
	defer answers()
	select {
	case <-u.ended:
	case <-time.After(60 * time.Second * timeScale):
		t.Fatalf("the sweep waits for a target that does not answer: %s", u.text())
	}
	assert.Equal(t, 4, u.code, u.text())
	assert.Contains(t, u.text(), "stuck in the kernel")
	require.Less(t, n.done(), len(n.Planned))
	n.asBefore() // while it hangs
	answers()
	u = n.goOn("--retry-failed")
	n.ends(u, nil)
}

// narrow makes a file system of 4 MiB, in a file, for what is to be full.
func (l *lab) narrow(name string) (dir string) {
	l.Helper()
	dir = l.path(name)
	l.shell("truncate -s 4M %[1]s.img && mkfs.ext4 -q -F -m 0 -O ^has_journal %[1]s.img && mkdir %[1]s && mount -o loop %[1]s.img %[1]s", dir)
	l.Cleanup(func() { l.shell("umount -l %s", dir) })
	return dir
}

// fill takes what room there is: again and again, until done is closed. What a run gives free when it ends would be enough for the next one.
func (l *lab) fill(dir string, done <-chan struct{}) {
	for {
		l.shell("dd if=/dev/zero of=%s/filler oflag=append conv=notrunc bs=1k 2>/dev/null || true", dir)
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}
func (l *lab) empty(dir string) { l.shell("rm %s/filler", dir) }

// TestLabSataFullAndResumed: the disk of the output folder is full, then that of the state folder, then both. What was measured is kept, the settings come back, and
// when there is room again `resume` merges and completes (field case 30).
func TestLabSataFullAndResumed(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	out, state := l.narrow("results"), l.narrow("state")
	n := l.newNight("night", shortRuns("{queue_depth: [1, 4], max_sectors_kb: [8, 64]}", 4), []string{disk}, "--device", "/dev/"+disk)
	n.out = out + "/night"
	u := n.goOn()
	for _, c := range []struct {
		name string
		full []string
	}{{"the output folder", []string{out}}, {"the state folder", []string{state}}, {"both", []string{out, state}}} {
		u.further(n, 2)
		var filling sync.WaitGroup
		for _, dir := range c.full {
			filling.Add(1)
			go func() {
				defer filling.Done()
				l.fill(dir, u.ended)
			}()
		}
		filling.Wait()
		t.Logf("%s full: exit %d\n%s", c.name, u.code, u.text())
		assert.Equal(t, 4, u.code, c.name)
		assert.Contains(t, u.text(), "no space left", c.name)
		n.asBefore()
		for _, dir := range c.full {
			l.empty(dir)
		}
		u = n.goOn("--retry-failed")
	}
	n.ends(u, map[string]string{"": "QDLAB-SATA-2"})
}

// TestLabSataClockAndResumed: the clock is set back by an hour and forward by two in the middle of a sweep, and between its end and its resume.
func TestLabSataClockAndResumed(t *testing.T) {
	l := newLab(t)
	disk := l.sata(3)
	step := func(seconds int) { l.shell("date -s @$(( $(date +%%s) + %d ))", seconds) }
	n := l.newNight("night", shortRuns("{queue_depth: [1, 4]}", 6), []string{disk}, "--device", "/dev/"+disk)
	u := n.goOn()
	u.further(n, 2)
	step(-3600)
	defer step(-3600)
	u.further(n, 2)
	step(7200)
	u.further(n, 2)
	require.NoError(t, syscall.Kill(u.pid, syscall.SIGTERM))
	<-u.ended
	assert.Equal(t, 143, u.code, u.text())
	n.asBefore()
	step(-7200)
	u = n.goOn()
	u.further(n, 2)
	step(7200)
	n.ends(u, map[string]string{"": "QDLAB-SATA-3"})
}

// TestLabSataReadOnlyAndResumed: an attribute that can be read and not written when its old value is to go back. That is said, with what to type, and kept for; no
// sweep takes the changed value for the original; and when it can be written again `restore` puts it back and `resume` goes on.
func TestLabSataReadOnlyAndResumed(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	n := l.newNight("night", shortRuns("{queue_depth: [1, 4], max_sectors_kb: [8]}", 3), []string{disk}, "--device", "/dev/"+disk)
	attribute, err := filepath.EvalSymlinks("/sys/block/" + disk + "/queue/max_sectors_kb")
	require.NoError(t, err)
	u := n.goOn()
	u.further(n, 2)
	writable := func() { l.shell("umount %s", attribute) }
	u.until("the setting is made, and cannot be written any more", func() bool {
		if l.get(disk, "queue/max_sectors_kb") != "8" {
			return false
		}
		l.shell("mount --bind %[1]s %[1]s && mount -o remount,ro,bind %[1]s", attribute) // EROFS for whoever writes it
		if l.get(disk, "queue/max_sectors_kb") == "8" {
			return true
		}
		writable() // too late: it had been put back
		return false
	})
	t.Cleanup(func() { exec.Command("umount", attribute).Run() })
	<-u.ended
	t.Logf("exit %d\n%s", u.code, u.text())
	assert.Equal(t, 5, u.code)
	for _, want := range []string{"NOT RESTORED: " + disk, "read-only file system", "echo ", "> /sys/", "sudo qdsweep restore"} {
		assert.Contains(t, u.text(), want)
	}
	assert.False(t, l.journalEmpty())
	s := l.run("restore")
	assert.Equal(t, 5, s.code)
	s = l.run("resume", n.out)
	assert.Equal(t, 3, s.code)
	assert.Contains(t, s.err, "qdsweep restore")
	writable()
	n.putBack()
	n.ends(n.goOn("--retry-failed"), map[string]string{"": "QDLAB-SATA-1"})
}
