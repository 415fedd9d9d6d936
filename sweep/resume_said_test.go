package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qdsweep/sweep/results"
	"qdsweep/sysfs/systest"
)

// What gives a target up in its last run stops nothing; before it, it does. That holds for runs that are repeated, of which none is remaining, as well.
func TestRetryThatStops(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2, 4]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.machine.Intercept(func(path, value string) error {
		if strings.HasSuffix(path, "queue_depth") && (value == "2" || value == "4") {
			return unix.EIO
		}
		return nil
	})
	o, _ := b.run()
	require.Equal(t, results.Audit{Planned: 3, OK: 1, Failed: 2}, o.Audit)
	for limit, stopped := range map[int]string{2: "", 1: "1 run failed in a row (--max-failures 1)"} {
		again := []int{}
		b.observe = func(e Event) {
			if e.Kind == Began || e.Kind == RunEnded {
				again = append(again, e.Again)
			}
		}
		o, _ = b.resumed(func(o *Options) { o.RetryFailed, o.MaxFailures = true, limit })
		assert.Equal(t, results.Audit{Planned: 3, OK: 1, Failed: 2}, o.Audit)
		assert.Equal(t, stopped == "", o.Stopped == "", o.Stopped)
		assert.Contains(t, o.Stopped, stopped)
		assert.Equal(t, []int{2, 1, 0}[:limit+1], again, "what is to be repeated yet")
	}
}

// A resume that is refused in the end has dealt with the rows all the same, and says so.
func TestRefusedResumeSaysWhatItDid(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.one"})
	b.run()
	name := filepath.Join(b.out, results.FileName)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, text[:len(text)-20], 0o644))
	b.moved(systest.Disk{Name: "sda", QueueDepth: 32, WWID: "naa.other"})
	said := b.notes()
	_, err = b.again(nil)
	require.ErrorContains(t, err, "is not there, under whatever name")
	require.Len(t, *said, 1)
	assert.Contains(t, (*said)[0], "set aside in results.csv.torn")
}

// Field case 30 in the very last run: nothing is remaining, and the sweep is not complete all the same.
func TestLastRunIsSavedElsewhere(t *testing.T) {
	b := newBench(t, "{queue_depth: [1, 2]}", systest.Disk{Name: "sda", QueueDepth: 32})
	b.fullAfter(1)
	o, _ := b.run()
	assert.Equal(t, results.Audit{Planned: 2, OK: 2}, o.Audit)
	assert.Equal(t, ExitIncomplete, o.ExitCode())
	assert.Contains(t, o.Stopped, "the rows of run queue_depth=2#1 are in ")
	assert.Equal(t, "sudo qdsweep resume --state-dir "+b.state+" "+b.out, o.Next())
	b.results = nil
	o, rows := b.resumed(nil)
	assert.Equal(t, ExitOK, o.ExitCode())
	b.exactlyOnce(rows, 2)
}

// A target that is given up is named once, whatever its reason begins with.
func TestReasonBesideTheName(t *testing.T) {
	for ended, want := range map[string]string{
		"/dev/mapper/hang: a request is stuck in the kernel": "device=a (/dev/mapper/hang): a request is stuck in the kernel",
		"/dev/mapper/hang is lost: EIO":                      "device=a (/dev/mapper/hang): it is lost: EIO",
		"/dev/mapper/hang2: a request":                       "device=a (/dev/mapper/hang): /dev/mapper/hang2: a request",
		"a setting of sda could not be restored":             "device=a (/dev/mapper/hang): a setting of sda could not be restored",
	} {
		h := &hold{target: &Target{Level: Level{deviceAxis, "a"}}, ended: ended}
		h.target.Stack.Target, h.stack.Target = "/dev/mapper/hang", "/dev/mapper/hang"
		s := &Sweep{holds: []*hold{h, {}}}
		assert.Equal(t, want, s.endings())
		s.holds = s.holds[:1]
		assert.Equal(t, ended, s.endings(), "alone it says its name itself")
	}
}
