package drive

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func model(t *testing.T, name string) Model {
	t.Helper()
	m, err := FindModel(name)
	require.NoError(t, err)
	return m
}

func TestModelsSayWhatTheyAre(t *testing.T) {
	models, err := Models()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(models), 7)
	for _, m := range models {
		text, err := ModelText(m.Name)
		require.NoError(t, err)
		assert.Regexp(t, `^# A model, not a measurement of`, string(text), m.Name)
		assert.Regexp(t, `^(1999|2007|2008), [a-z0-9-]+`, m.Shows, m.Name)
		assert.InEpsilon(t, 1, m.Speed, 1e-9, "%s: whoever serves it chooses another", m.Name)
	}
	_, err = FindModel("barracuda")
	require.ErrorContains(t, err, `"barracuda": there are max-sectors-2007, ncq-2007`)
}

// Each named model shows its finding without a kernel, by the code that is served to one.
func TestModelsShowTheirFinding(t *testing.T) {
	rate := func(t *testing.T, m Model, w Workload) float64 {
		w.Warmup, w.Length = time.Second, 6*time.Second
		return simulate(t, m, w).MBs
	}
	t.Run("tagged-depth-1999", func(t *testing.T) {
		m := model(t, "tagged-depth-1999")
		write, read, seeks := map[int]float64{}, map[int]float64{}, map[int]float64{}
		for _, depth := range []int{1, 2, 3, 4, 8, 32} {
			write[depth] = rate(t, m, Workload{Write: true, Block: 64 << 10, Depth: depth})
			read[depth] = rate(t, m, Workload{Block: 64 << 10, Depth: depth})
			seeks[depth] = rate(t, m, Workload{Block: 8 << 10, Random: true, Depth: depth})
		}
		assert.InEpsilon(t, 11.4, write[1], 0.05)
		assert.InEpsilon(t, write[1], write[2], 0.05)
		for _, depth := range []int{3, 4, 8, 32} {
			assert.InDelta(t, -0.33, write[depth]/write[2]-1, 0.04, "writes at depth %d", depth)
			assert.InEpsilon(t, read[1], read[depth], 0.05, "reads at depth %d", depth)
		}
		assert.InDelta(t, 0.14, seeks[3]/seeks[1]-1, 0.05, "bonnie has three seekers")
	})
	t.Run("wcache-tagging-1999", func(t *testing.T) {
		m := model(t, "wcache-tagging-1999")
		found := map[bool]map[int]float64{false: {}, true: {}}
		for on := range found {
			m.Write.On = on
			for _, depth := range []int{1, 31} {
				found[on][depth] = rate(t, m, Workload{Write: true, Block: 64 << 10, Depth: depth})
			}
		}
		assert.InEpsilon(t, 3.9, found[false][1], 0.1)
		assert.InEpsilon(t, 4.2, found[false][31], 0.1)
		assert.InEpsilon(t, 7.9, found[true][1], 0.1)
		assert.InEpsilon(t, 4.2, found[true][31], 0.1)
	})
	t.Run("threads-2007", func(t *testing.T) {
		for _, write := range []bool{false, true} {
			tcq := func(threads int) float64 {
				return rate(t, model(t, "threads-scsi-2007"), Workload{Write: write, Random: true, Block: 1 << 20, Depth: threads})
			}
			assert.InDelta(t, 36, tcq(1), 5)
			assert.Greater(t, tcq(4)/tcq(1), 1.1, "1.34 and 1.38 in the post")
			none := func(threads int) float64 {
				return rate(t, model(t, "threads-sata-2007"), Workload{Write: write, Random: true, Block: 1 << 20, Depth: threads})
			}
			assert.InDelta(t, 30, none(1), 6)
			assert.InDelta(t, 1, none(4)/none(1), 0.05)
		}
	})
	t.Run("max-sectors-2007", func(t *testing.T) {
		m := model(t, "max-sectors-2007")
		of := func(kib int64) float64 { return rate(t, m, Workload{Write: true, Block: kib << 10, Depth: 31}) }
		assert.InDelta(t, 474.0/194, of(128)/of(8), 0.25)
		assert.Less(t, of(8), of(16))
		assert.Less(t, of(16), of(32))
	})
}

func TestReadModel(t *testing.T) {
	text, err := ModelText("ncq-2007")
	require.NoError(t, err)
	for _, c := range []struct{ old, new, wrong string }{
		{"rpm: 7200", "rpm: 0", "rpm 0 must be above 0"},
		{"order: shortest", "order: random", `order "random" must be first-come, shortest or badly`},
		{"ageing: 0.02", "ageing: 0", "a command may wait for ever"},
		{"full: 17ms", "full: 8ms", "give no curve that rises"},
		{"zones: 8, outer_mb_s: 75, inner_mb_s: 40", "zones: 1, outer_mb_s: 90000, inner_mb_s: 90000", "less than four tracks"},
		{"rpm: 7200", "rpn: 7200", "field rpn not found"},
		{"product: DISK 2007 NCQ", "product: A DISK OF THE YEAR 2007", "1 to 16 characters"},
		{"zones: 8", "zones: 0", "there must be one"},
		{"savable: false}", "savable: false}\nquirks: {hang_at: [524288]}", "hang_at 524288 is behind the last sector, 524287"},
		{"savable: false}", "savable: false}\nquirks: {tagged_writes: {from: 3}}", "needs both from and mb_s"},
		{"savable: false}", "savable: false}\nquirks: {mode_select: later}", `mode_select "later"`},
	} {
		require.Contains(t, string(text), c.old)
		_, err := ReadModel("x.yaml", strings.NewReader(strings.Replace(string(text), c.old, c.new, 1)))
		require.ErrorContains(t, err, c.wrong)
		assert.ErrorContains(t, err, "x.yaml: ")
	}
}

func TestModelWith(t *testing.T) {
	m := model(t, "ncq-2007")
	changed, err := m.With("--with", "queue: {order: first-come}\nquirks: {mode_select: ignored}")
	require.NoError(t, err)
	assert.Equal(t, Queue{Tags: m.Queue.Tags, Order: FirstCome, Ageing: m.Queue.Ageing}, changed.Queue, "the rest stays")
	assert.Equal(t, Ignored, changed.Quirks.ModeSelect)
	assert.Equal(t, Honoured, m.Quirks.ModeSelect)
	same, err := m.With("--with", "")
	require.NoError(t, err)
	assert.Equal(t, m, same)
	_, err = m.With("--with", "queue: {tags: 0}")
	assert.ErrorContains(t, err, "--with: queue: tags 0 must be above 0")
}
