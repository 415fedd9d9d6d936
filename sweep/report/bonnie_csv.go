package report

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// csv is the line of bonnie++'s CSV, format version 1.98 (bon_csv2txt(1) has the
// fields). What was not measured is empty.
func (m *machine) csv() string {
	done := func(phases []string) bool {
		return slices.ContainsFunc(phases, func(p string) bool { _, ok := m.rate(p); return ok })
	}
	if !done(bonniePhases()) {
		return ""
	}
	chunk := m.ran.Parameter("chunk")
	if chunk = bytesText(chunk); chunk == "8192" { // the default is left out there
		chunk = ""
	}
	fields := []string{"1.98", "qdsweep", plain(m.name), "1", ""}
	if done(bonnieInOut()) {
		fields = append(fields, m.size(), chunk, m.ran.Parameter("seeks"), m.ran.Parameter("seekers"))
	} else {
		fields = append(fields, "", "", "", "")
	}
	pairs := func(phases []string) {
		for _, p := range phases {
			rate, cpu := m.figures(p)
			fields = append(fields, rate, cpu)
		}
	}
	pairs(bonnieInOut())
	if done(bonnieFiles()) {
		fields = append(fields, m.ran.Parameter("files"), bytesText(m.ran.Parameter("file_size_max")),
			bytesText(m.ran.Parameter("file_size_min")), m.ran.Parameter("directories"), "")
	} else {
		fields = append(fields, "", "", "", "", "")
	}
	pairs(bonnieFiles())
	for _, p := range bonniePhases() {
		latency := ""
		if s := m.of[p]; s != nil && s.LatMaxUS.N > 0 { // the worst there was, not a median of worst ones
			latency = strconv.FormatFloat(s.LatMaxUS.Max, 'f', 0, 64) + "us"
		}
		fields = append(fields, latency)
	}
	return strings.Join(fields, ",") + "\n"
}

// plain makes a name fit for a field that knows no quotes, in a line that ends
// up in HTML unescaped.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" =;:._-+/%#()", r)) {
			return r
		}
		return '_'
	}, name)
}
