package sweep

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"qdsweep/sysfs"
	"qdsweep/workload"
)

// work is what the cells' workloads amount to.
type work struct {
	loads         []load
	mean, longest time.Duration // of a run
	guessed       time.Duration // the part of mean that no profile can say
	rows          [2]int        // of a run: the fewest, the most
	guess         []float32     // seconds of a run, by kind of work; of included cells behind those of the combinations
}

// load is one workload over all the cells.
type load struct {
	name     string
	writes   bool
	buffered bool  // in some cell
	sg       bool  // by SCSI commands, in some cell
	queuedSG bool  // queued on the sg node, in some cell
	offered  int   // the most commands it can have outstanding
	block    int64 // the largest
	smallest int64 // of the blocks that are written past the page cache; 0: none are
	space    int64
	files    int64
	seeking  int // where a phase is made to seek: the most that seek at once
	largest  workload.Spec
}

// maxRefusals is how many different faults of workloads are listed: a matrix can make the same one in a million ways.
const maxRefusals = 20

// planWork looks at the workloads of each kind of work: what is left out by rule, what cannot be on its target, and what the
// rest amounts to. What is left out is so on all targets, by the smallest: otherwise they would not compare.
func (p *Plan) planWork() []sysfs.Refusal {
	m := &p.Profile.Matrix
	leftOut := make([]bool, m.kinds())
	var anyLeftOut bool
	var refusals []sysfs.Refusal
	said := map[string]bool{}
	var total, guesses time.Duration
	judged := 0
	p.work.guess = make([]float32, m.kinds()+len(m.Include))
	smallest := p.smallest()
	m.eachWorkloads(p.Profile.Workloads, func(k kindOfWork) bool {
		if k.number >= 0 && m.shapes() {
			for _, s := range k.specs {
				reason := s.LeftOut(smallest)
				if reason == "" {
					continue
				}
				leftOut[k.number], anyLeftOut = true, true
				if !said[reason] && len(p.LeftOut) < maxRefusals {
					said[reason] = true
					p.LeftOut = append(p.LeftOut, reason)
				}
				return true
			}
		}
		t := p.targetAt(k.target)
		for _, s := range k.specs {
			if t.absent != "" {
				break
			}
			for _, r := range t.refuseSG(s) {
				if key := t.Stack.Target + r.Reason; !said[key] {
					said[key] = true
					refusals = append(refusals, r)
				}
			}
			err := s.CheckTarget(t.bytes(), t.logicalBlock(), t.files())
			if err == nil {
				continue
			}
			for _, line := range strings.Split(err.Error(), "\n") {
				if key := t.Stack.Target + line; !said[key] {
					said[key] = true
					refusals = append(refusals, sysfs.Refusal{Device: t.Stack.Target, Reason: line, Fix: "change the workload in the profile, or give another target" + p.otherTarget()})
				}
			}
		}
		judged++
		d, guessed := p.duration(k.specs, t)
		total, guesses = total+d, guesses+guessed
		at := k.number
		if at < 0 {
			at = m.kinds() - 1 - k.number
		}
		p.work.guess[at] = float32(d.Seconds())
		p.work.longest = max(p.work.longest, d)
		p.work.add(k.specs)
		return len(refusals) < maxRefusals
	})
	if anyLeftOut {
		m.leftOut = leftOut
	}
	if judged > 0 {
		p.work.mean, p.work.guessed = total/time.Duration(judged), guesses/time.Duration(judged)
	}
	return refusals
}

