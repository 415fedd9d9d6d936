package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// maxProfile is the largest profile that is read, in bytes: a profile is typed by hand, anything larger is another file.
const maxProfile = 1 << 20

// position is a place in the profile, both numbers counting from 1.
type position struct{ line, column int }

func at(n *yaml.Node) position { return position{max(n.Line, 1), max(n.Column, 1)} }

// reader walks a YAML document and collects everything that is wrong with it. It takes scalars by their source text and
// never by the type YAML would give them: 010 is eight to YAML, eight to the kernel and ten to the person who wrote it.
type reader struct {
	errs ProfileErrors
}

func (r *reader) fail(p position, key, allowed string, args ...any) {
	r.errs.Errors = append(r.errs.Errors, ProfileError{
		Line: p.line, Column: p.column, Key: key, Allowed: fmt.Sprintf(allowed, args...),
	})
}

// wrong is fail with the value that is wrong.
func (r *reader) wrong(p position, key, value, allowed string, args ...any) {
	r.errs.Errors = append(r.errs.Errors, ProfileError{
		Line: p.line, Column: p.column, Key: key, Value: value, HasValue: true, Allowed: fmt.Sprintf(allowed, args...),
	})
}

// document reads the one YAML document of source; nil when there is none to go on with.
func (r *reader) document(source []byte) *yaml.Node {
	if !r.plainText(source) {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(source))
	root, err := decode(decoder)
	switch {
	case errors.Is(err, io.EOF):
		r.fail(position{1, 1}, "", "the file is empty; `qdsweep profiles quick` prints one to start from")
		return nil
	case err != nil:
		r.syntax(source, err)
		return nil
	}
	switch second, err := decode(decoder); {
	case errors.Is(err, io.EOF):
	case err != nil:
		r.syntax(source, err)
	default:
		r.fail(at(second), "", "a second YAML document (after ---): a profile is one document; make it a file of its own")
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		r.fail(position{1, 1}, "", "the file holds no YAML document")
		return nil
	}
	before := len(r.errs.Errors)
	r.plainYAML(root.Content[0])
	if len(r.errs.Errors) > before {
		return nil
	}
	return root.Content[0]
}

// decode reads one document. The YAML package panics on input it did not foresee; that is a wrong profile, not a crash.
func decode(d *yaml.Decoder) (n *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	n = new(yaml.Node)
	return n, d.Decode(n)
}

// plainText refuses what is no text file, with the place: the YAML package names none for these.
func (r *reader) plainText(source []byte) bool {
	if len(source) > maxProfile {
		r.fail(position{1, 1}, "", "the file is larger than %d bytes: it is not a profile", maxProfile)
		return false
	}
	p := position{1, 1}
	for rest := source; len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		switch {
		case c == utf8.RuneError && size <= 1:
			r.fail(p, "", "byte 0x%02x is not UTF-8 text", rest[0])
			return false
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c >= 0x7f && c < 0xa0 && c != 0x85:
			r.fail(p, "", "a control character (0x%02x) is not allowed", c)
			return false
		case c == '\n':
			p = position{p.line, 0}
			p.line++
		}
		p.column++
		rest = rest[size:]
	}
	return true
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// syntax reports an error of the YAML package, which gives the line (none for the first) and no column.
func (r *reader) syntax(source []byte, err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := position{1, 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, convErr := strconv.Atoi(m[1]); convErr == nil && n > 0 {
			p.line = n
		}
	}
	if lines := bytes.Split(source, []byte("\n")); p.line <= len(lines) {
		if line := lines[p.line-1]; bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")) {
			text = "a tab in the indentation; write blanks"
		}
	}
	r.fail(p, "", "not YAML: %s", text)
}

// plainYAML refuses what would let a value stand elsewhere than where it is used: aliases, merges and tags.
func (r *reader) plainYAML(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		r.wrong(at(n), "", "*"+n.Value, "aliases are not read; write the value out")
		return
	case n.Anchor != "":
		r.wrong(at(n), "", "&"+n.Anchor, "anchors are not read; write the value out")
	case n.Style&yaml.TaggedStyle != 0:
		r.wrong(at(n), "", n.Tag, "tags are not read; write the value alone")
	}
	for _, c := range n.Content {
		r.plainYAML(c)
	}
}

// field is one key of a mapping and its value.
type field struct {
	name       string
	key, value *yaml.Node
}

// fields are the pairs of a mapping in the order of the file; keys that are no words or come twice are errors.
// ok is false when n is no mapping at all.
func (r *reader) fields(n *yaml.Node, key, allowed string) (all []field, ok bool) {
	if n.Kind != yaml.MappingNode {
		r.notThis(n, key, allowed)
		return nil, false
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Value == "" {
			r.fail(at(k), key, "a key is a plain word")
			continue
		}
		if line, twice := first[k.Value]; twice {
			r.fail(at(k), k.Value, "the second time in this mapping; the first is on line %d", line)
			continue
		}
		first[k.Value] = k.Line
		all = append(all, field{k.Value, k, v})
	}
	return all, true
}

// items are the elements of a list; ok is false when n is none.
func (r *reader) items(n *yaml.Node, key, allowed string) (all []*yaml.Node, ok bool) {
	if n.Kind != yaml.SequenceNode {
		r.notThis(n, key, allowed)
		return nil, false
	}
	return n.Content, true
}

// notThis refuses a value of the wrong shape.
func (r *reader) notThis(n *yaml.Node, key, allowed string) {
	if n.Kind == yaml.ScalarNode && !missing(n) {
		r.wrong(at(n), key, n.Value, "%s", allowed)
		return
	}
	r.fail(at(n), key, "%s", allowed)
}

// scalar is the source text of a single value; ok is false, and the error made, when n is none or is missing.
func (r *reader) scalar(n *yaml.Node, key, allowed string) (text string, ok bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fail(at(n), key, "%s", allowed)
		return "", false
	case missing(n):
		r.fail(at(n), key, "the value is missing: %s", allowed)
		return "", false
	}
	return n.Value, true
}

// missing says that nothing was written as a value. The word null is a value: it is the name of an engine.
func missing(n *yaml.Node) bool {
	return n.Tag == "!!null" && (n.Value == "" || n.Value == "~")
}

// unknown refuses a key that is none of the known ones.
func (r *reader) unknown(f field, in string, known []string) {
	if word := closest(f.name, known); word != "" {
		r.fail(at(f.key), f.name, "no such key %s; did you mean %s?", in, word)
		return
	}
	r.fail(at(f.key), f.name, "no such key %s; the keys are %s", in, strings.Join(known, ", "))
}
