package results

import (
	"fmt"
	"iter"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func statuses(list ...string) []Row {
	rows := make([]Row, len(list))
	for i, s := range list {
		rows[i].Status = s
	}
	return rows
}

func TestRunStatusIsTheWorstRows(t *testing.T) {
	for want, rows := range map[string][]Row{
		"":      nil,
		OK:      statuses(OK, OK),
		Skipped: statuses(OK, Skipped),
		Suspect: statuses(Skipped, Suspect, OK),
		Failed:  statuses(OK, Failed, Suspect),
	} {
		assert.Equal(t, want, RunStatus(rows))
	}
}

func seq(runs ...[]Row) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, run := range runs {
			for _, r := range numbered(run) {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func withStatus(run []Row, status string) []Row {
	run[len(run)-1].Status = status
	return run
}

func TestAudit(t *testing.T) {
	rows := seq(
		aRun(1, 1, 2),
		withStatus(aRun(2, 1, 2), Failed), withStatus(aRun(3, 1, 2), Suspect), withStatus(aRun(4, 1, 2), Skipped),
		withStatus(aRun(2, 2, 2), Suspect), // repeated, and again not ok
		aRun(3, 2, 2),                      // repeated, now ok
	)
	a, err := AuditOf(rows, 10)
	require.NoError(t, err)
	assert.Equal(t, Audit{Planned: 10, OK: 2, Suspect: 1, Skipped: 1, Remaining: 6}, a)
	assert.Equal(t, "10 planned = 2 ok + 0 failed + 1 suspect + 1 skipped + 6 remaining", a.String())

	a, err = AuditOf(rows, -1)
	require.NoError(t, err)
	assert.Equal(t, Audit{Planned: -1, OK: 2, Suspect: 1, Skipped: 1}, a)
	assert.Equal(t, "2 ok + 0 failed + 1 suspect + 1 skipped; how many were planned is not known from rows alone", a.String())

	a = Audit{Planned: 2, Remaining: 2}
	a.Add(OK)
	a.Add(Failed)
	assert.Equal(t, Audit{Planned: 2, OK: 1, Failed: 1}, a)
}

func TestReasons(t *testing.T) {
	cell := JoinReasons(ClampedReason("queue_depth", "31", "1"), "", DepthNotExercised.With("1.2 of 31"), Error.With("read: EIO; at 4096"))
	assert.Equal(t, "clamped queue_depth 31 → 1; depth not exercised: 1.2 of 31; error: read: EIO; at 4096", cell)
	parts := SplitReasons(cell)
	require.Len(t, parts, 3)
	assert.Equal(t, []Code{Clamped, DepthNotExercised, Error}, []Code{CodeOf(parts[0]), CodeOf(parts[1]), CodeOf(parts[2])})
	assert.Equal(t, "error: read: EIO; at 4096", parts[2])
	assert.Nil(t, SplitReasons(""))
	assert.Equal(t, Code(""), CodeOf("errors everywhere"))
	assert.Equal(t, ErrorHandling, CodeOf(ErrorHandling.With("ata3.00: failed command")), "not the code that it begins with")
	assert.Equal(t, "timeout", Timeout.With(""))
}

// docs/csv.md is for users: it lists every column in order and every code.
func TestTheDocsListEverything(t *testing.T) {
	text, err := os.ReadFile("../../docs/csv.md")
	require.NoError(t, err)
	before, after, found := strings.Cut(string(text), "## Reasons")
	require.True(t, found)
	columns := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|").FindAllStringSubmatch(before, -1)
	var names []string
	for _, m := range columns {
		names = append(names, m[1])
	}
	assert.Equal(t, Columns(), names)

	var want []string
	for _, c := range Codes() {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", c.Code, strings.Join(c.Statuses, ", "), c.Meaning))
	}
	rows := regexp.MustCompile("(?m)^\\| `.*$").FindAllString(after, -1)
	assert.Equal(t, want, rows)
}
