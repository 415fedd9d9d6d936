package workload

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBonnieDefaults(t *testing.T) {
	s, wrong := NewSpec("b", "bonnie", nil)
	require.Empty(t, wrong)
	assert.Equal(t, Spec{Name: "b", Type: "bonnie", Engine: "auto", BlockSize: 8192, BonniePhases: "all", Seeks: 8192, Seekers: 3, Files: 16,
		FileSizeMin: 16, FileSizeMax: 100000, Directories: 64}, s)
	s.Size = 1 << 30
	assert.Equal(t, "type=bonnie;size=1g;chunk=8k;seeks=8192;seekers=3;files=16;file_size_min=16;file_size_max=100000;directories=64;phases=all", s.Parameters())
	assert.Equal(t, BonniePhases(), s.Phases())
	assert.Empty(t, s.Validate())
	assert.True(t, s.Writes())
	assert.Equal(t, "psync", AutoEngine(s))
}

func TestBonniePhases(t *testing.T) {
	for _, c := range []struct {
		values map[string]string
		phases []string
		text   string // canonical
		lays   bool   // the file is laid out before
		writes bool
		offers int
	}{
		{map[string]string{"phases": "write, rewrite,read"}, []string{"write", "rewrite", "read"}, "write rewrite read", false, true, Unlimited},
		{map[string]string{"phases": "read seeks", "seekers": "9"}, []string{"read", "seeks"}, "read seeks", true, true, 9},
		{map[string]string{"phases": "getc read"}, []string{"getc", "read"}, "getc read", true, false, 1},
		{map[string]string{"phases": "seq_create seq_delete"}, []string{"seq_create", "seq_delete"}, "seq_create seq_delete", false, true, Unlimited},
		{map[string]string{"files": "0"}, []string{"putc", "write", "rewrite", "getc", "read", "seeks"}, "all", false, true, Unlimited},
	} {
		s, wrong := NewSpec("b", "bonnie", c.values)
		require.Empty(t, wrong)
		assert.Equal(t, c.phases, s.Phases())
		assert.Equal(t, c.text, s.Get("phases"))
		assert.Equal(t, c.lays, s.needsFile(), c.text)
		assert.Equal(t, c.writes, s.Writes(), c.text)
		assert.Equal(t, c.offers, s.Offered(), c.text)
	}
	all, wrong := NewSpec("b", "bonnie", map[string]string{"phases": "putc write rewrite getc read seeks seq_create seq_stat seq_delete ran_create ran_stat ran_delete"})
	require.Empty(t, wrong)
	assert.Equal(t, "all", all.Get("phases"))
}

func TestBonnieRefuses(t *testing.T) {
	for _, values := range []map[string]string{
		{"phases": "read write"}, {"phases": "read read"}, {"phases": ""}, {"phases": "creat"}, {"chunk": "24k"}, {"chunk": "256"}, {"chunk": "2m"},
		{"seekers": "0"}, {"seeks": "0"}, {"files": "-1"}, {"file_size_max": "2g"}, {"directories": "0"}, {"size": "1000"}, {"engine": "libaio"}, {"direct": "true"},
	} {
		_, wrong := NewSpec("b", "bonnie", values)
		assert.Len(t, wrong, 1, "%v", values)
	}
	for want, values := range map[string]map[string]string{
		"is more than file_size_max, 10":       {"file_size_min": "11", "file_size_max": "10"},
		"is more than the 1024 files":          {"files": "1", "directories": "1025"},
		"is not a multiple of the chunk of 1m": {"chunk": "1m", "size": "1536k"},
		"files is 0: nothing is left to do":    {"files": "0", "phases": "ran_stat"},
	} {
		s, wrong := NewSpec("b", "bonnie", values)
		require.Empty(t, wrong)
		got := s.Validate()
		require.Len(t, got, 1)
		assert.Contains(t, got[0].Error(), want)
	}
}

func TestBonnieNeedsADirectory(t *testing.T) {
	s, _ := NewSpec("b", "bonnie", map[string]string{"size": "1g"})
	err := s.CheckTarget(1<<40, 512, false)
	require.ErrorContains(t, err, "--directory DIR")
	require.NoError(t, s.CheckTarget(0, 512, true))
	s.Size = 0
	require.ErrorContains(t, s.CheckTarget(0, 512, true), "size: a directory needs one")
}

// What the files take is judged before: the large one, and the small ones with the blocks and inodes they take.
func TestBonnieSpace(t *testing.T) {
	s, _ := NewSpec("b", "bonnie", map[string]string{"size": "1g", "files": "1", "file_size_min": "0", "file_size_max": "0", "directories": "4"})
	assert.EqualValues(t, 1<<30+1024*4096, s.SpaceNeeded())
	assert.EqualValues(t, 1+1024+4+1, s.FilesNeeded())
	s.FileSizeMax = 100000
	assert.Greater(t, s.SpaceNeeded(), int64(1<<30+1024*50000))
	s.BonniePhases = "write read"
	assert.EqualValues(t, 1<<30, s.SpaceNeeded())
	assert.EqualValues(t, 1, s.FilesNeeded())
	s.BonniePhases = "ran_stat"
	assert.Less(t, s.SpaceNeeded(), int64(1024*60000))
}
