package sweep

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is over while memory still holds it is told before the night, with the size that would do.
func TestWarningsOfMemory(t *testing.T) {
	m := newPlanMachine(t)
	m.disk("sda", planDisk{})
	said := func(source string) string {
		p := read(t, "version: 1\nname: a\nseed: 1\ntarget: {device: sda}\nsmall: {repeats: 1}\nworkloads: [{name: w, type: dd, "+source+"}]\n")
		plan, err := NewPlan(t.Context(), p, m.host(), PlanOptions{})
		require.NoError(t, err)
		return strings.Join(plan.Warnings, "\n")
	}
	assert.NotContains(t, said("size: 1g, sync: none"), "memory", "nobody knows how much there is")
	m.file("/proc/meminfo", "MemTotal:       8000000 kB\n")
	assert.Contains(t, said("size: 10g, sync: none"), "w: 10.7 GB is less than twice the memory of 8.19 GB, so the page cache is in its figures: make size 16g, or write sync: fsync")
	for _, fine := range []string{"size: 16g, sync: none", "size: 4g, processes: 4, sync: none", "size: 1g", "size: 1g, sync: dsync", "mode: read, size: 1g, sync: none", "size: 1g, sync: none, direct: true"} {
		assert.NotContains(t, said(fine), "memory", fine)
	}
	p := small(t, "version: 1\nname: a\nseed: 1\ntarget: {device: sda}\nsmall: {repeats: 1}\nworkloads: [{name: w, type: dd, size: 1g, sync: none}]\n")
	plan, err := NewPlan(t.Context(), p, m.host(), PlanOptions{})
	require.NoError(t, err)
	assert.NotContains(t, strings.Join(plan.Warnings, "\n"), "memory", "said of all of it")
}
