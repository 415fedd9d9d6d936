//go:build lab

package workload

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLabDelayAgainstFio is BenchmarkAgainstFio before a drive whose latency, 10 ms, is known: there the two have to
// agree, for the drive decides. fio has to be in the guest (qdlab test --tool fio).
func BenchmarkLabDelayAgainstFio(t *testing.B) {
	name := drives(t)[0]
	queueDepth := "/sys/block/" + name + "/device/queue_depth"
	b := openBench(t, "/dev/"+name, 3, 2)
	fmt.Printf("\n<!-- bench fio-lab -->\n%s; %d pairs of %s, in turn:\n\n", "A scsi_debug drive of 10 ms, queue_depth 31, in a guest of the lab with its CPUs emulated", b.pairs, milliseconds(b.seconds))
	fmt.Println("| engine, depth | IOPS ours / fio | ours ÷ fio | p50 µs | ours ÷ fio | p99 µs | ours ÷ fio | IOPS × mean latency, ours / fio |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	was, err := os.ReadFile(queueDepth)
	require.NoError(t, err)
	defer attribute(t, queueDepth, strings.TrimSpace(string(was)))
	attribute(t, queueDepth, "31")
	for _, depth := range []int{1, 2, 4, 8, 31} {
		c := comparison{engine: "libaio", depth: depth, mode: "randread", block: "4k"}
		ours, theirs := b.compare(t, c)
		both := func(of func(numbers) float64) string {
			return figure(median(ours, of)) + " / " + figure(median(theirs, of))
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", c.name(), both(iops), spread(ours, theirs, iops), both(p50), spread(ours, theirs, p50),
			both(p99), spread(ours, theirs, p99), both(slots))
	}
	fmt.Println("<!-- /bench -->")
}
