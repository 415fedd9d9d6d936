package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/cmd/qdlab/drive"
)

func TestDriveOptions(t *testing.T) {
	m, err := driveOptions{Model: "ncq-2007", Serial: "A", Speed: 4, With: "queue: {order: badly}"}.check()
	require.NoError(t, err)
	assert.InEpsilon(t, 4, m.Speed, 1e-9)
	assert.Equal(t, drive.Badly, m.Queue.Order)
	for _, c := range []struct {
		options driveOptions
		wrong   string
	}{
		{driveOptions{Model: "nosuch", Serial: "A"}, `no model is called "nosuch"`},
		{driveOptions{Model: "ncq-2007", Serial: "A/B"}, `--serial "A/B" must be`},
		{driveOptions{Model: "ncq-2007", Serial: "A", Speed: -1}, "--speed -1 above 0"},
		{driveOptions{Model: "ncq-2007", Serial: "A", With: "rpm: fast"}, "--with: "},
	} {
		_, err := c.options.check()
		assert.ErrorContains(t, err, c.wrong)
	}
	// Whoever starts it in the background says all of it again.
	args := driveOptions{Model: "ncq-2007", Serial: "A", Speed: 0.5, Seed: 7, With: "rpm: 1", Folder: "/f"}.arguments()
	assert.Equal(t, []string{"ncq-2007", "--serial=A", "--speed=0.5", "--seed=7", "--with=rpm: 1", "--folder=/f"}, args)
}

// What a drive keeps in a folder is what the next one of that folder starts with.
func TestADriveKeptInAFolder(t *testing.T) {
	o := driveOptions{Model: "tagged-depth-1999", Serial: "A", Folder: t.TempDir()}
	_, media, identity, err := o.prepare()
	require.NoError(t, err)
	require.Nil(t, identity.Saved)
	_, err = media.WriteAt([]byte("kept"), 1<<20)
	require.NoError(t, err)
	for _, on := range []bool{false, true, false} {
		require.NoError(t, identity.Save(on))
	}
	_, again, identity, err := o.prepare()
	require.NoError(t, err)
	require.NotNil(t, identity.Saved)
	assert.False(t, *identity.Saved)
	found := make([]byte, 4)
	_, err = again.ReadAt(found, 1<<20)
	require.NoError(t, err)
	assert.Equal(t, "kept", string(found))
	o.Folder += "/nosuch"
	_, _, _, err = o.prepare()
	assert.ErrorContains(t, err, "drive A: ")
}
