//go:build lab

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qdsweep/sweep/results"
)

// BenchmarkLabDelayObservedDepth prints what a sweep saw a drive of a known latency doing: the depth that was asked for, the depth
// that the drive was seen to have, and what Little's law says of the workload's own figures. It judges nothing; TestLabDelayLittlesLaw does.
func BenchmarkLabDelayObservedDepth(b *testing.B) {
	l := newLab(b)
	profile := l.write("depth.yaml", strings.Replace(ladder("[1, 2, 4, 8, 31]", "4s"), "iodepth: 32, threads: 2", "iodepth: 31, threads: 1", 1))
	s := l.run("run", profile, "--device", "/dev/"+l.delayed(2), "--out", l.path("out"))
	require.Equal(b, 0, s.code)
	fmt.Printf("\n<!-- bench depth -->\nA scsi_debug drive of 10 ms in a guest of the lab, iodepth 31, 4 s each:\n\n")
	fmt.Println("| queue_depth | observed_depth | ÷ asked | IOPS | mean latency µs | IOPS × mean latency |")
	fmt.Println("|---|---|---|---|---|---|")
	rows := l.rows(l.path("out"))
	slices.SortFunc(rows, func(a, c results.Row) int { return atoi(b, a.QueueDepth) - atoi(b, c.QueueDepth) }) // they were shuffled
	for _, r := range rows {
		asked, observed, iops, mean := atoi(b, r.QueueDepth), num(b, r.ObservedDepth), num(b, r.IOPS), num(b, r.LatMeanUS)
		fmt.Printf("| %d | %.3g | %.2f | %.0f | %.0f | %.3g |\n", asked, observed, observed/float64(asked), iops, mean, iops*mean/1e6)
	}
	fmt.Println("<!-- /bench -->")
}
