package sweep

import (
	"fmt"

	"qdsweep/sweep/results"
)

// DefaultMaxFailures is how many failed runs in a row end a target's part of the sweep when nobody says.
const DefaultMaxFailures = 5

// watchFailures gives a target up after so many failed runs in a row: what fails them will fail the rest of the night as well, and a run that is
// remaining can be resumed. A run that measured something ends the row; one that was skipped says nothing of the target.
func (s *Sweep) watchFailures(t *transaction) {
	h := t.at
	switch t.became {
	case results.OK, results.Suspect:
		h.failures = 0
		return
	case results.Skipped:
		return
	}
	h.failures++
	if limit := s.maxFailures(); h.failures >= limit {
		s.end(h, fmt.Sprintf("%s failed in a row (--max-failures %d), the last: %s", plural(h.failures, "run"), limit, t.why))
	}
}

func (s *Sweep) maxFailures() int {
	if s.opt.MaxFailures > 0 {
		return s.opt.MaxFailures
	}
	return DefaultMaxFailures
}
