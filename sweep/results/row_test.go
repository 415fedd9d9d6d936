package results

import (
	"bytes"
	"encoding/csv"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestColumnsAreThoseOfTheDesign(t *testing.T) {
	const design = `schema, sweep, run, cell, replicate, attempt, row, rows, started, host, kernel, target, raid_level, members, queue_depth, write_cache, max_sectors_kb, axes, queue_depth_effective, write_cache_effective, max_sectors_kb_effective, axes_effective, workload, phase, engine, block_size, threads, iodepth, parameters,
bytes, operations, errors, seconds, mb_per_s, mb_per_s_slowest, iops, lat_mean_us, lat_p50_us, lat_p95_us, lat_p99_us, lat_p999_us, lat_max_us, first_done_s, last_done_s, cpu_user_s, cpu_sys_s, observed_depth, observed_depth_max, queued_depth, observed_request_kb, device_samples, drain_s, temperature_c, status, reason, restored`
	const added = `, bytes_per_thread`
	want := strings.FieldsFunc(design+added, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	assert.Equal(t, want, Columns())
	assert.Equal(t, strings.Join(want, ",")+"\n", string(Header()))
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", 1: "1", 0.5: "0.5", 32.123456: "32.1235", 196.6: "196.6",
		1234567.8: "1234570", 123456789012: "123457000000", 0.000123456789: "0.000123457", -5: "-5",
		1e20: "1e+20", 1e-12: "1e-12", 0.1 + 0.2: "0.3",
		math.NaN(): "", math.Inf(1): "", math.MaxFloat64: "1.79769e+308",
	} {
		assert.Equal(t, want, NumOf(v).String(), "%v", v)
	}
	assert.Equal(t, "", Num{}.String())
	assert.Equal(t, "10737418241", IntOf(int64(10737418241)).String(), "whole numbers are exact")
	assert.Equal(t, "", Int{}.String(), "empty is not zero")
	assert.Equal(t, "0", IntOf(0).String())
	for _, bad := range []string{"nan", "inf", "0x1p3", "1_0", "1,5", " 1"} {
		_, err := parseNum(bad)
		assert.Error(t, err, bad)
	}
}

func TestTextIsHarmlessAndComesBack(t *testing.T) {
	for text, cell := range map[string]string{
		"":                             "",
		"KINGSTON SFYR2S1T0      ":     "KINGSTON SFYR2S1T0      ",
		`Model, with "quote"`:          `Model, with "quote"`,
		"=cmd|' /C calc'!A0":           "'=cmd|' /C calc'!A0",
		" =1+1":                        "' =1+1",
		"+1":                           "'+1",
		"-1":                           "'-1",
		"@SUM(A1)":                     "'@SUM(A1)",
		"＝1+1":                         "'＝1+1",
		"'quoted'":                     "''quoted'",
		"\t=1":                         `\t=1`,
		"\r=1":                         `\r=1`,
		"\n":                           `\n`,
		"<script>alert(1)</script>":    "<script>alert(1)</script>",
		"\x1b[2Jred":                   `\x1b[2Jred`,
		"a\u0085b\u202ec\u2028d\ufeff": `a\u0085b\u202ec\u2028d\ufeff`,
		"tag\U000e0001":                `tag\U000e0001`,
		"bad\xff\xc3":                  `bad\xff\xc3`,
		"\ufffd":                       "\ufffd",
		`C:\x41`:                       `C:\\x41`,
		"µs → Größe":                   "µs → Größe",
		"\x00":                         `\x00`,
		"\x7f":                         `\x7f`,
	} {
		assert.Equal(t, cell, protect(text), "%q", text)
		assert.Equal(t, text, unprotect(cell), "%q", cell)
	}
	for _, foreign := range []string{`\`, `\q`, `\x`, `\xg0`, `\u12`, `\U0011`} {
		assert.Equal(t, foreign, unprotect(foreign), "what we cannot have written is taken literally")
	}
}

// Field case 28.
func TestAwkwardModelsInTheCSV(t *testing.T) {
	models := []string{"KINGSTON SFYR2S1T0      ", "DISK, 400", `4" DISK`, "=cmd", "<script>", "a;b:c%d", "\x1b[31m"}
	var members []Member
	for _, m := range models {
		members = append(members, Member{"sda", m, "S1"})
	}
	row := aRow(1, 1)
	row.Members = FormatMembers(members)
	row.Target = "=cmd"
	encoded := Encode([]Row{row})
	cells, err := csv.NewReader(bytes.NewReader(encoded)).Read()
	require.NoError(t, err)
	require.Len(t, cells, len(Columns()))
	for _, c := range cells {
		assert.NotRegexp(t, "^[=+@\t\r]", c)
	}
	assert.Equal(t, 1, bytes.Count(encoded, []byte{'\n'}), "a row is a line")
	assert.NotContains(t, string(encoded), "\x1b")

	rows, errs := read(append(Header(), encoded...))
	require.Empty(t, errs)
	require.Len(t, rows, 1)
	assert.Equal(t, "=cmd", rows[0].Target)
	back := ParseMembers(rows[0].Members)
	require.Len(t, back, len(models))
	for i, m := range models {
		assert.Equal(t, strings.TrimSpace(m), back[i].Model)
	}
}

func TestNegativeNumbersAreNumbersForASpreadsheet(t *testing.T) {
	row := aRow(1, 1)
	row.TemperatureC = NumOf(-5)
	assert.Contains(t, string(Encode([]Row{row})), ",-5,ok,")
}

func genRow() *rapid.Generator[Row] {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[=+\-@'\\, "\t\r\nxu0-9;:]{0,12}`),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	num := rapid.Custom(func(t *rapid.T) Num {
		if rapid.Bool().Draw(t, "empty") {
			return Num{}
		}
		return NumOf(rapid.Float64().Draw(t, "v"))
	})
	whole := rapid.Custom(func(t *rapid.T) Int {
		if rapid.Bool().Draw(t, "empty") {
			return Int{}
		}
		return IntOf(rapid.Int64().Draw(t, "v"))
	})
	return rapid.Custom(func(t *rapid.T) Row {
		r := Row{
			Schema: Schema, Sweep: "s", Run: "r" + text.Draw(t, "run"), Cell: text.Draw(t, "cell"),
			Replicate: rapid.Int().Draw(t, "replicate"), Attempt: rapid.IntRange(1, math.MaxInt).Draw(t, "attempt"), Row: 1, Rows: 1,
			Started: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "started"), 0).In(zone),
			Host:    text.Draw(t, "host"), Members: text.Draw(t, "members"), QueueDepth: text.Draw(t, "qd"), AxesEffective: text.Draw(t, "ae"),
			BlockSize: whole.Draw(t, "bs"), Bytes: whole.Draw(t, "bytes"), Seconds: num.Draw(t, "s"), IOPS: num.Draw(t, "iops"), TemperatureC: num.Draw(t, "temp"),
			Status: rapid.SampledFrom([]string{OK, Failed, Suspect, Skipped}).Draw(t, "status"), Reason: text.Draw(t, "reason"),
			Restored: rapid.Bool().Draw(t, "restored"),
		}
		return r
	})
}

func TestEveryRowComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(genRow(), 1, 5).Draw(t, "rows")
		b := Header()
		for _, r := range want {
			b = append(b, Encode([]Row{r})...)
		}
		got, errs := read(b)
		require.Empty(t, errs)
		require.Len(t, got, len(want))
		for i := range want {
			require.True(t, want[i].Started.Equal(got[i].Started))
			got[i].Started = want[i].Started // the same instant, another *Location
			require.Equal(t, want[i], got[i])
		}
	})
}

func TestMembersComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.Map(rapid.String(), strings.TrimSpace)
		want := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Member {
			return Member{rapid.StringMatching(`[a-z%:;]{1,5}`).Draw(t, "name"), part.Draw(t, "model"), part.Draw(t, "serial")}
		}), 1, 4).Draw(t, "members")
		require.Equal(t, want, ParseMembers(FormatMembers(want)))
	})
	assert.Nil(t, ParseMembers(""))
	assert.Equal(t, []Member{{Name: "sda"}}, ParseMembers("sda"))
}
