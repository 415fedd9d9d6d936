package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// cpioWriter writes an initramfs in the "newc" format, the only one the kernel unpacks
// (Documentation/driver-api/early-userspace/buffer-format.rst). Folders above an entry are made when
// first needed; an archive may follow another one in the same file, later entries winning.
//
// Times and inode numbers do not depend on the host, so the same content gives the same bytes.
type cpioWriter struct {
	w       io.Writer
	written int64
	inode   uint32
	folders map[string]bool
	err     error
}

func newCPIOWriter(w io.Writer) *cpioWriter {
	return &cpioWriter{w: w, folders: map[string]bool{".": true, "/": true}}
}

// File types of the mode field, as in stat(2).
const (
	typeFolder  = 0o040000
	typeFile    = 0o100000
	typeSymlink = 0o120000
	typeChar    = 0o020000
)

// Folder adds a folder and those above it, each once.
func (c *cpioWriter) Folder(name string, mode uint32) {
	name = cpioName(name)
	if c.folders[name] {
		return
	}
	c.folders[name] = true
	if above := path.Dir(name); above != "." {
		c.Folder(above, 0o755)
	}
	c.entry(name, typeFolder|mode, 2, 0, 0, nil)
}

// File adds a regular file with the given content.
func (c *cpioWriter) File(name string, mode uint32, content []byte) {
	c.above(name)
	c.entry(cpioName(name), typeFile|mode, 1, 0, 0, content)
}

// HostFile adds a copy of a file of the host, links followed, under another name.
func (c *cpioWriter) HostFile(name, hostPath string) error {
	info, err := os.Stat(hostPath)
	if err != nil {
		return fmt.Errorf("add %s to the initramfs: %w", name, err)
	}
	content, err := os.ReadFile(hostPath)
	if err != nil {
		return fmt.Errorf("add %s to the initramfs: %w", name, err)
	}
	c.File(name, uint32(info.Mode().Perm()), content)
	return c.err
}

// Symlink adds a symbolic link to target.
func (c *cpioWriter) Symlink(name, target string) {
	c.above(name)
	c.entry(cpioName(name), typeSymlink|0o777, 1, 0, 0, []byte(target))
}

// Char adds a character device node.
func (c *cpioWriter) Char(name string, mode, major, minor uint32) {
	c.above(name)
	c.entry(cpioName(name), typeChar|mode, 1, major, minor, nil)
}

// Close writes the trailer, and pads to 512 bytes so that another archive can follow.
// It returns the first error of any call; it does not close the writer below.
func (c *cpioWriter) Close() error {
	c.inode = 0
	c.entry("TRAILER!!!", 0, 1, 0, 0, nil)
	c.pad(512)
	return c.err
}

func (c *cpioWriter) above(name string) {
	if dir := path.Dir(cpioName(name)); dir != "." {
		c.Folder(dir, 0o755)
	}
}

func (c *cpioWriter) entry(name string, mode, links, major, minor uint32, content []byte) {
	if uint64(len(content)) > 0xffffffff {
		c.fail(fmt.Errorf("%s: %d bytes do not fit a newc archive", name, len(content)))
		return
	}
	// magic, inode, mode, uid, gid, nlink, mtime, filesize, maj, min, rmaj, rmin, namesize, check
	c.write([]byte(fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.inode, mode, 0, 0, links, 0, len(content), 0, 0, major, minor, len(name)+1, 0)))
	c.inode++
	c.write([]byte(name + "\x00"))
	c.pad(4)
	c.write(content)
	c.pad(4)
}

func (c *cpioWriter) pad(to int64) {
	if rest := c.written % to; rest != 0 {
		c.write(make([]byte, to-rest))
	}
}

func (c *cpioWriter) write(p []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(p)
	c.written += int64(n)
	if err != nil {
		c.fail(fmt.Errorf("write the initramfs: %w", err))
	}
}

func (c *cpioWriter) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// cpioName is the name as the archive holds it: relative, clean.
func cpioName(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}
