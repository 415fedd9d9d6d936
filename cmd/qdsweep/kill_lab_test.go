//go:build lab

package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// timeScale is by what limits on time are relaxed: the lab emulates every instruction (design section 13).
const timeScale = 3

// chaosSeed is printed, and can be given, so that a night's failure can be had again.
func chaosSeed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("QDSWEEP_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	t.Logf("QDSWEEP_SEED=%d", seed)
	return seed
}

func rounds(short, long int) int {
	if os.Getenv("QDSWEEP_CHAOS") == "long" {
		return long
	}
	return short
}

// helper finds the process id of a sweep's keeper or worker.
func (l *lab) helper(main int, name string) int {
	l.Helper()
	found := 0
	l.eventually(20*timeScale*time.Second, "a "+name, func() bool {
		procs, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range procs {
			stat, err := os.ReadFile(p + "/stat")
			if err != nil {
				continue
			}
			_, rest, ok := strings.Cut(string(stat), ") ")
			fields := strings.Fields(rest)
			if !ok || len(fields) < 2 || fields[1] != strconv.Itoa(main) || fields[0] == "Z" {
				continue
			}
			cmd, _ := os.ReadFile(p + "/cmdline")
			for _, word := range strings.Split(string(cmd), "\x00") {
				if word == name {
					found, _ = strconv.Atoi(filepath.Base(p))
					return true
				}
			}
		}
		return false
	})
	return found
}

func endless(axes string) string {
	return `version: 1
name: endless
matrix: ` + axes + `
repeats: 1000
settle: 0s
workloads: [{name: r, type: io, mode: randread, iodepth: 4, runtime: 300ms}]
`
}

// TestLabSataSIGKILLOfMain kills main at random moments of a sweep: the keeper puts everything back, unasked; rows already written stay whole.
func TestLabSataSIGKILLOfMain(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	before := l.settings(disk)
	rnd := rand.New(rand.NewPCG(chaosSeed(t), 0))
	for i := range rounds(10, 100) {
		axes, limit := "{queue_depth: [1, 4], max_sectors_kb: [8, 64]}", 2*time.Second*timeScale
		if i%2 == 1 {
			axes, limit = "{queue_depth: [1, 4], write_cache: [off]}", 5*time.Second*timeScale
		}
		out := l.path("out" + strconv.Itoa(i))
		c := l.command("run", l.write("p.yaml", endless(axes)), "--device", "/dev/"+disk, "--out", out)
		require.NoError(t, c.Start())
		l.eventually(30*time.Second*timeScale, "the sweep changes something", func() bool { return l.get(disk, "device/queue_depth") != "32" })
		time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Second))))
		require.NoError(t, c.Process.Kill())
		killed := time.Now()
		c.Wait()
		l.eventually(limit, "everything is as it was", func() bool { return l.journalEmpty() && l.get(disk, "device/queue_depth") == "32" })
		t.Logf("round %d %s: back %v after SIGKILL", i, axes, time.Since(killed).Round(time.Millisecond))
		require.Equal(t, before, l.settings(disk), "round %d", i)
		for _, r := range l.rows(out) {
			require.Equal(t, "ok", r.Status, r.Reason)
		}
	}
}

func (l *lab) journalEmpty() bool {
	entries, err := filepath.Glob(l.state() + "/journal/*.json")
	return err == nil && len(entries) == 0
}

// TestLabSataSIGKILLOfKeeper: main restores through a new one and goes on.
func TestLabSataSIGKILLOfKeeper(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	before := l.settings(disk)
	profile := strings.Replace(endless("{queue_depth: [1, 4]}"), "repeats: 1000", "repeats: 4", 1)
	c := l.command("run", l.write("p.yaml", profile), "--device", "/dev/"+disk, "--out", l.path("out"))
	var errs strings.Builder
	c.Stderr = &errs
	require.NoError(t, c.Start())
	l.eventually(30*time.Second*timeScale, "the sweep changes something", func() bool { return l.get(disk, "device/queue_depth") != "32" })
	require.NoError(t, syscall.Kill(l.helper(c.Process.Pid, "keeper"), syscall.SIGKILL))
	err := c.Wait()
	require.Equal(t, 0, exitCode(err), errs.String())
	assert.Contains(t, errs.String(), "keeper died")
	assert.Equal(t, before, l.settings(disk))
	assert.Len(t, l.rows(l.path("out")), 8, "every run exactly once")
	assert.True(t, l.journalEmpty())
}

