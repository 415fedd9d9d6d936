package report

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// tool runs a program of the Debian package bonnie++; CI has it.
func tool(t *testing.T, name, stdin string) (stdout, stderr string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: .ci/run installs bonnie++", err)
		}
		t.Skip("needs bonnie++: apt-get install bonnie++")
	}
	c := exec.Command(name)
	var out, bad bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &bad
	require.NoError(t, c.Run())
	return out.String(), bad.String()
}

// everyPhase is two cells with a different figure in every field, and a third that created no files.
func everyPhase() Data {
	var n night
	for i, cell := range []string{"queue_depth=1", "queue_depth=31;scheduler=<a,b>", "queue_depth=4"} {
		phases := bonniePhases()
		if i == 2 {
			phases = bonnieInOut()[1:]
		}
		n.run(cell, 1, 1, phases, func(phase string, r *results.Row) {
			r.Workload, r.Engine = "bonnie", "psync"
			r.Parameters = "type=bonnie;size=4g;chunk=8k;seeks=8192;seekers=3;files=16;file_size_min=16;file_size_max=100000;directories=64"
			for j, p := range bonniePhases() {
				if p != phase {
					continue
				}
				v := float64(1000*(i+1) + 10*j) // KiB/s by the character, seeks, files
				r.IOPS = results.NumOf(v)
				switch phase {
				case "putc", "getc":
					r.MBPerS = results.NumOf(v * 1024 / 1e6)
				case "write", "rewrite", "read": // whole MiB/s, for bon_csv2html leaves the rest away
					r.MBPerS = results.NumOf(float64(10*(i+1)+j) * (1 << 20) / 1e6)
				}
				r.CPUUserS, r.CPUSysS = results.NumOf(3*float64(i+1)), results.NumOf(0.3*float64(j))
				r.LatMaxUS = results.NumOf(v + 1)
			}
		})
	}
	return n.data()
}

func TestBonniesOwnToolsReadOurLines(t *testing.T) {
	lines := bonnie(t, everyPhase(), 120, true)
	require.Equal(t, 3, strings.Count(lines, "\n"))
	for _, what := range []string{"lines", "table and lines"} {
		text := lines
		if what != "lines" {
			text = bonnie(t, everyPhase(), 80, false)
		}
		t.Run("bon_csv2txt of "+what, func(t *testing.T) {
			got, complaints := tool(t, "bon_csv2txt", text)
			if what == "lines" {
				assert.Empty(t, complaints)
			}
			for _, line := range []string{
				"1 que 4096M::8192:3 1000k  10 11.0m  11 12.0m  12 1030k  13 14.0m  14  1050  15",
				"2 que 4096M::8192:3           31.0m  31 32.0m  32 3030k  33 34.0m  34  3050  35",
				"3 q 16:100000:16/64  2060  26  2070  27  2080  28  2090  29  2100  30  2110  31",
			} {
				assert.Contains(t, got, line+"\n")
			}
			assert.NotContains(t, got, "2 q 16", "no files were created there")
			assert.Regexp(t, `(?m)^Latency +1001us +1011us +1021us +1031us +1041us +1051us$`, got)
			assert.Regexp(t, `(?m)^Latency +2061us +2071us +2081us +2091us +2101us +2111us$`, got)
			assert.NotContains(t, got, "+++")
		})
		t.Run("bon_csv2html of "+what, func(t *testing.T) {
			got, complaints := tool(t, "bon_csv2html", text)
			if what == "lines" {
				assert.Empty(t, complaints)
			}
			rows := htmlRows(got)
			assert.Contains(t, rows, "1 queue_depth=1|4096M|1000|10|11|11|12|12|1030|13|14|14|1050|15|16|100000|16|64|1060|16|1070|17|1080|18|1090|19|1100|20|1110|21")
			assert.Contains(t, rows, "3 queue_depth=31;scheduler=_a_b_|4096M|2000|20|21|21|22|22|2030|23|24|24|2050|25|16|100000|16|64|2060|26|2070|27|2080|28|2090|29|2100|30|2110|31")
			assert.Contains(t, rows, "2 queue_depth=4|4096M|||31|31|32|32|3030|33|34|34|3050|35||||||||||||||||")
			assert.Contains(t, rows, "Latency|1001us|1011us|1021us|1031us|1041us|1051us||Latency|1061us|1071us|1081us|1091us|1101us|1111us")
			assert.NotContains(t, got, "+++")
		})
	}
}

// htmlRows are the texts of a page's table rows, a bar between cells.
func htmlRows(page string) (rows []string) {
	row, cell, tag := regexp.MustCompile(`(?s)<tr>(.*?)</tr>`), regexp.MustCompile(`(?s)<td[^>]*>(.*?)</td>`), regexp.MustCompile(`<[^>]*>`)
	for _, r := range row.FindAllStringSubmatch(page, -1) {
		var cells []string
		for _, c := range cell.FindAllStringSubmatch(r[1], -1) {
			cells = append(cells, strings.TrimSpace(tag.ReplaceAllString(c[1], "")))
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	return rows
}
