//go:build !lab

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// source is the program's own text, tests and the lab aside.
func source(t *testing.T) string {
	var all strings.Builder
	for _, dir := range []string{"../../sweep", "../../sysfs", "../../workload", "."} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "systest") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}))
	}
	return all.String()
}

var (
	quotedWords = regexp.MustCompile("`([^`]+)`")
	verb        = regexp.MustCompile(`%[-+ #0-9.\[\]]*[a-zA-Z]`)
	told        = regexp.MustCompile(`(?:(?:s\.note\(|s\.tell\(|errEnd\{reason: (?:fmt\.Sprintf\()?|s\.end\([a-z.]+, (?:fmt\.Sprintf\()?)"|main is gone; )([^"]*)"`)
)

// seen are the words of docs/trouble.md that somebody may look for, by their line; what is put in between them is left out.
func seen(t *testing.T) map[string][]string {
	page, err := os.ReadFile("../../docs/trouble.md")
	require.NoError(t, err)
	all := map[string][]string{}
	for _, line := range strings.Split(string(page), "\n") {
		cell, _, row := strings.Cut(line, " | ")
		if !row || !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, words := range quotedWords.FindAllStringSubmatch(cell, -1) {
			for _, part := range strings.Split(words[1], "…") {
				if part = strings.Trim(part, " :;,()"); len(part) > 3 {
					all[line] = append(all[line], part)
				}
			}
		}
	}
	return all
}

// Whoever looks for the words of a message in docs/trouble.md must find them: each of the page's is one that the program has.
func TestTroublePageHasTheProgramsWords(t *testing.T) {
	program := source(t)
	found := 0
	for line, parts := range seen(t) {
		for _, part := range parts {
			found++
			assert.Contains(t, program, part, "docs/trouble.md has words that the program never says: %s", line)
		}
	}
	assert.Greater(t, found, 80)
}

// And the other way round: all that a sweep tells while it goes on, and every reason for which it ends early, is on the page.
func TestTroublePageHasEveryMessage(t *testing.T) {
	page := seen(t)
	checked := 0
	for _, match := range told.FindAllStringSubmatch(source(t), -1) {
		message := strings.TrimSuffix(match[1], `\n`)
		if fixed := strings.Trim(verb.ReplaceAllString(message, ""), " :;,"); fixed == "" || fixed == "warning" {
			continue // nothing but what is put in
		}
		checked++
		on := false
		for _, parts := range page {
			on = on || slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(message, part) })
		}
		assert.True(t, on, "not in docs/trouble.md: %q", message)
	}
	assert.Greater(t, checked, 25)
}
