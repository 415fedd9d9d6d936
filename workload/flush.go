package workload

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// flush has the drive write what a pass of direct writes left in its own cache: before the first pass that was done, too.
func (p *phase) flush() error {
	if !p.spec.Direct || p.spec.Sync != "none" || p.spec.Engine == "null" || !slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.read < 100 }) {
		return nil // nothing written, synced by the workload itself, or by the ground
	}
	files := 1
	if p.target.Dir != nil && p.spec.Type == "dd" {
		files = p.spec.Processes
	}
	for n := range files {
		if err := p.target.flush(p.spec.file(n)); err != nil {
			return err
		}
	}
	return nil
}

// flush makes a file, or the device, durable, the drive's own cache included.
func (t Target) flush(file string) error {
	f, err := t.open(file, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fsync(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s before the next pass: %w", f.Name(), err)
	}
	return nil
}
