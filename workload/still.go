package workload

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// sync makes the target's own dirty pages durable: fsync of the device, syncfs of the directory's file system. Never a global sync, which would wait for
// every other disk of the machine.
func (t Target) sync() error {
	if t.Dir != nil {
		if err := unix.Syncfs(int(t.Dir.Fd())); err != nil {
			return fmt.Errorf("syncfs %s: %w", t.Name, err)
		}
		return nil
	}
	if err := unix.Fsync(int(t.File.Fd())); err != nil {
		return fmt.Errorf("fsync %s: %w", t.Name, err)
	}
	return nil
}

// dropPages drops the target's clean pages, so that a buffered read reads the drive.
func (t Target) dropPages() error {
	if t.Dir == nil {
		return dropped(t.File, t.Name)
	}
	return filepath.WalkDir("/proc/self/fd/"+strconv.Itoa(int(t.Dir.Fd()))+"/.", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return dropped(f, d.Name())
	})
}

func dropped(f *os.File, name string) error {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop the page cache of %s: %w", name, err)
	}
	return nil
}
