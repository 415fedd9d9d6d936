// Package stats summarises the rows of sweeps: how much, how sure, per cell
// and phase. It knows rows, and no devices, profiles or formats.
package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Sample is what is known of one quantity from independent runs, in the unit of
// its column.
type Sample struct {
	N                      int
	Median, Mean, Min, Max float64
	// HalfWidthPercent is half the width of the 95 % interval of the mean, by
	// Student's t with N − 1 degrees of freedom, in per cent of the mean. Nil
	// where there is none: one value says nothing of its spread, and a mean of
	// 0 has no per cent.
	HalfWidthPercent *float64
}

// NewSample summarises values, which it sorts.
func NewSample(values []float64) Sample {
	n := len(values)
	if n == 0 {
		return Sample{}
	}
	slices.Sort(values)
	s := Sample{N: n, Min: values[0], Max: values[n-1], Mean: mean(values)}
	s.Median = values[n/2]
	if n%2 == 0 {
		s.Median = values[n/2-1] + (values[n/2]-values[n/2-1])/2
	}
	if n > 1 && s.Mean != 0 {
		half := T95(float64(n-1)) * math.Sqrt(squares(values, s.Mean)/float64(n-1)/float64(n))
		percent := 100 * half / math.Abs(s.Mean)
		s.HalfWidthPercent = &percent
	}
	return s
}

// T95 is the 97.5 % quantile of Student's t: what the standard error of a mean
// is multiplied with to get half of its two-sided 95 % interval.
func T95(degreesOfFreedom float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: degreesOfFreedom}.Quantile(0.975)
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// squares is the sum of squared distances from the mean.
func squares(values []float64, mean float64) float64 {
	var sum float64
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return sum
}

// pool holds the residual spread of one phase over its cells, on the logarithm:
// noise is a share of what is measured, much the same share in a slow cell as in
// a fast one, and three runs of one cell alone would hardly show it.
type pool struct {
	squares float64 // of log(value) about its cell's mean
	degrees int     // of freedom
	fewest  int     // runs of a cell that has any
}

func (p *pool) add(values []float64) {
	n := len(values)
	if n == 0 {
		return
	}
	if p.fewest == 0 || n < p.fewest {
		p.fewest = n
	}
	logs := make([]float64, n)
	for i, v := range values {
		if v <= 0 {
			return // has no logarithm, and is no rate that anybody compares
		}
		logs[i] = math.Log(v)
	}
	p.squares += squares(logs, mean(logs))
	p.degrees += n - 1
}

// halfWidthPercent is half the width of the 95 % interval of a cell's mean of
// log(value), for the cell with the fewest runs, in per cent.
func (p *pool) halfWidthPercent() *float64 {
	if p.degrees == 0 {
		return nil
	}
	half := T95(float64(p.degrees)) * math.Sqrt(p.squares/float64(p.degrees)/float64(p.fewest))
	percent := 100 * math.Expm1(half)
	return &percent
}
