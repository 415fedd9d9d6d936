package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// lab is the host's side: a cache folder with the kernel, and a folder for each machine that runs.
type lab struct {
	cache string
	log   io.Writer
}

// openLab makes the cache folder: QDLAB_CACHE, else qdsweep-lab in XDG_CACHE_HOME or ~/.cache.
func openLab(log io.Writer) (*lab, error) {
	dir := os.Getenv("QDLAB_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find a place for the lab's cache (or set QDLAB_CACHE): %w", err)
		}
		dir = filepath.Join(base, "qdsweep-lab")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "runs"), 0o755); err != nil {
		return nil, fmt.Errorf("make the lab's cache: %w", err)
	}
	return &lab{cache: dir, log: log}, nil
}

func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.log, "qdlab: "+format+"\n", args...)
}

// lock waits until no other guest runs: two emulated machines at once are both too slow to test anything.
// The kernel drops the lock with the process, however that ends.
func (l *lab) lock() (release func(), err error) {
	name := filepath.Join(l.cache, "lock")
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the lab: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		who, _ := os.ReadFile(name)
		l.say("waiting for the guest of process %s", strings.TrimSpace(string(who)))
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the lab: %w", err)
	}
	_ = file.Truncate(0)
	_, _ = file.WriteAt([]byte(fmt.Sprintln(os.Getpid())), 0)
	return func() { _ = file.Close() }, nil
}

// runFolder makes the folder of one machine, and removes those that killed processes left behind:
// called under lock, so no other can be in use.
func (l *lab) runFolder() (dir string, remove func(), err error) {
	runs := filepath.Join(l.cache, "runs")
	left, err := os.ReadDir(runs)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range left {
		_ = os.RemoveAll(filepath.Join(runs, entry.Name()))
	}
	dir, err = os.MkdirTemp(runs, "run-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the guest: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func distinct(names []string) []string {
	seen := map[string]bool{}
	kept := names[:0:0]
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			kept = append(kept, name)
		}
	}
	return kept
}
