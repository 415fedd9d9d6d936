package sweep

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qdsweep/workload"
)

func read(t require.TestingT, source string) *Profile {
	p, err := ReadProfile("test.yaml", strings.NewReader(source))
	require.NoError(t, err, source)
	return p
}

func cellsOf(m Matrix) []string {
	var all []string
	for c := range m.Cells() {
		all = append(all, c.String())
	}
	return all
}

func TestMatrixOfTheDesign(t *testing.T) {
	p := read(t, `
version: 1
name: ncq-on-off
matrix:
  max_sectors_kb: {from: 8, to: 128, times: 2}
  write_cache: [off, yes]
  queue_depth: [1, 31]
  exclude: [{queue_depth: 1, max_sectors_kb: 8}]
  include: [{queue_depth: 4, write_cache: true, max_sectors_kb: 128}]
workloads: [{name: a, type: io}]
`)
	require.Equal(t, []Axis{
		{"queue_depth", []string{"1", "31"}},
		{"write_cache", []string{"off", "on"}},
		{"max_sectors_kb", []string{"8", "16", "32", "64", "128"}},
	}, p.Matrix.Axes)
	cells := cellsOf(p.Matrix)
	assert.Len(t, cells, 2*2*5-2+1)
	assert.Equal(t, len(cells), p.Matrix.Count())
	assert.Equal(t, "queue_depth=1;write_cache=off;max_sectors_kb=16", cells[0])
	assert.Equal(t, "queue_depth=4;write_cache=on;max_sectors_kb=128", cells[len(cells)-1])
	assert.NotContains(t, cells, "queue_depth=1;write_cache=off;max_sectors_kb=8")
	assert.NotContains(t, cells, "queue_depth=1;write_cache=on;max_sectors_kb=8")
}

func TestLevels(t *testing.T) {
	for axis, want := range map[string]struct {
		yaml   string
		levels []string
	}{
		"write_cache":  {"[no, on]", []string{"off", "on"}},
		"queue_depth":  {`[1, "2", 31]`, []string{"1", "2", "31"}},
		"nr_requests":  {"{from: 8, to: 20, step: 5}", []string{"8", "13", "18"}},
		"block_size":   {"{from: 4k, to: 1m, times: 4}", []string{"4k", "16k", "64k", "256k", "1m"}},
		"read_percent": {"{from: 0, to: 100, step: 50}", []string{"0", "50", "100"}},
		"mode":         {"[read+write, randread]", []string{"read+write", "randread"}},
	} {
		t.Run(axis, func(t *testing.T) {
			p := read(t, fmt.Sprintf("version: 1\nname: a\nmatrix: {%s: %s}\nworkloads: [{name: a, type: io}]\n", axis, want.yaml))
			require.Len(t, p.Matrix.Axes, 1)
			assert.Equal(t, want.levels, p.Matrix.Axes[0].Levels)
		})
	}
}

func TestNoMatrixIsOneCell(t *testing.T) {
	p := read(t, "version: 1\nname: a\nworkloads: [{name: a, type: io}]\n")
	assert.Equal(t, 1, p.Matrix.Count())
	assert.Equal(t, []string{""}, cellsOf(p.Matrix))
}

// Field case 24 with arrays: their levels times the rest are exactly the product, and each cell has its own array.
func TestProductWithRaidLevels(t *testing.T) {
	p := read(t, "version: 1\nname: product\nseed: 1\ntarget: {arrays: {5: /dev/md5, none: /dev/sdf, 10: /mnt/r10}}\n"+
		"matrix: {iodepth: [1, 4], block_size: [4k, 64k], mode: [randread, read, randwrite]}\nworkloads: [{name: a, type: io, size: 1g}]\n")
	cells := cellsOf(p.Matrix)
	assert.Len(t, cells, 3*2*2*3)
	perLevel := map[string]int{}
	for r := range order(p.Matrix, 1, true, 1, nil) {
		assert.Equal(t, "raid_level", r.Cell[0].Axis, "it leads the cell")
		perLevel[r.Cell[0].Value]++
	}
	assert.Equal(t, map[string]int{"5": 12, "none": 12, "10": 12}, perLevel)
	slices.Sort(cells)
	assert.Len(t, slices.Compact(cells), 36)
}

