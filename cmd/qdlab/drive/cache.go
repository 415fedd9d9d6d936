package drive

import "time"

// writeCache holds acknowledged writes until they are on the media, oldest first. A sector that is written twice
// is in it twice: what survives a power cut is always everything up to some write, and nothing after it.
type writeCache struct {
	size   uint64 // bytes; 0: there is none
	on     bool
	used   uint64
	writes []cachedWrite // oldest first
	last   uint64        // number of the last write taken
}

type cachedWrite struct {
	lba    uint64
	data   []byte
	number uint64
}

func (w cachedWrite) end() uint64 { return w.lba + uint64(len(w.data))/SectorSize }

// room: there is some for n bytes more.
func (w *writeCache) room(n int) bool { return w.used+uint64(n) <= w.size }

func (w *writeCache) empty() bool { return len(w.writes) == 0 }

func (w *writeCache) add(lba uint64, data []byte) {
	w.last++
	w.used += uint64(len(data))
	w.writes = append(w.writes, cachedWrite{lba: lba, data: data, number: w.last})
}

// next is what is destaged next: the oldest write and those that follow it on the media, too, limit sectors at most.
func (w *writeCache) next(limit uint64) (lba, sectors uint64) {
	lba = w.writes[0].lba
	for _, write := range w.writes {
		if write.lba != lba+sectors || sectors >= limit {
			break
		}
		sectors += uint64(len(write.data)) / SectorSize
	}
	return lba, min(sectors, limit)
}

// take removes the first sectors of what next gave, and puts them where store says.
func (w *writeCache) take(sectors uint64, store func(lba uint64, data []byte) error) error {
	var failed error
	for sectors > 0 {
		first := &w.writes[0]
		part := first.data[:min(sectors*SectorSize, uint64(len(first.data)))]
		if err := store(first.lba, part); err != nil && failed == nil {
			failed = err
		}
		w.used -= uint64(len(part))
		n := uint64(len(part)) / SectorSize
		first.lba, first.data, sectors = first.lba+n, first.data[len(part):], sectors-n
		if len(first.data) == 0 {
			w.writes = w.writes[1:]
		}
	}
	return failed
}

// destaged: the write with that number and all before it are on the media.
func (w *writeCache) destaged(number uint64) bool {
	return w.empty() || w.writes[0].number > number
}

// overlay puts what is in the cache over what was read from the media, oldest first.
func (w *writeCache) overlay(lba uint64, to []byte) {
	end := lba + uint64(len(to))/SectorSize
	for _, write := range w.writes {
		from, until := max(lba, write.lba), min(end, write.end())
		if from < until {
			copy(to[(from-lba)*SectorSize:(until-lba)*SectorSize], write.data[(from-write.lba)*SectorSize:])
		}
	}
}

func (w *writeCache) overlaps(lba, n uint64) bool {
	for _, write := range w.writes {
		if lba < write.end() && write.lba < lba+n {
			return true
		}
	}
	return false
}

// holds all of it, as far as can be seen in one pass, so that the media are not needed.
func (w *writeCache) holds(lba, n uint64) bool {
	missing := lba
	for _, write := range w.writes {
		if write.lba <= missing && missing < write.end() {
			missing = write.end()
		}
	}
	return missing >= lba+n
}

// readAhead are the segments that reads have left in the drive's memory, the latest last, and the one that grows
// while the head has nothing else to do.
type readAhead struct {
	limit    uint64 // sectors
	keep     int
	segments []segment
	growing  bool
	from     uint64 // the growing one: its first sector,
	next     uint64 // what passes under the head at since,
	since    time.Duration
}

type segment struct{ first, end uint64 }

// start: a read of first to end is done now, and the head reads on.
func (r *readAhead) start(now time.Duration, first, end uint64) {
	r.growing = r.limit > 0
	r.from, r.next, r.since = first, end, now
}

// reached is the end of the growing segment, and whether the head still reads.
func (r *readAhead) reached(g geometry, now time.Duration, sectors uint64) (end uint64, reading bool) {
	limit := min(r.limit, sectors-r.next)
	n := g.passed(r.next, now-r.since, limit, false)
	return r.next + n, n < limit
}

// stop ends the growing segment: the head leaves.
func (r *readAhead) stop(end uint64) {
	r.growing = false
	r.segments = append(r.segments, segment{r.from, end})
	if len(r.segments) > r.keep {
		r.segments = r.segments[1:]
	}
}

// holds: one segment has all of it.
func (r *readAhead) holds(lba, n uint64) bool {
	for _, s := range r.segments {
		if s.first <= lba && lba+n <= s.end {
			return true
		}
	}
	return false
}

// drop forgets segments that a write makes old. What a read gets is always the newest; this is about its time alone.
func (r *readAhead) drop(lba, n uint64) {
	kept := r.segments[:0]
	for _, s := range r.segments {
		if s.end <= lba || lba+n <= s.first {
			kept = append(kept, s)
		}
	}
	r.segments = kept
	if r.growing && lba < r.next+r.limit && r.from < lba+n {
		r.growing = false
	}
}
