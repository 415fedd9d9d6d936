package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sweep/keeper"
	"qdsweep/sweep/results"
)

// StatusFile is the file of an output folder that says how far its sweep is.
const StatusFile = "status.json"

// The states of a sweep. In status.json it is running or ended; the others are what a reader finds out.
const (
	Running = "running"
	Ended   = "ended"
	Died    = "died"    // its process is gone, and did not end it
	Unknown = "unknown" // it is another machine's or container's, and has not been heard of for a while
)

// Status is status.json: how far a sweep is, replaced as a whole each second. Everything that tells of a sweep from outside takes its words from it.
type Status struct {
	Sweep   string `json:"sweep"`
	Profile string `json:"profile"`
	State   string `json:"state"`

	// Which process it is, or was: a number alone says nothing after a reboot, or in another container.
	Host     string `json:"host"`
	PID      int    `json:"pid"`
	Since    string `json:"since"` // when that was started: clock ticks since the boot
	BootID   string `json:"boot_id"`
	PIDSpace string `json:"pid_namespace"`
	StateDir string `json:"state_dir"`

	Started time.Time `json:"started"` // this start's; a resumed sweep has begun before
	Updated time.Time `json:"updated"`

	Planned   int `json:"planned"`
	OK        int `json:"ok"`
	Failed    int `json:"failed"`
	Suspect   int `json:"suspect"`
	Skipped   int `json:"skipped"`
	Remaining int `json:"remaining"`

	Run        string     `json:"run,omitempty"`         // the one going on
	Index      int        `json:"index,omitempty"`       // its place in the plan, from 1
	Phase      string     `json:"phase,omitempty"`       // what is going on, as Event.Phase has it
	RunStarted *time.Time `json:"run_started,omitempty"` // of the one going on
	Before     *RunBefore `json:"last_run,omitempty"`    // the last one that has rows
	Left       *float64   `json:"left_s,omitempty"`      // how long the rest takes, s; nil: not known
	Last       string     `json:"last,omitempty"`        // the last note, or reason of a run that is not ok

	// Of one that has ended.
	Stopped string `json:"stopped,omitempty"` // why before its last run
	Exit    *int   `json:"exit,omitempty"`
	Next    string `json:"next,omitempty"` // what to type
}

// RunBefore is a run that is over, with its figures.
type RunBefore struct {
	Run     string        `json:"run"`
	Status  string        `json:"status"`
	Reason  string        `json:"reason,omitempty"`
	Seconds float64       `json:"took_s"`
	Phases  []PhaseBefore `json:"phases,omitempty"`
}

// PhaseBefore is one phase of it. What was not measured is nil.
type PhaseBefore struct {
	Workload string   `json:"workload"`
	Phase    string   `json:"phase"`
	MBPerS   *float64 `json:"mb_per_s,omitempty"`
	IOPS     *float64 `json:"iops,omitempty"`
}

// statusEvery is how often status.json is replaced.
const statusEvery = time.Second

// statusFile keeps status.json fresh. A nil one does nothing, for a sweep that was refused before it had a folder.
type statusFile struct {
	folder folder

	mu   sync.Mutex
	now  Status
	left time.Duration // at the time of leftAt; < 0: not known
	at   time.Time

	writing sync.Mutex
	quit    chan struct{}
	done    chan struct{}
	once    sync.Once
}

