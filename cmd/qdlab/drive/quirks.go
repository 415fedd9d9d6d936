package drive

import (
	"fmt"
	"strings"
)

// Quirks are misbehaviours of real drives, a switch each. The zero value is a drive that behaves.
type Quirks struct {
	ModeSelect        ModeSelect  `yaml:"mode_select"`         // of the caching page
	TaggedWrites      SlowWrites  `yaml:"tagged_writes"`       // more tags make writes slower (a disk of 1999)
	TagsDefeatCache   bool        `yaml:"tags_defeat_cache"`   // a write that comes while others are outstanding is not cached (1999, the 2 × 2)
	LargestTransferKB int64       `yaml:"largest_transfer_kb"` // larger ones are refused, which no page says; 0: any
	QueueFullOver     int         `yaml:"queue_full_over"`     // TASK SET FULL over so many commands; 0: over the tags
	BusyOver          int         `yaml:"busy_over"`           // BUSY over so many: the depth stays, and is not used
	BadSectors        []BadSector `yaml:"bad_sectors"`
	HangAt            []uint64    `yaml:"hang_at"`   // commands that touch these sectors never come back
	NoSerial          bool        `yaml:"no_serial"` // neither page 80h nor 83h: no identity
}

// ModeSelect is what becomes of a MODE SELECT of the caching page.
type ModeSelect string

const (
	Honoured ModeSelect = ""        // does what it says
	Ignored  ModeSelect = "ignored" // answers success, and changes nothing
	Refused  ModeSelect = "refused" // answers an error, even for the value it has (RAID adapters)
)

// SlowWrites takes data of writes at MBs while From commands and more are outstanding.
type SlowWrites struct {
	From int     `yaml:"from"` // 0: never
	MBs  float64 `yaml:"mb_s"`
}

// BadSector cannot be read, or not be written.
type BadSector struct {
	LBA   uint64 `yaml:"lba"`
	Write bool   `yaml:"write"` // writes fail; else reads
}

func (q Quirks) check(m Model) []error {
	var wrong []error
	if q.ModeSelect != Honoured && q.ModeSelect != Ignored && q.ModeSelect != Refused {
		wrong = append(wrong, fmt.Errorf("quirks: mode_select %q must be ignored, refused or left out", q.ModeSelect))
	}
	if q.TaggedWrites.From < 0 || (q.TaggedWrites.From > 0) != (q.TaggedWrites.MBs > 0) {
		wrong = append(wrong, fmt.Errorf("quirks: tagged_writes needs both from and mb_s, above 0"))
	}
	if q.LargestTransferKB < 0 || q.QueueFullOver < 0 || q.BusyOver < 0 {
		wrong = append(wrong, fmt.Errorf("quirks: a limit is below 0"))
	}
	for _, bad := range q.BadSectors {
		if bad.LBA >= m.Sectors() {
			wrong = append(wrong, fmt.Errorf("quirks: bad sector %d is behind the last, %d", bad.LBA, m.Sectors()-1))
		}
	}
	for _, lba := range q.HangAt {
		if lba >= m.Sectors() {
			wrong = append(wrong, fmt.Errorf("quirks: hang_at %d is behind the last sector, %d", lba, m.Sectors()-1))
		}
	}
	return wrong
}

// String lists the switches that are on, "none" if none is.
func (q Quirks) String() string {
	var on []string
	add := func(is bool, format string, values ...any) {
		if is {
			on = append(on, fmt.Sprintf(format, values...))
		}
	}
	add(q.ModeSelect != Honoured, "MODE SELECT is %s", q.ModeSelect)
	add(q.TaggedWrites.From > 0, "writes at %v MB/s from %d tags on", q.TaggedWrites.MBs, q.TaggedWrites.From)
	add(q.TagsDefeatCache, "tags defeat the write cache")
	add(q.LargestTransferKB > 0, "transfers over %d KiB are refused", q.LargestTransferKB)
	add(q.QueueFullOver > 0, "TASK SET FULL over %d commands", q.QueueFullOver)
	add(q.BusyOver > 0, "BUSY over %d commands", q.BusyOver)
	add(len(q.BadSectors) > 0, "%d bad sectors", len(q.BadSectors))
	add(len(q.HangAt) > 0, "%d sectors that hang", len(q.HangAt))
	add(q.NoSerial, "no serial number")
	if len(on) == 0 {
		return "none"
	}
	return strings.Join(on, ", ")
}
