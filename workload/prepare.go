package workload

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// prepare lays out the files that a workload finds in a directory: written in full with incompressible
// data (a hole would read from nowhere), synced, and out of the page cache. A file that is there already
// is left alone. Devices need nothing.
func prepare(s Spec, t Target, seed uint64) error {
	if t.Dir == nil || s.Engine == "null" {
		return nil
	}
	files := 1
	if s.bonnie() && !s.needsFile() {
		return nil
	}
	if s.Type == "dd" {
		if s.Mode != "read" {
			return nil // it writes its own
		}
		files = s.Processes
	}
	for n := range files {
		r := newRNG(seed, uint64(n), 3)
		if err := t.layOut(s.file(n), s.Size, &r); err != nil {
			return err
		}
	}
	if err := unix.Fsync(int(t.Dir.Fd())); err != nil {
		return fmt.Errorf("sync folder %s: %w", t.Name, err)
	}
	return nil
}

func (t Target) layOut(file string, bytes int64, r *rng) error {
	f, err := t.open(file, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s in %s: %w", file, t.Name, err)
	}
	if st.Size == bytes { // written from its begin to its end, so it is whole
		return nil
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("empty %s in %s: %w", file, t.Name, err)
	}
	buffer := make([]byte, 1<<20)
	fill(buffer, r)
	for at := int64(0); at < bytes; {
		stamp(buffer, r)
		n, err := f.Write(buffer[:min(int64(len(buffer)), bytes-at)])
		if err != nil {
			return fmt.Errorf("lay out %s in %s, %s of %s written: %w", file, t.Name, FormatSize(at), FormatSize(bytes),
				errors.Join(err, t.drop(file)))
		}
		at += int64(n)
	}
	_, err = t.forget(file)
	return err
}

// drop takes a half-written file away, so that it does not keep a full file system full.
func (t Target) drop(file string) error {
	err := unix.Unlinkat(int(t.Dir.Fd()), file, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
