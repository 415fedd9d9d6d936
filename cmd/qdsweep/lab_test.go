//go:build lab

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// The tests of this file's kind run as root in a guest of the lab, against its kernel and its emulated drives, and use the program as
// a user does: by its command line.

const program = "/usr/bin/qdsweep"

// lab is what every end-to-end test has: a folder on a real file system for state, output and profiles.
type lab struct {
	testing.TB
	dir string
}

func newLab(t testing.TB) *lab {
	dir, err := os.MkdirTemp("/scratch", "e2e-")
	require.NoError(t, err)
	l := &lab{t, dir}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return l
}

func (l *lab) state() string           { return filepath.Join(l.dir, "state") }
func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

func (l *lab) write(name, text string) string {
	require.NoError(l, os.WriteFile(l.path(name), []byte(text), 0o644))
	return l.path(name)
}

// said is what a command printed and how it ended.
type said struct {
	out, err string
	code     int
	took     time.Duration
}

func (l *lab) command(args ...string) *exec.Cmd {
	c := exec.Command(program, append([]string{"--state-dir", l.state()}, args...)...)
	c.Dir = l.dir
	return c
}

func (l *lab) run(args ...string) said {
	l.Helper()
	c := l.command(args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	began := time.Now()
	err := c.Run()
	s := said{out.String(), errs.String(), exitCode(err), time.Since(began)}
	l.Logf("qdsweep %s: exit %d\n%s%s", strings.Join(args, " "), s.code, s.err, s.out)
	return s
}

func exitCode(err error) int {
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return e.ExitCode()
	}
	return -1
}

// shell runs a command of the guest's that has to work.
func (l *lab) shell(format string, a ...any) string {
	l.Helper()
	out, err := exec.Command("sh", "-c", fmt.Sprintf(format, a...)).CombinedOutput()
	require.NoError(l, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// ext4 mounts a file system on a disk, which is blank again after the test. It writes nothing by itself: what ext4 leaves to be initialised
// after the mount would be foreign I/O.
func (l *lab) ext4(disk, dir string) {
	l.Helper()
	l.shell("mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/%s && mkdir -p %s && mount /dev/%s %s", disk, dir, disk, dir)
	l.Cleanup(func() { l.shell("umount %s && dd if=/dev/zero of=/dev/%s bs=1M count=1 2>/dev/null", dir, disk) })
}

// rows are the whole runs' rows of an output folder.
func (l *lab) rows(out string) []results.Row {
	l.Helper()
	f, err := os.Open(filepath.Join(out, results.FileName))
	require.NoError(l, err)
	defer f.Close()
	var rows []results.Row
	for r, err := range results.Read(f) {
		require.NoError(l, err)
		rows = append(rows, r)
	}
	return rows
}

// wholeRows is rows of a file that a crash may have left with a torn tail, which is no run.
func (l *lab) wholeRows(out string) []results.Row {
	l.Helper()
	f, err := os.Open(filepath.Join(out, results.FileName))
	require.NoError(l, err)
	defer f.Close()
	var rows []results.Row
	for r, err := range results.Read(f) {
		if err == nil {
			rows = append(rows, r)
		}
	}
	return rows
}

// sata finds an emulated SATA disk by its serial: names come up in no fixed order.
func (l *lab) sata(n int) string {
	l.Helper()
	serial := fmt.Sprintf("QDLAB-SATA-%d", n)
	pages, err := filepath.Glob("/sys/block/sd*/device/vpd_pg80")
	require.NoError(l, err)
	for _, p := range pages {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), serial) {
			return strings.Split(p, "/")[3]
		}
	}
	l.Fatalf("no disk with serial %s", serial)
	return ""
}

// delayed is the n-th scsi_debug drive, from 1.
func (l *lab) delayed(n int) string {
	l.Helper()
	models, err := filepath.Glob("/sys/block/sd*/device/model")
	require.NoError(l, err)
	for _, p := range models {
		b, err := os.ReadFile(p)
		require.NoError(l, err)
		if strings.HasPrefix(string(b), "scsi_debug") {
			if n--; n == 0 {
				return strings.Split(p, "/")[3]
			}
		}
	}
	l.Fatal("too few scsi_debug drives")
	return ""
}

// settings is everything of a disk that a sweep could leave changed: every readable attribute of queue/ and iosched/, the depth, and what
// hdparm, another program, says of the write cache. What the disk is called, and where it hangs, is not in it: both change.
func (l *lab) settings(disk string) map[string]string {
	l.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"queue/*", "queue/iosched/*", "device/queue_depth", "device/queue_ramp_up_period", "device/scsi_disk/*/cache_type", "cache_type"} {
		files, err := filepath.Glob("/sys/block/" + disk + "/" + pattern)
		require.NoError(l, err)
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			name := strings.TrimPrefix(f, "/sys/block/"+disk+"/")
			if strings.HasSuffix(name, "/cache_type") {
				name = "cache_type"
			}
			all[name] = string(b)
		}
	}
	out, _ := exec.Command("hdparm", "-W", "/dev/"+disk).CombinedOutput()
	all["hdparm -W"] = strings.ReplaceAll(string(out), disk, "disk")
	return all
}

func (l *lab) set(disk, attribute, value string) {
	l.Helper()
	require.NoError(l, os.WriteFile("/sys/block/"+disk+"/"+attribute, []byte(value), 0o644))
}

func (l *lab) get(disk, attribute string) string {
	l.Helper()
	b, err := os.ReadFile("/sys/block/" + disk + "/" + attribute)
	require.NoError(l, err)
	return strings.TrimSpace(string(b))
}

// eventually waits for something that another process does; how long it may take is the test's limit, not what makes it right.
func (l *lab) eventually(limit time.Duration, what string, f func() bool) time.Duration {
	l.Helper()
	began := time.Now()
	for !f() {
		if time.Since(began) > limit {
			l.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}

func num(t testing.TB, n interface{ Get() (float64, bool) }) float64 {
	t.Helper()
	v, ok := n.Get()
	require.True(t, ok, "the number is there")
	return v
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// ladder is a profile that reads at random from a drive at the given depths.
func ladder(depths string, runtime string) string {
	return `version: 1
name: ladder
matrix:
  queue_depth: ` + depths + `
repeats: 1
settle: 100ms
workloads:
  - {name: rnd, type: io, mode: randread, block_size: 4k, iodepth: 32, threads: 2, runtime: ` + runtime + `}
`
}
