//go:build lab

package workload

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLabDelayAgainstFio is BenchmarkAgainstFio before a drive whose latency, 10 ms, is known: there the two have to
// agree, for the drive decides. With one request a call, as it is without options, fio's 31 calls take so long on an
// emulated CPU that they are part of the latency; so it is told to hand over what it has. fio has to be in the guest (qdlab test --tool fio).
func BenchmarkLabDelayAgainstFio(t *testing.B) {
	name := drives(t)[0]
	queueDepth := "/sys/block/" + name + "/device/queue_depth"
	b := openBench(t, "/dev/"+name, 3, 1.2)
	fmt.Printf("\n<!-- bench fio-lab -->\n%s; %d pairs of %s, in turn:\n\n", "A scsi_debug drive of 10 ms, queue_depth 31, in a guest of the lab with its CPUs emulated", b.pairs, milliseconds(b.seconds))
	fmt.Println("| engine, depth | IOPS ours / fio | ours ÷ fio | p50 µs | ours ÷ fio | p99 µs | ours ÷ fio | IOPS × mean latency, ours / fio |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	was, err := os.ReadFile(queueDepth)
	require.NoError(t, err)
	defer attribute(t, queueDepth, strings.TrimSpace(string(was)))
	attribute(t, queueDepth, "31")
	lines := []comparison{{engine: "libaio", depth: 1, mode: "randread", block: "4k"}}
	for _, depth := range []int{2, 4, 8, 31} {
		n := strconv.Itoa(depth)
		lines = append(lines, comparison{
			engine: "libaio", depth: depth, mode: "randread", block: "4k", note: "fio in batches",
			fio: []string{"--iodepth_batch_submit=" + n, "--iodepth_batch_complete_min=1", "--iodepth_batch_complete_max=" + n},
		})
	}
	lines = append(lines, comparison{engine: "libaio", depth: 31, mode: "randread", block: "4k"})
	for _, c := range lines {
		ours, theirs := b.compare(t, c)
		both := func(of func(numbers) float64) string {
			return figure(median(ours, of)) + " / " + figure(median(theirs, of))
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", c.name(), both(iops), spread(ours, theirs, iops), both(p50), spread(ours, theirs, p50),
			both(p99), spread(ours, theirs, p99), both(slots))
	}
	fmt.Println("<!-- /bench -->")
}
