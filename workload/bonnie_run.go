package workload

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// bonnie is one execution of the workload: its phases, one after another, in our folder.
//
// What the phases do is what bonnie (1990) and bonnie++ say that theirs do. Where these rely on a file of twice the memory to get past the
// page cache, this one drops it and looks; where they give up on a phase too short to time, this one does it again.
type bonnie struct {
	s     Spec
	t     Target
	seed  uint64
	tree  *fileTree
	began func(phase string)
}

// runBonnie does the phases of bonnie; after one that failed the others are not done. Whatever became of them, the files are gone at the end,
// but for a large file that was laid out before the clock for all runs.
func runBonnie(s Spec, t Target, seed uint64, began func(phase string)) []Result {
	b := &bonnie{s: s, t: t, seed: seed, tree: newFileTree(s, t, seed), began: began}
	results := b.phases()
	if err := b.clean(); err != nil && results[len(results)-1].Err == "" {
		p := b.phase(results[len(results)-1].Phase)
		results[len(results)-1] = p.failed(err)[0]
	}
	return results
}

func (b *bonnie) phases() (results []Result) {
	if err := b.tree.remove(); err != nil { // what a worker that was killed left
		return b.phase(b.s.Phases()[0]).failed(err)
	}
	for _, name := range b.s.Phases() {
		b.began(name)
		p := b.phase(name)
		r := b.run(p, name)
		results = append(results, r...)
		if r[0].Err != "" {
			break
		}
	}
	return results
}

func (b *bonnie) run(p *phase, name string) []Result {
	if ofFiles(name) {
		if err := b.dropLarge(); err != nil {
			return p.failed(err)
		}
	}
	results := p.run()
	for i := range results {
		results[i].IODepth = 1 // however many buffers it takes in turn
	}
	return results
}

// phase is one phase with what comes before each of its passes.
func (b *bonnie) phase(name string) *phase {
	p := &phase{names: []string{name}, target: b.t, spec: b.s}
	file := b.s.file(0)
	how := b.s.openFlags(true, false)
	switch name {
	case putc, blockWrite:
		how = b.s.openFlags(false, true) | unix.O_CREAT | unix.O_EXCL
	case rewrite, randomSeeks:
		how = b.s.openFlags(true, true)
	}
	threads, block := 1, b.s.BlockSize
	switch {
	case name == randomSeeks:
		threads = b.s.Seekers
	case name == putc, name == getc:
		block = stdioBuffer
	case ofFiles(name):
		block = b.tree.buffer()
	}
	p.spec.BlockSize = block
	reads, writes := bonnieReads(name)
	for n := range threads {
		l := &lane{number: n, what: file + " in " + b.t.Name, engine: b.s.Engine, depth: 1, block: block, rng: newRNG(b.seed, uint64(n), 4, uint64(len(name))), sync: writes}
		if reads {
			l.read = 100
		}
		if writes {
			l.read = 0 // its buffers are filled
		}
		l.walk = walk{block: block, region: regions(b.s.Size, block, 1, true)[0]}
		if b.s.Engine != "null" {
			l.open = func() (*os.File, error) { return b.t.open(file, how) }
		}
		p.lanes = append(p.lanes, l)
	}
	b.give(p, name)
	return p
}

// give gives a phase its work, and its ground.
func (b *bonnie) give(p *phase, name string) {
	file := b.s.file(0)
	forget := func() (int64, error) { return b.t.forget(file) }
	var tickets atomic.Int64
	switch name {
	case putc, blockWrite:
		p.ground = func() (int64, error) { return 0, b.unlink(file) }
	case rewrite, getc, blockRead:
		p.ground = forget
	case randomSeeks:
		p.ground = func() (int64, error) { tickets.Store(0); return forget() }
	default:
		p.spec.BlockSize = 0 // a file is one operation, whatever its size
		b.tree.give(p, name)
	}
	if b.s.Engine == "null" {
		p.ground = func() (int64, error) { tickets.Store(0); return 0, nil }
	}
	for _, l := range p.lanes {
		switch name {
		case putc:
			l.depth = poolSlots(l.block) + 1
			l.work = func(*atomic.Bool) { l.putChars(b.s.Size) }
		case blockWrite:
			l.depth = poolSlots(l.block)
			l.work = func(*atomic.Bool) { l.writeChunks() }
		case getc:
			l.work = func(*atomic.Bool) { l.getChars(b.s.Size) }
		case rewrite:
			l.work = func(*atomic.Bool) { l.rewrite() }
		case randomSeeks:
			l.work = func(stop *atomic.Bool) { l.seek(&tickets, int64(b.s.Seeks), b.s.Size/b.s.BlockSize, stop) }
		}
	}
}

// dropLarge removes the large file before the phases of small ones, as bonnie++ does, if it was written by this run.
func (b *bonnie) dropLarge() error {
	if b.s.needsFile() || b.s.Engine == "null" {
		return nil
	}
	return b.unlink(b.s.file(0))
}

func (b *bonnie) unlink(file string) error {
	if err := unix.Unlinkat(int(b.t.Dir.Fd()), file, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s in %s: %w", file, b.t.Name, err)
	}
	return nil
}

func (b *bonnie) clean() error {
	return errors.Join(b.tree.remove(), b.dropLarge())
}
