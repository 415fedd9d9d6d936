package sysfs_test

import (
	"os"
	"testing"

	"qdsweep/sysfs/systest"
)

func TestMain(m *testing.M) {
	systest.InMemory()
	os.Exit(m.Run())
}
