package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"qdsweep/sweep"
)

// output is where a command's result goes, and in which form: --format and -o, of all that print.
type output struct {
	format string
	file   string
}

func (o *output) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.format, "format", "", "text or json (default text)")
	c.Flags().StringVarP(&o.file, "output", "o", "", "write to this file instead of stdout; .json implies the format")
}

// check settles the format: said, implied by the file's name, or text.
func (o *output) check() error {
	later := map[string]string{".html": "html", ".md": "markdown", ".xml": "junit", ".csv": "csv"}
	ext := strings.ToLower(filepath.Ext(o.file))
	if o.format == "" {
		o.format = "text"
		if ext == ".json" {
			o.format = "json"
		} else if f, ok := later[ext]; ok {
			o.format = f
		}
	}
	if !slices.Contains([]string{"text", "json"}, o.format) {
		return &sweep.UsageError{Text: fmt.Sprintf("--format %s: not in this version; text or json", o.format)}
	}
	return nil
}

// write lets f print, to the file as a whole or to stdout. A stdout whose reader went away is no error: the results are in the folder.
func (o *output) write(stdout io.Writer, f func(w io.Writer) error) error {
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return err
	}
	if o.file != "" {
		return os.WriteFile(o.file, b.Bytes(), 0o644)
	}
	_, _ = stdout.Write(b.Bytes())
	return nil
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
