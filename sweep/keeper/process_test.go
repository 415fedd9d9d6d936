package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/wire"
	"qdsweep/sysfs"
	"qdsweep/sysfs/systest"
)

// This binary is also main, the keeper and a worker: real processes on a tree of plain files, killed for real.
func TestMain(m *testing.M) {
	role := os.Getenv("KEEPER_TEST_ROLE")
	if role == "" {
		systest.InMemory()
		os.Exit(m.Run())
	}
	var p plot
	if err := json.Unmarshal([]byte(os.Getenv("KEEPER_TEST_PLOT")), &p); err != nil {
		panic(err)
	}
	switch role {
	case "keeper":
		f := &fault{root: p.Root, k: p.Crash, die: true}
		os.Exit(Main(os.Args[len(os.Args)-1], sysfs.NewHost(p.Root, sysfs.WithWriter(f.write)),
			WithOwner(os.Getuid()), func(j *Journal) { j.Hook = f.hook }))
	case "main":
		if err := playMain(p); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	case "worker":
		signal.Ignore(unix.SIGTERM)
		select {}
	}
}

// plot is what the played processes are about.
type plot struct {
	Root, State string
	Members     []Member
	Settings    []sysfs.Setting
	Array       *Array // main records it
	Crash       int    // the keeper dies at this file operation; 0 never
}

func (p plot) env(role string) []string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return []string{"KEEPER_TEST_ROLE=" + role, "KEEPER_TEST_PLOT=" + string(b)}
}

func (p plot) options() Options {
	return Options{StateDir: p.State, Args: []string{"keeper"}, Env: p.env("keeper"), Sweep: "s1"}
}

func optionsOf(root, state string) Options { return plot{Root: root, State: state}.options() }

// playMain claims, applies, says so, and then does what it reads, or waits for its end.
func playMain(p plot) error {
	ctx := context.Background()
	k, err := Start(ctx, p.options())
	if err != nil {
		return err
	}
	worker, err := wire.Spawn(wire.Child{Group: true, Env: p.env("worker")})
	if err != nil {
		return err
	}
	if err := errors.Join(k.Worker(ctx, worker.PID()), k.Claim(ctx, p.Members, 0)); err != nil {
		return err
	}
	if _, err := k.Apply(ctx, orders(p.Members, p.Settings)); err != nil {
		return err
	}
	if p.Array != nil {
		if err := k.Array(ctx, *p.Array, true); err != nil {
			return err
		}
	}
	fmt.Println("applied", k.PID(), worker.PID())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "panic":
			go func() { panic("as asked") }()
			select {}
		case "recover":
			<-k.Died()
			_, err := k.Restore(ctx)
			fmt.Println("died", errors.Is(err, ErrKeeperDied))
			if k, err = Start(ctx, p.options()); err != nil {
				return err
			}
			all, err := k.Recover(ctx)
			fmt.Println("recovered", len(all), err)
			if err := k.Claim(ctx, p.Members, 0); err != nil {
				return err
			}
			_, err = k.Apply(ctx, orders(p.Members, depth("4")))
			fmt.Println("again", err)
		case "close":
			fmt.Println("closed", k.Close())
		}
	}
	return in.Err()
}

// played is a main in a process of its own.
type played struct {
	plot
	t              *testing.T
	originals      map[string]string
	cmd            *exec.Cmd
	in             io.WriteCloser
	out            *bufio.Scanner
	keeper, worker int
}

// play starts a main on a tree of plain files.
func play(t *testing.T) *played {
	t.Helper()
	root := plain(t, "sda", "sdb")
	originals := contents(t, root)
	p := start(t, plot{Root: root, State: stateDir(t), Members: []Member{sda, sdb},
		Settings: append(depth("1"), sysfs.Setting{Knob: "max_sectors_kb", Level: "8"})})
	p.originals = originals
	require.Equal(t, "1", get(t, root, "sys/block/sda/device/queue_depth"))
	return p
}

