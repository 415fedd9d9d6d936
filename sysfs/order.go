package sysfs

import (
	"cmp"
	"regexp"
	"strings"
)

var lettered = regexp.MustCompile(`^(sd|hd|vd|xvd|dasd|ubd)([a-z]+)(.*)$`)

// natural orders names as people count: sda, sdb, …, sdz, sdaa; sda2 before sda10.
func natural(a, b string) int {
	if x, y := lettered.FindStringSubmatch(a), lettered.FindStringSubmatch(b); x != nil && y != nil && x[1] == y[1] {
		if c := cmp.Or(cmp.Compare(len(x[2]), len(y[2])), cmp.Compare(x[2], y[2])); c != 0 {
			return c
		}
		a, b = x[3], y[3]
	}
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			na, nb := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if c := cmp.Or(cmp.Compare(len(na), len(nb)), cmp.Compare(na, nb)); c != 0 {
				return c
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// Natural orders devices by their names as people count: sda, sdb, …, sdz, sdaa; sda2 before sda10.
func Natural(a, b Device) int { return natural(a.Name, b.Name) }

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
