package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The strict forms of values. The kernel and most tools read 010 as 8, 0x10 as 16 and "8 " as 8; what a
// person meant by them is unknown, so they are refused.

func choice(p Param, field func(*Spec) *string, values ...string) Param {
	p.Allowed = strings.Join(values, ", ")
	p.set = func(s *Spec, v string) bool {
		if !slices.Contains(values, v) {
			return false
		}
		*field(s) = v
		return true
	}
	p.get = func(s Spec) string { return *field(&s) }
	return p
}

func size(p Param, field func(*Spec) *int64, lowest, highest, multiple int64) Param {
	p.Allowed = fmt.Sprintf("%s to %s, as 512, 4k, 1m or 10g", FormatSize(lowest), FormatSize(highest))
	if multiple > 1 {
		p.Allowed += fmt.Sprintf(", a multiple of %d", multiple)
	}
	p.set = func(s *Spec, v string) bool {
		n, ok := ParseSize(v)
		if !ok || n < lowest || n > highest || n%multiple != 0 {
			return false
		}
		*field(s) = n
		return true
	}
	p.get = func(s Spec) string {
		if n := *field(&s); n > 0 {
			return FormatSize(n)
		}
		return ""
	}
	return p
}

// powerOfTwo is a size that divides every larger one of its kind.
func powerOfTwo(p Param, field func(*Spec) *int64, lowest, highest int64) Param {
	p = size(p, field, lowest, highest, lowest)
	p.Allowed = fmt.Sprintf("a power of two from %s to %s", FormatSize(lowest), FormatSize(highest))
	any := p.set
	p.set = func(s *Spec, v string) bool {
		n := *field(s)
		if any(s, v) && *field(s)&(*field(s)-1) == 0 {
			return true
		}
		*field(s) = n
		return false
	}
	return p
}

// sizeOrNone is a size that may be 0.
func sizeOrNone(p Param, field func(*Spec) *int64, highest int64) Param {
	p = size(p, field, 0, highest, 1)
	p.Allowed = fmt.Sprintf("0 to %s, as 16, 4k or 1m", FormatSize(highest))
	p.get = func(s Spec) string { return FormatSize(*field(&s)) }
	return p
}

func phases(p Param, field func(*Spec) *string) Param {
	p.Allowed = allPhases + ", or some of " + strings.Join(BonniePhases(), " ") + ", in this order"
	p.set = func(s *Spec, v string) (ok bool) {
		text, ok := parsePhases(v)
		if ok {
			*field(s) = text
		}
		return ok
	}
	p.get = func(s Spec) string { return *field(&s) }
	return p
}

func number(p Param, field func(*Spec) *int, lowest, highest int) Param {
	p.Allowed = fmt.Sprintf("%d to %d, plain decimal", lowest, highest)
	p.set = func(s *Spec, v string) bool {
		n, ok := parseNumber(v)
		if !ok || n < int64(lowest) || n > int64(highest) {
			return false
		}
		*field(s) = int(n)
		return true
	}
	p.get = func(s Spec) string {
		if n := *field(&s); n >= lowest {
			return strconv.Itoa(n)
		}
		return "" // regions left to the threads
	}
	return p
}

func percent(p Param, field func(*Spec) *int) Param { return number(p, field, 0, 100) }

func boolean(p Param, field func(*Spec) *bool) Param {
	p.Allowed = "true or false (also yes or no, on or off, 1 or 0)"
	p.set = func(s *Spec, v string) bool {
		switch v {
		case "true", "yes", "on", "1":
			*field(s) = true
		case "false", "no", "off", "0":
			*field(s) = false
		default:
			return false
		}
		return true
	}
	p.get = func(s Spec) string { return strconv.FormatBool(*field(&s)) }
	return p
}

func duration(p Param, field func(*Spec) *time.Duration) Param {
	p.Allowed = "as 500ms, 30s, 5m or 1h30m, up to 720h"
	p.set = func(s *Spec, v string) bool {
		d, ok := ParseDuration(v)
		if !ok || d > 720*time.Hour {
			return false
		}
		*field(s) = d
		return true
	}
	p.get = func(s Spec) string { return FormatDuration(*field(&s)) }
	return p
}

func parseNumber(v string) (int64, bool) {
	if v == "" || len(v) > 18 || v[0] == '0' && v != "0" {
		return 0, false
	}
	for _, c := range []byte(v) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(v, 10, 64)
	return n, err == nil
}

// ParseSize reads bytes as 512, 4k, 1m, 10g or 2t (upper case too), k being 1024.
func ParseSize(v string) (int64, bool) {
	shift := 0
	if v != "" {
		if i := strings.IndexByte("kmgt", v[len(v)-1]|0x20); i >= 0 {
			shift = 10 * (i + 1)
			v = v[:len(v)-1]
		}
	}
	n, ok := parseNumber(v)
	if !ok || n > (1<<62)>>shift {
		return 0, false
	}
	return n << shift, true
}

// FormatSize is the canonical text of a size: the largest unit that keeps it whole.
func FormatSize(n int64) string {
	if n <= 0 {
		return strconv.FormatInt(n, 10)
	}
	unit := ""
	for _, u := range []string{"k", "m", "g", "t"} {
		if n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}

// ParseDuration reads a duration with its unit; 0 needs none.
func ParseDuration(v string) (time.Duration, bool) {
	if v == "0" {
		return 0, true
	}
	form := regexp.MustCompile(`^([0-9]{1,6}h)?([0-9]{1,8}m)?([0-9]{1,9}(\.[0-9]{1,9})?s)?([0-9]{1,9}ms)?([0-9]{1,9}us)?$`)
	if v == "" || !form.MatchString(v) {
		return 0, false
	}
	d, err := time.ParseDuration(v)
	return d, err == nil
}

// FormatDuration is the canonical text of a duration: 90s is 1m30s, 30m0s is 30m.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return strings.ReplaceAll(text, "µs", "us")
}
