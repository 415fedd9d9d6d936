//go:build lab

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shortRuns is a profile of many runs, each of 64 reads: what a busy machine makes of that takes longer, and is no other result.
func shortRuns(axes string, repeats int) string {
	return fmt.Sprintf(`version: 1
name: short
matrix: %s
repeats: %d
settle: 0s
timeout: 2m
workloads: [{name: r, type: io, mode: randread, iodepth: 8, size: 256k, runtime: 0s}]
`, axes, repeats)
}

// TestLabSataKilledAndResumed kills main, keeper and worker, one or several of them, at random moments, from the first instruction to the last row: after
// `restore` no setting is changed, and after the last `resume` no run is lost or there twice.
func TestLabSataKilledAndResumed(t *testing.T) {
	l := newLab(t)
	disk := l.sata(1)
	rnd := rand.New(rand.NewPCG(chaosSeed(t), 4))
	victims := [][]string{{"main"}, {"main"}, {"keeper"}, {"worker"}, {"keeper", "main"}, {"worker", "main"}, {"worker", "keeper", "main"}}
	kills := rounds(10, 200)
	for sweep := 1; kills > 0; sweep++ {
		axes := "{queue_depth: [1, 4], max_sectors_kb: [8, 64]}"
		if sweep%3 == 0 {
			axes = "{queue_depth: [1, 4], write_cache: [off]}"
		}
		n := l.newNight(fmt.Sprintf("night%d", sweep), shortRuns(axes, 6), []string{disk}, "--device", "/dev/"+disk)
		u := n.goOn()
		for kills > 0 && n.done() < len(n.Planned) {
			who := victims[rnd.IntN(len(victims))]
			runs := rnd.IntN(4)
			wait := time.Duration(rnd.Int64N(int64(1500 * time.Millisecond))) // with no run to wait for, while it starts
			for want := n.done() + runs; n.done() < want && u.running(); {
				time.Sleep(5 * time.Millisecond)
			}
			select {
			case <-time.After(wait):
			case <-u.ended:
			}
			killed := u.dies(who...)
			if len(killed) > 0 {
				kills--
				t.Logf("sweep %d, start %d: %v after %d runs killed %s; %d of %d are done", sweep, n.Starts, wait.Round(time.Millisecond), runs, strings.Join(killed, ", "), n.done(), len(n.Planned))
			}
			if u.running() {
				continue
			}
			switch u.code {
			case 137:
				n.putBack()
			case 1: // a keeper that dies before the first run ends the start
				require.Contains(t, u.text(), "keeper", "sweep %d", sweep)
				n.putBack()
			default:
				require.Contains(t, []int{0, 4}, u.code, u.text())
			}
			var again []string
			if rnd.IntN(2) == 0 && n.begun() {
				again = []string{"--retry-failed"}
			}
			u = n.goOn(again...)
		}
		<-u.ended
		n.putBack()
		n.ends(n.goOn("--retry-failed"), map[string]string{"": "QDLAB-SATA-1"})
	}
}
