package workload

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// fileTree is the small files of one bonnie, in directories below a folder of their own.
type fileTree struct {
	s       Spec
	t       Target
	dir     string // its name in our folder
	root    *os.File
	names   names
	content rng
	set     string // which files are there: "", seq or ran
	order   []uint32
}

// mostAtOnce bounds what is written or read in one call.
const mostAtOnce = 1 << 20

func newFileTree(s Spec, t Target, seed uint64) *fileTree {
	return &fileTree{s: s, t: t, dir: s.file(1), content: newRNG(seed, 6), names: names{
		seed: newRNG(seed, 5).state, files: s.fileCount(), dirs: int64(s.Directories), min: s.FileSizeMin, max: s.FileSizeMax}}
}

// buffer is how large the buffer for the files is.
func (f *fileTree) buffer() int64 { return min(max((f.s.FileSizeMax+511)&^511, 512), mostAtOnce) }

// give gives a phase of files its work, and its ground: what a pass begins with, made outside the clock where the phases before it have not.
func (f *fileTree) give(p *phase, name string) {
	set, what, _ := strings.Cut(name, "_")
	l := p.lanes[0]
	l.sync, l.open, l.what = false, nil, f.dir+" in "+f.t.Name
	w := &fileWork{lane: l, tree: f, null: f.s.Engine == "null"}
	p.ground = func() (resident int64, err error) {
		if what == "create" {
			err = errors.Join(f.remove(), f.lay(set))
		} else {
			err = f.ready(set)
		}
		if err == nil && what == "stat" {
			resident, err = f.forget()
		}
		if err == nil && set == "ran" && what != "create" {
			f.shuffle(&l.rng)
		}
		return resident, err
	}
	l.work = w.work(set, what)
}

// lay makes the directories for a set of files.
func (f *fileTree) lay(set string) error {
	dir := int(f.t.Dir.Fd())
	if err := unix.Mkdirat(dir, f.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder %s in %s: %w", f.dir, f.t.Name, err)
	}
	fd, err := unix.Openat(dir, f.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the folder %s in %s: %w", f.dir, f.t.Name, err)
	}
	f.root, f.set = os.NewFile(uintptr(fd), f.dir), set
	f.names.random = set == "ran"
	for n := range f.names.dirs {
		path := unix.ByteSliceToString(f.names.folder(n))
		if err := unix.Mkdirat(fd, path, 0o700); err != nil {
			return fmt.Errorf("make the folder %s/%s in %s: %w", f.dir, path, f.t.Name, err)
		}
	}
	return f.sync()
}

// ready sees to it that a whole set of files is there.
func (f *fileTree) ready(set string) error {
	if f.set == set {
		return nil
	}
	if err := errors.Join(f.remove(), f.lay(set)); err != nil {
		return err
	}
	l := &lane{rng: f.content, what: f.dir + " in " + f.t.Name}
	buffer := make([]byte, f.buffer())
	fill(buffer, &l.rng)
	w := &fileWork{lane: l, tree: f, buffer: buffer, untimed: true}
	w.create(nil)
	f.content = l.rng
	if l.err != nil {
		return fmt.Errorf("%s: %w", l.err.text, l.err.errno)
	}
	return nil
}

// forget drops the files' contents out of the page cache, so that who reads them meets the drive, and says what stayed. Their names and inodes
// stay in the kernel's caches, as with bonnie++.
func (f *fileTree) forget() (resident int64, err error) {
	for n := range f.names.files {
		path := unix.ByteSliceToString(f.names.of(n))
		fd, err := unix.Openat(int(f.root.Fd()), path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, fmt.Errorf("open %s/%s in %s: %w", f.dir, path, f.t.Name, err)
		}
		file := os.NewFile(uintptr(fd), path)
		var in int64
		if err = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err == nil && f.names.size(n) > 0 {
			in, err = cached(file)
		}
		resident += min(in, f.names.size(n)) // pages are larger
		if err := errors.Join(err, file.Close()); err != nil {
			return 0, fmt.Errorf("drop the page cache of %s/%s in %s: %w", f.dir, path, f.t.Name, err)
		}
	}
	return resident, nil
}

// sync makes names and contents durable. bonnie++ calls sync(2), which waits for every disk of the machine; this waits for our file system.
func (f *fileTree) sync() error {
	if err := unix.Syncfs(int(f.root.Fd())); err != nil {
		return fmt.Errorf("syncfs %s in %s: %w", f.dir, f.t.Name, err)
	}
	return nil
}

// shuffle draws the order in which files are looked at, or deleted, at random: each once.
func (f *fileTree) shuffle(r *rng) {
	if f.order == nil {
		f.order = make([]uint32, f.names.files)
		for i := range f.order {
			f.order[i] = uint32(i)
		}
	}
	for i := len(f.order) - 1; i > 0; i-- {
		j := r.below(uint64(i + 1))
		f.order[i], f.order[j] = f.order[j], f.order[i]
	}
}

// remove takes all of it away, whatever is there.
func (f *fileTree) remove() error {
	if f.t.Dir == nil {
		return nil // the null engine needs no folder
	}
	if f.root != nil {
		_ = f.root.Close()
		f.root = nil
	}
	f.set = ""
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.t.Dir.Fd()))
	if err == nil {
		err = errors.Join(root.RemoveAll(f.dir), root.Close())
	}
	if err != nil {
		return fmt.Errorf("remove %s in %s: %w", f.dir, f.t.Name, err)
	}
	return nil
}
