package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sysfs/systest"
)

// hooked is a bench whose profile has these hooks, with the consent; each line that a hook writes to $TOLD is in told.
func hooked(t *testing.T, matrix, hooks string) (b *bench, told func() []string) {
	b = newBench(t, matrix, systest.Disk{Name: "sda", QueueDepth: 32, WriteCache: true})
	file := filepath.Join(t.TempDir(), "told")
	t.Setenv("TOLD", file)
	b.profile += "hooks: {" + hooks + "}\n"
	b.allow["hooks"] = true
	return b, func() []string {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			return nil
		}
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

const allHooks = `before_sweep: 'echo $QDSWEEP_HOOK >>$TOLD', before_run: 'echo $QDSWEEP_HOOK $QDSWEEP_RUN >>$TOLD', ` +
	`after_run: 'echo $QDSWEEP_HOOK $QDSWEEP_STATUS $QDSWEEP_REASON >>$TOLD', after_sweep: 'echo $QDSWEEP_HOOK $QDSWEEP_EXIT >>$TOLD'`

func TestHooksInTheirOrder(t *testing.T) {
	b, told := hooked(t, "{queue_depth: [1, 4]}", allHooks)
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode())
	assert.Len(t, rows, 2)
	assert.Equal(t, []string{"before_sweep", "before_run queue_depth=1#1", "after_run ok", "before_run queue_depth=4#1", "after_run ok", "after_sweep 0"}, told())
}

// Nothing of a drive is changed while a command of the user's runs.
func TestHooksRunWhereNothingIsChanged(t *testing.T) {
	b, told := hooked(t, "{queue_depth: [1]}", "")
	look := "cat " + filepath.Join(b.machine.Root(), "sys/block/sda/device/queue_depth") + " >>$TOLD"
	b.profile = strings.Replace(b.profile, "hooks: {}", "hooks: {before_sweep: '"+look+"', before_run: '"+look+"', after_run: '"+look+"', after_sweep: '"+look+"'}", 1)
	_, _ = b.run()
	assert.Equal(t, []string{"1", "32"}, b.machine.WritesTo("device/queue_depth"))
	assert.Equal(t, []string{"32", "32", "32", "32"}, told())
}

func TestFactsOfHooks(t *testing.T) {
	b, told := hooked(t, "{queue_depth: [4], iodepth: [1]}", "after_run: 'env | grep ^QDSWEEP_ | sort >>$TOLD; pwd >>$TOLD', after_sweep: 'env | grep ^QDSWEEP_ | sort >>$TOLD'")
	t.Setenv("QDSWEEP_REASON", "of an outer sweep")
	o, _ := b.run()
	dir, err := filepath.Abs(b.out)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"QDSWEEP_ATTEMPT=1", "QDSWEEP_CELL=queue_depth=4;iodepth=1", "QDSWEEP_DIR=" + dir, "QDSWEEP_HOOK=after_run", "QDSWEEP_INDEX=1", "QDSWEEP_LEVEL_IODEPTH=1",
		"QDSWEEP_LEVEL_QUEUE_DEPTH=4", "QDSWEEP_MEMBERS=sda", "QDSWEEP_PLANNED=1", "QDSWEEP_PROFILE=bench", "QDSWEEP_REASON=", "QDSWEEP_REPLICATE=1",
		"QDSWEEP_RUN=queue_depth=4;iodepth=1#1", "QDSWEEP_STATUS=ok", "QDSWEEP_SWEEP=" + o.Sweep, "QDSWEEP_TARGET=sda", dir,
		"QDSWEEP_DIR=" + dir, "QDSWEEP_EXIT=0", "QDSWEEP_FAILED=0", "QDSWEEP_HOOK=after_sweep", "QDSWEEP_MEMBERS=sda", "QDSWEEP_OK=1", "QDSWEEP_PLANNED=1",
		"QDSWEEP_PROFILE=bench", "QDSWEEP_REMAINING=0", "QDSWEEP_SKIPPED=0", "QDSWEEP_STOPPED=", "QDSWEEP_SUSPECT=0", "QDSWEEP_SWEEP=" + o.Sweep, "QDSWEEP_UNRESTORED=0",
	}, told())
}