// smallest is the size of the smallest target that is a device; 0 when none is.
func (p *Plan) smallest() int64 {
	var smallest int64
	for _, t := range slices.Concat(p.Targets, p.absent) {
		if n := t.bytes(); n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	return smallest
}

// otherTarget are the flags that give another target, where they may.
func (p *Plan) otherTarget() string {
	if p.Profile.Target.several() {
		return ""
	}
	return " (--device, --directory)"
}

// add counts the workloads of one kind of work in.
func (w *work) add(specs []workload.Spec) {
	if w.loads == nil {
		w.loads = make([]load, len(specs))
		for i, s := range specs {
			w.loads[i] = load{name: s.Name, largest: s}
		}
	}
	rows := 0
	for i, s := range specs {
		l := &w.loads[i]
		l.writes = l.writes || s.Writes()
		l.buffered = l.buffered || !s.Direct
		l.sg, l.queuedSG = l.sg || s.SG(), l.queuedSG || s.SGQueued()
		l.offered = max(l.offered, s.Offered())
		l.block = max(l.block, s.BlockSize)
		l.files = max(l.files, s.FilesNeeded())
		l.seeking = max(l.seeking, s.Seeking())
		if s.Writes() && s.Direct && (l.smallest == 0 || s.BlockSize < l.smallest) {
			l.smallest = s.BlockSize
		}
		if space := s.SpaceNeeded(); space > l.space {
			l.space, l.largest = space, s
		}
		rows += len(s.Phases())
	}
	if w.rows[1] == 0 {
		w.rows = [2]int{rows, rows}
	}
	w.rows = [2]int{min(w.rows[0], rows), max(w.rows[1], rows)}
}

// runOverhead is what a run takes beside its workloads: settings, looks at the drives, rows.
const runOverhead = 100 * time.Millisecond

// duration is a first guess of a run: what its workloads say, rest before each, settings; and the part of it that is guessed, because it is the drive's.
// What a drive does is known after the first run and not before.
func (p *Plan) duration(specs []workload.Spec, t *Target) (d, guessed time.Duration) {
	d = runOverhead
	if _, ok := p.Profile.Matrix.Axis("write_cache"); ok {
		d += 600 * time.Millisecond // two changes (kernel.md)
	}
	for _, s := range specs {
		d += p.Profile.Settle
		if known, ok := s.Estimate(); ok {
			d += known
			continue
		}
		by := t.byBytes(s)
		d, guessed = d+by, guessed+by
	}
	return d, guessed
}

// What a drive is guessed to do, in bytes and in random operations a second.
func rotatingGuess() (rate, operations float64) { return 100e6, 100 }
func stillGuess() (rate, operations float64)    { return 400e6, 10_000 }

func ratesText(rate, operations float64) string {
	return fmt.Sprintf("%.0f MB/s and %.0f seeks/s", rate/1e6, operations)
}

func (t *Target) byBytes(s workload.Spec) time.Duration {
	rate, operations := stillGuess()
	for _, m := range t.Stack.Members {
		if m.Rotational {
			rate, operations = rotatingGuess()
		}
	}
	if s.Type == "bonnie" {
		return s.Guess(rate, operations)
	}
	bytes := s.SpaceNeeded()
	if bytes == 0 {
		bytes = t.Stack.Bytes
	}
	phases := 0.0
	for _, name := range s.Phases() {
		if name != "remove" {
			phases++
		}
		if _, writes := s.PhaseReads(name); writes && s.Verify {
			phases++ // it is read back
		}
	}
	seconds := float64(bytes) / rate
	if s.BlockSize > 0 && strings.HasPrefix(s.Mode, "rand") {
		seconds = max(seconds, float64(bytes/s.BlockSize)/operations)
	}
	const year = 365 * 24 * 3600
	return time.Duration(min(seconds*phases, year) * float64(time.Second))
}

// workText is a workload in a few words, for the plan.
func workText(s workload.Spec) string {
	if s.Type == "bonnie" {
		return bonnieText(s)
	}
	words := []string{s.Type, s.Mode, workload.FormatSize(s.BlockSize)}
	if !s.Direct {
		words = append(words, "buffered")
	}
	words = append(words, s.Engine)
	text := strings.Join(words, " ")
	switch s.Type {
	case "io":
		text += fmt.Sprintf(", iodepth %d × %s", s.IODepth, plural(s.Threads, "thread"))
		if s.Runtime > 0 {
			text += ", " + span(s.Runtime)
		} else {
			text += ", once through"
		}
	case "dd":
		text += ", " + plural(s.Processes, "process")
	}
	if s.Size > 0 {
		text += ", size " + workload.FormatSize(s.Size)
	}
	return text
}

func bonnieText(s workload.Spec) string {
	text := fmt.Sprintf("bonnie %s %s, size %s, %d seeks by %s", workload.FormatSize(s.BlockSize), s.Engine, workload.FormatSize(s.Size), s.Seeks, plural(s.Seekers, "seeker"))
	if s.Files > 0 {
		text += fmt.Sprintf(", %d × 1024 files of %d to %d bytes in %s", s.Files, s.FileSizeMin, s.FileSizeMax, pluralY(s.Directories))
	}
	if phases := s.Phases(); len(phases) < len(workload.BonniePhases()) {
		text += ", " + strings.Join(phases, " ")
	}
	return text
}

func pluralY(n int) string {
	if n == 1 {
		return "1 directory"
	}
	return fmt.Sprintf("%d directories", n)
}

func plural(n int, word string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(word, "s"):
		word += "es"
	default:
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}
