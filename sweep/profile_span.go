package sweep

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"qdsweep/workload"
)

// maxLevels is how many levels a range may have; more is a slip of the keyboard.
const maxLevels = 10_000

// span reads a range: {from, to, times} multiplies, {from, to, step} adds, as long as the level is not above to. The
// bounds are levels of the axis, so that 4k is a bound of block_size.
func (r *profileReader) span(f field) []string {
	const allowed = "a range is {from: LEVEL, to: LEVEL, times: FACTOR} or {from: LEVEL, to: LEVEL, step: DIFFERENCE}"
	fields, ok := r.fields(f.value, f.name, allowed)
	if !ok {
		return nil
	}
	before := len(r.errs.Errors)
	part := map[string]int64{}
	node := map[string]*yaml.Node{}
	for _, one := range fields {
		switch one.name {
		case "from", "to":
			part[one.name] = r.bound(f.name, one)
		case "times", "step":
			part[one.name] = r.growth(f.name, one)
		default:
			r.unknown(one, "in a range", []string{"from", "to", "times", "step"})
			continue
		}
		node[one.name] = one.value
	}
	if len(r.errs.Errors) > before {
		return nil
	}
	times, multiplies := part["times"]
	step, adds := part["step"]
	if node["from"] == nil || node["to"] == nil || multiplies == adds {
		r.fail(at(f.value), f.name, "%s", allowed)
		return nil
	}
	from, to := part["from"], part["to"]
	if from > to {
		r.wrong(at(node["to"]), f.name, node["to"].Value, "the range ends (to) below its beginning (from: %s)", node["from"].Value)
		return nil
	}
	if multiplies && from == 0 {
		r.wrong(at(node["from"]), f.name, node["from"].Value, "0 times anything is 0; begin at 1 or write step")
		return nil
	}
	return r.spread(f, from, to, func(v int64) (int64, bool) {
		if multiplies {
			return v * times, v <= math.MaxInt64/times
		}
		return v + step, v <= math.MaxInt64-step
	})
}

// spread makes the levels of a range.
func (r *profileReader) spread(f field, from, to int64, next func(int64) (int64, bool)) []string {
	var levels []string
	for v, ok := from, true; ok && v <= to; v, ok = next(v) {
		if len(levels) == maxLevels {
			r.fail(at(f.value), f.name, "the range has more than %d levels", maxLevels)
			return nil
		}
		text := strconv.FormatInt(v, 10)
		level, err := r.canonical(f.name, text)
		if err != nil {
			r.wrong(at(f.value), f.name, text, "a level of this range: %s", levelText(err, f.name, text))
			return nil
		}
		r.place(f.name, level, at(f.value))
		levels = append(levels, level)
	}
	return levels
}

// bound is a level that is a number, in the axis's own unit (bytes for sizes).
func (r *profileReader) bound(axis string, f field) int64 {
	level, ok := r.level(axis, f.value)
	if !ok {
		return 0
	}
	n, ok := levelNumber(level)
	if !ok {
		r.wrong(at(f.value), axis, f.value.Value, "%s of a range is a number; list the levels of this axis", f.name)
	}
	return n
}

// levelNumber is a canonical level as a number: plain, or a size in bytes.
func levelNumber(level string) (int64, bool) {
	if n, ok := decimal(level); ok && n <= math.MaxInt64 {
		return int64(n), true
	}
	return workload.ParseSize(level)
}

// growth is the factor or difference of a range.
func (r *profileReader) growth(axis string, f field) int64 {
	low := int64(1)
	if f.name == "times" {
		low = 2
	}
	allowed := f.name + " is a plain decimal, at least " + strconv.FormatInt(low, 10)
	text, ok := r.scalar(f.value, axis, allowed)
	if !ok {
		return 0
	}
	n, ok := levelNumber(text)
	if !ok || n < low {
		r.wrong(at(f.value), axis, text, "%s", allowed)
	}
	return n
}

// span is a time as people write it: 30m, not 30m0s.
func span(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	return workload.FormatDuration(d)
}

// levelText is an error of a level without what the profile's error says anyway: the axis and the value.
func levelText(err error, axis, text string) string {
	var wrong workload.FieldError
	if errors.As(err, &wrong) {
		return fieldText(wrong)
	}
	said := err.Error()
	for _, prefix := range []string{axis + ": ", axis + " ", strconv.Quote(text) + ": ", strconv.Quote(text) + " "} {
		said = strings.TrimPrefix(said, prefix)
	}
	return said
}

// fieldText is what is wrong with one value of a workload, without its key and value.
func fieldText(e workload.FieldError) string {
	switch {
	case e.Reason == "":
		return "allowed: " + e.Allowed
	case e.Allowed == "":
		return e.Reason
	default:
		return e.Reason + "; allowed: " + e.Allowed
	}
}