// Without the consent nothing is begun, and the plan says so as run does.
func TestHooksNeedConsent(t *testing.T) {
	b, told := hooked(t, "{queue_depth: [1]}", allHooks)
	b.allow["hooks"] = false
	_, err := b.execute(context.Background())
	require.Error(t, err)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.Contains(t, err.Error(), "hooks: before_sweep, before_run, after_run, after_sweep")
	assert.Contains(t, err.Error(), "--allow hooks")
	assert.Empty(t, told())
	assert.NoDirExists(t, b.out)

	for allowed, refused := range map[bool]int{true: 0, false: 1} {
		o := PlanOptions{Allow: map[string]bool{"hooks": allowed}}
		plan, err := NewPlan(t.Context(), b.read(), b.host, o)
		require.NoError(t, err)
		require.NoError(t, plan.Judge(t.Context(), b.host, o))
		assert.Len(t, plan.Refused, refused)
		var text, object bytes.Buffer
		require.NoError(t, plan.Text(&text, 120, false, ""))
		assert.Contains(t, text.String(), "\nhooks    before_sweep  echo $QDSWEEP_HOOK >>$TOLD\n         before_run    echo")
		assert.Contains(t, text.String(), "as root, each ended after 60 s")
		require.NoError(t, plan.JSON(&object))
		var got struct{ Hooks map[string]any }
		require.NoError(t, json.Unmarshal(object.Bytes(), &got))
		assert.Equal(t, "echo $QDSWEEP_HOOK >>$TOLD", got.Hooks["before_sweep"])
		assert.Equal(t, 60.0, got.Hooks["timeout_s"])
	}
}

// A failing before_sweep ends before any drive is touched; after_sweep tidies up after it all the same.
func TestBeforeSweepFails(t *testing.T) {
	b, told := hooked(t, "{queue_depth: [1]}", `before_sweep: 'echo the pump is off; exit 7', before_run: 'echo never >>$TOLD', after_sweep: 'echo $QDSWEEP_EXIT $QDSWEEP_REMAINING >>$TOLD'`)
	_, err := b.execute(context.Background())
	require.Error(t, err)
	assert.Equal(t, ExitNotHere, ExitCode(err))
	assert.Contains(t, err.Error(), "hook before_sweep: exit 7: the pump is off; nothing was touched")
	assert.Empty(t, b.machine.WritesTo("device/queue_depth"))
	assert.Equal(t, []string{"3 1"}, told())
	assert.Empty(t, b.rows())
	log, err := os.ReadFile(filepath.Join(b.out, "log.jsonl"))
	require.NoError(t, err)
	assert.Contains(t, string(log), `"hook":"before_sweep"`)
	assert.Contains(t, string(log), `"text":"the pump is off"`)
}

// A failing before_run fails its run, which is not done; the others are.
func TestBeforeRunFails(t *testing.T) {
	b, told := hooked(t, "{queue_depth: [1, 4]}", `before_run: '[ $QDSWEEP_LEVEL_QUEUE_DEPTH = 4 ] || { echo no "=cmd" >&2; exit 1; }', after_run: 'echo $QDSWEEP_STATUS $QDSWEEP_REASON >>$TOLD'`)
	o, rows := b.run()
	assert.Equal(t, "2 planned = 1 ok + 1 failed + 0 suspect + 0 skipped + 0 remaining", o.Audit.String())
	require.Len(t, rows, 2)
	assert.Equal(t, "hook failed: before_run: exit 1: no =cmd", rows[0].Reason)
	assert.Equal(t, "ok", rows[1].Status)
	assert.Equal(t, []string{"4", "32"}, b.machine.WritesTo("device/queue_depth"))
	assert.Equal(t, []string{"failed hook failed: before_run: exit 1: no =cmd", "ok"}, told())
}

