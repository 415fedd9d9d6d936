package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"qdsweep/sweep"
)

// output is where a command's result goes, and in which form: --format and -o, of all that print.
type output struct {
	format string
	file   string
	more   []string // formats of this command alone
}

func (o *output) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.format, "format", "", o.formats()+" (default text)")
	c.Flags().StringVarP(&o.file, "output", "o", "", "write to this file instead of stdout; .json implies the format")
}

// formats is "text or json", "text, json or bonnie".
func (o *output) formats() string {
	all := append([]string{"text", "json"}, o.more...)
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// check settles the format: said, implied by the file's name, or text. It also sees whether the file can be made: a sweep must not
// find that out in the morning.
func (o *output) check() error {
	later := map[string]string{".html": "html", ".md": "markdown", ".xml": "junit", ".csv": "csv"}
	ext := strings.ToLower(filepath.Ext(o.file))
	if o.format == "" {
		o.format = "text"
		if ext == ".json" {
			o.format = "json"
		} else if f, ok := later[ext]; ok {
			return &sweep.UsageError{Text: fmt.Sprintf("-o %s: %s is not in this version; name it .txt or .json, or add --format %s", o.file, f, o.formats())}
		}
	}
	if !slices.Contains([]string{"text", "json"}, o.format) && !slices.Contains(o.more, o.format) {
		return &sweep.UsageError{Text: fmt.Sprintf("--format %s: %s, in this version", o.format, o.formats())}
	}
	if err := writable(o.file); o.file != "" && err != nil {
		return &sweep.UsageError{Text: fmt.Sprintf("-o %s: %v; name a file that can be written", o.file, err)}
	}
	return nil
}

// writable says why a file could not be written, without making it.
func writable(name string) error {
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir := filepath.Dir(name)
		if st, err := os.Stat(dir); err != nil {
			return fmt.Errorf("the folder %s: %w", dir, bare(err))
		} else if !st.IsDir() {
			return fmt.Errorf("%s is no folder", dir)
		}
		return bare(unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS))
	case err != nil:
		return bare(err)
	case st.IsDir():
		return errors.New("that is a folder")
	}
	return bare(unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, unix.AT_EACCESS))
}

// bare is an error without the path that its text would repeat.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// write lets f print, to the file as a whole or to stdout. A stdout whose reader went away is no error: the results are in the folder.
// One that has no room is: what stands in the file is not the result.
func (o *output) write(stdout io.Writer, f func(w io.Writer) error) error {
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return err
	}
	if o.file != "" {
		return save(o.file, b.Bytes())
	}
	if _, err := stdout.Write(b.Bytes()); err != nil && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("write to standard output: %w", bare(err))
	}
	return nil
}

// save writes a file; one that was not there belongs to the one who called sudo.
func save(name string, text []byte) error {
	_, err := os.Lstat(name)
	made := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if uid, gid, sudo := sudoUser(); err == nil && made && sudo {
		err = f.Chown(uid, gid)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// sudoUser is who called sudo.
func sudoUser() (uid, gid int, ok bool) {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if err != nil || os.Geteuid() != 0 {
		return 0, 0, false
	}
	if gid, err = strconv.Atoi(os.Getenv("SUDO_GID")); err != nil {
		gid = -1
	}
	return uid, gid, true
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// width is how wide the terminal is, 120 when there is none: tables fit it.
func width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 120
	}
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 {
		return 120
	}
	return int(ws.Col)
}
