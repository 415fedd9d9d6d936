package drive

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// host writes, reads and cuts the power, and knows what it may find afterwards.
type host struct {
	t     *rapid.T
	model Model
	media *Platters
	drive *Drive
	now   time.Duration
	seed  uint64
	last  uint64 // what was written last, of all

	written  map[uint64][]uint64     // of each sector, in order of submission
	durable  map[uint64]int          // the index of what must be there after a power cut
	safe     map[*Command]bool       // writes that are on the media when they come back
	acked    []*Command              // writes that came back, and are durable after the next Sync
	promised map[*Command][]*Command // of a Sync: what came back before it was submitted
	wanted   map[*Command][]uint64   // of a read: what it must find
	off      *Command                // the Sync after which the write cache is off
}

const promiseSectors = 64 // a small part of the drive, so that commands meet

func newHost(t *rapid.T, m Model) *host {
	h := &host{t: t, model: m, media: NewPlatters()}
	h.written, h.durable = map[uint64][]uint64{}, map[uint64]int{}
	for s := range uint64(promiseSectors) {
		h.written[s] = []uint64{0}
	}
	h.powerOn()
	return h
}

func (h *host) powerOn() {
	h.seed++
	h.now, h.acked, h.off = 0, nil, nil
	h.safe, h.promised, h.wanted = map[*Command]bool{}, map[*Command][]*Command{}, map[*Command][]uint64{}
	h.drive = New(h.model, h.media, h.seed)
}

// place spreads the sectors over the whole drive, in runs of eight.
func place8(s uint64, m Model) uint64 { return s/8*(m.Sectors()/(promiseSectors/8)) + s%8 }

func (h *host) submit(kind Kind, first, n uint64, fua bool) {
	c := &Command{Kind: kind, LBA: place8(first, h.model), Sectors: n, FUA: fua}
	switch kind {
	case Write:
		c.Data = make([]byte, n*SectorSize)
		for i := range n {
			h.last++
			binary.LittleEndian.PutUint64(c.Data[i*SectorSize:], h.last)
			h.written[first+i] = append(h.written[first+i], h.last)
		}
		h.safe[c] = fua || !h.drive.WriteCache() && h.off == nil
	case Read:
		for i := range n {
			all := h.written[first+i]
			h.wanted[c] = append(h.wanted[c], all[len(all)-1])
		}
	case Sync:
		h.promised[c] = append([]*Command(nil), h.acked...)
	}
	require.NoError(h.t, h.drive.Submit(h.now, c))
	if kind == Sync && h.off == nil && !h.drive.WriteCache() {
		h.off = c
	}
}

func (h *host) run(until time.Duration) {
	for _, c := range h.drive.Run(until) {
		require.NoError(h.t, c.Err)
		switch c.Kind {
		case Read:
			for i, want := range h.wanted[c] {
				require.Equal(h.t, want, binary.LittleEndian.Uint64(c.Data[i*SectorSize:]), "sector %d", c.LBA+uint64(i))
			}
		case Write:
			off := !h.drive.WriteCache() && h.off == nil
			if h.acked = append(h.acked, c); h.safe[c] || off {
				h.isDurable(c)
			}
		case Sync:
			for _, write := range h.promised[c] {
				h.isDurable(write)
			}
			if c == h.off {
				h.off = nil
			}
		}
	}
	h.now = until
}

func (h *host) isDurable(c *Command) {
	run := h.model.Sectors() / (promiseSectors / 8)
	first := c.LBA/run*8 + c.LBA%run
	for i := range c.Sectors {
		value := binary.LittleEndian.Uint64(c.Data[i*SectorSize:])
		for index, v := range h.written[first+i] {
			if v == value {
				h.durable[first+i] = max(h.durable[first+i], index)
			}
		}
	}
}

func (h *host) powerCut(at time.Duration) {
	h.run(at)
	require.NoError(h.t, h.drive.PowerCut(at))
	sector := make([]byte, 8)
	for s := range uint64(promiseSectors) {
		_, err := h.media.ReadAt(sector, int64(place8(s, h.model)*SectorSize))
		require.NoError(h.t, err)
		found := binary.LittleEndian.Uint64(sector)
		index := -1
		for i, v := range h.written[s] {
			if v == found {
				index = i
			}
		}
		require.GreaterOrEqual(h.t, index, h.durable[s], "sector %d holds %d, of %v", s, found, h.written[s])
		h.written[s], h.durable[s] = []uint64{found}, 0
	}
	h.powerOn()
}

// Data read back are what was written, in any order of service, from any cache; and what was promised to be on the
// media survives a power cut.
func TestDataAndPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := plain()
		m.Queue.Order = rapid.SampledFrom([]Order{FirstCome, Shortest, Badly}).Draw(t, "order")
		m.Write.On = rapid.Bool().Draw(t, "cache")
		m.Write.KB = rapid.SampledFrom([]int64{1, 2, 8, 64}).Draw(t, "KB")
		m.Read.KB = rapid.SampledFrom([]int64{0, 16, 512}).Draw(t, "ahead")
		m.Quirks.TagsDefeatCache = rapid.Bool().Draw(t, "defeat")
		require.NoError(t, m.check())
		h := newHost(t, m)
		pause := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 30_000).Draw(t, "µs")) * time.Microsecond
		})
		command := func(kind Kind) func(*rapid.T) {
			return func(t *rapid.T) {
				if h.drive.Outstanding() >= m.Queue.Tags {
					h.run(h.drive.Next())
				}
				first := rapid.Uint64Range(0, promiseSectors-1).Draw(t, "first")
				n := rapid.Uint64Range(1, 8-first%8).Draw(t, "sectors")
				h.submit(kind, first, n, kind == Write && rapid.IntRange(0, 4).Draw(t, "FUA") == 0)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": command(Write), "write more": command(Write), "read": command(Read),
			"sync": func(*rapid.T) { h.submit(Sync, 0, 0, false) },
			"switch": func(t *rapid.T) {
				on := rapid.Bool().Draw(t, "on")
				if h.drive.SetWriteCache(on); !on {
					h.off = nil
					h.submit(Sync, 0, 0, false)
				}
			},
			"wait":      func(t *rapid.T) { h.run(h.now + pause.Draw(t, "pause")) },
			"power cut": func(t *rapid.T) { h.powerCut(h.now + pause.Draw(t, "pause")) },
			"rest": func(t *rapid.T) {
				for h.drive.Next() != Never {
					h.run(h.drive.Next())
				}
				require.Zero(t, h.drive.Outstanding(), "nothing is due, and commands wait")
			},
		})
	})
}