func start(t *testing.T, script plot) *played {
	t.Helper()
	p := &played{t: t, plot: script}
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Env = append(os.Environ(), script.env("main")...)
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		for _, pid := range []int{p.keeper, p.worker} {
			if pid > 0 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	})
	words := strings.Fields(p.line("applied"))
	p.keeper, _ = strconv.Atoi(words[1])
	p.worker, _ = strconv.Atoi(words[2])
	recorded := len(p.Members)
	if p.Array != nil {
		recorded++
	}
	require.Len(t, entries(t, p.State), recorded)
	return p
}

func (p *played) say(s string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, s+"\n")
	require.NoError(p.t, err)
}

func (p *played) line(want string) string {
	p.t.Helper()
	require.True(p.t, p.out.Scan(), "main ended: %v", p.out.Err())
	require.True(p.t, strings.HasPrefix(p.out.Text(), want), p.out.Text())
	return p.out.Text()
}

// gone waits for a process to end; an unreaped one has.
func gone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		fields, err := stat(pid)
		return err != nil || fields[0] == "Z" || fields[0] == "X"
	}, 20*time.Second, time.Millisecond, "process %d does not end", pid)
}

func (p *played) untouched() {
	p.t.Helper()
	assert.Equal(p.t, p.originals, contents(p.t, p.Root))
	assert.Empty(p.t, entries(p.t, p.State))
}

// Main is killed, in every way: the keeper kills the worker, which does not listen to less than SIGKILL, and restores.
func TestMainDies(t *testing.T) {
	for name, kill := range map[string]func(p *played){
		"SIGKILL":                 func(p *played) { _ = p.cmd.Process.Kill() },
		"panic in a goroutine":    func(p *played) { p.say("panic") },
		"SIGINT to its group":     func(p *played) { _ = unix.Kill(-p.cmd.Process.Pid, unix.SIGINT) },
		"returns without a close": func(p *played) { _ = p.in.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := play(t)
			kill(p)
			gone(t, p.cmd.Process.Pid)
			gone(t, p.keeper)
			gone(t, p.worker)
			p.untouched()
		})
	}
}

// Field case 17, the keeper's part: what ends main does not end the keeper.
func TestCase17TheKeeperIgnoresSignals(t *testing.T) {
	p := play(t)
	session, err := unix.Getsid(p.keeper)
	require.NoError(t, err)
	assert.Equal(t, p.keeper, session, "no terminal's Ctrl-C reaches it")
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE} {
		require.NoError(t, unix.Kill(p.keeper, s))
	}
	p.say("close")
	p.line("closed <nil>")
	gone(t, p.keeper)
	p.untouched()
}

// The keeper is killed: main restores through another one, and goes on.
func TestKeeperDies(t *testing.T) {
	p := play(t)
	require.NoError(t, unix.Kill(p.keeper, unix.SIGKILL))
	gone(t, p.keeper)
	assert.Equal(t, "1", get(t, p.Root, "sys/block/sda/device/queue_depth"), "nobody there to restore")
	p.say("recover")
	p.line("died true")
	p.line("recovered 2 <nil>")
	p.line("again <nil>")
	assert.Equal(t, "4", get(t, p.Root, "sys/block/sda/device/queue_depth"))
	p.say("close")
	p.line("closed <nil>")
	p.untouched()
}

// Both are killed: `qdsweep restore` puts all back, and until then the drives are refused.
func TestBothDie(t *testing.T) {
	p := play(t)
	require.NoError(t, unix.Kill(p.keeper, unix.SIGKILL))
	require.NoError(t, p.cmd.Process.Kill())
	gone(t, p.keeper)
	gone(t, p.cmd.Process.Pid)
	ctx := context.Background()
	k, err := Start(ctx, optionsOf(p.Root, p.State))
	require.NoError(t, err)
	defer k.Close()
	var left *UnrestoredError
	require.ErrorAs(t, k.Claim(ctx, []Member{sda}, time.Minute), &left)
	all, err := k.RestoreJournal(ctx, RestoreOptions{Wait: time.Minute})
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, o := range all {
		assert.Equal(t, StateRestored, o.State, o.Reason)
	}
	p.untouched()
}

