package sweep

// Closest is the known word that a mistyped one most likely means; "" when none is near.
func Closest(word string, known []string) string { return closest(word, known) }

// closest is the known word that a mistyped one most likely means; "" when none is near enough to be worth saying.
func closest(word string, known []string) string {
	best, bestAt := "", len(word)/3+1
	for _, k := range known {
		if d := distance(word, k); d <= bestAt && d < max(len(k), 2) && (best == "" || d < distance(word, best)) {
			best = k
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with their neighbour to get from a to b
// (optimal string alignment). Words of more than 64 bytes are not compared.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var before, last [65]int
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		var now [65]int
		now[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			now[j] = min(replace, last[j]+1, now[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last = last, now
	}
	return last[len(b)]
}
