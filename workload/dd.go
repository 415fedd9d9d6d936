package workload

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"qdsweep/workload/ioengine"
)

// runDD does the phases of type dd, one after another; after one that failed the others are not done.
// Each process of the profile is a thread here: to the block layer a thread is as much a process (it has
// an I/O context of its own), and starting it is not in the clock.
func runDD(s Spec, t Target, seed uint64, began func(phase string)) []Result {
	var results []Result
	for i, name := range s.Phases() {
		began(name)
		p := ddPhase(s, t, name, newRNG(seed, uint64(i)).state)
		var r []Result
		switch name {
		case "remove":
			r = p.remove()
		default:
			p.ground = func() (int64, error) { return p.clear(name) }
			r = p.run()
		}
		results = append(results, r...)
		if r[0].Err != "" {
			break
		}
	}
	return results
}

func ddPhase(s Spec, t Target, name string, seed uint64) *phase {
	p := &phase{names: []string{name}, target: t, spec: s, seed: seed}
	each := s.each(t.Bytes)
	for n := range s.Processes {
		part := regions(each, s.BlockSize, 1, true)[0]
		l := &lane{
			number: n, what: t.Name, device: t.Dir == nil, engine: s.Engine, depth: 1, block: s.BlockSize, read: 100,
			rng: newRNG(seed, uint64(n), 1), walk: walk{block: s.BlockSize, region: part},
		}
		file := s.file(n)
		if t.Dir != nil {
			l.what = file + " in " + t.Name
		} else {
			l.walk.offset = each * int64(n)
		}
		how := s.openFlags(true, false)
		if name == "write" {
			l.read, l.sync = 0, s.Sync == "fsync"
			if s.Verify {
				p.verify(n, l.walk.offset, each)
			}
			if how = s.openFlags(false, true); t.Dir != nil {
				how |= unix.O_CREAT | unix.O_EXCL
			}
		}
		if s.Engine != "null" {
			l.open = func() (*os.File, error) { return t.open(file, how) }
		}
		if s.SG() {
			l.scsi = func() (*ioengine.SCSI, []*os.File, error) { return t.passThrough(s, l.read < 100, l.depth) }
		}
		p.lanes = append(p.lanes, l)
	}
	return p
}

// verify has what a process writes read back.
func (p *phase) verify(process int, offset, bytes int64) {
	file := 0
	if p.target.Dir != nil {
		file = process
	}
	p.spans = append(p.spans, span{file: file, start: offset, bytes: bytes})
}

// clear makes the ground for a pass, outside the clock: a write into a folder begins with no file, and what
// goes through the page cache with nothing of its file in it.
func (p *phase) clear(name string) (resident int64, err error) {
	if p.spec.Engine == "null" {
		return 0, nil
	}
	for n := range p.spec.Processes {
		file := p.spec.file(n)
		switch {
		case name == "write" && p.target.Dir != nil:
			if err := unix.Unlinkat(int(p.target.Dir.Fd()), file, 0); err != nil && !errors.Is(err, unix.ENOENT) {
				return 0, fmt.Errorf("remove %s in %s: %w", file, p.target.Name, err)
			}
		case !p.spec.Direct && (n == 0 || p.target.Dir != nil):
			left, err := p.target.forget(file)
			if err != nil {
				return 0, err
			}
			resident += left
		}
	}
	return resident, nil
}

// remove unlinks the files, all at once. There are no bytes in it: its rate is files a second.
func (p *phase) remove() []Result {
	dir := -1
	if p.target.Dir != nil {
		dir = int(p.target.Dir.Fd())
	}
	errs := make([]error, p.spec.Processes)
	done := make([]int64, p.spec.Processes)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for n := range p.spec.Processes {
		all.Go(func() {
			<-begin
			if p.spec.Engine != "null" {
				errs[n] = unix.Unlinkat(dir, p.spec.file(n), 0)
			}
			done[n] = nanotime()
		})
	}
	before, w := processTime(), Window{Start: nanotime()}
	close(begin)
	all.Wait()
	var err error
	if p.spec.Sync != "none" && p.spec.Engine != "null" {
		err = unix.Fsync(dir)
	}
	w.End = nanotime()
	after := processTime()
	if err := errors.Join(append(errs, err)...); err != nil {
		return p.failed(fmt.Errorf("remove the files of %s in %s: %w", p.spec.Name, p.target.Name, err))
	}
	r := p.blank()[0]
	r.Window, r.Operations = w, int64(p.spec.Processes)
	r.CPUUserS, r.CPUSysS = (after.user - before.user).Seconds(), (after.system - before.system).Seconds()
	r.FirstDoneS, r.LastDoneS = (Window{w.Start, slices.Min(done)}).Seconds(), (Window{w.Start, slices.Max(done)}).Seconds()
	return []Result{r}
}