// What fails after the rows are written changes nothing in them, and is said.
func TestAfterHooksFail(t *testing.T) {
	b, _ := hooked(t, "{queue_depth: [1]}", `after_run: 'echo gone; exit 2', after_sweep: 'kill -9 $$'`)
	var said []string
	b.observe = func(e Event) {
		if e.Kind == Note {
			said = append(said, e.Text)
		}
	}
	o, rows := b.run()
	assert.Equal(t, ExitOK, o.ExitCode())
	assert.Equal(t, "ok", rows[0].Status)
	assert.Contains(t, said, "run queue_depth=1#1: hook after_run: exit 2: gone")
	assert.Contains(t, said, "hook after_sweep: signal: killed")
}

// A command that does not end is ended, with all that it started, in the foreground or not.
func TestHookTimeout(t *testing.T) {
	b, told := hooked(t, "{queue_depth: [1]}", `before_run: 'sleep 300 & echo $! >>$TOLD; trap "" TERM; sleep 300', timeout: 1s`)
	began := time.Now()
	_, rows := b.run()
	require.Len(t, rows, 1)
	assert.Equal(t, "hook failed: before_run: ended after 1s, its timeout", rows[0].Reason)
	assert.Less(t, time.Since(began), 60*time.Second)
	child, err := strconv.Atoi(told()[0])
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return unix.Kill(child, 0) != nil || isZombie(child) }, 20*time.Second, 10*time.Millisecond)
}

func isZombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(text), ") Z ")
}

// What a command leaves in the background is left alone: it may be what watches the run. Its output is still heard, and nobody waits for it.
// It ends by itself when this test fails half-way: then its folder goes, at the latest after a minute.
func TestHookInTheBackground(t *testing.T) {
	b, told := hooked(t, "{queue_depth: [1]}", `before_run: '{ i=0; while [ ! -e $TOLD.stop ] && [ -d ${TOLD%/*} ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done; echo heard to the end; } & echo $! >>$TOLD', after_run: 'touch $TOLD.stop; kill -0 $(cat $TOLD) && echo it was there >>$TOLD; sleep 1'`)
	o, _ := b.run()
	assert.Equal(t, ExitOK, o.ExitCode())
	assert.Equal(t, "it was there", told()[1])
	log, err := os.ReadFile(filepath.Join(b.out, "log.jsonl"))
	require.NoError(t, err)
	assert.Contains(t, string(log), "heard to the end")
}

// A signal ends the command that runs; those that tidy up are run all the same.
func TestSignalDuringAHook(t *testing.T) {
	for name, c := range map[string]struct {
		hooks, phase string
		told         []string
	}{
		"before_sweep": {`before_sweep: sleep 300, after_run: 'echo never >>$TOLD', after_sweep: 'echo $QDSWEEP_EXIT >>$TOLD'`, beforeSweep, []string{"143"}},
		"before_run":   {`before_run: sleep 300, after_run: 'echo $QDSWEEP_STATUS >>$TOLD', after_sweep: 'echo $QDSWEEP_EXIT >>$TOLD'`, beforeRun, []string{"remaining", "143"}},
		"after_run":    {`after_run: sleep 300, after_sweep: 'echo $QDSWEEP_EXIT $QDSWEEP_OK $QDSWEEP_REMAINING >>$TOLD'`, afterRun, []string{"143 1 1"}},
		"in the work":  {`after_run: 'echo $QDSWEEP_STATUS >>$TOLD', after_sweep: 'echo $QDSWEEP_EXIT >>$TOLD'`, "r", []string{"remaining", "143"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, told := hooked(t, "{queue_depth: [1, 4]}", c.hooks)
			ctx, cancel := context.WithCancelCause(context.Background())
			b.observe = once(func(e Event) bool { return e.Kind == PhaseBegan && e.Phase == c.phase }, func() { cancel(&SignalError{unix.SIGTERM}) })
			began := time.Now()
			o, err := b.execute(ctx)
			code := ExitCode(err)
			if err == nil {
				code = o.ExitCode()
			}
			assert.Equal(t, 143, code, "%v", err)
			assert.Equal(t, c.told, told())
			assert.Less(t, time.Since(began), 60*time.Second)
		})
	}
}

