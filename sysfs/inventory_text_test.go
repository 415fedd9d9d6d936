package sysfs

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table fits the terminal: what gives way is first the longest texts, then headings, then whole columns, which are named.
func TestInventoryFits(t *testing.T) {
	disk := func(name, serial, refused string) Info {
		return Info{Name: name, Path: "/dev/" + name, Model: "ST1000NM0033-9ZM", Serial: serial, Driver: "ahci", Transport: "ata", SizeBytes: 1000204886016,
			Members: []string{name}, Refused: refused, UsedBy: []string{"/srv/a-long-mount-point", "md5"},
			Device: Device{Name: name, Kind: KindDisk, Model: "ST1000NM0033-9ZM", Identity: "wwid:naa.5000c50000000001"},
			Knobs: map[string]KnobState{
				"queue_depth":    {Value: "32", Writable: true, Allowed: Allowed{Min: 1, Max: 32}},
				"write_cache":    {Value: "off", Writable: true, Allowed: Allowed{Levels: []string{"off", "on"}}},
				"max_sectors_kb": {Value: "1280", Writable: true, Allowed: Allowed{Min: 4, Max: 32767}},
			}}
	}
	infos := []Info{disk("sda", "Z1W0AAAAAAAAAAAA", ""), disk("sdb", "Z1W0B", "sdb is mounted on /srv/a-long-mount-point; a process has it open for writing")}
	for _, c := range []struct {
		width   int
		heading string
		without string
	}{
		{0, "MAX_SECTORS_KB", ""},
		{130, "MAX_SECTORS_KB", ""},
		{100, "MAX_KB", "serial"},
		{80, "MAX_KB", "serial, by"},
		{60, "MAX_KB", "serial, by, model, used by"},
	} {
		t.Run(fmt.Sprint(c.width), func(t *testing.T) {
			var b strings.Builder
			require.NoError(t, WriteInventory(&b, infos, c.width, false))
			table, hints, _ := strings.Cut(b.String(), "\n\nEverything")
			require.NotEmpty(t, hints)
			for line := range strings.Lines(table) {
				line = strings.TrimSuffix(line, "\n")
				assert.True(t, c.width == 0 || utf8.RuneCountInString(line) <= c.width, line)
			}
			assert.Contains(t, table, c.heading)
			if c.without == "" {
				assert.NotContains(t, table, "Too narrow")
			} else {
				assert.Contains(t, table, "Too narrow for "+c.without)
			}
			assert.Contains(t, table, "32 of 1-32")
		})
	}
}
