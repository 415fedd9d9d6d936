package results

import (
	"net/url"
	"strings"
)

// ParseLevel is the level that stands in a cell, an axes or an axes_effective
// column: what separates there (of an identity: % ; = # and control characters)
// is written %XX. What cannot be such text is taken literally.
func ParseLevel(text string) string {
	level, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return level
}

// LevelIn is the level that a cell has on an axis, as it stands there; "" where
// it has none.
func LevelIn(cell, axis string) string {
	for part := range strings.SplitSeq(cell, ";") {
		if name, level, ok := strings.Cut(part, "="); ok && name == axis {
			return level
		}
	}
	return ""
}
