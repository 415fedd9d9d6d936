package md

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"qdsweep/sysfs"
)

// said is what a program said and how it ended.
type said struct {
	out, err string
	code     int
}

// runner runs a program to its end. An error means that it was not run, or that its end is not known; a program that fails is none.
type runner func(ctx context.Context, name string, args ...string) (said, error)

// afterKill is how long a killed program may take to end: one in D state does not, whoever kills it.
const afterKill = 10 * time.Second

// programFolders are looked through after PATH, which need not have those for the system's programs.
func programFolders() []string {
	return []string{"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"}
}

func findProgram(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil && filepath.IsAbs(p) {
		return p, nil
	}
	for _, dir := range programFolders() {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: %w", name, exec.ErrNotFound)
}

// runProgram is the real runner. Nothing is ever asked (no standard input), texts are C's, nothing of the user's environment is handed on
// (MKE2FS_CONFIG), a Ctrl-C does not reach the program, and it dies with this process: an mdadm that outlives us would make an array behind
// the back of whoever cleans up.
func runProgram(ctx context.Context, name string, args ...string) (said, error) {
	file, err := findProgram(name)
	if err != nil {
		return said{}, err
	}
	type answer struct {
		said
		err error
	}
	done := make(chan answer, 1)
	go func() {
		runtime.LockOSThread() // Pdeathsig is the death of the thread that forked
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(ctx, file, args...)
		cmd.Dir = "/"
		cmd.Env = []string{"LC_ALL=C", "PATH=" + strings.Join(programFolders(), ":")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		cmd.WaitDelay = afterKill
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		a := answer{said{out.String(), errs.String(), cmd.ProcessState.ExitCode()}, err}
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Exited() {
			a.err = nil
		}
		done <- a
	}()
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		select {
		case a = <-done:
		case <-time.After(afterKill + time.Second):
			return said{}, fmt.Errorf("%s: %w (%w)", commandText(name, args), sysfs.ErrStuck, ctx.Err())
		}
	}
	switch {
	case a.err == nil:
		return a.said, nil
	case ctx.Err() != nil:
		return a.said, fmt.Errorf("%s: ended: %w", commandText(name, args), ctx.Err())
	}
	return a.said, fmt.Errorf("%s: %w%s", commandText(name, args), a.err, a.reason())
}

func commandText(name string, args []string) string {
	return strings.Join(append([]string{name}, args...), " ")
}

// reason is what a program wrote on standard error, in one line. mkfs.xfs has its whole usage after it.
func (s said) reason() string {
	text, _, _ := strings.Cut(s.err, "Usage:")
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines[:min(len(lines), 8)], "; ")
}

// try runs a program with a deadline of its own. A failure says the whole command: it can be tried by hand.
func (m machine) try(ctx context.Context, patience time.Duration, name string, args ...string) (string, error) {
	s, err := m.ask(ctx, patience, name, args...)
	if err != nil {
		return "", err
	}
	if s.code != 0 {
		return "", fmt.Errorf("%s: exit %d%s", commandText(name, args), s.code, s.reason())
	}
	return s.out, nil
}

// ask is try for a program whose exit code says something.
func (m machine) ask(ctx context.Context, patience time.Duration, name string, args ...string) (said, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.run(ctx, name, args...)
}

// tool is a program and where it comes from.
type tool struct{ program, pkg string }

// tools are the programs that building and taking down need.
func tools(level, fs string) []tool {
	var all []tool
	if level != LevelNone {
		all = append(all, tool{"mdadm", "mdadm"})
	}
	if f, ok := lookupFilesystem(fs); ok {
		all = append(all, tool{f.program, f.pkg}, tool{"wipefs", "util-linux"})
	}
	return all
}

// Missing gives the programs that building these needs and that are not installed, each once, as "mdadm (apt install mdadm)".
func Missing(specs []Spec) []string { return missing(specs, findProgram) }

func missing(specs []Spec, find func(string) (string, error)) []string {
	var missing []string
	seen := map[tool]bool{}
	for _, s := range specs {
		for _, t := range tools(s.Level, s.Filesystem) {
			if _, err := find(t.program); err != nil && !seen[t] {
				missing = append(missing, fmt.Sprintf("%s (apt install %s)", t.program, t.pkg))
			}
			seen[t] = true
		}
	}
	return missing
}
