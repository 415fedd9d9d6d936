//go:build !lab

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"qdsweep/sweep"
	"qdsweep/sweep/results"
	"qdsweep/sysfs/systest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"qdsweep": main})
}

// TestCommandLine plays testdata/script: what is typed, what is answered, the exit code. $MACHINE is a captured machine with a free SATA
// disk sda, one with a mounted file system sdb, a SAS disk sdc, and an NVMe drive; $ARRAYS has four free disks sda to sdd, and two arrays
// on partitions of sde to sdh, the second one mounted on /mnt/r10. $PUBLISHED is the output folder of a sweep with a bonnie and a dd, two
// runs of one cell. $COMPARED has several, of comparedFolders.
// $ENDED is that of a sweep of two runs that are both done, as resume looks at it.
func TestCommandLine(t *testing.T) {
	machine := systest.New(t,
		systest.Disk{Name: "sda", Model: "ST1000NM0033-9ZM", Serial: "Z1W0AAAA", WWID: "naa.5000c50000000001"},
		systest.Disk{Name: "sdb", Model: "ST1000NM0033-9ZM", Serial: "Z1W0BBBB", WWID: "naa.5000c50000000002"},
		systest.Disk{Name: "sdc", Transport: "sas", Model: "ST600MM0006", Serial: "S0M0CCCC", WWID: "naa.5000c50000000003"},
		systest.Disk{Name: "nvme0n1", Transport: "nvme", Model: "FAST1T", Serial: "N1"},
	)
	machine.Mount("sdb", "/srv", "ext4")
	arrays := arrayMachine(t)
	published, ended := publishedFolder(t), endedFolder(t)
	compared := comparedFolders(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("MACHINE", machine.Root())
			e.Setenv("ARRAYS", arrays.Root())
			e.Setenv("PUBLISHED", published)
			e.Setenv("COMPARED", compared)
			e.Setenv("ENDED", ended)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "keys": keys},
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Geteuid() == 0, nil
		},
	})
}

// arrayMachine is a machine with the two arrays of the 2007 experiment on the same disks, and disks to build others from.
func arrayMachine(t *testing.T) *systest.Machine {
	var parts []systest.Part
	for i, name := range []string{"sda", "sdb", "sdc", "sdd", "sde", "sdf", "sdg", "sdh"} {
		parts = append(parts, systest.Disk{Name: name, Model: "DISK400SATA", Serial: fmt.Sprintf("S000000%d", i), WWID: fmt.Sprintf("naa.500%d", i)})
	}
	m := systest.New(t, parts...)
	const mib = 1 << 20
	var first, second []string
	for _, name := range []string{"sde", "sdf", "sdg", "sdh"} {
		first = append(first, m.Partition(name, 1, mib, 100*mib))
		second = append(second, m.Partition(name, 2, 101*mib, 100*mib))
	}
	m.MD("md5", "raid5", first...)
	m.MD("md10", "raid10", second...)
	m.Mount("md10", "/mnt/r10", "ext4")
	return m
}

// publishedFolder is an output folder with rows made by hand.
func publishedFolder(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "published")
	require.NoError(t, os.Mkdir(dir, 0o755))
	f, err := results.Open(dir, "published-20250314-220411")
	require.NoError(t, err)
	defer f.Close()
	num := func(v float64) results.Num { return results.NumOf(v) }
	for replicate := 1; replicate <= 2; replicate++ {
		run := results.Row{
			Schema: results.Schema, Sweep: "published-20250314-220411", Cell: "queue_depth=31", Run: fmt.Sprintf("queue_depth=31#%d", replicate),
			Replicate: replicate, Attempt: 1, Rows: 3, Kernel: "6.1.0", Target: "/mnt/d", Members: "sda:DISK:S1", QueueDepth: "31", QueueDepthEffective: "31",
			Status: results.OK, Restored: true, Seconds: num(100), CPUUserS: num(10), CPUSysS: num(15), Threads: results.IntOf(1),
		}
		write, create, dd := run, run, run
		write.Row, write.Workload, write.Phase, write.MBPerS = 1, "bonnie", "write", num(32.768) // 32000 KiB/s
		create.Row, create.Workload, create.Phase, create.IOPS = 2, "bonnie", "seq_create", num(676)
		write.Parameters = "type=bonnie;size=7952m;chunk=8k;seeks=8192;seekers=3;files=16;file_size_min=16;file_size_max=100000;directories=64"
		create.Parameters = write.Parameters
		dd.Row, dd.Workload, dd.Phase, dd.MBPerS, dd.Parameters = 3, "dd", "write", num(11.21), "type=dd;mode=write;processes=1;size=1500m;sync=fsync;direct=false"
		require.NoError(t, f.Append([]results.Row{write, create, dd}))
	}
	return dir
}

