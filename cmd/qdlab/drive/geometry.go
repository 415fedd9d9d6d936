package drive

import (
	"math"
	"time"
)

// geometry is where a sector is: one surface, its tracks in zones, the outer ones first.
type geometry struct {
	zones      []zone
	tracks     int
	revolution float64 // s
	skew       float64 // of a turn, from one track to the next: what the head needs to get there and write
}

type zone struct {
	first    uint64 // sector
	track    int    // its first
	perTrack uint64 // sectors
}

// place is a sector on the platter.
type place struct {
	track    int
	angle    float64 // 0 to 1: when in a turn it begins to pass under the head
	perTrack uint64
	left     uint64 // sectors to the end of the track, this one included
}

func newGeometry(m Model) geometry {
	g := geometry{revolution: 60 / m.RPM}
	g.skew = (m.Seek.Track + m.Seek.Settle).Seconds() / g.revolution
	sectors := float64(m.Sectors())
	for i := range m.Media.Zones {
		rate := m.Media.Outer
		if m.Media.Zones > 1 {
			rate -= (m.Media.Outer - m.Media.Inner) * float64(i) / float64(m.Media.Zones-1)
		}
		perTrack := max(uint64(math.Round(rate*1e6*g.revolution/SectorSize)), 1)
		first := uint64(0)
		if i > 0 {
			last := g.zones[i-1]
			first = last.first + uint64(g.tracks-last.track)*last.perTrack
		}
		g.zones = append(g.zones, zone{first: first, track: g.tracks, perTrack: perTrack})
		end := sectors * float64(i+1) / float64(m.Media.Zones)
		g.tracks += int(math.Ceil(max(end-float64(first), 1) / float64(perTrack)))
	}
	return g
}

func (g geometry) place(lba uint64) place {
	z := g.zones[0]
	for _, next := range g.zones[1:] {
		if lba < next.first {
			break
		}
		z = next
	}
	in := (lba - z.first) % z.perTrack
	track := z.track + int((lba-z.first)/z.perTrack)
	angle := float64(in)/float64(z.perTrack) + float64(track)*g.skew
	return place{track: track, angle: angle - math.Floor(angle), perTrack: z.perTrack, left: z.perTrack - in}
}

// transfer is how long n sectors from lba on take to pass, changes of track included.
func (g geometry) transfer(lba, n uint64) time.Duration {
	turns := 0.0
	for n > 0 {
		p := g.place(lba)
		part := min(n, p.left)
		turns += float64(part) / float64(p.perTrack)
		if lba, n = lba+part, n-part; n > 0 {
			turns += g.skew
		}
	}
	return seconds(turns * g.revolution)
}

// passed is how many sectors from lba on have begun to pass within d, at most limit; whole counts those that have
// ended to.
func (g geometry) passed(lba uint64, d time.Duration, limit uint64, whole bool) uint64 {
	turns := d.Seconds() / g.revolution
	n := uint64(0)
	for n < limit && turns > 0 {
		p := g.place(lba + n)
		count := turns * float64(p.perTrack)
		if count >= float64(p.left) {
			n += p.left
			turns -= float64(p.left)/float64(p.perTrack) + g.skew
			continue
		}
		if whole {
			n += uint64(count)
		} else {
			n += uint64(math.Ceil(count))
		}
		break
	}
	return min(n, limit)
}
