package sweep

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"qdsweep/sweep/results"
)

// ledger knows of every planned run what its last rows say: its status, and which attempt they are. It has two bytes a run and no names, so that a sweep of
// a million runs is taken up again in the memory in which it was begun. The place of a run is that of its cell and replicate, not its turn: it takes nothing
// but the profile to find it.
type ledger struct {
	walk       *walk
	levels     []map[string]int // of each axis: the number of each level
	include    map[string]int   // of the included cells, by their text
	kept       []uint64         // which combinations no exclude matches, a bit each; nil: all
	before     []int            // how many of them come before each word of kept
	cells      int
	replicates int

	marks []uint16 // status | attempt << markBits
}

const (
	markBits    = 3
	mostAttempt = 1<<(16-markBits) - 1
)

// markOf and statusOf turn a status into three bits and back; 0 is a run without rows.
func markOf(status string) uint16 {
	for i, s := range ledgerStatuses() {
		if s == status {
			return uint16(i)
		}
	}
	return 0
}

func ledgerStatuses() []string {
	return []string{"", results.OK, results.Failed, results.Suspect, results.Skipped}
}

func newLedger(p *Profile) *ledger {
	m := p.Matrix
	m.leftOut = nil // of a plan only, and a run that it leaves out has a place all the same
	l := &ledger{walk: m.walk(), include: map[string]int{}, replicates: p.Repeats}
	for _, a := range m.Axes {
		numbers := map[string]int{}
		for i, level := range a.Levels {
			numbers[level] = i
		}
		l.levels = append(l.levels, numbers)
	}
	for i, c := range m.Include {
		l.include[c.String()] = i
	}
	l.cells = l.walk.product
	if !l.walk.whole() {
		l.keep()
	}
	l.cells += len(m.Include)
	l.marks = make([]uint16, l.cells*l.replicates)
	return l
}

// keep numbers the combinations that no exclude matches: of a matrix that is nearly all excluded only those have a place.
func (l *ledger) keep() {
	words := (l.walk.product + 63) / 64
	l.kept, l.before, l.cells = make([]uint64, words), make([]int, words), 0
	for i := range l.walk.product {
		if i%64 == 0 {
			l.before[i/64] = l.cells
		}
		if !l.walk.excluded(i) {
			l.kept[i/64] |= 1 << (i % 64)
			l.cells++
		}
	}
}

// place is where a run's mark is; false where no such run is in the profile.
func (l *ledger) place(c Cell, replicate int) (int, bool) {
	if replicate < 1 || replicate > l.replicates {
		return 0, false
	}
	i, ok := l.number(c)
	return (replicate-1)*l.cells + i, ok
}

func (l *ledger) number(c Cell) (int, bool) {
	if i, ok := l.combination(c); ok {
		if l.kept == nil {
			return i, true
		}
		word, bit := l.kept[i/64], i%64
		if word>>bit&1 == 1 {
			return l.before[i/64] + bits.OnesCount64(word&(1<<bit-1)), true
		}
	}
	i, ok := l.include[c.String()]
	return l.cells - len(l.include) + i, ok
}

func (l *ledger) combination(c Cell) (int, bool) {
	axes := l.walk.matrix.Axes
	if len(c) != len(axes) {
		return 0, false
	}
	number := 0
	for i, a := range axes {
		level, ok := l.levels[i][c[i].Value]
		if !ok || c[i].Axis != a.Name {
			return 0, false
		}
		number += level * l.walk.stride[i]
	}
	return number, true
}

// look is a run's last status, "" of one without rows, and which attempt that was, 0 then.
func (l *ledger) look(r Run) (status string, attempt int) {
	at, ok := l.place(r.Cell, r.Replicate)
	if !ok {
		return "", 0
	}
	return ledgerStatuses()[l.marks[at]&(1<<markBits-1)], int(l.marks[at] >> markBits)
}

// note takes down what became of a run, and returns what it was before: "" when it had no rows. Rows of an attempt before the last change nothing.
func (l *ledger) note(r Run, status string, attempt int) (was string, err error) {
	at, ok := l.place(r.Cell, r.Replicate)
	switch {
	case !ok:
		return "", fmt.Errorf("the run %s is none of this profile's", r.ID)
	case attempt < 1 || attempt > mostAttempt:
		return "", fmt.Errorf("attempt %d of run %s: at most %d", attempt, r.ID, mostAttempt)
	}
	was, last := l.look(r)
	if attempt > last {
		l.marks[at] = markOf(status) | uint16(attempt)<<markBits
		return was, nil
	}
	return status, nil // counted as nothing: it takes the place of itself
}

// runNamed is the run of a name as rows have it: cell#replicate.
func runNamed(name string) (Run, error) {
	text, number, ok := strings.Cut(name, "#")
	replicate, err := strconv.Atoi(number)
	if !ok || err != nil {
		return Run{}, fmt.Errorf("%q is no name of a run", name)
	}
	r := Run{ID: name, Replicate: replicate}
	for pair := range strings.SplitSeq(text, ";") {
		if text == "" {
			break // of a profile without a matrix
		}
		axis, level, ok := strings.Cut(pair, "=")
		if !ok {
			return Run{}, fmt.Errorf("%q is no name of a run", name)
		}
		r.Cell = append(r.Cell, Level{axis, level})
	}
	return r, nil
}
