package drive

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// all runs the drive until nothing is due.
func all(d *Drive) []*Command {
	var done []*Command
	for d.Next() != Never {
		done = append(done, d.Run(d.Next())...)
	}
	return done
}

func TestSubmitRefusesWhatIsNoCommand(t *testing.T) {
	d := New(plain(), NewPlatters(), 1)
	last := plain().Sectors() - 1
	for _, c := range []*Command{
		{Kind: Read, LBA: last, Sectors: 2}, {Kind: Read, LBA: last + 1, Sectors: 1}, {Kind: Read}, {Kind: Read, LBA: 1 << 63, Sectors: 1 << 63},
		{Kind: Write, Sectors: 2, Data: make([]byte, SectorSize)},
	} {
		require.ErrorIs(t, d.Submit(0, c), errCommand, "%+v", c)
	}
	require.NoError(t, d.Submit(0, &Command{Kind: Read, LBA: last, Sectors: 1}))
	d.Run(time.Second)
	require.ErrorIs(t, d.Submit(0, &Command{Kind: Read, Sectors: 1}), errCommand, "in the past")
}

func TestBadSectors(t *testing.T) {
	m := with(plain(), func(m *Model) { m.Quirks.BadSectors = []BadSector{{LBA: 1000}, {LBA: 2000, Write: true}} })
	for _, c := range []struct {
		kind  Kind
		lba   uint64
		cache bool
		bad   bool
	}{
		{Read, 993, true, true}, {Read, 992, true, false}, {Read, 1000, true, true}, {Read, 1001, true, false},
		{Write, 1000, false, false}, {Write, 1993, false, true}, {Write, 2001, false, false}, {Read, 2000, true, false},
	} {
		d := New(m, NewPlatters(), 1)
		d.SetWriteCache(c.cache)
		command := &Command{Kind: c.kind, LBA: c.lba, Sectors: 8, Data: make([]byte, 8*SectorSize)}
		require.NoError(t, d.Submit(0, command))
		all(d)
		var bad *BadSectorError
		if !c.bad {
			assert.NoError(t, command.Err, "%+v", c)
		} else if assert.ErrorAs(t, command.Err, &bad, "%+v", c) {
			assert.Equal(t, c.kind == Write, bad.Write)
			assert.Greater(t, command.Done, retries*m.Revolution(), "it tried")
		}
	}
	// A write that was acknowledged before it failed: the next Sync has the error, and only that.
	d := New(m, NewPlatters(), 1)
	write := &Command{Kind: Write, LBA: 2000, Sectors: 1, Data: make([]byte, SectorSize)}
	first, second := &Command{Kind: Sync}, &Command{Kind: Sync}
	require.NoError(t, d.Submit(0, write))
	all(d)
	require.NoError(t, d.Submit(d.now, first))
	all(d)
	require.NoError(t, d.Submit(d.now, second))
	all(d)
	require.NoError(t, write.Err)
	require.ErrorContains(t, first.Err, "sector 2000 cannot be written")
	require.NoError(t, second.Err)
}

func TestACommandThatHangs(t *testing.T) {
	d := New(with(plain(), func(m *Model) { m.Quirks.HangAt = []uint64{1000} }), NewPlatters(), 1)
	hangs := &Command{Kind: Read, LBA: 996, Sectors: 8}
	require.NoError(t, d.Submit(0, hangs))
	for _, lba := range []uint64{988, 1001, 5000} {
		require.NoError(t, d.Submit(0, &Command{Kind: Read, LBA: lba, Sectors: 8}))
	}
	assert.Len(t, all(d), 3)
	assert.Zero(t, hangs.Done)
	assert.Equal(t, 1, d.Outstanding(), "its tag is taken for ever")
	assert.Equal(t, []*Command{hangs}, d.Release())
	assert.Zero(t, d.Outstanding())
	assert.Empty(t, d.Release())
}

