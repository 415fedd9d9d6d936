package sweep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClock(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	friday := time.Date(2025, 3, 28, 22, 4, 30, 0, berlin) // summer time begins on Sunday, 2:00
	for text, want := range map[string]string{
		"07:00":     "Sat 2025-03-29 07:00 CET",
		"7:00":      "Sat 2025-03-29 07:00 CET",
		"22:04":     "Sat 2025-03-29 22:04 CET",
		"22:05":     "Fri 2025-03-28 22:05 CET",
		"mon 07:00": "Mon 2025-03-31 07:00 CEST",
		"Fri 22:04": "Fri 2025-04-04 22:04 CEST",
		"fri 23:00": "Fri 2025-03-28 23:00 CET",
		"sun 02:30": "Sun 2025-03-30 03:30 CEST", // there is no 2:30 on that day
	} {
		c, ok := parseClock(text)
		require.True(t, ok, text)
		assert.Equal(t, want, c.Next(friday).Format("Mon 2006-01-02 15:04 MST"), text)
		again, ok := parseClock(c.String())
		assert.True(t, ok && again == c, "%s is written as %s", text, c)
	}
	for _, text := range []string{"", "7", "24:00", "07:60", "monday 07:00", "07:00 mon", "-1:00", "07:00:00", "7h", "１7:00"} {
		_, ok := parseClock(text)
		assert.False(t, ok, text)
	}
	assert.Empty(t, Clock{}.String())
}

// A deadline counts from the start, and an until is the next such time; each is read again as it was written.
func TestEndsOfAProfile(t *testing.T) {
	const work = "\nworkloads: [{name: a, type: io}]\n"
	for source, want := range map[string]string{
		"deadline: 90m":    "deadline: 1h30m\n",
		"until: 7:00":      "until: \"07:00\"\n",
		"until: Mon 07:00": "until: \"mon 07:00\"\n",
		"repeats: {min: 6, max: 20, precision: 2%}":    "repeats: {min: 6, max: 20, precision: 2%}\n",
		"repeats: {min: 2, max: 9, precision: 0.35 %}": "repeats: {min: 2, max: 9, precision: 0.35%}\n",
	} {
		p := read(t, "version: 1\nname: a\n"+source+work)
		assert.Contains(t, string(p.YAML()), want)
		assert.Equal(t, string(p.YAML()), string(read(t, string(p.YAML())).YAML()))
	}
	p := read(t, "version: 1\nname: a\ndeadline: 8h"+work)
	d := p.startDeadline()
	assert.InDelta(t, (8 * time.Hour).Seconds(), d.left().Seconds(), 60)
	assert.Contains(t, d.String(), "deadline 8h (")
	p = read(t, "version: 1\nname: a\nuntil: 07:00"+work)
	left := p.startDeadline().left()
	assert.True(t, left > 0 && left <= 25*time.Hour, "%v", left)
	assert.False(t, read(t, "version: 1\nname: a"+work).startDeadline().set)
}

// Flags take the place of either.
func TestEndFlags(t *testing.T) {
	const source = "version: 1\nname: a\nuntil: \"07:00\"\nrepeats: {min: 6, max: 20, precision: 2%}\nworkloads: [{name: a, type: io}]\n"
	p := read(t, source)
	require.NoError(t, p.Override(Overrides{Deadline: time.Hour, Repeats: "4"}))
	assert.Equal(t, time.Hour, p.Deadline)
	assert.False(t, p.Until.Set)
	assert.Equal(t, "4", p.RepeatsText())
	require.NoError(t, p.Override(Overrides{Until: "mon 6:30", Repeats: "{min: 2, max: 8, precision: 5%}"}))
	assert.Zero(t, p.Deadline)
	assert.Equal(t, "mon 06:30", p.Until.String())
	assert.Equal(t, "{min: 2, max: 8, precision: 5%}", p.RepeatsText())
	for over, want := range map[Overrides]string{
		{Deadline: time.Millisecond}:                 "--deadline 1ms: 1s to 744h",
		{Deadline: time.Hour, Until: "07:00"}:        "--deadline and --until",
		{Until: "noon"}:                              "--until noon: a time of day",
		{Repeats: "many"}:                            "--repeats many: the number of replicates",
		{Repeats: "{min: 6, max: 5, precision: 2%}"}: `max "5": below min, which is 6`,
		{Repeats: "&a 3"}:                            "anchors are not read",
		{Repeats: "["}:                               "--repeats [: the number of replicates",
	} {
		assert.ErrorContains(t, read(t, source).Override(over), want)
	}
}
