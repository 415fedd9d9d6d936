package sweep

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs/systest"
	"qdsweep/workload"
)

// manager is a service manager's end of the line; heard are the datagrams so far that it has not given yet, in their order.
func manager(t *testing.T, address string) (heard func() []string) {
	at := &net.UnixAddr{Name: address, Net: "unixgram"}
	c, err := net.ListenUnixgram("unixgram", at)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", address)
	got := make(chan string, 10_000)
	go func() { // a socket keeps ten
		defer close(got)
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			got <- string(buf[:n])
		}
	}()
	return func() (all []string) {
		mark, err := net.DialUnix("unixgram", nil, at)
		require.NoError(t, err)
		defer mark.Close()
		_, err = mark.Write([]byte("mark"))
		require.NoError(t, err)
		for text := range got {
			if text == "mark" {
				break
			}
			all = append(all, text)
		}
		return all
	}
}

func TestNotifierIsTakenFromTheEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		socket, usec, pid string
		there             bool
		watchdog          time.Duration
	}{
		"a path":                       {filepath.Join(t.TempDir(), "n"), "", "", true, 0},
		"an abstract one":              {"@qdsweep-test-" + newSweepID(time.Now(), false), "3000000", "", true, 3 * time.Second},
		"a watchdog of this process":   {filepath.Join(t.TempDir(), "n"), "500000", pid(), true, 500 * time.Millisecond},
		"a watchdog of another":        {filepath.Join(t.TempDir(), "n"), "500000", "1", true, 0},
		"a watchdog that is no number": {filepath.Join(t.TempDir(), "n"), "soon", "", true, 0},
		"none":                         {"", "", "", false, 0},
		"a kind that we have not got":  {"vsock:2:1234", "", "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			heard := func() []string { return nil }
			if c.there {
				heard = manager(t, c.socket)
			} else {
				t.Setenv("NOTIFY_SOCKET", c.socket)
			}
			t.Setenv("WATCHDOG_USEC", c.usec)
			t.Setenv("WATCHDOG_PID", c.pid)
			n := TakeNotifier()
			for _, v := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
				_, there := os.LookupEnv(v)
				assert.False(t, there, "%s is left for children", v)
			}
			n.tell("READY=1", "STATUS=one\ntwo")
			if !c.there {
				assert.Nil(t, n)
				return
			}
			assert.Equal(t, c.watchdog, n.watchdog)
			assert.Equal(t, []string{"READY=1\nSTATUS=one two"}, heard())
		})
	}
}

func pid() string { return filepath.Base(must(os.Readlink("/proc/self"))) }

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

// The manager hears that the sweep has begun, that it goes on, what it is at, and how it ended; a command of the profile's cannot speak to it.
func TestSweepTellsItsManager(t *testing.T) {
	heard := manager(t, filepath.Join(t.TempDir(), "n"))
	t.Setenv("WATCHDOG_USEC", "300000")
	b, told := hooked(t, "{queue_depth: [1, 4]}", `before_run: 'echo "<$NOTIFY_SOCKET$WATCHDOG_USEC>" >>$TOLD'`)
	b.profile = strings.Replace(b.profile, "150ms", "800ms", 1)
	b.notify = TakeNotifier()
	o, _ := b.run()
	require.Equal(t, ExitOK, o.ExitCode())
	all := heard()
	require.NotEmpty(t, all)
	assert.True(t, strings.HasPrefix(all[0], "READY=1\nSTATUS="), all[0])
	assert.Contains(t, all, "WATCHDOG=1")
	assert.Equal(t, "STATUS=ended: 2 planned = 2 ok + 0 failed + 0 suspect + 0 skipped + 0 remaining", all[len(all)-1])
	assert.Contains(t, strings.Join(all, "\n"), "STATUS=run 1 of 2, queue_depth=1#1 (r")
	assert.Equal(t, []string{"<>", "<>"}, told())
}

// A sweep that is refused never was ready.
func TestRefusedSweepIsNotReady(t *testing.T) {
	heard := manager(t, filepath.Join(t.TempDir(), "n"))
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.allow = nil // state and output are in memory
	b.notify = TakeNotifier()
	_, err := b.execute(context.Background())
	require.Error(t, err)
	assert.Empty(t, heard())
}

// A loop that comes to no further step is not said to be alive, however well this process can send.
func TestWatchdogIsOfTheLoop(t *testing.T) {
	heard := manager(t, filepath.Join(t.TempDir(), "n"))
	t.Setenv("WATCHDOG_USEC", "30000")
	p := read(t, "version: 1\nname: a\ntimeout: 1h\nworkloads: [{name: a, type: io}]\n")
	s := &Sweep{plan: &Plan{Profile: p}, status: &statusFile{}, opt: Options{Notify: TakeNotifier()}}
	s.step()
	now := workload.Monotonic()
	assert.True(t, s.goesOn(now+int64(time.Hour)), "a run may take its timeout")
	assert.False(t, s.goesOn(now+int64(3*time.Hour)))

	telling := s.startTelling()
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(heard(), " "), "WATCHDOG=1") }, 20*time.Second, time.Millisecond)
	s.stepped.Store(now - int64(3*time.Hour))
	heard() // what was on its way
	assert.NotContains(t, strings.Join(heard(), " "), "WATCHDOG")
	s.step()
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(heard(), " "), "WATCHDOG=1") }, 20*time.Second, time.Millisecond)
	telling.stop()
}

// What keeps the machine awake ends with us, and says so when it cannot.
func TestInhibit(t *testing.T) {
	dir := t.TempDir()
	program := func(name, script string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
		return path
	}
	// As systemd-inhibit does: it runs the command after its flags.
	release, err := inhibit(t.Context(), program("good", `echo "$@" >`+dir+`/asked; while case $1 in --*) true;; *) false;; esac; do shift; done; "$@"; echo over >`+dir+`/over`), "the sweep a goes on")
	require.NoError(t, err)
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	require.NoError(t, err)
	assert.Contains(t, string(asked), "--what=sleep:idle:handle-lid-switch --who=qdsweep --why=the sweep a goes on --mode=block")
	assert.NoFileExists(t, filepath.Join(dir, "over"))
	release()
	assert.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "over")); return err == nil }, 20*time.Second, time.Millisecond)

	_, err = inhibit(t.Context(), program("bad", "echo 'Failed to inhibit: no bus' >&2; exit 1"), "why")
	assert.ErrorContains(t, err, "bad: exit 1: Failed to inhibit: no bus")
	_, err = inhibit(t.Context(), filepath.Join(dir, "absent"), "why")
	assert.ErrorIs(t, err, os.ErrNotExist)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = inhibit(ctx, program("deaf", "exec sleep 300"), "why")
	assert.ErrorContains(t, err, "no answer")
}
