package sweep

import (
	"slices"
	"time"
)

// estimate says how long runs take: by the plan's guess at first, then by what runs of the same kind of work took, and by what the very cell took
// once it has been run. It holds four bytes a cell, and answers without going through them: a matrix can have a million.
type estimate struct {
	walk  *walk
	skips func(w *walk, i int) string // nil: no cell is planned as skipped
	kinds []kindTime
	cells []float32 // seconds, of each cell that was run; 0: not yet, or never again

	took, guessed float64 // seconds of the runs so far, and what was guessed of them: a guess is out by much the same everywhere

	seen      float64 // Σ of the cells that were run
	byKind    float64 // Σ over the cells not yet run of which others of their kind were
	byGuess   float64 // Σ of the guesses of all others
	pending   float64 // the part of seen that this replicate has yet to do
	replicate int     // that pending is of

	builds      int     // in a replicate
	buildSecond float64 // of one, on average
	built       int     // in this replicate
	buildsSeen  int     // of which buildSecond is the mean; 0: it is a guess
}

// kindTime is what cells of one kind of work take.
type kindTime struct {
	guess, mean float32 // seconds; mean 0: none was run yet
	unseen      int32   // cells that were not run yet
}

// recent is the weight of a cell's last run in its time: drives warm up, file systems fill.
const recent = 0.5

// atLeast keeps the time of a run that was measured apart from none.
const atLeast = 1e-3

func (p *Plan) newEstimate() *estimate {
	m := p.Profile.Matrix
	w := m.walk()
	e := &estimate{walk: w, skips: p.skipper(), kinds: make([]kindTime, m.kinds()+len(m.Include)), cells: make([]float32, w.size()), replicate: 1}
	for k := range e.kinds {
		e.kinds[k].guess = p.work.guess[k]
	}
	for i := range w.size() {
		if w.excluded(i) || e.skipped(i) {
			continue
		}
		k := &e.kinds[w.kindOf(i)]
		k.unseen++
		e.byGuess += float64(k.guess)
	}
	if builds, all := p.buildCost(); builds > 0 {
		e.builds, e.buildSecond = builds, all.Seconds()/float64(builds*p.Profile.Repeats)
	}
	return e
}

func (e *estimate) skipped(i int) bool { return e.skips != nil && e.skips(e.walk, i) != "" }

// kindOf is kind of any cell: included ones are a kind of their own each, behind those of the combinations.
func (w *walk) kindOf(i int) int {
	if i < w.product {
		return w.kind(i)
	}
	return w.matrix.kinds() + i - w.product
}

// ratio is what runs take of what was guessed.
func (e *estimate) ratio() float64 {
	if e.guessed <= 0 {
		return 1
	}
	return e.took / e.guessed
}

// of is how long one run takes, in seconds.
func (e *estimate) of(r Run) float64 {
	if r.Skip != "" {
		return 0
	}
	if t := e.cells[r.number]; t > 0 {
		return float64(t)
	}
	return e.ofKind(e.walk.kindOf(int(r.number)))
}

func (e *estimate) ofKind(kind int) float64 {
	if k := e.kinds[kind]; k.mean > 0 {
		return float64(k.mean)
	}
	return float64(e.kinds[kind].guess) * e.ratio()
}

// toReplicate goes on to a replicate, all of whose runs are to be done.
func (e *estimate) toReplicate(replicate int) {
	if replicate != e.replicate {
		e.replicate, e.pending, e.built = replicate, e.seen, 0
	}
}

// passed takes a run out of what its replicate has yet to do: it was done before, or is not done at all.
func (e *estimate) passed(r Run) {
	e.toReplicate(r.Replicate)
	e.pending -= float64(e.cells[r.number])
}

// ran notes what a run took.
func (e *estimate) ran(r Run, took time.Duration) {
	e.passed(r)
	e.learn(r, took)
}

// learn is ran of a run that is none of this replicate's.
func (e *estimate) learn(r Run, took time.Duration) {
	if r.Skip != "" {
		return
	}
	seconds := max(took.Seconds(), atLeast)
	kind := e.walk.kindOf(int(r.number))
	k := &e.kinds[kind]
	e.took, e.guessed = e.took+seconds, e.guessed+float64(k.guess)
	before := e.cells[r.number]
	if before > 0 {
		seconds = recent*seconds + (1-recent)*float64(before)
	} else {
		e.forget(k)
		k.unseen--
	}
	e.cells[r.number] = float32(seconds)
	e.seen += float64(e.cells[r.number]) - float64(before)
	if before == 0 {
		if k.mean > 0 {
			seconds = recent*seconds + (1-recent)*float64(k.mean)
		}
		k.mean = float32(seconds)
		e.byKind += float64(k.mean) * float64(k.unseen)
	}
}

// forget takes the cells of a kind that were not run yet out of the sums.
func (e *estimate) forget(k *kindTime) {
	if k.mean > 0 {
		e.byKind -= float64(k.mean) * float64(k.unseen)
	} else {
		e.byGuess -= float64(k.guess) * float64(k.unseen)
	}
}

// drop leaves the cells out that a target would have driven which gets no further run.
func (e *estimate) drop(gone func(Cell) bool) {
	for i := range e.walk.size() {
		if e.walk.excluded(i) || e.skipped(i) || !gone(e.walk.cell(i)) {
			continue
		}
		k := &e.kinds[e.walk.kindOf(i)]
		if e.cells[i] == 0 {
			e.forget(k)
			k.unseen--
			e.byKind += float64(k.mean) * float64(k.unseen)
			if k.mean == 0 {
				e.byGuess += float64(k.guess) * float64(k.unseen)
			}
		}
		e.seen -= float64(e.cells[i])
		e.pending -= float64(e.cells[i])
		e.cells[i] = 0
	}
}

// build notes what building a target took.
func (e *estimate) build(took time.Duration) {
	e.built++
	e.buildsSeen++
	if e.buildsSeen == 1 {
		e.buildSecond = 0
	}
	e.buildSecond += (took.Seconds() - e.buildSecond) / float64(e.buildsSeen)
}

// whole is how long a replicate takes, with what is built in it.
func (e *estimate) whole() time.Duration {
	return seconds(e.seen + e.fresh() + float64(e.builds)*e.buildSecond)
}

// rest is how much of its replicate is left when none of it is being done.
func (e *estimate) rest() time.Duration {
	return seconds(max(e.pending, 0) + e.fresh() + float64(max(e.builds-e.built, 0))*e.buildSecond)
}

// fresh are the cells that were never run.
func (e *estimate) fresh() float64 { return max(e.byKind, 0) + max(e.byGuess, 0)*e.ratio() }

func seconds(s float64) time.Duration {
	const century = 100 * 365 * 24 * 3600
	return time.Duration(min(s, century) * float64(time.Second))
}

// number is the cell that a row's text names; false when it is none of the matrix.
func (w *walk) number(cell Cell) (int, bool) {
	for n, c := range w.matrix.Include {
		if slices.Equal(c, cell) {
			return w.product + n, true
		}
	}
	hits, ok := w.matrix.hits(cell)
	if !ok || len(hits) != len(w.matrix.Axes) {
		return 0, false
	}
	i := 0
	for _, h := range hits {
		i += h.level * w.stride[h.axis]
	}
	return i, true
}
