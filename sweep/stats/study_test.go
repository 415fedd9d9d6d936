package stats

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qdsweep/sweep/results"
)

func TestHolm(t *testing.T) {
	nan := math.NaN()
	got := Holm([]float64{0.01, 0.04, nan, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, nan, 0.06, 0.02} {
		if math.IsNaN(want) {
			assert.True(t, math.IsNaN(got[i]))
			continue
		}
		assert.InDelta(t, want, got[i], 1e-12)
	}
	assert.Equal(t, []float64{1, 1}, Holm([]float64{0.6, 0.9}))
	assert.InDelta(t, 0.025, lastLevel([]float64{0.01, 0.2, nan, 0.06}), 1e-12, "what was found is not among those that are left")
}

func TestPValues(t *testing.T) {
	// From printed tables of t and F.
	assert.InDelta(t, 0.05, studentP(2.776, 4), 1e-4)
	assert.InDelta(t, 0.01, studentP(-3.169, 10), 1e-4)
	assert.InDelta(t, 0.05, fisherP(3.4928, 2, 20), 1e-4)
	assert.InDelta(t, studentP(3, 7), fisherP(9, 1, 7), 1e-12)
	assert.Greater(t, studentP(60, 30), 0.0, "far out in the tail there are digits left")
}

func TestLevelsAreInOrder(t *testing.T) {
	for _, c := range [][2]string{
		{"31 4 1", "1 4 31"}, {"on off", "off on"}, {"1m 4k 64k", "4k 64k 1m"}, {"none bfq mq-deadline", "none bfq mq-deadline"},
	} {
		levels := strings.Fields(c[0])
		sortLevels(levels)
		assert.Equal(t, strings.Fields(c[1]), levels)
	}
}

// cellRow is an ok row with a rate.
func cellRow(cell string, replicate int, rate float64) results.Row {
	return results.Row{Sweep: "s", Cell: cell, Run: fmt.Sprintf("%s#%d", cell, replicate), Replicate: replicate, Row: 1, Rows: 1,
		Workload: "dd", Phase: "write", Status: results.OK, MBPerS: results.NumOf(rate)}
}

// published reads a table of the posts, a row a line; rate is the column with the figure.
func published(t *testing.T, name string, each func(field func(string) string)) {
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for _, line := range all[1:] {
		each(func(column string) string {
			for i, c := range all[0] {
				if c == column {
					return line[i]
				}
			}
			t.Fatalf("%s has no column %s", name, column)
			return ""
		})
	}
}

func number(t *testing.T, text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return v
}

// 1999: write cache doubles the rate and tagged queueing takes it away again. One figure a cell: there is an interaction, and nobody can tell how sure.
func TestTheTableOf1999(t *testing.T) {
	var rows []results.Row
	published(t, "1999-write-cache-tagging-2x2.csv", func(field func(string) string) {
		rows = append(rows, cellRow("write_cache="+field("write_cache")+";tagged_queueing="+field("tagged_queueing"), 1, number(t, field("mb_per_s"))))
	})
	c := studied(rows, Options{})
	require.Len(t, c.Effects, 3)
	both := c.Effects[2]
	assert.Equal(t, []string{"write_cache", "tagged_queueing"}, both.Axes)
	assert.InDelta(t, 100*(4.2*3.9/(7.9*4.2)-1), both.Percent, 1e-9) // − 50.6 %
	assert.Equal(t, NotReplicated, both.Verdict)
	assert.Nil(t, both.P)
	assert.Nil(t, both.Low)
	cache := c.Effects[0]
	require.Len(t, cache.At, 2)
	assert.InDelta(t, 102.6, cache.At[0].Percent, 0.1)
	assert.Equal(t, []Level{{"tagged_queueing", "off", "off"}}, cache.At[0].Context)
	assert.InDelta(t, 0, cache.At[1].Percent, 1e-9)
	require.NotEmpty(t, c.Warnings)
	assert.Equal(t, Unreplicated, c.Warnings[0].Code)
}

// 2007: the percentages of the published table, cell by cell.
func TestTheTableOf2007(t *testing.T) {
	s := NewStudy("")
	published(t, "2007-md-ncq-write-cache.csv", func(field func(string) string) {
		if field("unit") != "KiB/s" || field("value") == "" {
			return
		}
		cell := fmt.Sprintf("raid_level=%s;queue_depth=%s;write_cache=%s", field("raid_level"), field("queue_depth"), field("write_cache"))
		replicate := int(number(t, field("replicate")))
		r := cellRow(cell, replicate, number(t, field("value"))*1024/1e6)
		r.Workload, r.Phase = "bonnie", field("phase")
		s.Add(r)
	})
	found := map[string]float64{}
	for _, e := range s.Conclude(Options{}).Effects {
		if len(e.Axes) > 1 || e.Axes[0] != "queue_depth" {
			continue
		}
		for _, at := range e.At {
			found[e.Phase+" "+at.Context[0].Effective+" "+at.Context[1].Effective] = at.Percent
		}
	}
	assert.InDelta(t, 9.8, found["write 5 off"], 0.3)
	assert.InDelta(t, -13, found["read 5 off"], 0.5)
	assert.InDelta(t, -13, found["read 5 on"], 0.5)
	assert.InDelta(t, 62, found["write 10 off"], 0.5)
}

// Without the first level in a context there is nothing to compare there; the others have it.
func TestOnlyCellsThatDifferInOneThingAreCompared(t *testing.T) {
	var rows []results.Row
	for replicate := 1; replicate <= 2; replicate++ {
		for cell, rate := range map[string]float64{
			"queue_depth=1;write_cache=off": 100, "queue_depth=31;write_cache=off": 110, "queue_depth=31;write_cache=on": 1000,
		} {
			rows = append(rows, cellRow(cell, replicate, rate))
		}
	}
	c := studied(rows, Options{})
	for _, e := range c.Effects {
		switch strings.Join(e.Axes, " ") {
		case "queue_depth":
			assert.InDelta(t, 10, e.Percent, 1e-9)
		case "write_cache":
			assert.InDelta(t, 809, e.Percent, 0.1)
		default:
			assert.Equal(t, NotEstimable, e.Verdict)
			assert.Nil(t, e.Alone)
		}
	}
}

// With `unsupported: record` the rows of 64, of which the drive makes 31, are rows of 31.
func TestTheLevelIsTheOneInForce(t *testing.T) {
	var rows []results.Row
	for replicate := 1; replicate <= 3; replicate++ {
		for asked, effective := range map[string]string{"1": "1", "31": "31", "64": "31"} {
			r := cellRow("queue_depth="+asked, replicate, 100+float64(replicate))
			r.QueueDepthEffective = effective
			rows = append(rows, r)
		}
	}
	c := studied(rows, Options{})
	require.Len(t, c.Phases[0].Cells, 2)
	for _, cell := range c.Phases[0].Cells {
		if cell.Levels[0].Effective == "31" {
			assert.ElementsMatch(t, []string{"queue_depth=31", "queue_depth=64"}, cell.Cells)
			assert.Equal(t, 6, cell.N)
		}
	}
	require.Len(t, c.Effects, 1)
	assert.Equal(t, []string{"31"}, c.Effects[0].To)
}

func effectOf(t *testing.T, c Conclusions, axes ...string) Effect {
	for _, e := range c.Effects {
		if strings.Join(e.Axes, " ") == strings.Join(axes, " ") {
			return e
		}
	}
	t.Fatalf("no effect of %v", axes)
	return Effect{}
}

func warned(c Conclusions, code WarningCode) (texts []string) {
	for _, w := range c.Warnings {
		if w.Code == code {
			texts = append(texts, w.Text)
		}
	}
	return texts
}

func TestWhatIsSaidOfAnEffect(t *testing.T) {
	d := design{axes: []string{"queue_depth", "write_cache"}, levels: [][]string{{"1", "31"}, {"off", "on"}}, repeats: 5, noise: threePercent,
		log: func(l []int) float64 { return float64(l[1]) * math.Log(2) }}
	rows := d.rows(seeded(11))

	c := studied(rows, Options{})
	cache := effectOf(t, c, "write_cache")
	assert.Equal(t, Found, cache.Verdict)
	assert.InDelta(t, 100, cache.Percent, 10)
	depth := effectOf(t, c, "queue_depth")
	assert.Equal(t, NotFound, depth.Verdict)
	require.NotNil(t, depth.Smallest)
	assert.InDelta(t, 4.5, *depth.Smallest, 2)
	require.NotNil(t, c.Phases[0].NoisePercent)
	assert.InDelta(t, 3, *c.Phases[0].NoisePercent, 1.5)
	assert.Empty(t, warned(c, Unexercised))

	// The same, but the depth was not reached: that it does nothing was not shown.
	for i := range rows {
		if strings.HasPrefix(rows[i].Cell, "queue_depth=31") {
			rows[i].Reason = results.DepthNotExercised.With("seen 2 of 31")
		}
	}
	c = studied(rows, Options{})
	assert.Equal(t, NotExercised, effectOf(t, c, "queue_depth").Verdict)
	assert.Equal(t, Found, effectOf(t, c, "write_cache").Verdict)
	assert.Len(t, warned(c, Unexercised), 1)

	// A fifth of the rows with write cache on is suspect, of the others none.
	left := 0
	for i := range rows {
		if left < 2 && strings.HasSuffix(rows[i].Cell, "write_cache=on") {
			rows[i].Status = results.Suspect
			left++
		}
	}
	c = studied(rows, Options{})
	cache = effectOf(t, c, "write_cache")
	assert.Equal(t, NotClaimed, cache.Verdict)
	assert.Equal(t, []Share{{"write_cache", "off", 0, 10}, {"write_cache", "on", 2, 10}}, cache.Suspects)
	require.Len(t, warned(c, UnevenSuspects), 1)
	assert.Contains(t, warned(c, UnevenSuspects)[0], "2 of 10 at on")
}

func TestDriftThatCouldExplainAnEffect(t *testing.T) {
	d := design{axes: []string{"scheduler"}, levels: [][]string{{"none", "bfq"}}, repeats: 12, noise: func([]int) float64 { return 0.002 }, log: nothing, perRun: -0.01, ordered: true}
	c := studied(d.rows(seeded(4)), Options{})
	require.NotNil(t, c.Phases[0].Drift)
	assert.InDelta(t, -20, c.Phases[0].Drift.Percent, 3, "23 runs, a per cent each")
	require.Len(t, warned(c, Drifting), 1)
	e := effectOf(t, c, "scheduler")
	require.NotNil(t, e.Drift)
	assert.InDelta(t, -1, *e.Drift, 0.2, "each of the second stands a run behind one of the first")

	// All of one, then all of the other: the whole difference is the drift's.
	s := NewStudy("")
	for i := range 30 {
		r := cellRow("scheduler="+[]string{"none", "bfq"}[i/15], i, 100*math.Exp(-0.01*float64(i)+0.0002*float64(i%3)))
		s.Add(r)
	}
	c = s.Conclude(Options{})
	assert.Len(t, warned(c, Drifting), 1)
	assert.Len(t, warned(c, DriftExplains), 1)
	assert.InDelta(t, -14, *effectOf(t, c, "scheduler").Drift, 0.5)
}

func TestCellsOfAnotherNoiseAreJudgedByTheirOwn(t *testing.T) {
	d := threeAxes()
	d.repeats = 8
	d.noise = func(l []int) float64 {
		if l[0] == 2 && l[1] == 1 && l[2] == 1 {
			return 0.4
		}
		return 0.02
	}
	c := studied(d.rows(seeded(6)), Options{})
	require.Len(t, warned(c, UnequalNoise), 1)
	assert.Contains(t, warned(c, UnequalNoise)[0], "queue_depth=31;write_cache=on;max_sectors_kb=512 (")
	assert.InDelta(t, 2, *c.Phases[0].NoisePercent, 0.5, "the others' is theirs alone")
	for _, cell := range c.Phases[0].Cells {
		wide := cell.Cells[0] == "queue_depth=31;write_cache=on;max_sectors_kb=512"
		assert.Equal(t, wide, *cell.High / *cell.Low > 1.2, cell.Cells[0])
	}
}

func TestOutliersAreNamed(t *testing.T) {
	d := threeAxes()
	d.repeats = 5
	rows := d.rows(seeded(7))
	assert.Empty(t, warned(studied(rows, Options{}), HasOutliers))
	rows[17].MBPerS = results.NumOf(80)
	c := studied(rows, Options{})
	require.Len(t, warned(c, HasOutliers), 1)
	assert.Contains(t, warned(c, HasOutliers)[0], rows[17].Run+" (")
	n := 0
	for _, cell := range c.Phases[0].Cells {
		n += len(cell.Outliers)
		assert.Equal(t, 5, cell.N, "it counts all the same")
	}
	assert.Equal(t, 1, n)
}

// In whatever order rows come, and whatever is missing, nothing panics, and a share of time is no share of 2.
func TestAnyRowsCanBeConcluded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewStudy("")
		for range rapid.IntRange(0, 60).Draw(t, "rows") {
			var parts []string
			for _, axis := range []string{"raid_level", "queue_depth", "write_cache"} {
				if rapid.Bool().Draw(t, "has "+axis) {
					parts = append(parts, axis+"="+rapid.SampledFrom([]string{"1", "2", "x"}).Draw(t, axis))
				}
			}
			r := cellRow(strings.Join(parts, ";"), rapid.IntRange(1, 4).Draw(t, "replicate"), rapid.SampledFrom([]float64{0, 1, 2, 1e9}).Draw(t, "rate"))
			r.Status = rapid.SampledFrom([]string{results.OK, results.OK, results.Suspect, results.Failed}).Draw(t, "status")
			s.Add(r)
		}
		for _, built := range []bool{false, true} {
			c := s.Conclude(Options{Built: built})
			for _, e := range c.Effects {
				if e.P != nil {
					require.True(t, *e.P >= *e.Alone && *e.P <= 1, "%v", e)
				}
				if e.Low != nil {
					require.True(t, *e.Low <= e.Percent && e.Percent <= *e.High, "%v", e)
				}
				require.False(t, math.IsNaN(e.Percent))
			}
		}
	})
}
