package sweep

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const withSmall = `version: 1
name: a
target: {device: sda}
matrix:
  queue_depth: {from: 1, to: 32, times: 2}
  block_size: [4k, 1m]
  exclude: [{queue_depth: 8, block_size: 1m}, {queue_depth: 32, block_size: 4k}]
  include: [{queue_depth: 3, block_size: 4k}, {queue_depth: 31, block_size: 4k}]
repeats: 5
seed: 7
workloads:
  - {name: rnd, type: io, mode: randread, runtime: 30s}
  - {name: seq, type: io, mode: read, runtime: 30s}
small:
  repeats: 1
  settle: 100ms
  timeout: 1m
  matrix: {queue_depth: [1, 31]}
  workloads: {rnd: {runtime: 1s, size: 1m}}
`

// small is p at small scale.
func small(t *testing.T, source string) *Profile {
	t.Helper()
	p := read(t, source)
	require.NoError(t, p.Override(Overrides{Scale: SmallScale}))
	return p
}

func TestSmallScale(t *testing.T) {
	whole := read(t, withSmall)
	assert.Nil(t, whole.Scaled)
	assert.Equal(t, 5, whole.Repeats)
	assert.Equal(t, 30*time.Second, whole.Workloads[0].Runtime)
	assert.Empty(t, whole.Warnings)

	p := small(t, withSmall)
	assert.Equal(t, "a-small", p.Name)
	assert.Equal(t, 1, p.Repeats)
	assert.Equal(t, 100*time.Millisecond, p.Settle)
	assert.Equal(t, time.Minute, p.Timeout)
	assert.Equal(t, uint64(7), p.Seed)
	assert.Equal(t, time.Second, p.Workloads[0].Runtime)
	assert.Equal(t, int64(1<<20), p.Workloads[0].Size)
	assert.Equal(t, whole.Workloads[1], p.Workloads[1], "the other workload is what it was")
	assert.Equal(t, []string{
		"queue_depth=1;block_size=4k", "queue_depth=1;block_size=1m", "queue_depth=31;block_size=4k", "queue_depth=31;block_size=1m",
		"queue_depth=3;block_size=4k",
	}, cellsOf(p.Matrix), "excludes of levels that are gone match nothing, an included cell that is a level now is there once")
	assert.Equal(t, []string{
		"repeats 1 instead of 5", "settle 100ms instead of 1s", "timeout 1m", "queue_depth 1 31 instead of 1 2 4 8 16 32",
		"rnd: size 1m, runtime 1s instead of 30s",
	}, p.Scaled)
	assert.Equal(t, []string{"small scale shows that everything works here; its figures are not for conclusions"}, p.Warnings)

	again, err := ReadProfile("again.yaml", bytes.NewReader(p.YAML()))
	require.NoError(t, err)
	assert.Equal(t, runIDs(p), runIDs(again), "the resolved profile is what was run")
	assert.Nil(t, again.Small)
	assert.NotContains(t, strings.Join(again.Warnings, "\n"), "matches no cell")
}

func TestSmallScaleAndOtherFlags(t *testing.T) {
	p := read(t, withSmall)
	require.NoError(t, p.Override(Overrides{Scale: SmallScale, Device: "sdb", Repeats: "2", Timeout: time.Hour}))
	assert.Equal(t, "sdb", p.Target.Device)
	assert.Equal(t, 2, p.Repeats, "a flag says more than small")
	assert.Equal(t, time.Hour, p.Timeout)

	assert.EqualError(t, read(t, withSmall).Override(Overrides{Scale: "tiny"}), "--scale tiny: there is one scale, small; leave the flag out for the whole profile")
	err := read(t, "version: 1\nname: a\nworkloads: [{name: rnd, type: io}, {name: w, type: dd}]\n").Override(Overrides{Scale: SmallScale})
	assert.ErrorContains(t, err, "--scale small: the profile a does not say what that is; add it to the file")
	_, example, _ := strings.Cut(err.Error(), "\n")
	added := small(t, "version: 1\nname: a\nworkloads: [{name: rnd, type: io}, {name: w, type: dd}]\n"+strings.TrimSpace(example)+"\n")
	assert.Equal(t, int64(16<<20), added.Workloads[1].Size, "what is said can be typed")
}

// What is wrong at small scale is exit 2 also where the whole profile is run: nobody finds out in the night before the talk.
func TestSmallIsJudgedAtAnyScale(t *testing.T) {
	_, err := ReadProfile("f.yaml", strings.NewReader(strings.Replace(withSmall, "queue_depth: [1, 31]", "queue_depth: [1, 031]", 1)))
	var wrong *ProfileErrors
	require.ErrorAs(t, err, &wrong)
	require.Len(t, wrong.Errors, 1)
	e := wrong.Errors[0]
	assert.Equal(t, []any{18, 29, "queue_depth", "031"}, []any{e.Line, e.Column, e.Key, e.Value})
}

func TestPlanAtSmallScale(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{depth: 32})
	p := small(t, withSmall)
	plan, err := NewPlan(t.Context(), p, m.host(), PlanOptions{})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, plan.Text(&b, 80, false, "sudo qdsweep run a.yaml --scale small"))
	golden(t, "testdata/plan/small-80.txt", b.String())
	b.Reset()
	require.NoError(t, plan.JSON(&b))
	var head struct {
		Scale  string
		Scaled []string
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &head))
	assert.Equal(t, SmallScale, head.Scale)
	assert.Equal(t, p.Scaled, head.Scaled)
}