// SIGKILL of main, or of the keeper, or both, at any moment.
func TestKillAtRandomMoments(t *testing.T) {
	for i := range 12 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			root, state := plain(t, "sda", "sdb"), stateDir(t)
			originals := contents(t, root)
			ctx := context.Background()
			k, err := Start(ctx, optionsOf(root, state))
			require.NoError(t, err)
			kill := time.AfterFunc(time.Duration(i*i)*time.Millisecond/2, func() { _ = unix.Kill(k.PID(), unix.SIGKILL) })
			defer kill.Stop()
			err = k.Claim(ctx, []Member{sda, sdb}, 0)
			for n := 0; err == nil; n++ {
				if _, err = k.Apply(ctx, orders([]Member{sda, sdb}, depth(strconv.Itoa(1+n%30)))); err == nil {
					_, err = k.Restore(ctx)
				}
			}
			require.ErrorIs(t, err, ErrKeeperDied)
			gone(t, k.PID())
			next, err := Start(ctx, optionsOf(root, state))
			require.NoError(t, err)
			_, err = next.Recover(ctx)
			require.NoError(t, err)
			assert.Equal(t, originals, contents(t, root))
			require.NoError(t, next.Claim(ctx, []Member{sda, sdb}, recoverPatience))
			require.NoError(t, next.Close())
		})
	}
}

func TestStartRefusals(t *testing.T) {
	ctx := context.Background()
	_, err := Start(ctx, Options{})
	require.ErrorContains(t, err, "no state folder")

	state := stateDir(t)
	require.NoError(t, os.Symlink("/tmp", state))
	_, err = Start(ctx, optionsOf(plain(t), state))
	var bad *StateError
	require.ErrorAs(t, err, &bad)
	assert.Contains(t, err.Error(), "start the keeper: state folder "+state)

	state = stateDir(t)
	_, err = Start(ctx, optionsOf(t.TempDir(), state))
	require.ErrorContains(t, err, "boot id")
}

func TestKeeperWords(t *testing.T) {
	// By hand, without a line to main.
	cmd := exec.Command("/proc/self/exe", "--state-dir", stateDir(t))
	cmd.Env = append(os.Environ(), plot{Root: plain(t)}.env("keeper")...)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "started by qdsweep itself")

	// What it says goes to Options.Log.
	var log syncWriter
	o := optionsOf(plain(t), stateDir(t))
	o.Log = &log
	k, err := Start(context.Background(), o)
	require.NoError(t, err)
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", k.PID()))
	require.NoError(t, err)
	assert.Equal(t, "qdsweep-keeper\n", string(name))
	require.NoError(t, k.Close())
	<-k.Died()
	_, err = k.Check(context.Background())
	require.ErrorIs(t, err, ErrKeeperDied)
}

type syncWriter struct{}

func (*syncWriter) Write(b []byte) (int, error) { return len(b), nil }

func TestDying(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	p, err := identify(cmd.Process.Pid)
	require.NoError(t, err)
	assert.False(t, dying(p))
	assert.True(t, dying(process{p.pid, "1"}), "another process has its number")
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { return dying(p) }, 10*time.Second, time.Millisecond)
	_ = cmd.Wait()
	assert.True(t, dying(p))
}

func TestWorkerMustLeadAGroup(t *testing.T) {
	k := serve(t, sysfs.NewHost(plain(t)), openJournal(t, stateDir(t)), Options{})
	ctx := context.Background()
	require.Error(t, k.Worker(ctx, os.Getpid()), "that would kill main's group")
	require.Error(t, k.Worker(ctx, 1<<30))
	require.NoError(t, k.Worker(ctx, 0))
}