// Field case 24: several iodepths × block sizes × modes are exactly the product, each combination once.
func TestProductOfWorkloadParameters(t *testing.T) {
	p := read(t, `
version: 1
name: product
repeats: 2
seed: 1
matrix: {iodepth: [1, 4, 32], block_size: [4k, 64k], mode: [randread, read, randwrite]}
workloads: [{name: a, type: io, size: 1g}]
`)
	cells := cellsOf(p.Matrix)
	assert.Len(t, cells, 3*2*3)
	slices.Sort(cells)
	assert.Len(t, slices.Compact(cells), 3*2*3)
	seen := map[string]int{}
	for r := range order(p.Matrix, 1, true, 2, nil) {
		specs, err := r.Cell.Specs(p.Workloads)
		require.NoError(t, err)
		for _, axis := range []string{"iodepth", "block_size", "mode"} {
			want, _ := r.Cell.Get(axis)
			assert.Equal(t, want, specs[0].Get(axis))
		}
		seen[r.Cell.String()]++
	}
	assert.Len(t, seen, 18)
	for cell, n := range seen {
		assert.Equal(t, 2, n, cell)
	}
}

func TestAnExcludeThatMatchesNothingIsAWarning(t *testing.T) {
	p := read(t, "version: 1\nname: a\nmatrix:\n  queue_depth: [1, 31]\n  exclude: [{queue_depth: 4}]\nworkloads: [{name: a, type: io}]\n")
	assert.Equal(t, []string{"test.yaml:5: exclude {queue_depth=4} matches no cell"}, p.Warnings)
	assert.Equal(t, 2, p.Matrix.Count())
}

// drawProfile makes a legal profile of any matrix.
func drawProfile(t *rapid.T) string {
	axes := map[string][]string{
		"queue_depth": {"1", "2", "3", "4", "8", "31"}, "write_cache": {"off", "on"}, "nr_requests": {"4", "64", "128"},
		"max_sectors_kb": {"8", "16", "128"}, "iodepth": {"1", "2", "32"}, "mode": {"read", "randread", "randwrite"},
		"block_size": {"4k", "8k", "1m"},
	}
	names := []string{"queue_depth", "write_cache", "nr_requests", "max_sectors_kb", "iodepth", "mode", "block_size"}
	chosen := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(t, "axes")
	var b strings.Builder
	levels := map[string][]string{}
	switch rapid.SampledFrom([]string{"", "arrays", "devices", "build"}).Draw(t, "target") {
	case "arrays":
		b.WriteString("target: {arrays: {none: sda, 5: /dev/md5, 10: /mnt/r10}}\n")
		axes[raidLevel] = []string{"none", "5", "10"}
	case "build":
		b.WriteString("target: {build: {members: [sda, sdb, sdc, sdd], initial_sync: yes, filesystem: xfs, mount_options: noatime}}\n")
		axes[raidLevel], chosen = []string{"10", "none", "0", "6", "5"}, append(chosen, raidLevel)
	case "devices":
		b.WriteString("target: {devices: [sda, /dev/disk/by-id/x-y, wwid:naa.5]}\n")
	}
	if axes[raidLevel] != nil && !slices.Contains(chosen, raidLevel) && rapid.Bool().Draw(t, "raid_level") {
		chosen = append(chosen, raidLevel)
	}
	fmt.Fprintf(&b, "version: 1\nname: drawn\nrepeats: %d\nseed: %d\norder: %s\n",
		rapid.IntRange(1, 4).Draw(t, "repeats"), rapid.Uint64().Draw(t, "seed"), rapid.SampledFrom([]string{Interleaved, Sequential}).Draw(t, "order"))
	if len(chosen) > 0 {
		b.WriteString("matrix:\n")
	}
	for _, a := range chosen {
		levels[a] = rapid.SliceOfNDistinct(rapid.SampledFrom(axes[a]), 1, -1, rapid.ID[string]).Draw(t, a)
		fmt.Fprintf(&b, "  %s: [%s]\n", a, strings.Join(levels[a], ", "))
	}
	if len(chosen) > 1 && rapid.Bool().Draw(t, "exclude") {
		fmt.Fprintf(&b, "  exclude: [{%s: %s, %s: %s}]\n", chosen[0], levels[chosen[0]][0], chosen[1], levels[chosen[1]][0])
	}
	b.WriteString("workloads: [{name: a, type: io, size: 1g}, {name: b, type: io, engine: psync, size: 1g}]\n")
	return b.String()
}

