package sweep

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/profiles"
	"qdsweep/sysfs/systest"
)

// published are the profiles of published experiments, with what a user puts in for a target, and the consents that needs.
func published() map[string]struct {
	edit  []string // of the shipped text: old, new
	over  Overrides
	erase []string
	cells int // at the published scale
} {
	type user = struct {
		edit  []string
		over  Overrides
		erase []string
		cells int
	}
	return map[string]user{
		"bonnie-2007": {cells: 6},
		"tagged-depth-1999": {
			edit:  []string{"/dev/disk/by-id/ata-EXAMPLE-1", "/dev/sda", "/dev/disk/by-id/ata-EXAMPLE-2", "/dev/sdb"},
			erase: []string{"/dev/sda", "/dev/sdb"}, cells: 2*7 - 1,
		},
		"max-sectors-2007":    {over: Overrides{Directory: "/mnt/disk"}, cells: 5},
		"sgpdd-2008":          {over: Overrides{Device: "sda"}, erase: []string{"sda"}, cells: 2 * 4 * (4 + 3 + 2 + 1)},
		"threads-2007":        {over: Overrides{Device: "sda"}, erase: []string{"sda"}, cells: 3 * (3 + 3*3)},
		"wcache-tagging-1999": {over: Overrides{Directory: "/mnt/disk"}, cells: 8},
	}
}

// publishedMachine has two free disks, a mounted one, and the arrays of 2007 on partitions of four others, mounted where the profiles have them.
func publishedMachine(t *testing.T) *systest.Machine {
	t.Helper()
	var parts []systest.Part
	for i, name := range []string{"sda", "sdb", "sdc", "sdd", "sde", "sdf", "sdg"} {
		parts = append(parts, systest.Disk{Name: name, Bytes: 400e9, Model: "DISK400SATA", Serial: fmt.Sprintf("S%d", i), WWID: fmt.Sprintf("naa.500%d", i), WriteCache: true})
	}
	m := systest.New(t, parts...)
	const gib = 1 << 30
	var first, last []string
	for _, name := range []string{"sdc", "sdd", "sde", "sdf"} {
		first = append(first, m.Partition(name, 1, 1<<20, 50*gib))
		last = append(last, m.Partition(name, 2, 60*gib, 250*gib))
	}
	m.MD("md5", "raid5", last...)
	m.MD("md10", "raid10", first...)
	m.Mount("sdg", "/mnt/disk", "ext4")
	m.Set("/proc/meminfo", "MemTotal: 131072 kB\n") // as the machine of 1999 had
	m.Mount("md5", "/mnt/raid5", "ext4")
	m.Mount("md10", "/mnt/raid10", "ext4")
	return m
}

// Every published experiment can be planned on a machine that has what it needs, whole and at small scale.
func TestPublishedProfilesPlan(t *testing.T) {
	m := publishedMachine(t)
	all := published()
	for _, name := range profiles.Names() {
		text, err := profiles.Open(name)
		require.NoError(t, err)
		user, isPublished := all[name]
		if p := read(t, string(text)); !isPublished {
			if p.Small != nil {
				tryPlans(t, name, string(text))
			}
			continue
		}
		page := "docs/experiments/" + name + ".md"
		assert.FileExists(t, "../"+page)
		assert.Contains(t, string(text), page)
		for _, scale := range []string{"", SmallScale} {
			t.Run(strings.TrimSuffix(name+"-"+scale, "-"), func(t *testing.T) {
				p := read(t, strings.NewReplacer(user.edit...).Replace(string(text)))
				assert.Equal(t, name, p.Name)
				assert.Empty(t, p.Warnings)
				assert.True(t, p.SeedGiven, "two that run it run the same order")
				over := user.over
				over.Scale = scale
				require.NoError(t, p.Override(over))
				options := PlanOptions{Erase: user.erase}
				plan, err := NewPlan(t.Context(), p, m.Host(), options)
				require.NoError(t, err)
				require.NoError(t, plan.Judge(t.Context(), m.Host(), options))
				assert.Empty(t, plan.Refused)
				assert.True(t, plan.Writes())
				for _, s := range p.Workloads {
					assert.NotEqual(t, "auto", s.Engine, "two that run it use the same engine")
				}
				again, err := ReadProfile("again.yaml", bytes.NewReader(plan.Profile.YAML()))
				require.NoError(t, err)
				replanned, err := NewPlan(t.Context(), again, m.Host(), options)
				require.NoError(t, err)
				assert.Equal(t, runIDs(plan.Profile), runIDs(replanned.Profile))
				for _, w := range plan.Warnings {
					assert.NotContains(t, w, "page cache", "with the memory of then the sizes were enough")
				}
				whole, _ := plan.Estimate()
				if scale == "" {
					assert.Equal(t, user.cells*p.Repeats, plan.Count())
					assert.Greater(t, whole, 5*time.Minute, "the published scale")
				} else {
					assert.Less(t, whole, 4*time.Minute, "of which making file systems on 400 GB is the most")
					assert.Equal(t, name+"-small", p.Name)
				}
				t.Logf("%d runs, %v; %s", plan.Count(), whole.Round(time.Second), strings.Join(plan.Warnings, "; "))
			})
		}
	}
}

// The small scale of a profile that is no published experiment takes a minute at most, on one drive, and reads only.
func tryPlans(t *testing.T, name, text string) {
	t.Run(name+"-small", func(t *testing.T) {
		m := systest.New(t, systest.Disk{Name: "sda", Bytes: 400e9, WriteCache: true})
		p := read(t, text)
		require.NoError(t, p.Override(Overrides{Scale: SmallScale, Device: "sda"}))
		plan, err := NewPlan(t.Context(), p, m.Host(), PlanOptions{})
		require.NoError(t, err)
		require.NoError(t, plan.Judge(t.Context(), m.Host(), PlanOptions{}))
		assert.Empty(t, plan.Refused)
		assert.False(t, plan.Writes())
		whole, _ := plan.Estimate()
		assert.LessOrEqual(t, whole, time.Minute)
		assert.GreaterOrEqual(t, plan.Count(), 2)
	})
}

// A night is tried with a profile that has a small scale: docs/overnight.md begins with it.
func TestProfilesOfTheDrivesSettingsHaveASmallScale(t *testing.T) {
	for _, name := range []string{"depth-ladder", "ncq-on-off"} {
		text, err := profiles.Open(name)
		require.NoError(t, err)
		assert.NotNil(t, read(t, string(text)).Small, name)
	}
}
