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
