package sweep

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every example of docs/profile.md is read: whole ones as they are, pieces with what they need around them.
func TestExamplesOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/profile.md")
	require.NoError(t, err)
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		source, _, closed := strings.Cut(block, "```")
		require.True(t, closed)
		if !strings.Contains(source, "version:") {
			source = "version: 1\nname: piece\n" + source
		}
		if !strings.Contains(source, "workloads:") {
			source += "workloads: [{name: a, type: io}]\n"
		}
		p := read(t, source)
		assert.Empty(t, p.Warnings, source)
	}
}

// The keys of later versions are refused by name, never as a misspelling.
func TestKeysOfLaterVersions(t *testing.T) {
	const work = "\nworkloads: [{name: a, type: io}]\n"
	for name, source := range map[string]string{
		"deadline":  "deadline: 8h" + work,
		"until":     "until: \"07:00\"" + work,
		"precision": "repeats: {min: 6, max: 20, precision: 2%}" + work,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadProfile("later.yaml", strings.NewReader("version: 1\nname: later\n"+source))
			var wrong *ProfileErrors
			require.ErrorAs(t, err, &wrong)
			assert.Contains(t, wrong.Errors[0].Allowed, "not yet in this version")
			assert.Positive(t, wrong.Errors[0].Line)
		})
	}
}