// The keeper dies while before_run runs: the run begins again, with both its commands.
func TestKeeperDiesDuringAHook(t *testing.T) {
	b, told := hooked(t, "{queue_depth: [1]}", `before_run: 'echo before $QDSWEEP_ATTEMPT >>$TOLD; [ $QDSWEEP_ATTEMPT = 2 ] || sleep 300', after_run: 'echo after $QDSWEEP_STATUS >>$TOLD'`)
	l := &lines{b: b}
	b.observe = once(func(e Event) bool { return e.Kind == PhaseBegan && e.Phase == beforeRun }, func() {
		go func() {
			for lines := told(); len(lines) == 0 || lines[0] == ""; lines = told() { // the shell makes the file, and then writes to it
				time.Sleep(time.Millisecond)
			}
			l.all[0].Close()
		}()
	})
	o, err := l.execute(context.Background(), 0)
	require.NoError(t, err)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	assert.Equal(t, []string{"before 1", "after remaining", "before 2", "after ok"}, told())
}

// An endless writer fills neither the log nor the memory, and is not kept waiting.
func TestHookThatWritesMuch(t *testing.T) {
	b, _ := hooked(t, "{queue_depth: [1]}", `before_run: 'head -c 3000000 /dev/zero | tr "\\0" x; yes | head -n 100000', timeout: 5m`)
	o, _ := b.run()
	assert.Equal(t, ExitOK, o.ExitCode())
	log, err := os.ReadFile(filepath.Join(b.out, "log.jsonl"))
	require.NoError(t, err)
	assert.Contains(t, string(log), "not kept")
	assert.Less(t, len(log), 1<<20)
}

func TestHooksOfAProfile(t *testing.T) {
	p := read(t, "version: 1\nname: a\nhooks:\n  before_run: |\n    echo \"one: two\"\n    echo é\n  after_sweep: true\n  timeout: 90s\nworkloads: [{name: a, type: io}]\n")
	assert.Equal(t, Hooks{BeforeRun: "echo \"one: two\"\necho é\n", AfterSweep: "true", Timeout: 90 * time.Second}, p.Hooks)
	again := read(t, string(p.YAML()))
	assert.Equal(t, p.Hooks, again.Hooks)
	assert.NotContains(t, string(read(t, "version: 1\nname: a\nworkloads: [{name: a, type: io}]\n").YAML()), "hooks")

	for source, want := range map[string]string{
		"{before_runs: x}":               "2:9: before_runs: no such key in hooks; did you mean before_run?",
		"{timeout: 1m}":                  "2:8: hooks: no command is named",
		"{before_run: }":                 "the value is missing",
		"{before_run: '  '}":             `before_run: "  ": a command for sh`,
		"{before_run: [a, b]}":           "before_run: a command for sh",
		"{before_run: x, timeout: 5}":    "write 5s if seconds are meant",
		"{before_run: x, timeout: 0s}":   "1s to 24h",
		"{before_run: \"a\\e[1A\"}":      "a command without control characters",
		"sleep 1":                        `hooks: "sleep 1": commands for sh`,
		"{before_run: x, before_run: y}": "the second time in this mapping",
	} {
		_, err := ReadProfile("x.yaml", strings.NewReader("version: 1\nhooks: "+source+"\nname: a\nworkloads: [{name: a, type: io}]\n"))
		assert.ErrorContains(t, err, want, source)
	}
}
