package sysfs

import (
	"fmt"
	"strconv"
	"strings"
)

// Memory is the machine's memory in bytes, as the kernel has it to give out (MemTotal of /proc/meminfo; proc_meminfo(5)).
func (h Host) Memory() (int64, error) {
	text, err := h.Read("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("how much memory there is: %w", err)
	}
	return parseMemory(text)
}

func parseMemory(text string) (int64, error) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "MemTotal:")
		if !ok {
			continue
		}
		number, isKiB := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		kib, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || !isKiB || kib <= 0 || kib > 1<<50 {
			return 0, fmt.Errorf("how much memory there is: /proc/meminfo says %q", strings.TrimSpace(line))
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("how much memory there is: /proc/meminfo has no MemTotal")
}
