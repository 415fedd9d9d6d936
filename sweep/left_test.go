package sweep

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLeftSentences(t *testing.T) {
	assert.Empty(t, leftSentences(nil))
	assert.Equal(t, []string{"sda is as it was: queue_depth 31"}, leftSentences([]left{{"sda", true, "queue_depth 31"}}))
	assert.Equal(t, []string{
		"sdc sdf are NOT as they were",
		"sda sdb sdd are as they were: queue_depth 31, write_cache on",
		"sde is as it was: queue_depth 31, write_cache off",
	}, leftSentences([]left{
		{"sdb", true, "queue_depth 31, write_cache on"}, {"sda", true, "queue_depth 31, write_cache on"},
		{"sdc", false, "queue_depth 1"}, {"sdd", true, "queue_depth 31, write_cache on"},
		{"sde", true, "queue_depth 31, write_cache off"}, {"sdf", false, ""},
	}))
	assert.Equal(t, []string{"md5 sda-sdf are as they were"}, leftSentences([]left{
		{"md5", true, ""}, {"sda", true, ""}, {"sdb", true, ""}, {"sdc", true, ""}, {"sdd", true, ""}, {"sde", true, ""}, {"sdf", true, ""},
	}))
}
