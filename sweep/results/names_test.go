package results

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestShortNames(t *testing.T) {
	for want, names := range map[string][]string{
		"":                 nil,
		"sda":              {"sda"},
		"sda sdb":          {"sda", "sdb"},
		"sda-sdf":          {"sda", "sdb", "sdc", "sdd", "sde", "sdf"},
		"sda-sdc sdx":      {"sda", "sdb", "sdc", "sdx"},
		"nvme0n1 nvme1n1":  {"nvme0n1", "nvme1n1"},
		"sdz sdaa-sdac vd": {"sdz", "sdaa", "sdab", "sdac", "vd"},
	} {
		assert.Equal(t, want, ShortNames(names))
	}
}