// TestLabSataSIGKILLOfBoth: nobody is left to restore; `restore` does, and `run` refuses the drive until then.
func TestLabSataSIGKILLOfBoth(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	before := l.settings(disk)
	profile := l.write("p.yaml", endless("{queue_depth: [1, 4], write_cache: [off], max_sectors_kb: [8]}"))
	c := l.command("run", profile, "--device", "/dev/"+disk, "--out", l.path("out"))
	require.NoError(t, c.Start())
	l.eventually(30*time.Second*timeScale, "the sweep changes something", func() bool { return l.get(disk, "queue/max_sectors_kb") == "8" })
	keeper := l.helper(c.Process.Pid, "keeper")
	require.NoError(t, syscall.Kill(keeper, syscall.SIGKILL))
	require.NoError(t, c.Process.Kill())
	c.Wait()
	require.NotEqual(t, before, l.settings(disk), "nobody put it back")

	s := l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("again"))
	assert.Equal(t, 3, s.code)
	assert.Contains(t, s.err, "qdsweep restore")
	assert.NoDirExists(t, l.path("again"))

	s = l.run("restore", "--dry-run")
	assert.Equal(t, 4, s.code)
	require.NotEqual(t, before, l.settings(disk), "a dry run changes nothing")
	s = l.run("restore")
	assert.Equal(t, 0, s.code)
	assert.Equal(t, before, l.settings(disk))
	s = l.run("restore")
	assert.Equal(t, 0, s.code, "nothing left")
}

// TestLabSataSignals: INT, TERM and HUP abandon the run, restore, and exit 130, 143 and 129; a second one changes nothing (field cases 17, 31).
func TestLabSataSignals(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	before := l.settings(disk)
	for _, c := range []struct {
		sig  syscall.Signal
		code int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}} {
		out := l.path(c.sig.String())
		cmd := l.command("run", l.write("p.yaml", endless("{queue_depth: [1, 4], write_cache: [off]}")), "--device", "/dev/"+disk, "--out", out)
		var text, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &text, &errs
		require.NoError(t, cmd.Start())
		l.eventually(60*time.Second*timeScale, "two runs are done", func() bool {
			b, _ := os.ReadFile(out + "/results.csv")
			return strings.Count(string(b), "\n") >= 3
		})
		l.eventually(30*time.Second*timeScale, "a run goes on", func() bool { return l.get(disk, "device/queue_depth") != "32" })
		require.NoError(t, cmd.Process.Signal(c.sig))
		cmd.Process.Signal(c.sig)
		assert.Equal(t, c.code, exitCode(cmd.Wait()), errs.String())
		assert.Equal(t, before, l.settings(disk), "%v", c.sig)
		assert.Contains(t, text.String(), "remaining", "the audit is printed, always")
	}
}

// TestLabSataBrokenPipe: a reader that goes away ends nothing (field case 31).
func TestLabSataBrokenPipe(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	before := l.settings(disk)
	profile := l.write("p.yaml", strings.Replace(endless("{queue_depth: [1, 4]}"), "repeats: 1000", "repeats: 2", 1))
	out, err := exec.Command("sh", "-c", program+" --state-dir "+l.state()+" run "+profile+" --device /dev/"+disk+" --out "+l.path("out")+" 2>&1 | true; sync").CombinedOutput()
	require.NoError(t, err, "%s", out)
	l.eventually(60*time.Second*timeScale, "the sweep goes on to its end", func() bool {
		b, _ := os.ReadFile(l.path("out") + "/status.json")
		return strings.Contains(string(b), `"ended"`)
	})
	assert.Len(t, l.rows(l.path("out")), 4)
	l.eventually(10*time.Second*timeScale, "put back", func() bool { return l.journalEmpty() })
	assert.Equal(t, before, l.settings(disk))
}

// TestLabSataTwoSweeps: the second is refused while the first holds the members, and waits with --wait (field cases 27, 33).
func TestLabSataTwoSweeps(t *testing.T) {
	l := newLab(t)
	disk := l.sata(2)
	profile := l.write("p.yaml", strings.Replace(endless("{queue_depth: [1, 4]}"), "repeats: 1000", "repeats: 5", 1))
	first := l.command("run", profile, "--device", "/dev/"+disk, "--out", l.path("first"))
	require.NoError(t, first.Start())
	l.eventually(30*time.Second*timeScale, "the first holds the member", func() bool { return l.get(disk, "device/queue_depth") != "32" })
	s := l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("second"))
	assert.Equal(t, 3, s.code)
	assert.Contains(t, s.err, strconv.Itoa(first.Process.Pid), "who has it")
	assert.NoDirExists(t, l.path("second"))
	s = l.run("run", profile, "--device", "/dev/"+disk, "--out", l.path("third"), "--wait", "5m")
	assert.Equal(t, 0, s.code)
	assert.NoError(t, first.Wait())
	assert.Len(t, l.rows(l.path("third")), 10)
}

// TestLabSataPanic: a crash of main is 134, never the 2 of a wrong profile, and the keeper restores.
func TestLabSataPanic(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	before := l.settings(disk)
	c := l.command("run", l.write("p.yaml", endless("{queue_depth: [1]}")), "--device", "/dev/"+disk, "--out", l.path("out"))
	require.NoError(t, c.Start())
	l.eventually(30*time.Second*timeScale, "the sweep changes something", func() bool { return l.get(disk, "device/queue_depth") == "1" })
	require.NoError(t, c.Process.Signal(syscall.SIGQUIT)) // the Go runtime's own fatal path, as of a panic in a goroutine
	assert.Equal(t, 134, exitCode(c.Wait()))
	l.eventually(2*time.Second*timeScale, "put back", func() bool { return l.journalEmpty() })
	assert.Equal(t, before, l.settings(disk))
}
