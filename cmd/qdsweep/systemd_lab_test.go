//go:build lab

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// manager is a real systemd with nothing but the units of docs/systemd, as process 1 of a PID namespace of its own. What it and they write below /run, /sys/fs/cgroup
// and /var/lib is theirs alone.
type manager struct {
	*lab
	pid int
}

// The units come with what they take for granted on a machine. A stopped watchdog and a restart in tests take seconds, not minutes.
const managerUnits = `
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/units/qdsweep@.service.d /run/units/qdsweep-restore.service.d /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /usr/local/bin /etc/qdsweep /var/lib/qdsweep /var/lib/qdsweep-results
ln -sf /usr/bin/qdsweep /usr/local/bin/qdsweep
mount --bind $LAB/state /var/lib/qdsweep
mount --bind $LAB/results /var/lib/qdsweep-results
mount --bind $LAB/profiles /etc/qdsweep
cp $UNITS/*.service /run/units/
for t in lab sysinit basic shutdown local-fs umount; do printf '[Unit]\nDefaultDependencies=no\n' >/run/units/$t.target; done
printf '[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/true\n' >/run/units/systemd-udev-settle.service
for u in qdsweep@ qdsweep-restore; do printf "[Service]\nStandardOutput=append:$LAB/said\nStandardError=append:$LAB/said\n" >/run/units/$u.service.d/lab.conf; done
printf 'WatchdogSec=4s\nRestartSec=1s\n' >>/run/units/qdsweep@.service.d/lab.conf
exec env -i SYSTEMD_UNIT_PATH=/run/units container=lab PATH=/usr/sbin:/usr/bin $(command -v systemd) --system --unit=lab.target --log-target=console >$LAB/systemd 2>&1
`

func newManager(t *testing.T) *manager {
	l := newLab(t)
	for _, dir := range []string{"state", "results", "profiles"} {
		require.NoError(t, os.Mkdir(l.path(dir), 0o700))
	}
	units, err := filepath.Abs("../../docs/systemd")
	require.NoError(t, err)
	c := exec.Command("/bin/sh", "-c", managerUnits)
	c.Env = append(os.Environ(), "LAB="+l.dir, "UNITS="+units)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS}
	said, err := os.Create(l.path("manager"))
	require.NoError(t, err)
	defer said.Close()
	c.Stdout, c.Stderr = said, said
	require.NoError(t, c.Start())
	m := &manager{l, c.Process.Pid}
	t.Cleanup(func() {
		_ = c.Process.Kill() // and everything in it
		_ = c.Wait()
		if t.Failed() {
			for _, name := range []string{"manager", "systemd", "said"} {
				text, _ := os.ReadFile(l.path(name))
				t.Logf("%s:\n%s", name, text)
			}
		}
	})
	l.eventually(60*time.Second*timeScale, "systemd runs", func() bool { return m.active("lab.target") == "active" })
	return m
}

// inside runs a command where the units are.
func (m *manager) inside(args ...string) (string, int) {
	out, err := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(m.pid), "-m", "-p", "-u", "--"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), exitCode(err)
}

func (m *manager) systemctl(args ...string) int {
	m.Helper()
	out, code := m.inside(append([]string{"systemctl", "--no-pager"}, args...)...)
	m.Logf("systemctl %s: exit %d\n%s", strings.Join(args, " "), code, out)
	return code
}

func (m *manager) show(unit, property string) string {
	out, _ := m.inside("systemctl", "show", "-P", property, unit)
	return out
}

func (m *manager) active(unit string) string { return m.show(unit, "ActiveState") }

// main is the sweep's process, as this test sees it.
func (m *manager) main(unit string) int {
	m.Helper()
	within := m.show(unit, "MainPID")
	status, err := filepath.Glob("/proc/[0-9]*/status")
	require.NoError(m, err)
	for _, name := range status {
		text, _ := os.ReadFile(name)
		for _, line := range strings.Split(string(text), "\n") {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "NSpid:" && f[2] == within {
				return atoi(m, strings.Split(name, "/")[2])
			}
		}
	}
	m.Fatalf("no process %s in the namespace", within)
	return 0
}

