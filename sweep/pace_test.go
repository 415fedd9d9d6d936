package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs/systest"
)

func (b *bench) repeats(text string) {
	b.profile = strings.Replace(b.profile, "repeats: 1", "repeats: "+text, 1)
}

// status is status.json.
func (b *bench) status() (s Status) {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.out, "status.json"))
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal(text, &s))
	return s
}

// notes collects what is said.
func (b *bench) notes() *[]string {
	var said []string
	b.observe = func(e Event) {
		if e.Kind == Note {
			said = append(said, e.Text)
		}
	}
	return &said
}

// A precision that anything reaches ends the sweep as soon as the spread can be known, and what was planned is what was done.
func TestPrecisionEndsTheSweep(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 31]}", systest.Disk{Name: "sda"})
	b.repeats("{min: 2, max: 99, precision: 50%}")
	said := b.notes()
	o, rows := b.run()
	replicates := rows[len(rows)-1].Replicate
	assert.True(t, replicates >= 4 && replicates < 99, "%d replicates", replicates) // two cells: 6 degrees of freedom at least
	assert.Equal(t, 2*replicates, o.Audit.Planned)
	assert.Equal(t, o.Audit.Planned, o.Audit.OK)
	assert.Equal(t, [2]any{"", ExitOK}, [2]any{o.Stopped, o.ExitCode()})
	assert.Contains(t, strings.Join(*said, "\n"), "precision 50% reached: after ")
	status := b.status()
	assert.Equal(t, o.Audit.Planned, status.Planned, "a report takes it from here")
}

// One that nothing reaches is said, with what was reached instead.
func TestPrecisionNotReached(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda"})
	b.repeats("{min: 2, max: 3, precision: 0.1%}")
	said := b.notes()
	o, rows := b.run()
	assert.Len(t, rows, 3)
	assert.Equal(t, ExitOK, o.ExitCode())
	assert.Contains(t, strings.Join(*said, "\n"), "precision 0.1% not reached: after 3 replicates, which is the most, it is ± ")
}

// A deadline ends the sweep between two replicates; with two whole ones that is a good end.
func TestDeadlineEndsTheSweep(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 31]}", systest.Disk{Name: "sda"})
	b.repeats("1000\ndeadline: 6s")
	o, rows := b.run()
	assert.Zero(t, len(rows)%2, "%d runs are whole replicates", len(rows))
	assert.Equal(t, 2000, o.Audit.Planned)
	assert.Equal(t, 2000-len(rows), o.Audit.Remaining)
	assert.Contains(t, o.Stopped, "deadline 6s: ")
	assert.Contains(t, o.Stopped, " of 1000 replicates are done, the next takes about ")
	assert.Equal(t, len(rows) >= 4, o.Sufficient) // on a very slow machine it is not
	assert.Equal(t, map[bool]int{true: ExitOK, false: ExitIncomplete}[o.Sufficient], o.ExitCode())
}

// One that leaves no time for a first run: nothing is done, and that is no good end.
func TestDeadlineBeforeTheFirstRun(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 31]}", systest.Disk{Name: "sda"})
	b.repeats("3\ndeadline: 1s")
	b.profile = strings.Replace(b.profile, "runtime: 150ms", "runtime: 5s", 1)
	o, rows := b.run()
	assert.Empty(t, rows)
	assert.False(t, o.Sufficient)
	assert.Equal(t, 6, o.Audit.Remaining)
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	assert.Contains(t, o.Stopped, "0 of 3 replicates are done, the next run takes about 5.1 s")
}

// The time left is told from the first event on, and goes down to nothing.
func TestTimeLeft(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 31]}", systest.Disk{Name: "sda"})
	b.repeats("4")
	var left []time.Duration
	b.observe = func(e Event) {
		if e.Kind == Began || e.Kind == RunEnded {
			left = append(left, e.Left)
		}
	}
	b.run()
	require.Len(t, left, 9)
	assert.InDelta(t, 8*0.25, left[0].Seconds(), 0.01, "the guess: 150 ms and 100 ms a run")
	assert.Zero(t, left[8])
	for _, l := range left[:8] {
		assert.Positive(t, l)
	}
}

// A sweep that is gone on with in the middle of a replicate ends where its rows say that it may, as one that was not interrupted.
func TestResumeEndsByThePrecision(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 31]}", systest.Disk{Name: "sda"})
	b.repeats("{min: 2, max: 99, precision: 50%}")
	b.interrupted(6) // two replicates and a half
	said := b.notes()
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	assert.Less(t, o.Audit.Planned, 198)
	assert.Zero(t, o.Audit.Planned%2)
	b.exactlyOnce(rows, o.Audit.Planned)
	assert.Contains(t, strings.Join(*said, "\n"), "precision 50% reached: after ")

	b.moved() // and there it stays, without any drive
	*said = nil
	again, more := b.resumed(nil)
	assert.Equal(t, [2]int{ExitOK, o.Audit.Planned}, [2]int{again.ExitCode(), again.Audit.Planned})
	assert.Len(t, more, len(rows))
	require.Len(t, *said, 2)
	assert.Contains(t, (*said)[0], "precision 50% reached: after ")
	assert.Contains(t, (*said)[1], "nothing is left to do: each of the ")
	assert.Equal(t, o.Audit.Planned, b.status().Planned)
}

