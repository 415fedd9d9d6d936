package results

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text cells come from devices and from profiles, so they are made harmless on
// the way into the file and exact again on the way out (field case 28):
//
//   - a character that does not print (control characters, direction marks,
//     line separators, bytes that are not UTF-8) is written \t \n \r \xNN \uNNNN
//     or \UNNNNNNNN, and a backslash as two. A row is therefore always one line,
//     and `cat results.csv` cannot drive a terminal;
//   - text that a spreadsheet would run as a formula gets an apostrophe in
//     front, and so does text that begins with one, which is what makes it
//     possible to take it away again.
//
// Numbers never pass through here.

func protect(s string) string {
	plain := true
	for _, r := range s {
		if r == '\\' || r == utf8.RuneError || !strconv.IsPrint(r) {
			plain = false
			break
		}
	}
	if !plain {
		s = visible(s)
	}
	if strings.HasPrefix(s, "'") || startsFormula(s) {
		return "'" + s
	}
	return s
}

// startsFormula also looks behind leading blanks, and at the full-width forms
// that spreadsheets in East Asian locales take for the same.
func startsFormula(s string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, " "))
	return strings.ContainsRune("=+-@＝＋－＠", r) && r != utf8.RuneError
}

func visible(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + hex(uint32(s[0]), 2))
		case r == '\\':
			b.WriteString(`\\`)
		case strconv.IsPrint(r):
			b.WriteString(s[:size])
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < utf8.RuneSelf:
			b.WriteString(`\x` + hex(uint32(r), 2))
		case r <= 0xffff:
			b.WriteString(`\u` + hex(uint32(r), 4))
		default:
			b.WriteString(`\U` + hex(uint32(r), 8))
		}
		s = s[size:]
	}
	return b.String()
}

func hex(v uint32, digits int) string {
	s := strconv.FormatUint(uint64(v), 16)
	return strings.Repeat("0", digits-len(s)) + s
}

// unprotect undoes protect. What protect cannot have written (a file that went
// through an editor) is taken literally.
func unprotect(s string) string {
	s = strings.TrimPrefix(s, "'")
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		if s[0] != '\\' || len(s) == 1 {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		kind := s[1]
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[kind]
		if len(s) >= 2+digits && digits > 0 {
			if v, err := strconv.ParseUint(s[2:2+digits], 16, 32); err == nil {
				if kind == 'x' {
					b.WriteByte(byte(v))
				} else {
					b.WriteRune(rune(v))
				}
				s = s[2+digits:]
				continue
			}
		}
		switch kind {
		case '\\':
			b.WriteByte('\\')
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		default:
			b.WriteString(s[:2])
		}
		s = s[2:]
	}
	return b.String()
}

// Member is one drive in the members column.
type Member struct{ Name, Model, Serial string }

// memberEscapes keeps the separators of the members column out of its parts.
var memberEscapes = []string{"%", "%25", ":", "%3A", ";", "%3B"}

// FormatMembers is the text of the members column: name:model:serial joined by
// semicolons, without the blanks drives pad their names with. A colon, semicolon
// or per cent sign inside a part is written %3A, %3B, %25.
func FormatMembers(members []Member) string {
	escape := strings.NewReplacer(memberEscapes...)
	parts := make([]string, len(members))
	for i, m := range members {
		parts[i] = escape.Replace(m.Name) + ":" +
			escape.Replace(strings.TrimSpace(m.Model)) + ":" +
			escape.Replace(strings.TrimSpace(m.Serial))
	}
	return strings.Join(parts, ";")
}

// ParseMembers undoes FormatMembers. Parts that are missing are "".
func ParseMembers(s string) []Member {
	if s == "" {
		return nil
	}
	undo := strings.NewReplacer("%3A", ":", "%3B", ";", "%25", "%")
	var members []Member
	for part := range strings.SplitSeq(s, ";") {
		fields := append(strings.SplitN(part, ":", 3), "", "")
		members = append(members, Member{undo.Replace(fields[0]), undo.Replace(fields[1]), undo.Replace(fields[2])})
	}
	return members
}
