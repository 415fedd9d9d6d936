package workload

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileWork is one thread's work on many small files: a file is an operation. It calls the kernel as the engine psync does, without the
// runtime's help, and allocates nothing.
type fileWork struct {
	lane    *lane
	tree    *fileTree
	buffer  []byte
	null    bool
	untimed bool
	found   unix.Statx_t
	list    [32 << 10]byte // of a directory
}

func (w *fileWork) work(set, what string) func(*atomic.Bool) {
	do := map[string]func(*atomic.Bool){
		"seq create": w.create, "ran create": w.create, "seq stat": w.listed(w.look), "ran stat": w.drawn(w.look),
		"seq delete": w.listed(w.unlink), "ran delete": w.drawn(w.unlink),
	}[set+" "+what]
	return func(stop *atomic.Bool) {
		if w.null {
			for range w.tree.names.files {
				w.lane.did(nanotime(), 0)
			}
			return
		}
		w.buffer = w.lane.arena.Buffer(0)
		do(stop)
		if what == "stat" || w.lane.err != nil {
			return
		}
		if what == "delete" {
			w.tree.set = "" // gone, and made again for the next pass
		}
		w.sync()
	}
}

// create makes every file: open, write, close.
func (w *fileWork) create(*atomic.Bool) {
	n := &w.tree.names
	root := w.tree.root.Fd()
	for file := range n.files {
		path := n.of(file)
		begun := nanotime()
		fd, errno := w.open(root, path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
		if errno != 0 {
			w.fail("create", path, 0, errno)
			return
		}
		size := n.size(file)
		errno = w.transfer(unix.SYS_WRITE, "write", fd, path, size)
		if closing := w.close(fd); errno == 0 {
			errno = closing
		}
		if errno != 0 {
			w.fail("close", path, 0, errno) // of what failed before, the first counts
		}
		if w.lane.err != nil {
			return
		}
		if !w.untimed {
			w.lane.did(begun, size)
		}
	}
	if w.untimed {
		w.sync()
	}
}

// listed does something to every file in the order in which the kernel lists them, a directory after another.
func (w *fileWork) listed(do func(dir uintptr, name []byte, file int64)) func(*atomic.Bool) {
	return func(*atomic.Bool) {
		n := &w.tree.names
		left := n.files
		for d := range n.dirs {
			path := n.folder(d)
			dir, errno := w.open(w.tree.root.Fd(), path, unix.O_RDONLY|unix.O_DIRECTORY)
			if errno != 0 {
				w.fail("open folder", path, 0, errno)
				return
			}
			left -= w.list1(dir, path, do)
			_ = w.close(dir)
			if w.lane.err != nil {
				return
			}
		}
		if left != 0 {
			w.lane.fail(nanotime(), -1, 0, fmt.Sprintf("%s: %d of %d files were not listed", w.lane.what, left, n.files), false)
		}
	}
}

// list1 goes through one directory and says how many files it had. See getdents64(2) for what the kernel writes.
func (w *fileWork) list1(dir uintptr, path []byte, do func(dir uintptr, name []byte, file int64)) (files int64) {
	for {
		got, errno := call(unix.SYS_GETDENTS64, dir, uintptr(unsafe.Pointer(&w.list[0])), uintptr(len(w.list)), 0, 0)
		if errno != 0 {
			w.fail("list folder", path, 0, errno)
			return files
		}
		if got == 0 {
			return files
		}
		for at := 0; at < int(got); {
			entry := (*unix.Dirent)(unsafe.Pointer(&w.list[at]))
			name := w.list[at+int(unsafe.Offsetof(entry.Name)) : at+int(entry.Reclen)]
			at += int(entry.Reclen)
			length := 0
			for name[length] != 0 {
				length++
			}
			file, ok := fileNumber(name[:length])
			if !ok {
				continue // . and ..
			}
			do(dir, name[:length+1], file)
			if w.lane.err != nil {
				return files
			}
			files++
		}
	}
}

// drawn does something to every file in the order that was drawn.
func (w *fileWork) drawn(do func(dir uintptr, name []byte, file int64)) func(*atomic.Bool) {
	return func(*atomic.Bool) {
		root := w.tree.root.Fd()
		for _, file := range w.tree.order {
			do(root, w.tree.names.of(int64(file)), int64(file))
			if w.lane.err != nil {
				return
			}
		}
	}
}

// look asks for a file's attributes and reads it whole.
func (w *fileWork) look(dir uintptr, name []byte, file int64) {
	begun := nanotime()
	_, errno := call(unix.SYS_STATX, dir, uintptr(unsafe.Pointer(&name[0])), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, uintptr(unsafe.Pointer(&w.found)))
	if errno != 0 {
		w.fail("stat", name, 0, errno)
		return
	}
	size := w.tree.names.size(file)
	if int64(w.found.Size) != size {
		w.lane.fail(nanotime(), -1, 0, fmt.Sprintf("%s in %s has %d bytes and was made with %d", text(name), w.lane.what, w.found.Size, size), false)
		return
	}
	fd, errno := w.open(dir, name, unix.O_RDONLY)
	if errno != 0 {
		w.fail("open", name, 0, errno)
		return
	}
	_ = w.transfer(unix.SYS_READ, "read", fd, name, size)
	_ = w.close(fd)
	if w.lane.err == nil {
		w.lane.did(begun, size)
	}
}

func (w *fileWork) unlink(dir uintptr, name []byte, _ int64) {
	begun := nanotime()
	if _, errno := call(unix.SYS_UNLINKAT, dir, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); errno != 0 {
		w.fail("delete", name, 0, errno)
		return
	}
	w.lane.did(begun, 0)
}

// transfer reads or writes a whole file; less is an error.
func (w *fileWork) transfer(number uintptr, did string, fd uintptr, path []byte, size int64) syscall.Errno {
	for at := int64(0); at < size; {
		part := w.buffer[:min(size-at, int64(len(w.buffer)))]
		if number == unix.SYS_WRITE {
			stamp(part, &w.lane.rng)
			part[0] = byte(w.lane.rng.next())
		}
		got, errno := call(number, fd, uintptr(unsafe.Pointer(&part[0])), uintptr(len(part)), 0, 0)
		switch {
		case errno != 0:
			w.fail(did, path, at, errno)
			return errno
		case int(got) != len(part):
			if number == unix.SYS_WRITE { // what stopped it is said when the rest is tried
				if _, errno := call(number, fd, uintptr(unsafe.Pointer(&part[got])), uintptr(len(part)-int(got)), 0, 0); errno != 0 {
					w.fail(did, path, at+int64(got), errno)
					return errno
				}
			}
			w.lane.errors++
			w.lane.fail(nanotime(), at, 0, fmt.Sprintf("%s of %d bytes at %d of %s in %s gave only %d bytes", did, len(part), at, text(path), w.lane.what, got), false)
			return 0
		}
		at += int64(len(part))
	}
	return 0
}

func (w *fileWork) open(dir uintptr, path []byte, how uintptr) (uintptr, syscall.Errno) {
	return call(unix.SYS_OPENAT, dir, uintptr(unsafe.Pointer(&path[0])), how|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600, 0)
}

func (w *fileWork) close(fd uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0) // after EINTR it is closed all the same
	if errno == unix.EINTR {
		return 0
	}
	return errno
}

func (w *fileWork) sync() {
	if _, errno := call(unix.SYS_SYNCFS, w.tree.root.Fd(), 0, 0, 0, 0); errno != 0 {
		w.lane.fail(nanotime(), -1, errno, "syncfs of "+w.lane.what, false)
	}
}

func (w *fileWork) fail(did string, path []byte, at int64, errno syscall.Errno) {
	if w.lane.err != nil {
		return
	}
	w.lane.errors++
	w.lane.fail(nanotime(), at, errno, fmt.Sprintf("%s %s in %s at %d", did, text(path), w.lane.what, at), false)
}

func text(path []byte) string { return unix.ByteSliceToString(path) }

// call is a system call that is begun again when a signal came in between.
//
//go:uintptrescapes
func call(number, a, b, c, d, e uintptr) (uintptr, syscall.Errno) {
	for {
		got, _, errno := syscall.RawSyscall6(number, a, b, c, d, e, 0)
		if errno != unix.EINTR {
			return got, errno
		}
	}
}
