package sweep

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var updateGolden = flag.Bool("update-golden", false, "write the golden files of profiles and plans; read them before committing")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *updateGolden {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// Every profile in testdata/profile is wrong in many ways; beside it is what is said about it, all at once.
func TestProfileErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/profile/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			f, err := os.Open(file)
			require.NoError(t, err)
			defer f.Close()
			_, err = ReadProfile(filepath.Base(file), f)
			var wrong *ProfileErrors
			require.True(t, errors.As(err, &wrong), "got %v", err)
			for _, e := range wrong.Errors {
				assert.Positive(t, e.Line)
				assert.Positive(t, e.Column)
				assert.NotEmpty(t, e.Allowed)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// Field case 20: octal, hexadecimal and blanks are refused, each with its line, because the kernel would read them.
func TestLevelsTheKernelWouldReadOtherwise(t *testing.T) {
	source := "version: 1\nname: a\nmatrix:\n  queue_depth:\n    - 01\n    - 0x10\n    - \"8 \"\nworkloads: [{name: a, type: io}]\n"
	_, err := ReadProfile("f.yaml", strings.NewReader(source))
	var wrong *ProfileErrors
	require.ErrorAs(t, err, &wrong)
	require.Len(t, wrong.Errors, 3)
	for i, value := range []string{"01", "0x10", "8 "} {
		e := wrong.Errors[i]
		assert.Equal(t, 5+i, e.Line)
		assert.Equal(t, 7, e.Column)
		assert.Equal(t, "queue_depth", e.Key)
		assert.Equal(t, value, e.Value)
	}
}

func TestClosest(t *testing.T) {
	known := []string{"queue_depth", "write_cache", "max_sectors_kb", "order", "repeats"}
	for word, want := range map[string]string{
		"queue_dpth": "queue_depth", "queuedepth": "queue_depth", "write_cahce": "write_cache", "ordr": "order",
		"colour": "", "x": "", "": "", strings.Repeat("a", 100): "",
	} {
		assert.Equal(t, want, closest(word, known), word)
	}
}
