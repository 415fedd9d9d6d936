package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the plan says of the time: how much it is, what that rests on, and how it goes with the deadline.
func TestPlanSaysHowLong(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{depth: 32})
	const known = "\nmatrix: {queue_depth: [1, 31]}\nworkloads: [{name: r, type: io, mode: randread, runtime: 10s, iodepth: 64}]\n" // 11.1 s a run with settle
	const bySize = "\nmatrix: {queue_depth: [1, 31]}\nworkloads: [{name: r, type: io, mode: read, runtime: 0s, size: 4g, iodepth: 64, block_size: 1m}]\n"
	for _, c := range []struct {
		source string
		says   []string
		warns  string
	}{
		{"repeats: 3" + known, []string{"2 cells × 3 replicates = 6 runs,", "about 67 s (11 s a run, as the profile says); a run"}, ""},
		{"repeats: 3\ndeadline: 8h" + known, []string{"deadline 8h (", "): fits"}, ""},
		{"repeats: 9\ndeadline: 90s" + known, []string{"deadline 1m30s (", "): about 4 of 9 replicates can be finished"}, ""},
		{"repeats: {min: 6, max: 20, precision: 2%}\ndeadline: 1h" + known, []string{"2 cells × 6 to 20 replicates = 12 to 40 runs,", "about 2 min to 7 min (",
			"every mean is known to ± 2%, in every phase", "): fits"}, ""},
		{"repeats: {min: 6, max: 20, precision: 2%}\ndeadline: 1m" + known, []string{"): about 2 replicates can be finished"},
			"deadline 1m: about 2 replicates can be finished, and with fewer than 6 replicates it ends as exit 4 (a run takes 11 s, as the profile says)"},
		{"repeats: 3\ndeadline: 15s" + known, []string{"): about 1 of the 2 runs of the first replicate can be done"}, "with fewer than 2 replicates it ends as exit 4"},
		{"repeats: 1\nuntil: 07:00" + known, []string{"until 07:00 (in ", "): fits"}, ""},
		{"repeats: 1" + bySize, []string{"a run, guessed at 100 MB/s and 100 seeks/s a drive)"}, ""},
		{"repeats: 1\nsettle: 20s" + bySize, []string{"a run, 43 s of it guessed at 100 MB/s and 100 seeks/s a drive)"}, ""},
	} {
		p, err := NewPlan(context.Background(), read(t, "version: 1\nname: a\ntarget: {device: sda}\n"+c.source), m.host(), PlanOptions{})
		require.NoError(t, err, c.source)
		var text bytes.Buffer
		require.NoError(t, p.Text(&text, 400, false, ""))
		for _, said := range c.says {
			assert.Contains(t, text.String(), said, c.source)
		}
		warnings := strings.Join(p.Warnings, "\n")
		if c.warns == "" {
			assert.NotContains(t, warnings, "exit 4", c.source)
		} else {
			assert.Contains(t, warnings, c.warns)
		}
	}
}

func TestPlanTimeInJSON(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{depth: 32})
	p, err := NewPlan(context.Background(), read(t, "version: 1\nname: a\ntarget: {device: sda}\nrepeats: {min: 6, max: 20, precision: 2%}\ndeadline: 100s"+readers), m.host(), PlanOptions{})
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, p.JSON(&text))
	var got map[string]any
	require.NoError(t, json.Unmarshal(text.Bytes(), &got))
	one := p.work.mean * time.Duration(p.cells)
	assert.Equal(t, []any{6.0, 20.0, 0.02, 100.0, "", float64(100 * time.Second / one)},
		[]any{got["repeats_min"], got["repeats"], got["precision"], got["deadline_s"], got["until"], got["replicates_fit"]})
	assert.InDelta(t, (6 * one).Seconds(), got["estimate_min_s"], 1e-6)
	assert.InDelta(t, (20 * one).Seconds(), got["estimate_s"], 1e-6)
}
