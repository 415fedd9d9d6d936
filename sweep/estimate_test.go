package sweep

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// byHand is what the sums of an estimate are the sums of: every cell gone through.
func (e *estimate) byHand(done map[int32]bool) (rest, whole float64) {
	for i := range e.walk.size() {
		if e.walk.excluded(i) {
			continue
		}
		one := e.of(Run{number: int32(i)})
		if whole += one; !done[int32(i)] {
			rest += one
		}
	}
	return rest, whole
}

func estimated(t *testing.T) (*Plan, *estimate) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{depth: 32})
	const source = "version: 1\nname: a\ntarget: {device: sda}\nrepeats: 3\nseed: 5\nmatrix:\n  queue_depth: [1, 8, 31]\n  iodepth: [1, 32]\n" +
		"  exclude: [{queue_depth: 31, iodepth: 1}]\n  include: [{queue_depth: 2, iodepth: 4}]\n" +
		"workloads: [{name: r, type: io, mode: randread, runtime: 10s}, {name: w, type: io, mode: read, runtime: 0s, size: 1g, block_size: 1m}]\n"
	p, err := NewPlan(context.Background(), read(t, source), m.host(), PlanOptions{})
	require.NoError(t, err)
	return p, p.newEstimate()
}

// Whatever the runs take, and in whatever order they come, the sums are those of all cells gone through.
func TestEstimateIsTheSumOfItsCells(t *testing.T) {
	p, _ := estimated(t)
	rapid.Check(t, func(t *rapid.T) {
		e := p.newEstimate()
		done, replicate := map[int32]bool{}, 1
		for r := range p.Runs() {
			if r.Replicate != replicate {
				done, replicate = map[int32]bool{}, r.Replicate
				e.toReplicate(replicate)
			}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				if e.cells[r.number] > 0 { // it was done before
					e.passed(r)
					done[r.number] = true
				}
			default:
				e.ran(r, time.Duration(rapid.IntRange(1, 100_000).Draw(t, "ms"))*time.Millisecond)
				done[r.number] = true
			}
			rest, whole := e.byHand(done)
			require.InDelta(t, rest, e.rest().Seconds(), 1e-3*(1+rest))
			require.InDelta(t, whole, e.whole().Seconds(), 1e-3*(1+whole))
		}
	})
}

// It gets better: after a run by what runs take of the guess, then by runs of the same kind, then by the cell.
func TestEstimateGetsBetter(t *testing.T) {
	p, e := estimated(t)
	var runs []Run
	for r := range p.Runs() {
		runs = append(runs, r)
	}
	kind := func(r Run) int { return e.walk.kindOf(int(r.number)) }
	first := runs[0]
	guess := e.of(first)
	assert.InDelta(t, 10+2+0.1+1.073741824/0.1, guess, 0.01, "runtime, twice a second of rest, and 1 GiB at 100 MB/s")
	assert.InDelta(t, 6*guess, e.rest().Seconds(), 0.1)
	e.ran(first, 30*time.Second)
	for _, r := range runs[1:6] {
		if kind(r) == kind(first) {
			assert.InDelta(t, 30, e.of(r), 0.01, "another of its kind")
		} else {
			assert.InDelta(t, 30, e.of(r), 0.01, "other kinds are out by as much")
		}
	}
	e.ran(first, 20*time.Second)
	assert.InDelta(t, 25, e.of(first), 0.01, "of the very cell, the latest weigh most")
	e.ran(first, 20*time.Second)
	assert.InDelta(t, 22.5, e.of(first), 0.01)
	assert.Zero(t, e.of(Run{number: first.number, Skip: "cannot"}))
}

// A target that gets no further run takes no time.
func TestEstimateWithoutALostTarget(t *testing.T) {
	p, e := estimated(t)
	for r := range p.Runs() {
		if r.Index > 8 {
			break
		}
		e.ran(r, time.Second)
	}
	e.drop(func(c Cell) bool { depth, _ := c.Get("queue_depth"); return depth == "8" })
	assert.InDelta(t, 4, e.whole().Seconds(), 0.01, "4 of 6 cells are left")
	e.drop(func(Cell) bool { return true })
	assert.InDelta(t, 0, e.whole().Seconds()+e.rest().Seconds(), 0.01)
}

// What is built once a replicate is a part of it, by a guess until it was built.
func TestEstimateOfBuilding(t *testing.T) {
	_, e := estimated(t)
	before := e.whole()
	e.builds, e.buildSecond = 2, 3
	assert.Equal(t, before+6*time.Second, e.whole())
	e.build(10 * time.Second)
	assert.InDelta(t, (before + 20*time.Second).Seconds(), e.whole().Seconds(), 0.01)
	assert.InDelta(t, (before + 10*time.Second).Seconds(), e.rest().Seconds(), 0.01, "one stands already")
}

// A cell of a row is found by its text, excluded ones and included ones too.
func TestNumberOfACell(t *testing.T) {
	_, e := estimated(t)
	for i := range e.walk.size() {
		number, ok := e.walk.number(e.walk.cell(i))
		assert.True(t, ok && number == i)
	}
	_, ok := e.walk.number(Cell{{"queue_depth", "1"}})
	assert.False(t, ok)
	_, ok = e.walk.number(Cell{{"iodepth", "1"}, {"queue_depth", "7"}})
	assert.False(t, ok)
}
