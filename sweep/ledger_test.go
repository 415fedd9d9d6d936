package sweep

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
	"qdsweep/sysfs/systest"
)

// Every run of a plan has a place of its own in the ledger, and its name leads there: with excludes, included cells, cells left out by rule, and devices
// whose identities hold the signs that cells are taken apart at.
func TestLedgerHasAPlaceForEachRun(t *testing.T) {
	m := systest.New(t, systest.Disk{Name: "sda", QueueDepth: 32, WWID: "t10.ATA  A=B;C#1%"}, systest.Disk{Name: "sdb", QueueDepth: 32, WWID: "naa.b"})
	for name, matrix := range map[string]string{
		"none":          "",
		"plain":         "matrix: {queue_depth: [1, 4, 31], write_cache: [off, on]}",
		"excluded":      "matrix: {queue_depth: {from: 1, to: 31, step: 1}, max_sectors_kb: [8, 64, 128], exclude: [{queue_depth: 2}, {queue_depth: 3, max_sectors_kb: 8}]}",
		"included":      "matrix: {queue_depth: [1, 4], write_cache: [off, on], exclude: [{queue_depth: 1}], include: [{queue_depth: 1, write_cache: on}, {queue_depth: 9, write_cache: off}]}",
		"left out":      "matrix: {queue_depth: [1, 4], threads: [1, 2, 4], regions: [1, 2, 4], include: [{queue_depth: 4, threads: 4, regions: 1}], exclude: [{threads: 4, regions: 1}]}",
		"two devices":   "target: {devices: [sda, sdb]}\nmatrix: {queue_depth: [1, 4]}",
		"one parameter": "matrix: {block_size: [4k, 64k], mode: [read, randread+randwrite]}",
	} {
		t.Run(name, func(t *testing.T) {
			text := "version: 1\nname: x\n" + matrix + "\nrepeats: 3\nworkloads: [{name: r, type: io, mode: read, threads: 4, size: 16m}]\n"
			if !strings.Contains(matrix, "target") {
				text += "target: {device: sda}\n"
			}
			p, err := ReadProfile("x.yaml", strings.NewReader(text))
			require.NoError(t, err)
			plan, err := NewPlan(context.Background(), p, m.Host(), PlanOptions{Allow: map[string]bool{"raise": true}})
			require.NoError(t, err)
			again, err := ReadProfile("profile.yaml", strings.NewReader(string(plan.Profile.YAML())))
			require.NoError(t, err)
			l := newLedger(again) // as resume has it, before it knows the machine
			places, n := map[int]string{}, 0
			for r := range plan.Runs() {
				n++
				at, ok := l.place(r.Cell, r.Replicate)
				require.True(t, ok, r.ID)
				require.Less(t, at, len(l.marks))
				require.Empty(t, places[at], r.ID)
				places[at] = r.ID
				named, err := runNamed(r.ID)
				require.NoError(t, err)
				named.ID = r.ID
				status := ledgerStatuses()[1+n%4]
				was, err := l.note(named, status, n%3+1)
				require.NoError(t, err)
				assert.Empty(t, was)
				got, attempt := l.look(r)
				assert.Equal(t, []any{status, n%3 + 1}, []any{got, attempt}, r.ID)
			}
			assert.Equal(t, plan.Count(), n)
		})
	}
}

func TestLedgerRefusesStrangers(t *testing.T) {
	p, err := ReadProfile("x.yaml", strings.NewReader("version: 1\nname: x\nmatrix: {queue_depth: [1, 4], exclude: [{queue_depth: 4}], include: [{queue_depth: 9}]}\nrepeats: 2\n"+
		"workloads: [{name: r, type: io, mode: randread}]\n"))
	require.NoError(t, err)
	l := newLedger(p)
	for name, good := range map[string]bool{
		"queue_depth=1#1": true, "queue_depth=1#2": true, "queue_depth=9#2": true,
		"queue_depth=1#3": false, "queue_depth=1#0": false, "queue_depth=4#1": false, "queue_depth=2#1": false, "write_cache=1#1": false,
		"#1": false, "queue_depth=1": false, "queue_depth=1;x=2#1": false, "queue_depth#1": false, "": false,
	} {
		r, err := runNamed(name)
		if err == nil {
			_, err = l.note(r, results.OK, 1)
		}
		assert.Equal(t, good, err == nil, "%q: %v", name, err)
	}
	r, err := runNamed("queue_depth=1#1")
	require.NoError(t, err)
	_, err = l.note(r, results.OK, mostAttempt+1)
	assert.Error(t, err)
	was, err := l.note(r, results.Failed, 1)
	require.NoError(t, err)
	assert.Equal(t, results.Failed, was, "the same attempt twice counts once")
	was, err = l.note(r, results.Failed, mostAttempt)
	require.NoError(t, err)
	assert.Equal(t, results.OK, was)
	status, attempt := l.look(r)
	assert.Equal(t, fmt.Sprint(results.Failed, mostAttempt), fmt.Sprint(status, attempt))
}
