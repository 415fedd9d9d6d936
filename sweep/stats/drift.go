package stats

import "math"

// Drift is what became of a phase's figures over the night, whatever the cells: the slope of what is left of each run once its cell's mean is taken off.
type Drift struct {
	Percent   float64 // from the first run to the last
	Low, High float64 // 95 %
	P         float64

	perRun float64 // logarithm
}

// driftOf is nil where there is too little to tell it from.
func driftOf(cells []*figures) *Drift {
	var xx, xy, yy, count float64
	first, last := int32(math.MaxInt32), int32(0)
	for _, f := range cells {
		at, log := f.meanAt(), f.mean()
		for _, v := range f.all {
			x, y := float64(v.at)-at, v.log-log
			xx, xy, yy = xx+x*x, xy+x*y, yy+y*y
			first, last = min(first, v.at), max(last, v.at)
		}
		count += float64(len(f.all) - 1)
	}
	degrees := count - 1
	if degrees < 1 || xx == 0 || last == first {
		return nil
	}
	slope := xy / xx
	se := math.Sqrt(max((yy-slope*xy)/degrees, rounding) / xx)
	night := float64(last - first)
	half := T95(degrees) * se
	return &Drift{percent(slope * night), percent((slope - half) * night), percent((slope + half) * night), studentP(slope/se, degrees), slope}
}

func (f *figures) meanAt() float64 {
	var sum float64
	for _, v := range f.all {
		sum += float64(v.at)
	}
	return sum / float64(len(f.all))
}

// of is what the drift alone makes of a contrast.
func (d *Drift) of(contrast []weight) (log float64) {
	for _, w := range contrast {
		log += w.by * w.cell.meanAt() * d.perRun
	}
	return log
}