// The units as they are shipped, under a real systemd: a sweep is stopped, killed, and hangs; each time everything is as it was, and started again it goes on,
// to its end, with each run exactly once.
func TestLabSataSystemd(t *testing.T) {
	m := newManager(t)
	disk := m.sata(1)
	const unit, runs = "qdsweep@ncq", 30
	before := m.settings(disk)
	profile := fmt.Sprintf("version: 1\nname: ncq\ntarget: {device: /dev/%s}\nmatrix: {queue_depth: [1, 4]}\nrepeats: %d\nsettle: 0s\n"+
		"hooks: {before_run: '[ -z \"$NOTIFY_SOCKET$WATCHDOG_USEC\" ]'}\nworkloads: [{name: r, type: io, mode: randread, engine: psync, runtime: 200ms}]\n", disk, runs/2)
	m.write("profiles/ncq.yaml", profile)
	m.write("profiles/ncq.env", "FLAGS=--allow hooks\n")
	isBack := func() bool { return m.get(disk, "device/queue_depth") == "32" && empty(m, "state/journal") }
	changed := func() bool { return m.get(disk, "device/queue_depth") != "32" }

	out, code := m.inside("env", "SYSTEMD_UNIT_PATH=/run/units", "systemd-analyze", "verify", "--man=no", unit+".service", "qdsweep-restore.service")
	assert.Zero(t, code, out)
	assert.Empty(t, out, "nothing is wrong with the units")

	require.Zero(t, m.systemctl("start", unit), "started once the sweep has begun")
	m.eventually(30*time.Second*timeScale, "systemd shows how far it is", func() bool {
		return regexp.MustCompile(fmt.Sprintf(`run \d+ of %d, queue_depth=`, runs)).MatchString(m.show(unit, "StatusText"))
	})

	m.eventually(30*time.Second*timeScale, "a setting is made", changed)
	require.NoError(t, syscall.Kill(m.main(unit), syscall.SIGKILL))
	m.eventually(60*time.Second*timeScale, "killed, it is restored", isBack)
	m.eventually(60*time.Second*timeScale, "killed, it is started again", func() bool { return m.active(unit) == "active" && m.show(unit, "NRestarts") == "1" })

	m.eventually(30*time.Second*timeScale, "a setting is made", changed)
	require.NoError(t, syscall.Kill(m.main(unit), syscall.SIGSTOP)) // it is there, and does nothing
	m.eventually(60*time.Second*timeScale, "the watchdog ends it", func() bool { return m.show(unit, "Result") == "watchdog" })
	m.eventually(60*time.Second*timeScale, "after the watchdog it is restored", isBack)
	m.eventually(60*time.Second*timeScale, "after the watchdog it is started again", func() bool { return m.active(unit) == "active" && m.show(unit, "NRestarts") == "2" })

	m.eventually(30*time.Second*timeScale, "a setting is made", changed)
	assert.Zero(t, m.systemctl("stop", unit))
	assert.True(t, isBack(), "stopped is restored")
	assert.Equal(t, "inactive success", m.active(unit)+" "+m.show(unit, "Result"), "stopping it is no failure")
	assert.Equal(t, before, m.settings(disk))
	done := len(m.rows(m.path("results/ncq")))
	assert.Less(t, done, runs)

	require.Zero(t, m.systemctl("start", unit))
	m.eventually(120*time.Second*timeScale, "it comes to its end", func() bool { return m.active(unit) != "active" })
	m.eventually(30*time.Second*timeScale, "that is no failure", func() bool { return m.active(unit)+" "+m.show(unit, "Result") == "inactive success" })
	assert.Equal(t, before, m.settings(disk))
	text, err := os.ReadFile(m.path("results/ncq/results.csv"))
	require.NoError(t, err)
	p := promised{}
	for k := 1; k <= runs/2; k++ {
		p.planned = append(p.planned, fmt.Sprintf("queue_depth=1#%d", k), fmt.Sprintf("queue_depth=4#%d", k))
	}
	assert.Empty(t, p.faults(text))
	assert.Zero(t, m.systemctl("start", unit), "one that has nothing left to do is no failure, either")

	m.write("profiles/deep.yaml", strings.NewReplacer("[1, 4]", "[1, 64]", "name: ncq", "name: deep").Replace(profile))
	assert.NotZero(t, m.systemctl("start", "qdsweep@deep"), "a refusal is a failed start")
	assert.Equal(t, "failed 0", m.active("qdsweep@deep")+" "+m.show("qdsweep@deep", "NRestarts"), "and is not tried again")
	assert.NotZero(t, m.systemctl("start", "qdsweep@none"), "so is a profile that is not there")
}

// At boot, with a journal of a sweep whose processes are all gone, the other unit restores; without one it does nothing.
func TestLabSataSystemdRestore(t *testing.T) {
	m := newManager(t)
	disk := m.sata(1)
	before := m.settings(disk)
	require.Zero(t, m.systemctl("start", "qdsweep-restore"))
	assert.Equal(t, "no", m.show("qdsweep-restore", "ConditionResult"), "nothing to do")

	u := m.start("r", strings.Replace(ladder("[1]", "60s"), "name: rnd", "name: r", 1), "--device", "/dev/"+disk)
	u.working(1)
	u.kill(m.helper(u.pid, "keeper"))
	require.Equal(t, "1", m.get(disk, "device/queue_depth"))
	require.Zero(t, m.systemctl("start", "qdsweep-restore"))
	assert.Equal(t, before, m.settings(disk))
	assert.True(t, empty(m, "state/journal"))
	assert.Equal(t, "success", m.show("qdsweep-restore", "Result"))
}

func empty(m *manager, dir string) bool {
	entries, err := os.ReadDir(m.path(dir))
	require.NoError(m, err)
	return len(entries) == 0
}