func runIDs(p *Profile) []string {
	var ids []string
	for r := range order(p.Matrix, p.Seed, p.Order == Interleaved, p.Repeats, nil) {
		ids = append(ids, r.ID)
	}
	return ids
}

// Every cell comes once in each replicate, replicates follow one another, the seed decides the order, and the profile
// written out plans the same.
func TestOrderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := drawProfile(t)
		p, err := ReadProfile("drawn.yaml", strings.NewReader(source))
		if err != nil { // the one thing that can be wrong with it
			require.Contains(t, err.Error(), "no cell is left", source)
			return
		}
		count, index := p.Matrix.Count(), 0
		cells := cellsOf(p.Matrix)
		slices.Sort(cells)
		require.Len(t, slices.Compact(slices.Clone(cells)), count)
		var replicate, raid []string
		for r := range order(p.Matrix, p.Seed, p.Order == Interleaved, p.Repeats, nil) {
			require.Equal(t, index/count+1, r.Replicate)
			index++
			require.Equal(t, index, r.Index)
			require.Equal(t, fmt.Sprintf("%s#%d", r.Cell, r.Replicate), r.ID)
			require.True(t, slices.IsSortedFunc(r.Cell, func(a, b Level) int { return compareAxes(a.Axis, b.Axis) }))
			replicate = append(replicate, r.Cell.String())
			level, _ := r.Cell.Get(raidLevel)
			raid = append(raid, level)
			if len(replicate) == count {
				slices.Sort(replicate)
				require.Equal(t, cells, replicate)
				if p.Target.Build != nil {
					groups := slices.Compact(raid)
					slices.Sort(groups)
					require.Equal(t, len(groups), len(slices.Compact(groups)), "a raid_level is built twice in a replicate")
				}
				replicate, raid = nil, nil
			}
		}
		require.Equal(t, count*p.Repeats, index)
		require.Equal(t, runIDs(p), runIDs(p))
		again, err := ReadProfile("again.yaml", strings.NewReader(string(p.YAML())))
		require.NoError(t, err, string(p.YAML()))
		require.Equal(t, runIDs(p), runIDs(again))
		require.Equal(t, p.Workloads, again.Workloads)
		require.Equal(t, p.Target, again.Target)
		require.Equal(t, p.Settle, again.Settle)
	})
}

// The order of a seed is a promise: resume by another build of the program must find the same one.
func TestTheOrderOfASeedNeverChanges(t *testing.T) {
	p := read(t, "version: 1\nname: a\nseed: 42\nrepeats: 2\nmatrix: {queue_depth: [1, 31], write_cache: [off, on]}\nworkloads: [{name: a, type: io}]\n")
	assert.Equal(t, []string{
		"queue_depth=31;write_cache=on#1", "queue_depth=31;write_cache=off#1", "queue_depth=1;write_cache=on#1", "queue_depth=1;write_cache=off#1",
		"queue_depth=1;write_cache=on#2", "queue_depth=31;write_cache=on#2", "queue_depth=31;write_cache=off#2", "queue_depth=1;write_cache=off#2",
	}, runIDs(p))
	p.Seed = 43
	other := runIDs(p)
	p.Seed = 42
	assert.NotEqual(t, other, runIDs(p))
	p.Order = Sequential
	assert.Equal(t, "queue_depth=1;write_cache=off#1", runIDs(p)[0])
}

