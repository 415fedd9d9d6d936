package results

import "strings"

// levelEscapes keeps the separators of cells and of the columns axes and
// axes_effective out of their levels.
var levelEscapes = []string{"%", "%25", ";", "%3B", "=", "%3D"}

// FormatLevel is a level as it stands in a cell: a semicolon, an equals sign or
// a per cent sign of it is written %3B, %3D, %25. Only an identity has them.
func FormatLevel(level string) string {
	return strings.NewReplacer(levelEscapes...).Replace(level)
}

// ParseLevel undoes FormatLevel.
func ParseLevel(text string) string {
	return strings.NewReplacer("%3B", ";", "%3D", "=", "%25", "%").Replace(text)
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