func startStatus(s *Sweep) *statusFile {
	f := &statusFile{folder: s.out, quit: make(chan struct{}), done: make(chan struct{}), left: -1, now: Status{
		Sweep: s.id, Profile: s.profile.Name, State: Running, Host: s.hostname, PID: os.Getpid(), PIDSpace: pidSpace(), StateDir: s.opt.StateDir, Started: time.Now()}}
	f.now.take(s.audit)
	f.now.Since, _ = keeper.Since(os.Getpid()) // without them a reader goes by Updated
	f.now.BootID, _ = s.host.BootID()
	f.write()
	go func() {
		defer close(f.done)
		tick := time.NewTicker(statusEvery)
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

// pidSpace names the PID namespace that this process is in, "" where that cannot be seen.
func pidSpace() string {
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return space
}

func (n *Status) take(a results.Audit) {
	n.Planned, n.OK, n.Failed, n.Suspect, n.Skipped = a.Planned, a.OK, a.Failed, a.Suspect, a.Skipped
	n.Remaining = a.Planned - a.OK - a.Failed - a.Suspect - a.Skipped
}

func (f *statusFile) update(e Event) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := &f.now
	n.take(e.Audit)
	f.left, f.at = e.Left, time.Now()
	switch e.Kind {
	case RunBegan:
		n.Run, n.Index, n.Phase, n.RunStarted = e.Run.ID, e.Run.Index, "", &e.Started
	case PhaseBegan:
		n.Phase = e.Phase
	case Note:
		n.Last = e.Text
	case RunEnded, RunAbandoned:
		n.Run, n.Index, n.Phase, n.RunStarted = "", 0, "", nil
		if e.Kind == RunEnded {
			n.Before = runBefore(e)
			e.Reason = n.Before.Reason
		}
		if e.Reason != "" {
			n.Last = e.Reason
		}
	}
}

func runBefore(e Event) *RunBefore {
	b := &RunBefore{Run: e.Run.ID, Status: results.RunStatus(e.Rows), Reason: results.RunReason(e.Rows), Seconds: e.Took.Seconds()}
	for _, r := range e.Rows {
		if r.Phase != "" {
			b.Phases = append(b.Phases, PhaseBefore{r.Workload, r.Phase, known(r.MBPerS), known(r.IOPS)})
		}
	}
	return b
}

func known(n results.Num) *float64 {
	if v, ok := n.Get(); ok {
		return &v
	}
	return nil
}

// text is what the file is to hold now.
func (f *statusFile) text() ([]byte, error) {
	b, err := json.MarshalIndent(f.current(), "", "  ")
	return append(b, '\n'), err
}

// sentence is how far the sweep is, as whoever reads the file would say it.
func (f *statusFile) sentence() string { return f.current().Sentence() }

// current is the status of this moment.
func (f *statusFile) current() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now.Updated, f.now.Left = time.Now(), nil
	if f.left >= 0 && f.now.State == Running {
		left := max(f.left-time.Since(f.at), 0).Seconds()
		f.now.Left = &left
	}
	return f.now
}

// write replaces the file. One that cannot be replaced because the disk is full is overwritten where it is: its block is there, and that a sweep
// has ended must not be lost. Any other failure is no reason to stop: the rows' own append says so.
func (f *statusFile) write() {
	f.writing.Lock()
	defer f.writing.Unlock()
	text, err := f.text()
	if err != nil {
		return
	}
	err = f.folder.replace(StatusFile, text, 0o644, false)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		_ = f.folder.overwrite(StatusFile, text)
	}
}

// stop ends the replacing: the sweep has ended.
func (f *statusFile) stop() {
	if f == nil {
		return
	}
	f.once.Do(func() {
		close(f.quit)
		f.mu.Lock()
		f.now.State, f.now.Run, f.now.Index, f.now.Phase, f.now.RunStarted = Ended, "", 0, "", nil
		f.mu.Unlock()
		f.writeLast()
	})
}

// end says how it ended: why before its last run, its exit code, and what to type.
func (f *statusFile) end(stopped string, code int, next string) {
	if f == nil {
		return
	}
	f.stop()
	f.mu.Lock()
	f.now.Stopped, f.now.Exit, f.now.Next = stopped, &code, next
	f.mu.Unlock()
	f.writeLast()
}

// writeLast is write for the end of a sweep, which a disk that does not answer must not hold up.
func (f *statusFile) writeLast() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		<-f.done
		f.write()
	}()
	select {
	case <-written:
	case <-time.After(lateClose):
	}
}

// Sentence is how far the sweep is, in one line.
func (n Status) Sentence() string {
	if n.State != Running {
		a := results.Audit{Planned: n.Planned, OK: n.OK, Failed: n.Failed, Suspect: n.Suspect, Skipped: n.Skipped, Remaining: n.Remaining}
		return n.State + ": " + a.String()
	}
	text := fmt.Sprintf("%d of %s over", n.Planned-n.Remaining, plural(n.Planned, "run"))
	if n.Run != "" {
		text = fmt.Sprintf("run %d of %d, %s", n.Index, n.Planned, n.Run)
	}
	if n.Phase != "" {
		text += " (" + n.Phase + ")"
	}
	for _, c := range []struct {
		n    int
		word string
	}{{n.Failed, "failed"}, {n.Suspect, "suspect"}} {
		if c.n > 0 {
			text += fmt.Sprintf(", %d %s", c.n, c.word)
		}
	}
	if n.Left != nil {
		text += ", about " + timeText(time.Duration(*n.Left*float64(time.Second))) + " left"
	}
	return text
}
