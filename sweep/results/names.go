package results

import "strings"

// ShortNames is a short list of disks: sda-sdf for six in a row.
func ShortNames(names []string) string {
	var parts []string
	for i := 0; i < len(names); {
		last := i
		for last+1 < len(names) && follows(names[last], names[last+1]) {
			last++
		}
		if last-i >= 2 {
			parts = append(parts, names[i]+"-"+names[last])
		} else {
			parts = append(parts, names[i:last+1]...)
		}
		i = last + 1
	}
	return strings.Join(parts, " ")
}

// follows says whether b is a with its last letter one further: sda, sdb.
func follows(a, b string) bool {
	n := len(a)
	return n > 2 && n == len(b) && a[:n-1] == b[:n-1] && a[:2] == "sd" && a[n-1]+1 == b[n-1]
}
