package sweep

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qdsweep/sweep/keeper"
	"qdsweep/sysfs"
	"qdsweep/sysfs/sgio"
	"qdsweep/sysfs/systest"
)

// BenchmarkOverhead is a run's own time, all of its transaction but settle, drain and work, with two members, the null engine, and real
// keeper and worker processes. The machine is a tree of plain files: what a kernel takes for its part is in BenchmarkLabSataOverhead.
func BenchmarkOverhead(b *testing.B) {
	for _, place := range []string{"/dev/shm", "/var/tmp"} { // of state and output: memory, a disk
		b.Run("state="+strings.ReplaceAll(strings.Trim(place, "/"), "/", "-"), func(b *testing.B) {
			b.Setenv("TMPDIR", "/dev/shm") // the tree: writing to a file of a disk's file system costs more than an attribute does
			m := systest.New(b, systest.Disk{Name: "sda", Transport: "sas", QueueDepth: 32}, systest.Disk{Name: "sdb", Transport: "sas", QueueDepth: 32})
			m.MD("md0", "raid1", "sda", "sdb")
			b.Setenv(testRoot, m.Root())
			overhead(b, hostOf(m.Root()), "md0", place)
		})
	}
}

// overhead reports the median and the 95 % point of a run's own time, and where it goes.
func overhead(b *testing.B, h sysfs.Host, target, place string) {
	dir, err := os.MkdirTemp(place, "qdsweep-bench-")
	require.NoError(b, err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	p, err := ReadProfile("bench.yaml", strings.NewReader("version: 1\nname: bench\ntarget: {device: "+target+"}\nsettle: 0s\nrepeats: 100000\n"+
		"matrix: {queue_depth: [1, 4], max_sectors_kb: [8, 64]}\nworkloads: [{name: n, type: io, mode: randread, engine: null, size: 1m, runtime: 0s}]\n"))
	require.NoError(b, err)
	ctx := context.Background()
	s := &Sweep{profile: p, host: h, opt: Options{Out: filepath.Join(dir, "out"), StateDir: filepath.Join(dir, "state"), Allow: map[string]bool{"volatile-state": true}}}
	require.NoError(b, s.open(ctx))
	next, stop := iter.Pull(s.plan.Runs())
	b.Cleanup(func() {
		stop()
		require.NoError(b, s.close())
	})
	all := map[string][]time.Duration{}
	for b.Loop() {
		r, ok := next()
		require.True(b, ok)
		for name, took := range s.timed(b, ctx, r) {
			all[name] = append(all[name], took)
		}
	}
	point := func(name string, share float64) float64 {
		slices.Sort(all[name])
		return float64(all[name][int(share*float64(len(all[name])-1))].Microseconds()) / 1000
	}
	b.ReportMetric(0, "ns/op") // that would be with settle, drain and work
	b.ReportMetric(point("run", 0.5), "ms/run")
	b.ReportMetric(point("run", 0.95), "ms/run-p95")
	for _, name := range []string{"gate", "apply", "check", "restore", "append"} {
		b.ReportMetric(point(name, 0.5), "ms-"+name)
	}
}

// timed is do with a look at the clock between its steps; they are the same ones in the same order.
func (s *Sweep) timed(b *testing.B, ctx context.Context, r Run) map[string]time.Duration {
	took := map[string]time.Duration{}
	own := func(name string, step func()) {
		began := time.Now()
		step()
		took[name] = time.Since(began)
		took["run"] += took[name]
	}
	r.Attempt = 1
	var t *transaction
	var err error
	own("begin", func() { t = s.begin(r) })
	own("gate", func() { s.gate(ctx, t) })
	own("apply", func() { s.apply(ctx, t) })
	for _, spec := range t.specs {
		s.prepare(ctx, t, spec)
		s.work(ctx, t, spec)
	}
	s.drain(ctx, t)
	own("check", func() { s.readBack(ctx, t) })
	own("restore", func() { s.restore(t) })
	own("append", func() { err = s.append(ctx, t) })
	require.NoError(b, err)
	require.Nil(b, t.failed, "%+v", t.failed)
	require.True(b, t.restored)
	return took
}

// testRoot names the tree whose keeper this program is to be.
const testRoot = "QDSWEEP_TEST_ROOT"

// hostOf is the running machine, or one of plain files whose drives take every command, and have no write cache.
func hostOf(root string) sysfs.Host {
	if root == "/" {
		return sysfs.NewHost(root)
	}
	return sysfs.NewHost(root, sysfs.WithSG(func(string) (sgio.Device, error) { return willing{}, nil }))
}

type willing struct{}

func (willing) Do(*sgio.Command) error { return nil }
func (willing) Close() error           { return nil }

// serveKeeper is the keeper's process of a benchmark.
func serveKeeper() int {
	root := os.Getenv(testRoot)
	if root == "" {
		fmt.Fprintln(os.Stderr, "no tree in "+testRoot)
		return 1
	}
	return keeper.Main(os.Args[len(os.Args)-1], hostOf(root), keeper.WithOwner(os.Getuid()))
}
