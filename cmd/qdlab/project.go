package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// moduleRoot is the folder of the module qdsweep that the working folder is in; "" outside of it.
func moduleRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	isOurs := regexp.MustCompile(`(?m)^module qdsweep$`)
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && isOurs.Match(text) {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			return ""
		}
		dir = above
	}
}

// projectBinary is a static qdsweep to put into the guest: built from the source tree we are in (an old
// one beside us would mislead whoever just changed it), else the one beside this program; "" none.
func (l *lab) projectBinary(ctx context.Context) string {
	if root := moduleRoot(); root != "" {
		binary, err := l.buildProject(ctx, root)
		if err == nil {
			return binary
		}
		if !errors.Is(err, os.ErrNotExist) {
			l.say("qdsweep does not build, the guest goes without it: %v", err)
		}
		return ""
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	beside := filepath.Join(filepath.Dir(self), "qdsweep")
	if _, err := os.Stat(beside); err != nil {
		return ""
	}
	return beside
}

func (l *lab) buildProject(ctx context.Context, root string) (string, error) {
	if _, err := os.Stat(filepath.Join(root, "cmd", "qdsweep")); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(root))
	// Each tree has its own: another's may be built while this one waits for the lab.
	binary := filepath.Join(l.cache, "bin", hex.EncodeToString(sum[:6]), "qdsweep")
	return binary, goStatic(ctx, root, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "./cmd/qdsweep")
}

// goStatic runs the go command so that what it builds needs no library in the guest.
func goStatic(ctx context.Context, root string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return &buildError{args, err, string(out)}
	}
	return nil
}

type buildError struct {
	args   []string
	err    error
	output string
}

func (e *buildError) Error() string {
	return "go " + joined(e.args) + ": " + e.err.Error() + "\n" + e.output
}

func (e *buildError) Unwrap() error { return e.err }
