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
	s := Sample{N: n, Median: median(values), Mean: mean(values)}
	s.Min, s.Max = values[0], values[n-1]
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

// median sorts the values.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n%2 == 0 {
		return values[n/2-1] + (values[n/2]-values[n/2-1])/2
	}
	return values[n/2]
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
