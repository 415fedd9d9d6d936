package sweep

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

const (
	repeatsAllowed   = "the number of replicates is a plain decimal, 1 to %d, or {min: 6, max: 20, precision: 2%%}"
	precisionAllowed = "half the width of the 95 % interval of a mean, in per cent, 0.1% to 50%, such as 2%"
)

// repeats reads how many replicates there are: a number, or the fewest and the most of them with the precision that is enough.
func (r *profileReader) repeats(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		r.adaptive(n)
		return
	}
	text, ok := r.scalar(n, "repeats", fmt.Sprintf(repeatsAllowed, maxRepeats))
	if !ok {
		return
	}
	count, ok := decimal(text)
	if !ok || count < 1 || count > maxRepeats {
		r.wrong(at(n), "repeats", text, repeatsAllowed, maxRepeats)
		return
	}
	r.p.Repeats, r.p.RepeatsMin, r.p.Precision = int(count), 0, 0
}

// adaptive reads {min, max, precision}.
func (r *profileReader) adaptive(n *yaml.Node) {
	const allowed = "{min: 6, max: 20, precision: 2%}, all three of them"
	fields, _ := r.fields(n, "repeats", allowed)
	before := len(r.errs.Errors)
	place := map[string]field{}
	for _, f := range fields {
		switch f.name {
		case "min":
			r.p.RepeatsMin = r.replicates(f, 2) // one alone says nothing of the spread
		case "max":
			r.p.Repeats = r.replicates(f, 2)
		case "precision":
			r.p.Precision = r.precision(f.value)
		default:
			r.unknown(f, "in repeats", []string{"min", "max", "precision"})
		}
		place[f.name] = f
	}
	if len(r.errs.Errors) > before {
		return
	}
	for _, key := range []string{"min", "max", "precision"} {
		if place[key].value == nil {
			r.fail(at(n), "repeats", "%s is missing; write %s", key, allowed)
		}
	}
	if len(r.errs.Errors) == before && r.p.RepeatsMin > r.p.Repeats {
		r.wrong(at(place["max"].value), "max", place["max"].value.Value, "below min, which is %d", r.p.RepeatsMin)
	}
}

func (r *profileReader) replicates(f field, least uint64) int {
	allowed := fmt.Sprintf("a number of replicates, a plain decimal, %d to %d", least, maxRepeats)
	text, ok := r.scalar(f.value, f.name, allowed)
	if !ok {
		return 0
	}
	count, ok := decimal(text)
	if !ok || count < least || count > maxRepeats {
		r.wrong(at(f.value), f.name, text, "%s", allowed)
		return 0
	}
	return int(count)
}

var percentText = regexp.MustCompile(`^([0-9]{1,2}(?:\.[0-9]{1,2})?) ?%$`)

// precision reads a share in per cent. A bare number is refused: 2 could be 2 % or 200 %, 0.02 the one or the hundredth of it.
func (r *profileReader) precision(n *yaml.Node) float64 {
	text, ok := r.scalar(n, "precision", precisionAllowed)
	if !ok {
		return 0
	}
	m := percentText.FindStringSubmatch(text)
	if m == nil {
		r.wrong(at(n), "precision", text, "%s", precisionAllowed)
		return 0
	}
	percent, err := strconv.ParseFloat(m[1], 64)
	if err != nil || percent < 0.1 || percent > 50 {
		r.wrong(at(n), "precision", text, "%s", precisionAllowed)
	}
	return percent / 100
}

// Adaptive says that the sweep ends when what it measures is known well enough.
func (p *Profile) Adaptive() bool { return p.RepeatsMin > 0 }

// RepeatsText is how a profile says its replicates.
func (p *Profile) RepeatsText() string {
	if !p.Adaptive() {
		return strconv.Itoa(p.Repeats)
	}
	return fmt.Sprintf("{min: %d, max: %d, precision: %s}", p.RepeatsMin, p.Repeats, percentOf(p.Precision))
}

// percentOf is a share as 2%.
func percentOf(share float64) string { return strconv.FormatFloat(100*share, 'g', 4, 64) + "%" }

const (
	shortestDeadline = time.Second
	longestDeadline  = 31 * 24 * time.Hour
)

// until reads the time of day by which the sweep ends.
func (r *profileReader) until(n *yaml.Node) {
	text, ok := r.scalar(n, "until", clockAllowed)
	if !ok {
		return
	}
	if r.p.Until, ok = parseClock(text); !ok {
		r.wrong(at(n), "until", text, "%s", clockAllowed)
	}
}

// parseRepeats is what --repeats says, in the words of the profile's key.
func (p *Profile) parseRepeats(text string) error {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) != 1 {
		return fmt.Errorf("--repeats %s: %s", text, fmt.Sprintf(repeatsAllowed, maxRepeats))
	}
	read := newProfileReader("", nil)
	read.plainYAML(document.Content[0])
	read.repeats(document.Content[0])
	var errs []error
	for _, e := range read.errs.Errors {
		said := e.Allowed
		if e.HasValue && e.Value != text {
			said = fmt.Sprintf("%s %q: %s", e.Key, e.Value, said)
		}
		errs = append(errs, fmt.Errorf("--repeats %s: %s", text, said))
	}
	if len(errs) == 0 && read.p.Repeats > maxRuns/max(p.Matrix.Count(), 1) {
		errs = append(errs, fmt.Errorf("--repeats %s: 1 to %d replicates, and at most %d runs", text, maxRepeats, maxRuns))
	}
	p.Repeats, p.RepeatsMin, p.Precision = read.p.Repeats, read.p.RepeatsMin, read.p.Precision
	return errors.Join(errs...)
}

// parseEnd is what --deadline and --until say. Each takes the place of either in the profile.
func (p *Profile) parseEnd(deadline time.Duration, until string) error {
	switch {
	case deadline != 0 && until != "":
		return errors.New("--deadline and --until: a sweep ends by one of them; leave one out")
	case deadline != 0:
		if deadline < shortestDeadline || deadline > longestDeadline {
			return fmt.Errorf("--deadline %s: %s to %s from the start", deadline, span(shortestDeadline), span(longestDeadline))
		}
		p.Deadline, p.Until = deadline, Clock{}
	case until != "":
		clock, ok := parseClock(until)
		if !ok {
			return fmt.Errorf("--until %s: %s", strings.TrimSpace(until), clockAllowed)
		}
		p.Deadline, p.Until = 0, clock
	}
	return nil
}
