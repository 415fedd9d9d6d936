package stats

import "math"

// Logs are the logarithms of one cell's figures of one phase, as sums: enough for their mean and spread, whatever their number. The zero value is empty.
// Figures are compared on the logarithm because noise is a share of what is measured, much the same share in a slow cell as in a fast one.
type Logs struct {
	N                   int
	first, sum, squares float64 // the sums are of differences to the first: of numbers much alike, squares would lose their digits
}

// Add counts a figure in. One that is not above 0 has no logarithm, and is no rate or time that anybody compares: it is left out, and false.
func (l *Logs) Add(figure float64) bool {
	if !(figure > 0) || math.IsInf(figure, 0) {
		return false
	}
	x := math.Log(figure)
	if l.N == 0 {
		*l = Logs{first: x}
	}
	x -= l.first
	l.N++
	l.sum += x
	l.squares += x * x
	return true
}

// Remove takes a figure away that was added: its run was repeated.
func (l *Logs) Remove(figure float64) {
	if !(figure > 0) || math.IsInf(figure, 0) || l.N == 0 {
		return
	}
	x := math.Log(figure) - l.first
	l.N--
	l.sum -= x
	l.squares -= x * x
}

// Mean is the mean of the logarithms.
func (l Logs) Mean() float64 { return l.first + l.sum/float64(l.N) }

// Squares is the sum of squared distances from the mean.
func (l Logs) Squares() float64 {
	if l.N < 2 {
		return 0
	}
	return max(l.squares-l.sum*l.sum/float64(l.N), 0)
}

// Pool is the residual spread of one phase, pooled over its cells: three runs of one cell alone would hardly show it. The zero value is empty.
type Pool struct {
	Degrees int // of freedom
	Fewest  int // runs of the cell that has the fewest, of those that have any
	Cells   int // that have any
	squares float64
}

// Add counts a cell in.
func (p *Pool) Add(l Logs) {
	if l.N == 0 {
		return
	}
	if p.Fewest == 0 || l.N < p.Fewest {
		p.Fewest = l.N
	}
	p.Cells++
	p.squares += l.Squares()
	p.Degrees += l.N - 1
}

// Variance is that of one log(figure) about its cell's mean. Without a degree of freedom there is none, and it is NaN.
func (p Pool) Variance() float64 {
	if p.Degrees == 0 {
		return math.NaN()
	}
	return p.squares / float64(p.Degrees)
}

// HalfWidth is half the width of the 95 % interval of a cell's mean of log(figure), for the cell with the fewest runs, as a share of the figure: 0.02 is
// ± 2 %. NaN without a degree of freedom.
func (p Pool) HalfWidth() float64 {
	if p.Degrees == 0 {
		return math.NaN()
	}
	return math.Expm1(T95(float64(p.Degrees)) * math.Sqrt(p.Variance()/float64(p.Fewest)))
}

// Grown is the pool as it would be after so many more runs of each cell, if their spread is the same.
func (p Pool) Grown(runs int) Pool {
	more := p
	more.Fewest += runs
	more.Degrees += runs * p.Cells
	more.squares = p.Variance() * float64(more.Degrees)
	return more
}

// fewDegrees are too few to know the spread at all, someDegrees so few that it is often taken for much smaller than it is.
const (
	fewDegrees  = 5
	someDegrees = 10
	wary        = 0.6
)

// Within says that a cell's mean is known to within the share: that a sweep which asks after each replicate may end. Asking again and again until it holds
// ends sweeps when the spread looks small by chance, and then the interval says more than is true. So with few degrees of freedom more is asked for: nothing
// holds below 5, and below 10 the half-width must be within 0.6 of the share. By that, simulated, the 95 % intervals of sweeps so ended hold the true mean
// in 93 to 96 % of cases, from one cell on (docs/decisions.md).
func (p Pool) Within(share float64) bool {
	switch {
	case p.Degrees < fewDegrees:
		return false
	case p.Degrees < someDegrees:
		share *= wary
	}
	return p.HalfWidth() <= share
}
