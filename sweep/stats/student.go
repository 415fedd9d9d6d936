package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Significance is how likely a false finding among all that is looked at may be.
const Significance = 0.05

// power is how often a difference must be found for it to count as one that would have been seen.
const power = 0.8

// studentP is the two-sided p value of a t statistic. By the incomplete beta function, not as 1 − a distribution: that has no digits left where it matters.
func studentP(t, degrees float64) float64 {
	return mathext.RegIncBeta(degrees/2, 0.5, degrees/(degrees+t*t))
}

// fisherP is the p value of an F statistic.
func fisherP(f, over, under float64) float64 {
	if f <= 0 {
		return 1
	}
	return mathext.RegIncBeta(under/2, over/2, under/(under+over*f))
}

// student is the upper quantile of Student's t that leaves the probability above it.
func student(above, degrees float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: degrees}.Quantile(1 - above)
}

// smallest is the smallest difference of logarithms that is found in four cases of five, at a two-sided level, when its standard error is known with
// so many degrees of freedom.
func smallest(se, degrees, level float64) float64 {
	return se * (student(level/2, degrees) + student(1-power, degrees))
}

// Holm adjusts p values for all of them having been looked at: what stays below a level does so wrongly in any of them with no more than that probability,
// whatever the others are. NaN is one that could not be tested, and stays.
func Holm(p []float64) []float64 {
	order := make([]int, 0, len(p))
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted := slices.Clone(p)
	worst := 0.0
	for k, i := range order {
		worst = max(worst, min(1, p[i]*float64(len(order)-k)))
		adjusted[i] = worst
	}
	return adjusted
}

// lastLevel is the level that Holm's method put the best of those to that it did not find.
func lastLevel(adjusted []float64) float64 {
	left := 0
	for _, p := range adjusted {
		if p >= Significance { // false for NaN
			left++
		}
	}
	return Significance / float64(max(left, 1))
}

// percent is a difference of logarithms as per cent.
func percent(log float64) float64 { return 100 * math.Expm1(log) }
