package results

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Int is a whole number or nothing; its zero value is nothing. Whole numbers
// are written exactly.
type Int struct {
	value int64
	set   bool
}

// IntOf is the Int that holds v.
func IntOf[T ~int | ~int32 | ~int64 | ~uint32](v T) Int { return Int{int64(v), true} }

// Get returns the number and whether there is one.
func (n Int) Get() (int64, bool) { return n.value, n.set }

// String is the cell's text: "" for nothing.
func (n Int) String() string {
	if !n.set {
		return ""
	}
	return strconv.FormatInt(n.value, 10)
}

func parseInt(s string) (Int, error) {
	if s == "" {
		return Int{}, nil
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return Int{}, fmt.Errorf("not a whole number")
	}
	return Int{v, true}, nil
}

// Num is a measured number of 6 significant digits, or nothing; its zero value
// is nothing.
type Num struct {
	value float64
	set   bool
}

// NumOf is the Num nearest to v: rounded to 6 significant digits at once, so
// that what is computed from a row does not depend on whether it was read back.
// NaN and the infinities are nothing: no instrument shows them.
func NumOf(v float64) Num {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Num{}
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 5, 64), 64)
	if err != nil { // rounded up past the largest float64
		return Num{}
	}
	return Num{rounded + 0, true} // + 0 makes -0 a plain 0
}

// Get returns the number and whether there is one.
func (n Num) Get() (float64, bool) { return n.value, n.set }

// String is the cell's text: at most 6 significant digits, a point, no
// grouping; an exponent only beyond 10^15 and below 10^-9. "" for nothing.
func (n Num) String() string {
	if !n.set {
		return ""
	}
	if a := math.Abs(n.value); a != 0 && (a < 1e-9 || a >= 1e15) {
		return strconv.FormatFloat(n.value, 'e', -1, 64)
	}
	return strconv.FormatFloat(n.value, 'f', -1, 64)
}

func parseNum(s string) (Num, error) {
	if s == "" {
		return Num{}, nil
	}
	// ParseFloat also takes hexadecimal, inf and nan, which nothing writes.
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.Trim(s, "0123456789+-.eE") != "" {
		return Num{}, fmt.Errorf("not a number")
	}
	return NumOf(v), nil
}
