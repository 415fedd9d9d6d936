package drive

import (
	"math"
	"time"
)

// curve gives the time of a seek over a share of all tracks: a + b√x + cx, through the three points of Seek.
type curve struct {
	a, b, c float64
	tracks  int
}

func newCurve(s Seek, tracks int) curve {
	x1 := 1 / float64(tracks-1)
	const x2, x3 = 1.0 / 3, 1.0
	y1, y2, y3 := s.Track.Seconds(), s.Average.Seconds(), s.Full.Seconds()
	// Two equations without a, then one without b.
	r2, r3 := math.Sqrt(x2)-math.Sqrt(x1), math.Sqrt(x3)-math.Sqrt(x1)
	c := ((y3-y1)*r2 - (y2-y1)*r3) / ((x3-x1)*r2 - (x2-x1)*r3)
	b := ((y2 - y1) - c*(x2-x1)) / r2
	return curve{a: y1 - b*math.Sqrt(x1) - c*x1, b: b, c: c, tracks: tracks}
}

func (c curve) seek(tracks int) time.Duration {
	if tracks == 0 {
		return 0
	}
	x := math.Abs(float64(tracks)) / float64(c.tracks-1)
	return seconds(c.a + c.b*math.Sqrt(x) + c.c*x)
}

// rising: a longer way never takes less time, and no way takes none.
func (c curve) rising() bool {
	last := time.Duration(0)
	for i := 1; i <= 100; i++ {
		t := c.seek(max(1, i*(c.tracks-1)/100))
		if t < last || t <= 0 {
			return false
		}
		last = t
	}
	return true
}

// mechanism is the arm and the spindle. The spindle turns by the clock, so where it is needs no state.
type mechanism struct {
	geometry
	curve
	settle time.Duration
	phase  float64 // of the spindle at time 0, of a turn
}

// slack is how late a sector may seem to be by rounding alone: it has not passed, and needs no whole turn.
const slack = 2 * time.Microsecond

// position is how long it takes from now, with the head on track, until the sector begins to pass.
func (m mechanism) position(now time.Duration, track int, lba uint64, write bool) time.Duration {
	p := m.place(lba)
	way := m.seek(p.track - track)
	if write && p.track != track {
		way += m.settle
	}
	at := (now+way).Seconds()/m.revolution + m.phase
	wait := p.angle - at
	wait -= math.Floor(wait)
	turn := seconds(wait * m.revolution)
	if seconds(m.revolution)-turn < slack {
		turn = 0
	}
	return way + turn
}

// longest is more than any position takes.
func (m mechanism) longest() time.Duration {
	return m.seek(m.curve.tracks-1) + m.settle + seconds(m.revolution)
}