// What was not reached is left to do, though each replicate so far is whole: then the drive is needed.
func TestResumeBeforeThePrecision(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 31]}", systest.Disk{Name: "sda"})
	b.repeats("{min: 2, max: 99, precision: 0.1%}")
	b.interrupted(9)
	b.moved()
	_, err := b.again(nil)
	require.Error(t, err)
	assert.Equal(t, ExitNotHere, ExitCode(err))
}

// attempted is which attempt each run's last rows are, and their status.
func attempted(rows []results.Row) (attempts map[string]int, status map[string]string) {
	attempts, status = map[string]int{}, map[string]string{}
	for _, r := range rows {
		attempts[r.Run], status[r.Run] = r.Attempt, r.Status
	}
	return attempts, status
}

// A run that failed is repeated in a sweep that its precision has ended; its figure counts with the others, and the rule ends the sweep again.
func TestRetryAndPrecision(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 31]}", systest.Disk{Name: "sda"})
	b.repeats("{min: 2, max: 99, precision: 50%}")
	failing := true
	b.machine.Intercept(func(path, value string) error {
		if failing && strings.HasSuffix(path, "queue_depth") && value == "31" {
			failing = false
			return unix.EIO
		}
		return nil
	})
	o, _ := b.run()
	require.Equal(t, [2]int{1, 0}, [2]int{o.Audit.Failed, o.Audit.Remaining}, "%v", o.Audit)
	require.Less(t, o.Audit.Planned, 198)

	b.host = systest.New(t).Host() // unasked nothing is left to do
	o, _ = b.resumed(nil)
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	b.host = b.machine.Host()

	o, rows := b.resumed(func(o *Options) { o.RetryFailed = true })
	assert.Equal(t, ExitOK, o.ExitCode(), "%+v", o)
	assert.Equal(t, o.Audit.Planned, o.Audit.OK)
	attempts, _ := attempted(rows)
	assert.Len(t, attempts, o.Audit.Planned)
	for run, n := range attempts {
		assert.Equal(t, map[bool]int{true: 2, false: 1}[run == "queue_depth=31#1"], n, run)
	}
}

// A deadline that comes while failed runs are repeated leaves the others as they are: it is said, and the next start repeats them.
func TestRetryAndDeadline(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.repeats("3\ndeadline: 4s")
	b.profile = strings.Replace(b.profile, "runtime: 150ms", "runtime: 1s", 1)
	b.failures = 100
	failing := true
	b.machine.Intercept(func(path, _ string) error {
		if failing && strings.HasSuffix(path, "queue_depth") {
			return unix.EIO
		}
		return nil
	})
	o, _ := b.run()
	require.Equal(t, 9, o.Audit.Failed+o.Audit.Remaining)
	require.GreaterOrEqual(t, o.Audit.Failed, 3) // on a very slow machine not all of them
	failing = false
	repeated, starts := 0, 0
	for ; o.ExitCode() != ExitOK && starts < 9; starts++ {
		assert.Equal(t, ExitIncomplete, o.ExitCode())
		var rows []results.Row
		o, rows = b.resumed(func(o *Options) { o.RetryFailed = true })
		if o.Audit.Failed+o.Audit.Remaining > 0 {
			assert.Contains(t, o.Stopped, "deadline 4s: ")
		}
		assert.Greater(t, o.Audit.OK, repeated, "each start gets on: %s", o.Audit)
		repeated = o.Audit.OK
		_, status := attempted(rows)
		assert.Len(t, status, 9-o.Audit.Remaining)
	}
	assert.Equal(t, results.Audit{Planned: 9, OK: 9}, o.Audit)
	assert.Greater(t, starts, 1, "4 s are not enough for 9 runs of 1 s")
}

// A deadline counts from each start: a sweep that it ended is gone on with, replicate for replicate.
func TestResumeAfterTheDeadline(t *testing.T) {
	b := newBench(t, "{queue_depth: [1]}", systest.Disk{Name: "sda"})
	b.repeats("1000\ndeadline: 2s")
	first, rows := b.run()
	if len(rows) >= 2 {
		assert.Equal(t, [2]any{ExitOK, "qdsweep report " + b.out}, [2]any{first.ExitCode(), first.Next()})
	}
	o, more := b.resumed(nil)
	require.Greater(t, len(more), len(rows))
	assert.Equal(t, 1000, o.Audit.Done()+o.Audit.Remaining)
	assert.Contains(t, o.Stopped, "deadline 2s: ")
	b.exactlyOnce(more, len(more))
}
