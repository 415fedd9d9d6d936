package sweep

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
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
}

func (s *Sweep) event(e Event) {
	e.Audit = s.audit
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

// Status is status.json: how far a sweep is, replaced as a whole each second.
type Status struct {
	Sweep     string    `json:"sweep"`
	PID       int       `json:"pid"`
	Profile   string    `json:"profile"`
	State     string    `json:"state"` // running, or ended
	Started   time.Time `json:"started"`
	Updated   time.Time `json:"updated"`
	Planned   int       `json:"planned"`
	OK        int       `json:"ok"`
	Failed    int       `json:"failed"`
	Suspect   int       `json:"suspect"`
	Skipped   int       `json:"skipped"`
	Remaining int       `json:"remaining"`
	Run       string    `json:"run,omitempty"`   // the one going on
	Index     int       `json:"index,omitempty"` // its place in the plan, from 1
	Phase     string    `json:"phase,omitempty"`
	Last      string    `json:"last,omitempty"` // the last note, or reason of a run that is not ok
}

// statusFile keeps status.json fresh. A nil one does nothing, for a sweep that was refused before it had a folder.
type statusFile struct {
	mu     sync.Mutex
	folder folder
	now    Status
	quit   chan struct{}
	done   chan struct{}
	once   sync.Once
}

func startStatus(s *Sweep) *statusFile {
	f := &statusFile{folder: s.out, quit: make(chan struct{}), done: make(chan struct{}), now: Status{Sweep: s.id, PID: os.Getpid(), Profile: s.plan.Profile.Name,
		State: "running", Started: time.Now(), Planned: s.audit.Planned, Remaining: s.audit.Planned}}
	f.write()
	go func() {
		defer close(f.done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-f.quit:
				return
			case <-tick.C:
				f.write()
			}
		}
	}()
	return f
}

func (f *statusFile) update(e Event) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, a := &f.now, e.Audit
	n.OK, n.Failed, n.Suspect, n.Skipped = a.OK, a.Failed, a.Suspect, a.Skipped
	n.Remaining = a.Planned - a.OK - a.Failed - a.Suspect - a.Skipped
	switch e.Kind {
	case RunBegan:
		n.Run, n.Index, n.Phase = e.Run.ID, e.Run.Index, ""
	case PhaseBegan:
		n.Phase = e.Phase
	case Note:
		n.Last = e.Text
	case RunEnded, RunAbandoned:
		n.Run, n.Index, n.Phase = "", 0, ""
		if e.Reason != "" {
			n.Last = e.Reason
		}
	}
}

// write replaces the file. A full disk is no reason to stop: the rows' own append says so.
func (f *statusFile) write() {
	f.mu.Lock()
	f.now.Updated = time.Now()
	b, err := json.MarshalIndent(f.now, "", "  ")
	f.mu.Unlock()
	if err == nil {
		_ = f.folder.replace("status.json", append(b, '\n'), 0o644, false)
	}
}

func (f *statusFile) stop() {
	if f == nil {
		return
	}
	f.once.Do(func() {
		close(f.quit)
		select {
		case <-f.done:
		case <-time.After(lateClose): // its disk does not answer
			return
		}
		f.mu.Lock()
		f.now.State = "ended"
		f.mu.Unlock()
		f.write()
	})
}