// With build in the target so is the order of what is built: levels that come together, in an order of their own.
func TestTheOrderOfWhatIsBuiltNeverChanges(t *testing.T) {
	p := read(t, "version: 1\nname: a\nseed: 42\nrepeats: 3\ntarget: {build: {members: [sda, sdb, sdc, sdd]}}\n"+
		"matrix:\n  raid_level: [0, 5, 10]\n  queue_depth: [1, 31]\n  include: [{raid_level: none, queue_depth: 1}, {raid_level: 5, queue_depth: 4}]\nworkloads: [{name: a, type: io}]\n")
	assert.Equal(t, []string{
		"raid_level=5;queue_depth=4#1", "raid_level=5;queue_depth=1#1", "raid_level=5;queue_depth=31#1", "raid_level=10;queue_depth=31#1",
		"raid_level=10;queue_depth=1#1", "raid_level=0;queue_depth=1#1", "raid_level=0;queue_depth=31#1", "raid_level=none;queue_depth=1#1",
		"raid_level=10;queue_depth=31#2", "raid_level=10;queue_depth=1#2", "raid_level=none;queue_depth=1#2", "raid_level=5;queue_depth=31#2",
		"raid_level=5;queue_depth=1#2", "raid_level=5;queue_depth=4#2", "raid_level=0;queue_depth=31#2", "raid_level=0;queue_depth=1#2",
		"raid_level=5;queue_depth=4#3", "raid_level=5;queue_depth=31#3", "raid_level=5;queue_depth=1#3", "raid_level=10;queue_depth=1#3",
		"raid_level=10;queue_depth=31#3", "raid_level=none;queue_depth=1#3", "raid_level=0;queue_depth=31#3", "raid_level=0;queue_depth=1#3",
	}, runIDs(p))
	p.Order = Sequential
	assert.Equal(t, []string{
		"raid_level=0;queue_depth=1#1", "raid_level=0;queue_depth=31#1", "raid_level=5;queue_depth=1#1", "raid_level=5;queue_depth=31#1",
		"raid_level=5;queue_depth=4#1", "raid_level=10;queue_depth=1#1", "raid_level=10;queue_depth=31#1", "raid_level=none;queue_depth=1#1",
	}, runIDs(p)[:8])
}

// Each raid_level is first about as often as any other, or the drift of a replicate would be taken for an effect of it.
func TestTheOrderOfLevelsIsEven(t *testing.T) {
	const n, draws = 4, 6000
	var first [n]int
	for seed := range uint64(draws) {
		for level, place := range orderOfLevels(n, seed, true, 1) {
			if place == 0 {
				first[level]++
			}
		}
	}
	for level, count := range first {
		assert.InDelta(t, draws/n, count, 170, "level %d", level) // 5 standard deviations
	}
}

// A shuffle that favoured places would turn drift into an effect: each cell is first about as often as any other.
func TestTheShuffleIsEven(t *testing.T) {
	const n, draws = 6, 6000
	var first [n]int
	for seed := range uint64(draws) {
		numbers := []int32{0, 1, 2, 3, 4, 5}
		shuffle(numbers, seed, 1)
		first[numbers[0]]++
	}
	for i, count := range first {
		assert.InDelta(t, draws/n, count, 150, "cell %d", i) // 5 standard deviations
	}
}

// The fast way through the kinds of work gives what each cell gives by itself.
func TestKindsOfWorkAreTheCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := ReadProfile("drawn.yaml", strings.NewReader(drawProfile(t)))
		if err != nil { // the drawn excludes left nothing: another draw
			require.ErrorContains(t, err, "no cell is left")
			t.Skip("no cell is left")
		}
		kinds := map[int][]workload.Spec{}
		p.Matrix.eachWorkloads(p.Workloads, func(k kindOfWork) bool {
			kinds[k.number] = slices.Clone(k.specs)
			return true
		})
		w, used := p.Matrix.walk(), map[int]bool{}
		for i := range w.size() {
			if w.excluded(i) {
				continue
			}
			if used[w.kind(i)] {
				continue
			}
			specs, err := w.cell(i).Specs(p.Workloads)
			require.NoError(t, err)
			require.Equal(t, specs, kinds[w.kind(i)])
			used[w.kind(i)] = true
		}
		require.Len(t, kinds, len(used))
	})
}
