package sweep

import (
	"fmt"
	"time"

	"qdsweep/sweep/results"
)

// EventKind says what an Event tells.
type EventKind string

// What a sweep tells while it goes on.
const (
	Began        EventKind = "sweep began"
	RunBegan     EventKind = "run began"
	PhaseBegan   EventKind = "phase"
	RunEnded     EventKind = "run ended"
	RunAbandoned EventKind = "run abandoned"
	Note         EventKind = "note"
)

// Event is one thing that happened, for a progress display, the log and status.json.
type Event struct {
	Kind    EventKind
	Run     Run
	Phase   string // of PhaseBegan: settle, a workload's name, of one of several phases each as "name: phase", drain or restore
	Rows    []results.Row
	Reason  string
	Text    string // of Note
	Started time.Time
	Took    time.Duration // of RunEnded
	Audit   results.Audit // so far
	Again   int           // runs that have rows and are to be repeated yet
	Left    time.Duration // that the rest takes, by the estimate so far; below 0: unknown
}

func (s *Sweep) event(e Event) {
	s.step()
	s.clock(e)
	e.Audit, e.Again, e.Left = s.tally(), s.repeats, s.timeLeft()
	line := s.log.Info().Str("event", string(e.Kind))
	if e.Run.ID != "" {
		line = line.Str("run", e.Run.ID)
	}
	switch e.Kind {
	case PhaseBegan:
		line = line.Str("phase", e.Phase)
	case RunEnded:
		line = line.Str("status", results.RunStatus(e.Rows)).Dur("took_ms", e.Took)
		for _, r := range e.Rows {
			if r.Reason != "" {
				line = line.Str("reason", r.Reason)
				break
			}
		}
	case RunAbandoned:
		line = line.Str("reason", e.Reason)
	case Note:
		line = line.Str("text", e.Text)
	}
	line.Send()
	s.status.update(e)
	if s.opt.Observe != nil {
		s.opt.Observe(e)
	}
}

func (s *Sweep) note(format string, a ...any) {
	s.event(Event{Kind: Note, Text: fmt.Sprintf(format, a...)})
}