// A command that is far from all others comes back within what its ageing promises, however many near ones come.
func TestNoCommandStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := plain()
		m.Queue.Order = rapid.SampledFrom([]Order{FirstCome, Shortest, Badly}).Draw(t, "order")
		m.Write.On = rapid.Bool().Draw(t, "cache")
		m.Write.KB = 256
		depth := rapid.IntRange(2, 32).Draw(t, "depth")
		near := m.Sectors() / uint64(rapid.IntRange(8, 4096).Draw(t, "near"))
		d := New(m, NewPlatters(), 1)
		one := d.mechanism.longest() + 2*m.Revolution()
		// What comes later than one/ageing cannot overtake; what is there then takes its turn, the cache's
		// writes before a Sync included.
		bound := time.Duration(float64(one)/m.Queue.Ageing) + time.Duration(depth+1)*one + 64*one
		now := time.Duration(0)
		kinds := rapid.SampledFrom([]Kind{Read, Write, Sync})
		sectors := rapid.Uint64Range(0, near-8)
		random := rapid.Uint64().Draw(t, "seed")
		submit := func(c *Command) {
			if c.Kind == Write {
				c.Data = make([]byte, c.Sectors*SectorSize)
			}
			require.NoError(t, d.Submit(now, c))
		}
		// The crowd's places come from a cheap sequence: rapid shrinks the set-up, not ten thousand commands.
		kindOf := func() Kind { return Kind(random >> 60 % 2) }
		crowd := func() {
			random = random*6364136223846793005 + 1442695040888963407
			submit(&Command{Kind: kindOf(), LBA: (random >> 20) % (near - 8), Sectors: 8})
		}
		for range depth - 1 {
			crowd()
		}
		switch rapid.IntRange(0, 2).Draw(t, "crowd") {
		case 0:
			kindOf = func() Kind { return Read }
		case 1:
			kindOf = func() Kind { return Write }
		}
		far := &Command{Kind: kinds.Draw(t, "kind"), LBA: m.Sectors() - 512 - sectors.Draw(t, "far"), Sectors: 8}
		if rapid.Bool().Draw(t, "large") {
			far.Sectors = 512 // all of the cache
		}
		submit(far)
		for far.Done == 0 {
			require.NotEqual(t, Never, d.Next())
			now = d.Next()
			require.Less(t, now, bound, "%d has waited since 0", far.Kind)
			for _, c := range d.Run(now) {
				if c != far {
					crowd()
				}
			}
		}
	})
}

// A write that waits behind a read when the cache is switched off goes to the media before it comes back.
func TestAWriteThatMeetsTheSwitch(t *testing.T) {
	media := NewPlatters()
	d := New(plain(), media, 1)
	read := &Command{Kind: Read, LBA: 5000, Sectors: 8}
	write := &Command{Kind: Write, LBA: 5000, Sectors: 1, Data: make([]byte, SectorSize)}
	write.Data[0] = 1
	require.NoError(t, d.Submit(0, read))
	require.NoError(t, d.Submit(0, write))
	d.Run(time.Millisecond)
	d.SetWriteCache(false)
	for write.Done == 0 {
		d.Run(d.Next())
	}
	require.NoError(t, d.PowerCut(write.Done))
	found := make([]byte, 1)
	_, err := media.ReadAt(found, 5000*SectorSize)
	require.NoError(t, err)
	assert.Equal(t, []byte{1}, found)
}

func TestPowerCutTearsAWriteBetweenSectors(t *testing.T) {
	for _, cache := range []bool{false, true} {
		m := with(plain(), func(m *Model) { m.Write.On = cache })
		torn := 0
		for cut := time.Duration(0); cut < 30*time.Millisecond; cut += 100 * time.Microsecond {
			media := NewPlatters()
			d := New(m, media, 1)
			c := &Command{Kind: Write, LBA: 5000, Sectors: 256, Data: make([]byte, 256*SectorSize)}
			for i := range c.Data {
				c.Data[i] = 1
			}
			require.NoError(t, d.Submit(0, c))
			require.NoError(t, d.PowerCut(cut))
			found := make([]byte, len(c.Data))
			_, err := media.ReadAt(found, 5000*SectorSize)
			require.NoError(t, err)
			ones := 0
			for _, b := range found {
				ones += int(b)
			}
			require.Zero(t, ones%SectorSize, "a sector is there or not")
			if c.Done != 0 && !cache {
				require.Len(t, found, ones, "it came back at %v", c.Done)
			}
			if ones > 0 && ones < len(found) {
				torn++
			}
		}
		assert.Greater(t, torn, 10, "cache %t", cache)
	}
}
