package sysfs

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Allowed is what a knob can be set to on a device: one of Levels, or, where there are none, Min to
// Max. Max 0 with no levels: nothing.
type Allowed struct {
	Min, Max int
	Levels   []string
	Writable bool
	Reason   string // why it is narrower than one would think, or not writable; "" fine
}

// MarshalJSON gives {"min":…,"max":…}, {"levels":[…]}, or {} for nothing.
func (a Allowed) MarshalJSON() ([]byte, error) {
	switch {
	case a.Levels != nil:
		return json.Marshal(struct {
			Levels []string `json:"levels"`
		}{a.Levels})
	case a.Max == 0 && a.Min == 0:
		return []byte("{}"), nil
	}
	return json.Marshal(struct {
		Min int `json:"min"`
		Max int `json:"max"`
	}{a.Min, a.Max})
}

// Has says whether a canonical level is allowed.
func (a Allowed) Has(level string) bool {
	if a.Levels != nil {
		return slices.Contains(a.Levels, level)
	}
	n, err := strconv.Atoi(level)
	return err == nil && n >= a.Min && n <= a.Max
}

func (a Allowed) String() string {
	switch {
	case a.Levels != nil:
		return strings.Join(a.Levels, ", ")
	case a.Min == a.Max:
		return strconv.Itoa(a.Min)
	}
	return fmt.Sprintf("%d to %d", a.Min, a.Max)
}

// unsupported is ErrUnsupported with a reason for people.
type unsupported struct{ reason string }

func (u *unsupported) Error() string        { return u.reason }
func (u *unsupported) Is(target error) bool { return target == ErrUnsupported }

func notSupported(format string, a ...any) error {
	return &unsupported{fmt.Sprintf(format, a...)}
}

// writableAttribute says whether the kernel lets root write an attribute. Its mode decides, and not
// access(2): root is told yes there, and EACCES by the write.
func (d Device) writableAttribute(relative string) (exists, writable bool, err error) {
	info, err := os.Stat(d.host.path(d.dir + "/" + relative))
	switch {
	case err == nil:
		return true, info.Mode()&0o200 != 0, nil
	case os.IsNotExist(err):
		return false, false, nil
	}
	return false, false, &fs.PathError{Op: "stat", Path: d.dir + "/" + relative, Err: err}
}
