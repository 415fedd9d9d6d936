package profiles_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/profiles"
)

func TestShippedProfiles(t *testing.T) {
	assert.Equal(t, []string{
		"bonnie-2007", "depth-ladder", "iodepth-ladder", "max-sectors", "max-sectors-2007", "ncq-on-off", "quick", "sgpdd-2008", "tagged-depth-1999", "threads-2007", "wcache-tagging-1999",
	}, profiles.Names())
	list, err := profiles.List()
	require.NoError(t, err)
	require.Len(t, list, len(profiles.Names()))
	for _, p := range list {
		assert.NotEmpty(t, p.Description, p.Name)
		text, err := profiles.Open(p.Name)
		require.NoError(t, err)
		assert.NotEmpty(t, text)
	}
}

func TestNoSuchProfile(t *testing.T) {
	for _, name := range []string{"nothing", "", "../profiles/quick", "quick.yaml"} {
		_, err := profiles.Open(name)
		assert.Error(t, err, name)
	}
}
