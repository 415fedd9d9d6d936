package workload

import (
	"os"

	"qdsweep/workload/ioengine"
)

// runIO does the one phase of type io; readers and writers apart give two results.
func runIO(s Spec, t Target, seed uint64) []Result {
	p := ioPhase(s, t, seed)
	if !s.Direct && s.Engine != "null" {
		p.ground = func() (int64, error) { return t.forget(s.file(0)) }
	}
	return p.run()
}

func ioPhase(s Spec, t Target, seed uint64) *phase {
	p := &phase{names: s.Phases(), target: t, spec: s, runtime: s.Runtime, warmup: s.Warmup}
	bytes, once := s.driven(t.Bytes), s.Runtime == 0
	if s.Verify {
		p.seed, p.spans = seed, []span{{bytes: bytes}}
	}
	parts := regions(bytes, s.BlockSize, s.walkers(), once)
	workers := s.Threads * len(p.names)
	for n := range workers {
		group := n / s.Threads
		l := &lane{
			group: group, number: n, what: t.Name, device: t.Dir == nil, engine: s.Engine, depth: ioengine.Depth(s.Engine, s.IODepth), block: s.BlockSize,
			read: s.readPercent(group), rng: newRNG(seed, uint64(n), 1), sync: s.Sync == "fsync",
		}
		if t.Dir != nil {
			l.what = s.file(0) + " in " + t.Name
		}
		if s.sequential() {
			r := n%s.Threads%s.regions() + group*s.regions()
			l.walk = walk{block: s.BlockSize, region: parts[r], shared: s.Threads > s.regions(), around: !once}
		} else {
			l.walk = walk{block: s.BlockSize, random: true, blocks: bytes / s.BlockSize, rng: newRNG(seed, uint64(n), 2), left: unlimited}
			if once {
				i := int64(n % s.Threads)
				l.walk.left = l.walk.blocks*(i+1)/int64(s.Threads) - l.walk.blocks*i/int64(s.Threads)
			}
		}
		if s.Engine != "null" {
			l.open = func() (*os.File, error) { return t.open(s.file(0), s.openFlags(l.read > 0, l.read < 100)) }
		}
		if s.SG() {
			l.scsi = func() (*ioengine.SCSI, []*os.File, error) { return t.passThrough(s, l.read < 100, l.depth) }
		}
		l.sync = l.sync && l.read < 100
		p.lanes = append(p.lanes, l)
	}
	return p
}

// readPercent is the share of reads of a lane.
func (s Spec) readPercent(group int) int {
	switch {
	case s.apart():
		return 100 - 100*group
	case s.Mode == "rw" || s.Mode == "randrw":
		return s.ReadPercent
	case s.Writes():
		return 0
	default:
		return 100
	}
}
