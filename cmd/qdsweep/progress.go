package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"

	"qdsweep/sweep"
	"qdsweep/sweep/results"
)

// plainEvery is the longest silence where there is no terminal: a log that says nothing for longer looks dead.
const plainEvery = 60 * time.Second

// progress shows how far a sweep is: a bar on a terminal, lines elsewhere. Everything goes to stderr.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	total int
	quiet bool
	every bool // a line for every run, however short, and above the bar, too

	bars *mpb.Progress
	bar  *mpb.Bar

	done    int
	rest    time.Duration // by the sweep's own estimate, when it was last told; below 0: not known
	told    time.Time
	now     string // the run going on
	phase   string
	lastOut time.Time
	quit    chan struct{}

	events chan sweep.Event
	shown  chan struct{} // closed when all of them are
}

const (
	// eventsKept is what waits for a terminal that is stopped (Ctrl-S) or a reader that does not read (less). The sweep goes on meanwhile: between
	// its events settings are changed and put back. What comes later than that is not shown.
	eventsKept = 4096
	// stopPatience is what such a terminal gets at the end.
	stopPatience = 2 * time.Second
)

func newProgress(stderr io.Writer, quiet, verbose bool) *progress {
	p := &progress{w: stderr, quiet: quiet, every: verbose, quit: make(chan struct{}), events: make(chan sweep.Event, eventsKept), shown: make(chan struct{}), rest: -1, lastOut: time.Now()}
	if !quiet && terminal(stderr) {
		p.bars = mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(30), mpb.WithRefreshRate(200*time.Millisecond))
	} else if !quiet {
		go p.heartbeat()
	}
	go func() {
		defer close(p.shown)
		for e := range p.events {
			p.say(p.take(e))
		}
	}()
	return p
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// observe is told what happens. It never waits for who reads.
func (p *progress) observe(e sweep.Event) {
	select {
	case p.events <- e:
	default:
	}
}

// take notes what happened and returns the line to print, "" for none. Printing is the caller's: the bar's display takes its own lock,
// and asks for line() under it.
func (p *progress) take(e sweep.Event) (text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest, p.told = e.Left, time.Now()
	if e.Audit.Planned != p.total { // which are fewer when the precision was reached
		if p.total = e.Audit.Planned; p.bar != nil {
			p.bar.SetTotal(int64(p.total), false)
		}
	}
	switch e.Kind {
	case sweep.Began:
		p.total, p.done = e.Audit.Planned, e.Audit.Done()-e.Again
		if p.bars != nil {
			p.bar = p.bars.AddBar(int64(p.total), mpb.PrependDecorators(decor.CountersNoUnit("%d of %d runs ")),
				mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + p.line() })))
			p.bar.SetCurrent(int64(p.done))
		}
	case sweep.RunBegan:
		p.now, p.phase = e.Run.ID, ""
	case sweep.PhaseBegan:
		p.phase = e.Phase
	case sweep.RunEnded:
		p.done = e.Audit.Done() - e.Again
		p.now, p.phase = "", ""
		if p.bar != nil {
			p.bar.SetCurrent(int64(p.done))
		}
		status := results.RunStatus(e.Rows)
		if status != results.OK {
			text = fmt.Sprintf("%s  %s: %s", status, e.Run.ID, results.RunReason(e.Rows))
		} else if p.every || p.bars == nil && time.Since(p.lastOut) >= time.Second {
			text = fmt.Sprintf("run %d of %d  %s  ok, %s%s", p.done, p.total, e.Run.ID, e.Took.Round(100*time.Millisecond), p.left())
		}
	case sweep.RunAbandoned:
		text = fmt.Sprintf("run %s given up: %s", e.Run.ID, e.Reason)
	case sweep.Note:
		text = e.Text
	}
	if text != "" {
		p.lastOut = time.Now()
	}
	return text
}

// line is what stands behind the bar. The display's goroutine calls it.
func (p *progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.now
	if p.phase != "" {
		s += " (" + p.phase + ")"
	}
	return s + p.left()
}

// left is the time that the rest takes.
func (p *progress) left() string {
	if p.rest <= 0 {
		return ""
	}
	return fmt.Sprintf(", about %s left", max(p.rest-time.Since(p.told), 0).Round(time.Second))
}

// say prints a line; above the bar where there is one.
func (p *progress) say(text string) {
	switch {
	case p.quiet || text == "":
	case p.bars != nil:
		fmt.Fprintln(p.bars, text)
	default:
		fmt.Fprintln(p.w, text)
	}
}

func (p *progress) heartbeat() {
	tick := time.NewTicker(plainEvery / 4)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-tick.C:
			text := ""
			p.mu.Lock()
			if time.Since(p.lastOut) >= plainEvery*3/4 {
				text = fmt.Sprintf("run %d of %d  %s (%s)%s", p.done+1, p.total, p.now, p.phase, p.left())
				p.lastOut = time.Now()
			}
			p.mu.Unlock()
			p.say(text)
		}
	}
}

// stop shows what is left, and ends the display. No event comes any more.
func (p *progress) stop() {
	close(p.quit)
	close(p.events)
	select {
	case <-p.shown:
	case <-time.After(stopPatience):
		return
	}
	if p.bars == nil {
		return
	}
	if p.bar != nil && !p.bar.Completed() {
		p.bar.Abort(false)
	}
	p.bars.Wait()
}
