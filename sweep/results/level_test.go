package results

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLevels(t *testing.T) {
	for text, level := range map[string]string{
		"31":                                   "31",
		"wwid:t10.ATA     QEMU HARDDISK   S+1": "wwid:t10.ATA     QEMU HARDDISK   S+1",
		"serial:a%3Bb%3Dc%2541%23%09:m":        "serial:a;b=c%41#\t:m",
		"2%":                                   "2%",
	} {
		assert.Equal(t, level, ParseLevel(text))
		cell := "raid_level=5;device=" + text + ";queue_depth=31"
		assert.Equal(t, text, LevelIn(cell, "device"))
		assert.Equal(t, "31", LevelIn(cell, "queue_depth"))
		assert.Empty(t, LevelIn(cell, "write_cache"))
	}
}
