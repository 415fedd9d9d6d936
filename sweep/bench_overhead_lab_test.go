//go:build lab

package sweep

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLabSataOverhead is BenchmarkOverhead before a real kernel: an array of two SATA drives, state and output on the guest's disk
// and in its memory. The guest emulates every instruction, where there is no KVM: a machine of its own is some ten to thirty times as fast.
func BenchmarkLabSataOverhead(b *testing.B) {
	h := hostOf("/")
	var nodes []string
	for _, serial := range []string{"QDLAB-SATA-1", "QDLAB-SATA-2"} {
		s, err := h.Resolve("serial:" + serial)
		require.NoError(b, err)
		nodes = append(nodes, s.Device.Path)
	}
	shell := func(program string, args ...string) {
		out, err := exec.Command(program, args...).CombinedOutput()
		require.NoError(b, err, "%s", out)
	}
	shell("mdadm", append([]string{"--create", "/dev/md7", "--run", "--level=1", "--assume-clean", "--bitmap=none", "--raid-devices=2"}, nodes...)...)
	b.Cleanup(func() {
		shell("mdadm", "--stop", "/dev/md7")
		shell("mdadm", append([]string{"--zero-superblock"}, nodes...)...)
	})
	b.Setenv(testRoot, "/")
	for _, place := range []string{"/scratch", "/tmp"} {
		b.Run("state="+place[1:], func(b *testing.B) { overhead(b, h, "/dev/md7", place) })
	}
}