func TestTagsDefeatTheWriteCache(t *testing.T) {
	m := with(plain(), func(m *Model) { m.Quirks.TagsDefeatCache = true })
	d := New(m, NewPlatters(), 1)
	var c [2]*Command
	for i := range c {
		c[i] = &Command{Kind: Write, LBA: 100_000 * uint64(i+1), Sectors: 8, Data: make([]byte, 8*SectorSize)}
		require.NoError(t, d.Submit(0, c[i]))
	}
	all(d)
	assert.Less(t, c[0].Done, time.Millisecond, "it was alone")
	assert.Greater(t, c[1].Done, time.Millisecond)
}

// What is in memory needs no mechanism: what was just read, what was read ahead, and what was just written.
func TestReadsFromMemory(t *testing.T) {
	d := New(plain(), NewPlatters(), 1)
	read := func(at time.Duration, lba uint64) time.Duration {
		c := &Command{Kind: Read, LBA: lba, Sectors: 8}
		d.Run(at)
		require.NoError(t, d.Submit(at, c))
		all(d)
		require.NoError(t, c.Err)
		return c.Done - at
	}
	const quick = 300 * time.Microsecond
	assert.Greater(t, read(0, 100_000), time.Millisecond)
	assert.Less(t, read(100*time.Millisecond, 100_000), quick, "again")
	assert.Less(t, read(200*time.Millisecond, 100_008), quick, "read ahead")
	assert.Less(t, read(300*time.Millisecond, 100_008+504), quick, "256 KiB ahead")
	assert.Greater(t, read(400*time.Millisecond, 100_008+512), quick, "behind what is read ahead")
	d.Run(500 * time.Millisecond)
	require.NoError(t, d.Submit(500*time.Millisecond, &Command{Kind: Write, LBA: 100_000, Sectors: 1, Data: make([]byte, SectorSize)}))
	all(d)
	assert.Greater(t, read(time.Second, 100_000), quick, "written since")
	require.NoError(t, d.Submit(d.now, &Command{Kind: Write, LBA: 300_000, Sectors: 8, Data: make([]byte, 8*SectorSize)}))
	d.Run(d.now + 200*time.Microsecond)
	assert.Less(t, read(d.now, 300_000), quick, "not yet destaged")
}

func TestGeometry(t *testing.T) {
	g := newGeometry(plain())
	require.Len(t, g.zones, 8)
	assert.Equal(t, uint64(1058), g.zones[0].perTrack, "65 MB/s at 120 turns a second")
	assert.Equal(t, uint64(570), g.zones[7].perTrack, "35 MB/s")
	// Sector by sector: in each track all angles, once, and the next track begins where the skew says.
	last := g.place(0)
	for lba := uint64(1); lba < plain().Sectors(); lba++ {
		p := g.place(lba)
		gone := p.angle - last.angle
		if gone < 0 {
			gone++
		}
		want := 1 / float64(last.perTrack)
		if p.track != last.track {
			require.Equal(t, last.track+1, p.track)
			want += g.skew
		}
		require.InDelta(t, want, gone, 1e-6, "sector %d", lba)
		last = p
	}
	assert.Equal(t, g.tracks-1, last.track)
	// passed is what transfer takes, backwards.
	for _, lba := range []uint64{0, 1000, 1057, 1058, 200_000} {
		for _, n := range []uint64{1, 57, 58, 59, 1058, 5000} {
			d := g.transfer(lba, n)
			assert.Equal(t, n, g.passed(lba, d+time.Microsecond, 1<<30, true), "%d from %d", n, lba)
			assert.Equal(t, n, g.passed(lba, d-time.Microsecond, 1<<30, false), "%d from %d", n, lba)
			assert.Equal(t, n-1, g.passed(lba, d-time.Microsecond, 1<<30, true), "%d from %d", n, lba)
		}
	}
}

func TestSeekCurve(t *testing.T) {
	m := plain()
	c := newCurve(m.Seek, 301)
	assert.Zero(t, c.seek(0))
	assert.Equal(t, m.Seek.Track, c.seek(1))
	assert.Equal(t, m.Seek.Track, c.seek(-1))
	assert.InDelta(t, m.Seek.Average, c.seek(100), 1e3)
	assert.InDelta(t, m.Seek.Full, c.seek(300), 1e3)
}
