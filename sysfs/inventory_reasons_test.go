package sysfs

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReasonsTextSaysTheSameOnce(t *testing.T) {
	assert.Equal(t, "each of sda1, sdb1 is a member of the array md5; sda holds swap; sdc is odd", reasonsText([]Refusal{
		{Device: "sda1", Reason: "sda1 is a member of the array md5"},
		{Device: "sda", Reason: "sda holds swap"},
		{Device: "sdb1", Reason: "sdb1 is a member of the array md5"},
		{Device: "sdc", Reason: "sdc is odd"},
	}))
	assert.Empty(t, reasonsText(nil))
}
