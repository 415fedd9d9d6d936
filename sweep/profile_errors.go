package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ProfileError is one thing that is wrong with a profile on any machine.
type ProfileError struct {
	Line, Column int    // both count from 1
	Key          string // what was being read: "queue_depth", "workload rnd-4k: size"
	Value        string // the wrong value as written
	HasValue     bool   // false where the value is missing or is no scalar
	Allowed      string // what is allowed, or what to write instead
}

// text is the error without its file and position.
func (e ProfileError) text() string {
	var b strings.Builder
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	if e.HasValue {
		fmt.Fprintf(&b, "%q: ", shorten(e.Value, 80))
	}
	b.WriteString(e.Allowed)
	return b.String()
}

// ProfileErrors is everything that is wrong with one profile, in the order of its lines: the user repairs the file
// once, not once an error. The exit code of a command that meets it is 2.
type ProfileErrors struct {
	File   string
	Errors []ProfileError
}

// Error is one line for each error: file:line:column: key: "value": what is allowed.
func (e *ProfileErrors) Error() string {
	lines := make([]string, len(e.Errors))
	for i, one := range e.Errors {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", e.File, one.Line, one.Column, one.text())
	}
	return strings.Join(lines, "\n")
}

// sort puts the errors in the order of the file and drops repetitions.
func (e *ProfileErrors) sort() {
	slices.SortStableFunc(e.Errors, func(a, b ProfileError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Allowed, b.Allowed))
	})
	e.Errors = slices.Compact(e.Errors)
}

// shorten keeps an error on one line of a terminal: a value can be a megabyte.
func shorten(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}
