package drive

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// SectorSize is the size of a logical block, the only one there is here.
const SectorSize = 512

// Order says which of the queued commands is carried out next.
type Order string

const (
	FirstCome Order = "first-come" // as they arrived
	Shortest  Order = "shortest"   // the shortest positioning time, less what a command has waited (Queue.Ageing)
	Badly     Order = "badly"      // the longest positioning time, with the same ageing
)

// Model is what a drive is made of. All times are the drive's own; Speed is for those who look at it from outside.
type Model struct {
	Name    string `yaml:"name"`
	Shows   string `yaml:"shows"`   // the published finding that it is built to show
	Vendor  string `yaml:"vendor"`  // at most 8 characters (SPC-4, INQUIRY)
	Product string `yaml:"product"` // at most 16 characters

	SizeMB    int64       `yaml:"size_mb"` // MiB
	Speed     float64     `yaml:"speed"`   // all times are divided by it: 1 is a real drive's
	RPM       float64     `yaml:"rpm"`
	Seek      Seek        `yaml:"seek"`
	Media     MediaRate   `yaml:"media"`
	Interface Interface   `yaml:"interface"`
	Queue     Queue       `yaml:"queue"`
	Write     WriteCache  `yaml:"write_cache"`
	Read      ReadAhead   `yaml:"read_ahead"`
	Caching   CachingPage `yaml:"caching_page"`
	Quirks    Quirks      `yaml:"quirks"`
}

// Seek is the seek curve, through three points of a data sheet.
type Seek struct {
	Track   time.Duration `yaml:"track"`   // to the next track
	Average time.Duration `yaml:"average"` // over a third of all tracks
	Full    time.Duration `yaml:"full"`    // over all of them
	Settle  time.Duration `yaml:"settle"`  // more, before writing on a track just reached
}

// MediaRate is what passes under the head in a second: zones of equal size, their rates falling evenly.
type MediaRate struct {
	Zones int     `yaml:"zones"`
	Outer float64 `yaml:"outer_mb_s"` // 10^6 byte/s; the lowest addresses
	Inner float64 `yaml:"inner_mb_s"`
}

// Interface is the cable, and the firmware at its end.
type Interface struct {
	Rate      float64       `yaml:"mb_s"`       // 10^6 byte/s
	Overhead  time.Duration `yaml:"overhead"`   // of each command
	LargestKB int64         `yaml:"largest_kb"` // KiB of a transfer, as its pages say; 0: no limit
}

// Queue is how commands that wait are handled.
type Queue struct {
	Tags       int           `yaml:"tags"` // taken at once; one more is answered TASK SET FULL
	Order      Order         `yaml:"order"`
	Ageing     float64       `yaml:"ageing"`     // milliseconds of positioning that a millisecond of waiting is worth
	Turnaround time.Duration `yaml:"turnaround"` // from the end of one command on the media to the start of the next
}

// WriteCache acknowledges writes early, and destages them in the order in which they came.
type WriteCache struct {
	KB int64 `yaml:"kb"` // KiB; 0: none
	On bool  `yaml:"on"` // as it comes from the factory
}

// ReadAhead is what the drive reads on by itself after a read, until it has something else to do.
type ReadAhead struct {
	KB       int64 `yaml:"kb"` // KiB; 0: none
	Segments int   `yaml:"segments"`
}

// CachingPage is how the caching mode page (SBC-3, page 08h) may be changed by an honest drive.
type CachingPage struct {
	Savable bool `yaml:"savable"` // PS: MODE SELECT may store the value for the next power-on
}

// ReadModel reads a model; where is its name in errors. Everything must be said: a default that nobody sees
// would be part of what a model shows.
func ReadModel(where string, r io.Reader) (Model, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return Model{}, fmt.Errorf("read %s: %w", where, err)
	}
	return Model{}.With(where, string(text))
}

// With is the model with some of it said anew, as in a model's file; where is for errors.
func (m Model) With(where, text string) (Model, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&m); err != nil && !errors.Is(err, io.EOF) {
		return Model{}, fmt.Errorf("%s: %w", where, err)
	}
	if err := m.check(); err != nil {
		return Model{}, fmt.Errorf("%s: %w", where, err)
	}
	return m, nil
}

// Sectors is the capacity.
func (m Model) Sectors() uint64 { return uint64(m.SizeMB) << 20 / SectorSize }

// Revolution is the time of one turn.
func (m Model) Revolution() time.Duration { return time.Duration(60 / m.RPM * float64(time.Second)) }

// check tells all that is wrong at once.
func (m Model) check() error {
	var wrong []error
	must := func(ok bool, format string, values ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, values...))
		}
	}
	must(m.Name != "", "name is empty")
	must(m.Shows != "", "shows is empty: say which published finding the model is built to show")
	must(len(m.Vendor) > 0 && len(m.Vendor) <= 8, "vendor %q must have 1 to 8 characters", m.Vendor)
	must(len(m.Product) > 0 && len(m.Product) <= 16, "product %q must have 1 to 16 characters", m.Product)
	must(m.SizeMB > 0, "size_mb %d must be above 0", m.SizeMB)
	must(m.Speed > 0, "speed %v must be above 0", m.Speed)
	must(m.RPM > 0, "rpm %v must be above 0", m.RPM)
	must(m.Media.Zones > 0 && m.Media.Outer >= m.Media.Inner && m.Media.Inner > 0,
		"media: %d zones of %v to %v MB/s: there must be one, and outer must not be below inner", m.Media.Zones, m.Media.Outer, m.Media.Inner)
	must(m.Interface.Rate > 0 && m.Interface.Overhead >= 0, "interface: mb_s %v must be above 0", m.Interface.Rate)
	must(m.Interface.LargestKB >= 0, "interface: largest_kb %d is below 0", m.Interface.LargestKB)
	must(m.Queue.Tags > 0, "queue: tags %d must be above 0", m.Queue.Tags)
	must(m.Queue.Order == FirstCome || m.Queue.Order == Shortest || m.Queue.Order == Badly,
		"queue: order %q must be first-come, shortest or badly", m.Queue.Order)
	must(m.Queue.Order == FirstCome || m.Queue.Ageing > 0, "queue: ageing %v must be above 0, or a command may wait for ever", m.Queue.Ageing)
	must(m.Queue.Turnaround >= 0 && m.Seek.Settle >= 0, "a time is below 0")
	must(m.Write.KB >= 0 && m.Read.KB >= 0, "a cache is smaller than nothing")
	must(!m.Write.On || m.Write.KB > 0, "write_cache: on, with no room")
	must(m.Read.KB == 0 || m.Read.Segments > 0, "read_ahead: segments %d must be above 0", m.Read.Segments)
	wrong = append(wrong, m.Quirks.check(m)...)
	if len(wrong) == 0 {
		must(newGeometry(m).tracks >= 4, "it has less than four tracks: larger size_mb, or a lower media rate")
	}
	if len(wrong) == 0 {
		must(newCurve(m.Seek, newGeometry(m).tracks).rising(),
			"seek: track %v, average %v, full %v give no curve that rises", m.Seek.Track, m.Seek.Average, m.Seek.Full)
	}
	return errors.Join(wrong...)
}

// sectorsOf rounds down.
func sectorsOf(kib int64) uint64 { return uint64(kib) * 1024 / SectorSize }

// seconds is a duration from a count of seconds, rounded to the nanosecond.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
