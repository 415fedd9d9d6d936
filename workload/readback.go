package workload

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"qdsweep/workload/ioengine"
)

const (
	readBackPiece = int64(1) << 20
	mostReaders   = 16
)

// readBack reads all that was written and compares it: flushed first, past the page cache where the workload goes past it, else with
// the page cache dropped, so that it is the drive that answers. It is in nobody's clock, and in the run's time limit. What was read is
// counted, also where it differs; the failure says the first place that does, and how many.
func (p *phase) readBack(g *ledger) *failure {
	files, err := p.filesToReadBack(g)
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if err != nil {
		return failureOf(err)
	}
	var next atomic.Int64
	var mu sync.Mutex
	var all check
	var failed *failure
	var readers sync.WaitGroup
	for range min(max(p.spec.workers()*max(p.spec.IODepth, 1), 1), mostReaders) {
		readers.Go(func() {
			c := check{ledger: g}
			f := p.readUnits(g, files, &next, &c)
			mu.Lock()
			defer mu.Unlock()
			all.with(c)
			if f != nil && (failed == nil || f.where < failed.where) {
				failed = f
			}
		})
	}
	readers.Wait()
	p.verified += all.bytes
	if failed == nil && all.bad > 0 {
		text := fmt.Sprintf("%d of %d blocks of %s differ, read back: %s", all.bad, g.blocksWritten(), FormatSize(g.block), all.first.text(g.name))
		failed = &failure{at: nanotime(), where: all.first.offset, text: text, corrupt: true}
	}
	return failed
}

func (p *phase) filesToReadBack(g *ledger) (files []*os.File, err error) {
	how := unix.O_RDONLY
	if p.spec.Direct {
		how |= unix.O_DIRECT
	}
	for _, s := range g.spans {
		name := p.spec.file(s.file)
		if s.file == len(files) {
			f, err := p.target.open(name, how)
			if err != nil {
				return files, fmt.Errorf("read back: %w", err)
			}
			files = append(files, f)
			if err := unix.Fsync(int(f.Fd())); err != nil {
				return files, fmt.Errorf("flush %s before it is read back: %w", g.name(s.file), err)
			}
			if p.spec.Direct {
				continue
			}
			left, err := p.target.forget(name)
			if err != nil {
				return files, err
			}
			p.inMemory += left
		}
	}
	return files, nil
}

// readUnits reads what comes next, again and again: a unit is a block, or neighbours of together a piece.
func (p *phase) readUnits(g *ledger, files []*os.File, next *atomic.Int64, c *check) *failure {
	arena, err := ioengine.NewArena(1, int(readBackPiece))
	if err != nil {
		return failureOf(err)
	}
	defer arena.Close()
	buffer := arena.Buffer(0)
	unit := max(readBackPiece/g.block, 1)
	for {
		n := next.Add(1) - 1
		var s *span
		for i := range g.spans {
			units := (blocksOf(g.spans[i].bytes, g.block) + unit - 1) / unit
			if n < units {
				s = &g.spans[i]
				break
			}
			n -= units
		}
		if s == nil {
			return nil
		}
		end := min((n+1)*unit, blocksOf(s.bytes, g.block))
		for from := n * unit; from < end; {
			to := from
			for to < end && g.last[s.first+to] != 0 {
				to++
			}
			if to == from {
				from++
				continue
			}
			if f := p.readRun(files[s.file], *s, from*g.block, min(to*g.block, s.bytes), buffer, c); f != nil {
				return f
			}
			from = to
		}
	}
}

// readRun reads from one byte of a span to another one.
func (p *phase) readRun(file *os.File, s span, from, to int64, buffer []byte, c *check) *failure {
	for at := s.start + from; at < s.start+to; {
		b := buffer[:min(int64(len(buffer)), s.start+to-at)]
		n, err := unix.Pread(int(file.Fd()), b, at)
		if err == unix.EINTR {
			continue
		}
		what := fmt.Sprintf("read back of %d bytes at %d of %s", len(b), at, c.ledger.name(s.file))
		switch {
		case err != nil:
			errno, _ := err.(syscall.Errno)
			return &failure{at: nanotime(), where: at, errno: errno, text: what + ": " + explain(errno), lost: goneBy(errno)}
		case n < len(b):
			return &failure{at: nanotime(), where: at, text: fmt.Sprintf("%s gave only %d bytes", what, n), lost: n == 0 && p.target.Dir == nil}
		}
		c.piece(b, s, at)
		at += int64(n)
	}
	return nil
}