// endedFolder is an output folder that has what resume looks at first.
func endedFolder(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "ended")
	require.NoError(t, os.Mkdir(dir, 0o755))
	p, err := sweep.ReadProfile("night.yaml", strings.NewReader("version: 1\nname: night\ntarget: {device: sda}\nseed: 1\nmatrix: {queue_depth: [1, 31]}\nrepeats: 1\n"+
		"workloads: [{name: r, type: io, mode: randread}]\n"))
	require.NoError(t, err)
	text := p.YAML()
	environment := fmt.Sprintf(`[{"sweep": "s1", "planned": 2, "profile_sha256": "%x"}]`, sha256.Sum256(text))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "profile.yaml"), text, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "environment.json"), []byte(environment), 0o644))
	f, err := results.Open(dir, "s1")
	require.NoError(t, err)
	defer f.Close()
	for _, depth := range []string{"1", "31"} {
		cell := "queue_depth=" + depth
		require.NoError(t, f.Append([]results.Row{{Schema: results.Schema, Sweep: "s1", Run: cell + "#1", Cell: cell, Replicate: 1, Attempt: 1, Row: 1, Rows: 1, Target: "sda",
			QueueDepth: depth, Workload: "r", Phase: "randread", Status: results.OK, Restored: true, IOPS: results.NumOf(100)}}))
	}
	return dir
}

// exits runs a command that must end with this very code: exits CODE COMMAND [ARGUMENT…].
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGUMENT…]")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("%s ended with %s, not %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// keys compares the keys of a JSON object, or of each object of an array: keys FILE NAME…; FILE may be stdout.
func keys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: keys FILE NAME…")
	}
	decode := json.NewDecoder(bytes.NewReader([]byte(ts.ReadFile(args[0]))))
	var all []map[string]json.RawMessage
	var one json.RawMessage
	ts.Check(decode.Decode(&one))
	if decode.More() {
		ts.Fatalf("%s holds more than one JSON value", args[0])
	}
	if json.Unmarshal(one, &all) != nil {
		all = make([]map[string]json.RawMessage, 1)
		ts.Check(json.Unmarshal(one, &all[0]))
	}
	want := append([]string{}, args[1:]...)
	sort.Strings(want)
	for _, object := range all {
		var got []string
		for k := range object {
			got = append(got, k)
		}
		sort.Strings(got)
		if strings.Join(got, " ") != strings.Join(want, " ") {
			ts.Fatalf("%s has the keys\n  %s, not\n  %s", args[0], strings.Join(got, " "), strings.Join(want, " "))
		}
	}
}

// Every command that is shown has help with the exit codes, and fits a terminal.
func TestHelpFits(t *testing.T) {
	var out bytes.Buffer
	for _, c := range newRoot(&out, &out, seams{}).Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		out.Reset()
		require.Equal(t, 0, run(t.Context(), []string{c.Name(), "--help"}, &out, &out, seams{}))
		require.Contains(t, out.String(), "Exit codes: 0 fine", c.Name())
	}
}

// A file of the scripts that no longer is a profile would make them pass for the wrong reason.
func TestScriptsAreThere(t *testing.T) {
	found, err := filepath.Glob("testdata/script/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, found)
}
